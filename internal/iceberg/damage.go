package iceberg

import (
	"context"
	"errors"
	"io"
	"slices"
)

// DamagedFiles returns where files lie that this process could not read, unless StillDamaged found them whole since.
func (t *table) DamagedFiles() (out []string) {
	for name := range t.damagedFiles.Range {
		out = append(out, t.store.Path(name.(string)))
	}
	slices.Sort(out)
	return out
}

// StillDamaged says whether a file that somebody could not read is listed and is missing or damaged now. An error says
// that nobody knows: the store does not give its bytes.
func (t *Table[T]) StillDamaged(ctx context.Context, location string) (bool, error) {
	s, err := t.refresh(ctx)
	if err != nil {
		return false, err
	}
	for _, f := range s.files() {
		if t.store.Path(f.name) != location {
			continue
		}
		if damaged, err := t.damaged(ctx, f); damaged || err != nil {
			return damaged, err
		}
	}
	for name := range t.damagedFiles.Range { // it is whole, or not listed any more and of no interest
		if t.store.Path(name.(string)) == location {
			t.damagedFiles.Delete(name)
		}
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
