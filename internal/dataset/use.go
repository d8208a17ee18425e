package dataset

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync/atomic"
	"time"
)

const (
	// useEvery is how often a node writes the last use of a key, at most. Arbitrary: operators ask by the day.
	useEvery = time.Minute
	// useLook is how often a node looks for uses to write. The first use of a key is in the engine after this time.
	useLook = 5 * time.Second
	// useWait bounds the last write of a node that stops. Arbitrary.
	useWait = 2 * time.Second
	// mergeWait bounds writing it. Arbitrary.
	mergeWait = 3 * time.Second
	// useForget is how long the use of a key that is in no dataset any more stays. A node with an old copy of the datasets
	// must not delete the use of a new key.
	useForget = 24 * time.Hour
)

// Use is when a key was last presented, to the second. Zero means that it is not known.
type Use struct {
	Accepted time.Time // it opened its dataset
	Rejected time.Time // it was the right secret of a key that has ended, or of a disabled dataset
}

// use is a Use in memory, the same over all snapshots.
type use struct {
	accepted, rejected atomic.Int64 // Unix seconds, 0 means never
	written            atomic.Int64 // Unix seconds of the newest use that is in the engine
	wrote              atomic.Int64 // Unix seconds at which this node last wrote it
}

// note keeps the second of a use. Once a second is exact enough, and keeps many cores from writing to one place.
func note(at *atomic.Int64, now time.Time) {
	if sec := now.Unix(); at.Load() != sec {
		at.Store(sec)
	}
}

// raise makes at no earlier than sec.
func raise(at *atomic.Int64, sec int64) {
	for {
		known := at.Load()
		if sec <= known || at.CompareAndSwap(known, sec) {
			return
		}
	}
}

func (u *use) newest() int64 { return max(u.accepted.Load(), u.rejected.Load()) }

// storedUse is a record of the bucket. It has the keys whose ids begin with the same character, so that a node with
// many keys writes at most 62 records a minute, and not one for each key.
type storedUse struct {
	Version int                 `json:"v"`
	Keys    map[string][2]int64 `json:"keys"` // by key id: accepted, rejected; Unix seconds
}

const useVersion = 1

// Used returns when each key was last presented: to this process just now, to other nodes up to two minutes ago.
func (r *Registry) Used() map[string]Use {
	used := map[string]Use{}
	for id, en := range r.snap.Load().keys {
		if en.use.newest() != 0 {
			used[id] = Use{second(en.use.accepted.Load()), second(en.use.rejected.Load())}
		}
	}
	return used
}

func second(sec int64) time.Time {
	if sec == 0 {
		return time.Time{}
	}
	return time.Unix(sec, 0).UTC()
}

// ReadUse takes in what all nodes have written about the use of keys. Used returns it then.
func (r *Registry) ReadUse(ctx context.Context) error {
	records, _, err := r.uses.All(ctx)
	if err != nil {
		return fmt.Errorf("read the use of keys: %w", err)
	}
	keys := r.snap.Load().keys
	for _, record := range records {
		stored, err := decodeUse(record.Value)
		if err != nil {
			r.o.Log.Error("the use of keys cannot be read", "record", record.Key, "error", err)
			continue
		}
		for id, at := range stored.Keys {
			if en := keys[id]; en != nil {
				raise(&en.use.accepted, at[0])
				raise(&en.use.rejected, at[1])
				raise(&en.use.written, max(at[0], at[1]))
			}
		}
	}
	return nil
}

func decodeUse(b []byte) (storedUse, error) {
	var s storedUse
	if err := json.Unmarshal(b, &s); err != nil {
		return s, err
	}
	if err := checkVersion(s.Version, useVersion); err != nil {
		return s, err
	}
	return s, nil
}

// keepUse writes the use of keys until ctx ends, and once more then. Authenticate never waits for it. While the engine
// does not answer, the uses stay in memory.
func (r *Registry) keepUse(ctx context.Context) {
	tick := time.NewTicker(useLook)
	defer tick.Stop()
	quiet := false
	for n := 0; ; n++ {
		err := r.writeUse(ctx, useEvery)
		if err == nil && n%int(useEvery/useLook) == 0 {
			err = r.ReadUse(ctx)
		}
		if failed := err != nil && ctx.Err() == nil; failed != quiet {
			quiet = failed
			if failed {
				r.o.Log.Warn("the use of keys cannot be stored; it stays in memory", "error", err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), useWait)
			defer cancel()
			if err := r.writeUse(last, 0); err != nil {
				r.o.Log.Warn("the last use of keys is not stored", "error", err)
			}
			return
		}
	}
}

// writeUse writes every use that is newer than what the engine has, unless this node wrote that key a short time ago.
func (r *Registry) writeUse(ctx context.Context, every time.Duration) error {
	keys := r.snap.Load().keys
	now := r.o.Now()
	groups := map[string]map[string][2]int64{}
	for id, en := range keys {
		if en.use.newest() <= en.use.written.Load() || now.Sub(time.Unix(en.use.wrote.Load(), 0)) < every {
			continue
		}
		group := id[:1]
		if groups[group] == nil {
			groups[group] = map[string][2]int64{}
		}
		groups[group][id] = [2]int64{en.use.accepted.Load(), en.use.rejected.Load()}
	}
	for group, uses := range groups {
		if err := r.mergeUse(ctx, group, uses, keys); err != nil {
			return err
		}
		for id, at := range uses {
			raise(&keys[id].use.written, max(at[0], at[1]))
			keys[id].use.wrote.Store(now.Unix())
		}
	}
	return nil
}

// mergeUse adds uses to a record, also while another node does.
func (r *Registry) mergeUse(ctx context.Context, group string, uses map[string][2]int64, keys map[string]*entry) error {
	ctx, cancel := context.WithTimeout(ctx, mergeWait)
	defer cancel()
	return r.uses.Change(ctx, group, func(before []byte) ([]byte, error) {
		stored := storedUse{Version: useVersion, Keys: map[string][2]int64{}}
		if before != nil {
			known, err := decodeUse(before)
			if err != nil {
				r.o.Log.Error("the use of keys cannot be read and begins anew", "record", group, "error", err)
			} else {
				stored = known
			}
		}
		forget := r.o.Now().Add(-useForget).Unix()
		maps.DeleteFunc(stored.Keys, func(id string, at [2]int64) bool {
			return keys[id] == nil && max(at[0], at[1]) < forget
		})
		for id, at := range uses {
			known := stored.Keys[id]
			stored.Keys[id] = [2]int64{max(known[0], at[0]), max(known[1], at[1])}
		}
		return json.Marshal(stored)
	})
}
