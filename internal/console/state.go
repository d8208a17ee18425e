package console

import (
	"slices"
	"time"

	"sluice/internal/alarm"
	"sluice/internal/audit"
	"sluice/internal/dataset"
	"sluice/internal/feed"
	"sluice/internal/hours"
	"sluice/internal/iceberg"
	"sluice/internal/listen"
	"sluice/internal/objectstore"
	"sluice/internal/stream"
)

// state is the numbers of all packages at one moment. Pages, metrics and alarms are made from it alone.
type state struct {
	alarm.State
	version  string
	feed     feed.Stats
	requests *objectstore.Requests // sent to the bucket; nil for tables in a directory
	ops      listen.Stats          // of the operators' listener
	audit    auditState
	extents  []stream.Bounds // by partition, what the stream holds
	labels   map[string]bool // datasets that have series of their own in /metrics
}

// auditState is the audit log as it was last verified.
type auditState struct {
	audit.Summary
	problem error
	at      time.Time
	ends    [2]uint64 // numbers of its oldest and its last entry then
}

// counters are the five hours.Totals of this node since it began.
func (s *state) counters() (t hours.Totals) {
	for i := range s.API.Datasets {
		d := &s.API.Datasets[i]
		t.Add(hours.Totals{
			Accepted: int64(d.Accepted), Rejected: int64(d.Rejected), Late: int64(d.Late),
			Restricted: int64(d.Restricted), Suppressed: int64(d.Suppressed),
		})
	}
	return t
}

// dataset finds a dataset by id; nil if there is none.
func (s *state) dataset(id string) *dataset.Dataset {
	i := slices.IndexFunc(s.Datasets, func(d *dataset.Dataset) bool { return d.ID == id })
	if i < 0 {
		return nil
	}
	return s.Datasets[i]
}

// options are the datasets to choose from.
func (s *state) options(chosen string) (out []option) {
	for _, d := range s.Datasets {
		out = append(out, option{d.ID, d.ID == chosen})
	}
	return out
}

// table is the lake's table by this name.
func (s *state) table(name string) iceberg.Stats {
	for _, t := range s.Lake.Tables {
		if t.Name == name {
			return t
		}
	}
	return iceberg.Stats{Name: name}
}

// pending are the rows read from the stream and not yet committed.
func (s *state) pending() (n int) {
	for i := range s.Loader.Partitions {
		n += s.Loader.Partitions[i].Pending
	}
	return n
}
