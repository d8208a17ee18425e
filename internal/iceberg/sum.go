package iceberg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"sluice/internal/objectstore"
	"sluice/internal/parquetfile"
	"sluice/internal/watermark"
)

// prints are those of the days that a state lists.
func (s *state) prints() map[int32]watermark.Print {
	names := map[int32][]string{}
	for _, f := range s.files() {
		names[f.day] = append(names[f.day], f.name)
	}
	out := make(map[int32]watermark.Print, len(names))
	for day, list := range names {
		slices.Sort(list)
		out[day] = watermark.PrintOf(list)
	}
	return out
}

// Prints are those of the days of a table that have rows. The map is not to be changed.
func (t *table) Prints(ctx context.Context) (map[int32]watermark.Print, error) {
	s, err := t.lately(ctx)
	if err != nil {
		return nil, err
	}
	t.printsMu.Lock()
	defer t.printsMu.Unlock()
	if t.printsOf != s {
		t.printsOf, t.prints = s, s.prints()
	}
	return t.prints, nil
}

// summedProperty says, for each day of another table, of which files a table has the sums, as FormatPrints writes it.
// It is set by the commit that has the rows.
const summedProperty = "sluice.summed"

// Summed are the prints of the days of another table whose sums this one has. The map is not to be changed.
func (t *table) Summed(ctx context.Context) (map[int32]watermark.Print, error) {
	s, err := t.lately(ctx)
	if err != nil {
		return nil, err
	}
	t.printsMu.Lock()
	defer t.printsMu.Unlock()
	if t.summedOf != s {
		t.summedOf, t.summed = s, watermark.ParsePrints(s.meta.Properties[summedProperty])
	}
	return t.summed, nil
}

// Sum is the sums of one day of another table.
type Sum[T any] struct {
	Day    int32
	Print  watermark.Print                // of the files that the sums are made from
	Oldest int32                          // days before it are forgotten: the other table has them no more
	Rows   func(add func(*T) error) error // in the order of the schema; a row must stay as it is until the last is added
}

// PutSum puts the sums of a day in the place of those that the table has of it, in one commit that also says what they
// were made from. It does nothing if the table has them. ErrFenced comes back when somebody else has put sums of that
// day, or has replaced the files that hold them, meanwhile: the caller looks again.
//
// Order: the file with the new rows; those with the other rows of files that hold old ones; then the commit. A crash
// before that leaves files that nothing lists, for the sweep.
//
// Steps: T.sum, then those of a commit.
func (t *Table[T]) PutSum(ctx context.Context, sum Sum[T]) (err error) {
	release, err := t.lockShared(ctx)
	if err != nil {
		return err
	}
	defer release()
	s, err := t.refresh(ctx)
	if err != nil {
		return err
	}
	before := s.meta.Properties[summedProperty]
	summed := watermark.ParsePrints(before)
	if was, ok := summed[sum.Day]; ok && was == sum.Print {
		return nil
	}
	if err := t.at("sum"); err != nil {
		return err
	}
	made, remove, err := t.writeSum(ctx, s, sum)
	if err == nil {
		summed[sum.Day] = sum.Print
		maps.DeleteFunc(summed, func(day int32, _ watermark.Print) bool { return day < sum.Oldest })
		err = t.commitSum(ctx, before, watermark.FormatPrints(summed), made, remove)
		if err == nil || errors.Is(err, objectstore.ErrUncertain) {
			return err
		}
	}
	t.discard(ctx, made)
	return err
}

// FenceSums makes every PutSum that has begun ErrFenced: the other table may have lost rows since it read them.
func (t *table) FenceSums(ctx context.Context) error {
	_, err := t.update(ctx, func(s *state) (*change, error) {
		summed := watermark.FormatPrints(watermark.ParsePrints(s.meta.Properties[summedProperty]))
		return &change{set: map[string]string{summedProperty: summed + ",fence:" + newName()}}, nil // no day: readers skip it
	})
	return err
}

// commitSum lists the files of a sum, if the table says of its sums what it said before.
func (t *table) commitSum(ctx context.Context, before, after string, made []*dataFile, remove map[string]bool) error {
	_, err := t.update(ctx, func(s *state) (*change, error) {
		if s.meta.Properties[summedProperty] != before || !s.lists(remove) {
			return nil, watermark.ErrFenced
		}
		c := &change{operation: appended, add: made, remove: remove, set: map[string]string{summedProperty: after}}
		switch {
		case len(remove) > 0:
			c.operation = narrowed
		case len(made) == 0:
			c.operation = "" // a day without numbers
		}
		return c, nil
	})
	return err
}

// writeSum writes the file of a sum and, where files may hold rows of the day already, those files without them. It
// says which files it made, also with an error, and which they replace.
func (t *Table[T]) writeSum(ctx context.Context, s *state, sum Sum[T]) ([]*dataFile, map[string]bool, error) {
	first := t.layout.partition(sum.Day)
	made, err := t.makeFile(ctx, first, parquetfile.PackedPage, nil, nil, func(w *parquetfile.Writer[T]) error {
		return sum.Rows(func(row *T) error { return w.Add(ctx, row) })
	})
	if err != nil {
		return nil, nil, err
	}
	remove := map[string]bool{}
	of := newWindow(dayTime(sum.Day), dayTime(sum.Day+1))
	for _, f := range s.files() {
		if f.day != first || !of.may(t.layout, f) {
			continue
		}
		ofDay := func(r *T) bool { return dayOf(t.schema.Time(r)) == sum.Day }
		others, err := t.rewrite(ctx, []*dataFile{f}, parquetfile.PackedPage, ofDay, nil)
		if err != nil {
			return made, nil, err
		}
		made = append(made, others...)
		remove[f.name] = true
	}
	return made, remove, nil
}

// Whole hands the rows of the files of a day to yield if their print is this one, in the order of the table's first
// column. ErrFenced comes back when the day has other files, and ErrDamaged when one of them cannot be read whole.
func (t *Table[T]) Whole(ctx context.Context, day int32, print watermark.Print, yield func(*T) error) error {
	s, err := t.refresh(ctx)
	if err != nil {
		return err
	}
	if s.prints()[day] != print {
		return watermark.ErrFenced
	}
	var files []*dataFile
	for _, f := range s.files() {
		if f.day == day {
			files = append(files, f)
		}
	}
	err = t.mergeRows(ctx, files, yield)
	if errors.Is(err, errUnreadable) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
