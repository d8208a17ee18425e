package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sluice/internal/cluster"
	"sluice/internal/engine"
	"sluice/internal/lake"
)

// agree holds the flags of this node against what the nodes of its cluster have agreed on. A node that does not load does
// not say where the tables are.
func (s *service) agree(ctx context.Context) error {
	if s.tables == (lakePlace{}) {
		s.tables.dir = filepath.Join(s.config.engine.Dir, "lake")
	}
	want := engine.Record{
		Replicas: s.config.engine.Replicas, Partitions: s.partitions, StreamRetention: s.streamRetention, MaxStream: s.maxStream,
	}
	place, err := s.tables.address()
	if err != nil {
		return err
	}
	if s.loading {
		want.Lake = place
	}
	r, err := s.engine.Agree(ctx, want)
	if err != nil {
		return err
	}
	if err := s.engine.KeepDir(); err != nil {
		return err
	}
	if s.engine.Mode() == engine.External && !s.loading && r.Lake != place {
		s.log.Warn("this node does not see the tables of the cluster: look-ups of events that are no longer in the stream fail, and the console shows no stored numbers; see --lake",
			"cluster", r.Lake, "here", place)
	}
	return nil
}

// agreeTables makes sure that all nodes that load write to the same tables, and not to tables of the same name.
func (s *service) agreeTables(ctx context.Context) error {
	if !s.loading || s.engine.Mode() != engine.External {
		return nil
	}
	id, err := tablesID(ctx, s.lake)
	if err != nil {
		return err
	}
	place, err := s.tables.address()
	if err != nil {
		return err
	}
	_, err = s.engine.Agree(ctx, engine.Record{Lake: place, LakeID: id})
	return err
}

// tablesID tells these tables from others at the same address.
func tablesID(ctx context.Context, l *lake.Lake) (string, error) {
	doc, err := l.Document(ctx, "events", nil)
	if err != nil {
		return "", err
	}
	var table struct {
		UUID string `json:"table-uuid"`
	}
	if err := json.Unmarshal(doc.Bytes, &table); err != nil || table.UUID == "" {
		return "", errors.New("the table of events does not say its identity")
	}
	return table.UUID, nil
}

// address is the place as nodes compare it.
func (p lakePlace) address() (string, error) {
	if p.dir == "" {
		return p.String(), nil
	}
	path, err := filepath.Abs(p.dir)
	return "file://" + path, err
}

// rightTables rejects a command that would read other tables than those of the cluster: they would look like ones
// without events.
func rightTables(ctx context.Context, e *engine.Engine, place lakePlace) error {
	r, err := e.Record(ctx)
	if errors.Is(err, engine.ErrNotFound) || err == nil && r.Lake == "" {
		return nil
	}
	if err != nil {
		return err
	}
	here, err := place.address()
	if err == nil && here != r.Lake {
		err = fmt.Errorf("the tables of the cluster are at %s, and this command would read %s: name them with --lake", r.Lake, here)
	}
	return err
}

// openMember makes this node one of the cluster; an embedded engine has one node.
func (s *service) openMember(ctx context.Context) (err error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	s.member, err = cluster.Open(ctx, cluster.Options{
		Engine: s.engine, Now: hooks.now, Log: s.log, Loads: s.loads,
		Node: cluster.Node{Host: host, Version: programVersion(), Started: hooks.now().UTC(), API: s.listen, Loading: s.loading},
	})
	return err
}

// loads is what this node carries into the tables now.
func (s *service) loads() []cluster.Load {
	if !s.loading {
		return nil
	}
	var out []cluster.Load
	for _, p := range s.loader.Stats().Partitions {
		if p.Held {
			out = append(out, cluster.Load{Partition: p.Partition, Watermark: p.Watermark, Lag: p.Lag})
		}
	}
	return out
}
