package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"sluice/internal/engine"
)

// Damage is the list of files of the tables that a node found unreadable. The engine has it: every node knows it, and
// it outlives the process that found a file. A file leaves the list when it can be read again, or when no table lists
// it.
type Damage struct {
	o      DamageOptions
	bucket *engine.Bucket
	files  atomic.Pointer[[]string]
}

// DamageOptions are all required but Still.
type DamageOptions struct {
	Engine *engine.Engine
	Found  func() []string // where the files lie that this process could not read
	// Still says whether a table lists a file that is missing or damaged; an error says that nobody knows. nil is a node
	// that does not see the tables.
	Still func(ctx context.Context, file string) (bool, error)
	Log   *slog.Logger
}

const (
	damagedKey = "damaged-files"
	// How often the list is read, and how often each file in it is tried again. Arbitrary.
	damageEvery, damageAgain = 10 * time.Second, time.Minute
	// maxDamaged bounds the list. Arbitrary: somebody has to look long before.
	maxDamaged = 1000
)

// OpenDamage reads the list.
func OpenDamage(ctx context.Context, o DamageOptions) (*Damage, error) {
	d := &Damage{o: o}
	var err error
	var files []string
	if d.bucket, err = o.Engine.Bucket(ctx, engine.Settings); err == nil {
		files, _, err = readDamage(ctx, d.bucket)
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of damaged files: %w", err)
	}
	d.files.Store(&files)
	return d, nil
}

// Files returns the list as it was last read. It asks nobody.
func (d *Damage) Files() []string { return *d.files.Load() }

// Run keeps the list until ctx ends.
func (d *Damage) Run(ctx context.Context) error {
	n := 0
	repeat(ctx, damageEvery, func() {
		if err := d.look(ctx, n%int(damageAgain/damageEvery) == 0); err != nil && ctx.Err() == nil {
			d.o.Log.Debug("the list of damaged files is not kept", "error", err)
		}
		n++
	})
	return nil
}

func readDamage(ctx context.Context, b *engine.Bucket) (files []string, revision uint64, err error) {
	found, err := b.Get(ctx, damagedKey)
	if errors.Is(err, engine.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	err = json.Unmarshal(found.Value, &files)
	return files, found.Revision, err
}

// DamagedFiles reads the list of an engine, for a command.
func DamagedFiles(ctx context.Context, e *engine.Engine) ([]string, error) {
	b, err := e.Bucket(ctx, engine.Settings)
	if err != nil {
		return nil, err
	}
	files, _, err := readDamage(ctx, b)
	return files, err
}

// look adds what this process has found, and takes off what is whole again. Files in the list are tried if again is
// set; one that is new is tried at once, for another node may just have taken it off.
func (d *Damage) look(ctx context.Context, again bool) error {
	before, revision, err := readDamage(ctx, d.bucket)
	if err != nil {
		return err
	}
	d.files.Store(&before)
	var now []string
	for _, f := range before {
		if !again || d.still(ctx, f, true) {
			now = append(now, f)
		}
	}
	for _, f := range d.o.Found() {
		if len(now) < maxDamaged && !slices.Contains(before, f) && d.still(ctx, f, false) {
			now = append(now, f)
		}
	}
	if slices.Equal(now, before) {
		return nil
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if _, err = d.bucket.Set(ctx, damagedKey, text, revision); err == nil {
		d.files.Store(&now)
	}
	return err // of another node that was first: the next look sees what it wrote
}

// still says whether a file is damaged; listed is what it was before, and stays so while nobody knows.
func (d *Damage) still(ctx context.Context, file string, listed bool) bool {
	if d.o.Still == nil {
		return true
	}
	still, err := d.o.Still(ctx, file)
	if err != nil {
		return listed
	}
	return still
}
