// Package backup writes and reads the parts of a backup that are in the engine: the registry, and the stream.
package backup

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"sluice/internal/engine"
	"sluice/internal/erasure"
	"sluice/internal/suppression"
)

// buckets are what is kept of the engine.
var buckets = map[string]engine.Kind{
	"datasets": engine.Datasets, "readers": engine.Readers, "settings": engine.Settings, "key_use": engine.KeyUse,
	"erasures": engine.Erasures, "suppression": engine.Suppression, "alarms": engine.Alarms,
}

// entry is a line of registry.ndjson.
type entry struct {
	Bucket string `json:"bucket"`
	Key    string `json:"key"`
	Value  []byte `json:"value"`
}

// SaveRegistry writes what the buckets of an engine hold into a new file.
func SaveRegistry(ctx context.Context, e *engine.Engine, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	lines := json.NewEncoder(out)
	for name, kind := range buckets {
		err = errors.Join(err, saveBucket(ctx, e, name, kind, lines))
	}
	return errors.Join(err, out.Flush(), f.Sync(), f.Close())
}

func saveBucket(ctx context.Context, e *engine.Engine, name string, kind engine.Kind, lines *json.Encoder) error {
	b, err := e.Bucket(ctx, kind)
	if err != nil {
		return err
	}
	all, _, err := b.All(ctx)
	for _, one := range all {
		if err == nil && (kind != engine.Settings || keptSetting(one.Key)) {
			err = lines.Encode(entry{name, one.Key, one.Value})
		}
	}
	return err
}

// keptSetting says whether a setting belongs into another engine. The configuration of a cluster, the place and
// retention of the tables and the head of the audit log do not: they describe this one.
func keptSetting(key string) bool {
	return key != "cluster" && key != "tables" && key != "table_retention" && key != "audit.head"
}

// RestoreRegistry puts the entries of a file into the buckets of an engine.
func RestoreRegistry(ctx context.Context, e *engine.Engine, path string) error {
	entries, err := readRegistry(path)
	if err != nil {
		return err
	}
	for _, one := range entries {
		b, err := e.Bucket(ctx, buckets[one.Bucket])
		if err != nil {
			return err
		}
		if _, err := b.Put(ctx, one.Key, one.Value); err != nil {
			return err
		}
	}
	return nil
}

// readRegistry reads the engine's part of a backup.
func readRegistry(path string) (out []entry, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, damaged(path, err)
	}
	defer f.Close()
	for lines := json.NewDecoder(bufio.NewReader(f)); lines.More(); {
		var one entry
		if err := lines.Decode(&one); err != nil {
			return nil, damaged(path, err)
		}
		if _, ok := buckets[one.Bucket]; !ok {
			return nil, fmt.Errorf("the backup has a bucket %q that this program does not know", one.Bucket)
		}
		out = append(out, one)
	}
	return out, nil
}

// Secrets of the settings with which digests are made: of tombstones, and of the suppression list, which has several.
const (
	erasureSecret     = "secret.erasures"
	suppressionSecret = "secret." + suppression.SecretPrefix
)

// AdoptErasures takes over from another, newer backup what people asked for: its tombstones, as ones that are not
// applied yet, and its suppression list, in the place of the one that is there. SameService has said that it may.
func AdoptErasures(ctx context.Context, e *engine.Engine, path string) error {
	entries, err := readRegistry(path)
	if err != nil {
		return err
	}
	settings, err := e.Bucket(ctx, engine.Settings)
	if err != nil {
		return err
	}
	var stones []erasure.Tombstone
	listed := map[string][]byte{}
	for _, one := range entries {
		switch {
		case one.Bucket == "settings" && (one.Key == erasureSecret || strings.HasPrefix(one.Key, suppressionSecret)):
			// It is the one that is there, or nothing was erased, or listed, before the older backup was made.
			if _, err := settings.Put(ctx, one.Key, one.Value); err != nil {
				return err
			}
		case one.Bucket == "erasures":
			var s erasure.Tombstone
			if err := json.Unmarshal(one.Value, &s); err != nil {
				return err
			}
			stones = append(stones, s)
		case one.Bucket == "suppression":
			listed[one.Key] = one.Value
		}
	}
	if err := replaceBucket(ctx, e, engine.Suppression, listed); err != nil {
		return err
	}
	t, err := erasure.Open(ctx, e)
	if err != nil {
		return err
	}
	return t.Adopt(ctx, stones)
}

// replaceBucket makes entries all that a bucket has.
func replaceBucket(ctx context.Context, e *engine.Engine, k engine.Kind, entries map[string][]byte) error {
	b, err := e.Bucket(ctx, k)
	if err != nil {
		return err
	}
	for key, value := range entries {
		if _, err := b.Put(ctx, key, value); err != nil {
			return err
		}
	}
	old, _, err := b.All(ctx)
	for _, one := range old {
		if _, kept := entries[one.Key]; err == nil && !kept {
			err = b.Delete(ctx, one.Key, 0)
		}
	}
	return err
}
