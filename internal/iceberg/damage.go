package iceberg

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
)

// maxDamaged bounds how many names are remembered. Arbitrary: somebody has to look long before.
const maxDamaged = 1000

// damage are the names of files that could not be read.
type damage struct {
	mu    sync.Mutex
	names []string
}

func (d *damage) note(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.names) < maxDamaged && !slices.Contains(d.names, name) {
		d.names = append(d.names, name)
	}
}

func (d *damage) forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = slices.DeleteFunc(d.names, func(n string) bool { return n == name })
}

func (d *damage) list() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.names)
}

// DamagedFiles returns where files lie that this process could not read, unless StillDamaged found them whole since.
func (t *table) DamagedFiles() []string {
	names := t.damagedFiles.list()
	for i, name := range names {
		names[i] = t.store.Path(name)
	}
	return names
}

// StillDamaged says whether a file that somebody could not read is listed and is missing or damaged now. An error says
// that nobody knows: the store does not give its bytes.
func (t *Table[T]) StillDamaged(ctx context.Context, location string) (bool, error) {
	s, err := t.refresh(ctx)
	if err != nil {
		return false, err
	}
	for _, name := range t.damagedFiles.list() { // one that is not listed any more is of no interest
		listed := func(f *dataFile) bool { return f.name == name }
		if t.store.Path(name) == location && !slices.ContainsFunc(s.files(), listed) {
			t.damagedFiles.forget(name)
		}
	}
	for _, f := range s.files() {
		if t.store.Path(f.name) != location {
			continue
		}
		if damaged, err := t.damaged(ctx, f); damaged || err != nil {
			return damaged, err
		}
		t.damagedFiles.forget(f.name)
	}
	return false, nil
}

// noteMissing notes which files of a state a listing, which came after it, does not have.
func (t *table) noteMissing(s *state, there map[string]bool) {
	for _, f := range s.files() {
		if !there[f.name] {
			t.reportDamage(f.name, errors.New("file is missing"))
		}
	}
}

// damaged says whether a file is missing or damaged. An error says that the store does not give its bytes now.
func (t *Table[T]) damaged(ctx context.Context, f *dataFile) (bool, error) {
	if there, err := t.store.Exists(ctx, f.name); err != nil || !there { // a small file is remembered when it is opened
		return err == nil, err
	}
	if _, err := t.checkFile(ctx, f); err == nil {
		return false, nil
	}
	o, err := t.store.Open(ctx, f.name)
	if isMissing(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer o.Close()
	_, err = io.Copy(io.Discard, io.NewSectionReader(o, 0, o.Size()))
	return err == nil, err
}
