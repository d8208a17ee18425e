package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sluice/internal/cluster"
	"sluice/internal/engine"
	"sluice/internal/lake"
	"sluice/internal/stream"
	"sluice/internal/submission"
	"sluice/internal/version"
)

// agree holds the flags of this node against what the engine has recorded: where the tables are, and in a cluster what
// its nodes have agreed on. A node that does not load does not say where the tables are.
func (s *service) agree(ctx context.Context) error {
	if s.engine.Mode() != engine.External {
		s.maxKeys = idempotencyKeys(s.memory)
		s.tableRetention = cmp.Or(s.tableRetention, engine.DefaultTableRetention)
		s.snapshots = cmp.Or(s.snapshots, engine.DefaultSnapshotRetention)
		err := s.engine.KeepTableRetention(ctx, s.tableRetention)
		if err != nil {
			return err
		}
		s.tables, err = tablesOf(ctx, s.engine, s.engineOptions.Dir, s.tables, s.s3)
		return err
	}
	if s.tables == (lakePlace{}) {
		s.tables.dir = filepath.Join(s.engineOptions.Dir, "lake")
	}
	want := engine.Record{
		Replicas: s.engineOptions.Replicas, Partitions: s.partitions, StreamRetention: s.streamRetention,
		TableRetention: s.tableRetention, SnapshotRetention: s.snapshots,
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
	s.maxKeys, s.snapshots = r.MaxKeys, r.SnapshotRetention
	if !s.loading && r.Lake != "" && r.Lake != place {
		s.log.Warn("this node does not see the tables of the cluster: look-ups of events that are no longer in the stream fail, and the console shows no stored numbers; see --lake",
			"cluster", r.Lake, "here", place)
	}
	return nil
}

// retention is how long the tables retain rows. In a cluster it is as the record says now: a change, and a
// confirmation, count for nodes that run.
func (s *service) retention(ctx context.Context) (lake.Retention, error) {
	of := map[string]time.Duration{}
	for _, d := range s.registry.Datasets() {
		if d.RetentionDays > 0 {
			of[d.ID] = d.Retention()
		}
	}
	if s.engine.Mode() != engine.External {
		return lake.Retention{Keep: max(0, s.tableRetention), Datasets: of}, nil
	}
	r, err := s.engine.Record(ctx)
	if err != nil {
		return lake.Retention{}, fmt.Errorf("read how long rows are retained: %w", err)
	}
	return lake.Retention{Keep: max(0, r.TableRetention), Confirmed: r.RetentionConfirmed, Datasets: of}, nil
}

// agreeTables makes sure that all nodes that load write to the same tables, and not to tables of the same name.
func (s *service) agreeTables(ctx context.Context) error {
	if !s.loading {
		return nil
	}
	if s.engine.Mode() != engine.External {
		return keepPlace(ctx, s.engine, s.engineOptions.Dir, s.tables)
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

// openMember makes this node one of the cluster; an embedded engine has one node.
func (s *service) openMember(ctx context.Context) (err error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	s.member, err = cluster.Open(ctx, cluster.Options{
		Engine: s.engine, Now: s.now, Log: s.log, Loads: s.loads,
		Oldest: func() int64 { return s.api.Oldest() }, Raise: func(at int64) { s.api.Raise(at) },
		Node: cluster.Node{Host: host, Version: version.Number, Started: s.now().UTC(), API: s.listen, Loading: s.loading, Reads: reads},
	})
	if err != nil {
		return err
	}
	damage := cluster.DamageOptions{Engine: s.engine, Found: s.lake.DamagedFiles, Log: s.log}
	if s.loading { // another node may see other tables, or none
		damage.Still = s.lake.StillDamaged
	}
	s.damage, err = cluster.OpenDamage(ctx, damage)
	return err
}

// reads is what this program reads.
var reads = cluster.Formats{Frame: stream.FrameVersion, Record: submission.RecordVersion, Table: lake.Version}

// errOlderNodes says that nodes run which could not read the tables as this program writes them.
var errOlderNodes = errors.New("a node of an older version runs, which could not read the tables as this one writes them: " +
	"they stay as they are, and older nodes load, until every node has the new version")

// everyNodeReads makes sure that tables get this program's version only when every node that runs reads it.
func (s *service) everyNodeReads(ctx context.Context) error {
	if s.engine.Mode() != engine.External || s.onlyAccepts() {
		return nil
	}
	there, err := lake.Identity(ctx, s.opening.store)
	if err != nil || there.Version >= lake.Version {
		return err
	}
	view, err := cluster.Read(ctx, s.engine)
	if err == nil && view.Reads().Table < lake.Version {
		err = errOlderNodes
	}
	return err
}

// nodes is how many nodes write to the engine, this one among them: the others may not know it yet.
func (s *service) nodes() int {
	n := 1
	if s.member == nil {
		return n
	}
	for _, other := range s.member.View().Nodes {
		if other.ID != s.engine.ID() {
			n++
		}
	}
	return n
}

// loads is what this node carries into the tables now, and why it cannot.
func (s *service) loads() (out []cluster.Load, failure *cluster.Failure) {
	if !s.loading {
		return nil, nil
	}
	st := s.loader.Stats()
	for _, p := range st.Partitions {
		if p.Held {
			out = append(out, cluster.Load{Partition: p.Partition, Watermark: p.Watermark})
		}
	}
	if st.Failure.Error != "" {
		failure = &cluster.Failure{Since: st.Failure.Since, Error: st.Failure.Error}
	}
	return out, failure
}

// freshWatermark is for how long a watermark counts that this node has read itself: it reads it every second.
// Arbitrary.
const freshWatermark = 3 * time.Second

// watermark is up to which number of a partition everything is in the table: as this node has just read it, else as it
// or another node has last read it. Nothing may be known of it.
func (s *service) watermark(partition uint8) (seq uint64, known bool) {
	own, ago, known := s.loader.Reached(partition)
	if known && ago < freshWatermark {
		return own, true
	}
	others, said := s.member.View().Loaded[partition]
	return max(own, others), known || said
}
