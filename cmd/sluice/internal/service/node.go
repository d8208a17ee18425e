package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sluice/cmd/sluice/internal/tables"
	"sluice/internal/cluster"
	"sluice/internal/engine"
	"sluice/internal/lake"
	"sluice/internal/stream"
	"sluice/internal/submission"
	"sluice/internal/version"
)

// agree holds the flags of this node against what the engine has recorded: where the tables are, and in a cluster what
// its nodes have agreed on. A node that does not load does not say where the tables are.
func (s *Service) agree(ctx context.Context) error {
	if s.engine.Mode() != engine.External {
		s.maxKeys = idempotencyKeys(s.Memory)
		s.TableRetention = cmp.Or(s.TableRetention, engine.DefaultTableRetention)
		s.SnapshotRetention = cmp.Or(s.SnapshotRetention, engine.DefaultSnapshotRetention)
		if err := s.engine.KeepTableRetention(ctx, s.TableRetention); err != nil {
			return err
		}
		var err error
		s.Tables, err = tables.Of(ctx, s.engine, s.Engine.Dir, s.Tables, s.S3)
		return err
	}
	if s.Tables == (tables.Location{}) {
		s.Tables.Dir = filepath.Join(s.Engine.Dir, "lake")
	}
	want := engine.Record{
		Replicas: s.Engine.Replicas, Partitions: s.Partitions, StreamRetention: s.StreamRetention,
		TableRetention: s.TableRetention, SnapshotRetention: s.SnapshotRetention,
	}
	place, err := s.Tables.Address()
	if err != nil {
		return err
	}
	if s.Loading {
		want.Lake = place
	}
	r, err := s.engine.Agree(ctx, want)
	if err != nil {
		return err
	}
	if err := s.engine.KeepDir(); err != nil {
		return err
	}
	s.maxKeys, s.SnapshotRetention = r.MaxKeys, r.SnapshotRetention
	if !s.Loading && r.Lake != "" && r.Lake != place {
		s.Log.Warn("this node does not see the tables of the cluster: look-ups of events that are no longer in the stream "+
			"fail, and the console shows no stored numbers; see --lake", "cluster", r.Lake, "here", place)
	}
	return nil
}

// retention is how long the tables retain rows. In a cluster it is as the record says now: a change, and a
// confirmation, count for nodes that run.
func (s *Service) retention(ctx context.Context) (lake.Retention, error) {
	of := s.registry.Retentions()
	if s.engine.Mode() != engine.External {
		return lake.Retention{Keep: max(0, s.TableRetention), Datasets: of}, nil
	}
	r, err := s.engine.Record(ctx)
	if err != nil {
		return lake.Retention{}, fmt.Errorf("read how long rows are retained: %w", err)
	}
	return lake.Retention{Keep: max(0, r.TableRetention), Confirmed: r.RetentionConfirmed, Datasets: of}, nil
}

// agreeTables makes sure that all nodes that load write to the same tables, and not to tables of the same name.
func (s *Service) agreeTables(ctx context.Context) error {
	if !s.Loading {
		return nil
	}
	if s.engine.Mode() != engine.External {
		return tables.Keep(ctx, s.engine, s.Engine.Dir, s.Tables)
	}
	there, err := lake.Identity(ctx, s.opening.store)
	if err != nil {
		return err
	}
	return s.agreeOn(ctx, there.ID)
}

// agreeOn agrees with the other nodes of a cluster that its tables have an identity, and are where they are here.
func (s *Service) agreeOn(ctx context.Context, lakeID string) error {
	place, err := s.Tables.Address()
	if err == nil {
		_, err = s.engine.Agree(ctx, engine.Record{Lake: place, LakeID: lakeID})
	}
	return err
}

// openMember makes this node one of the cluster; an embedded engine has one node.
func (s *Service) openMember(ctx context.Context) (err error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	s.member, err = cluster.Open(ctx, cluster.Options{
		Engine: s.engine, Now: s.Now, Log: s.Log, Loads: s.loads,
		Oldest: func() int64 { return s.api.Oldest() }, Raise: func(at int64) { s.api.Raise(at) },
		Node: cluster.Node{
			Host: host, Version: version.Number, Started: s.Now().UTC(), API: s.Listen, Loading: s.Loading, Reads: reads,
		},
	})
	if err != nil {
		return err
	}
	damage := cluster.DamageOptions{Engine: s.engine, Found: s.lake.DamagedFiles, Log: s.Log}
	if s.Loading { // another node may see other tables, or none
		damage.Still = s.lake.StillDamaged
	}
	s.damage, err = cluster.OpenDamage(ctx, damage)
	return err
}

// reads is what this program reads.
var reads = cluster.Formats{Frame: stream.FrameVersion, Record: submission.RecordVersion, Table: lake.Version}

// errOlderNodes says that nodes run which could not read the tables as this program writes them.
var errOlderNodes = errors.New("a node of an older version runs, which could not read the tables as this one writes " +
	"them: they stay as they are, and older nodes load, until every node has the new version")

// everyNodeReads makes sure that tables get this program's version only when every node that runs reads it.
func (s *Service) everyNodeReads(ctx context.Context) error {
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
func (s *Service) nodes() int {
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
func (s *Service) loads() (out []cluster.Load, failure *cluster.Failure) {
	if !s.Loading {
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

// freshWatermark is for how long a watermark counts that this node has read, as it does every second. Arbitrary.
const freshWatermark = 3 * time.Second

// watermark is up to which number of a partition everything is in the table: as this node has just read it, else as it
// or another node has last read it. Nothing may be known of it.
func (s *Service) watermark(partition uint8) (seq uint64, known bool) {
	own, ago, known := s.loader.Reached(partition)
	if known && ago < freshWatermark {
		return own, true
	}
	others, said := s.member.View().Loaded[partition]
	return max(own, others), known || said
}
