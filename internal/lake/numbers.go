package lake

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"sluice/internal/objectstore"
)

// The numbers that a process has in memory are kept beside the tables, so that another one can begin with them. They
// are a copy: without it the tables have everything.
const numbersPlace = "numbers"

// numbersNames are the slots: a crash while one is written leaves the other.
var numbersNames = [NumbersSlots]string{"index-0", "index-1"}

// NumbersSlots is how many copies are kept.
const NumbersSlots = 2

// Maintained says whether this process maintains the tables.
func (l *Lake) Maintained() bool { return l.running.Load() }

// SaveNumbers keeps what write writes in one of NumbersSlots, in the place of what was kept there before. A crash may
// leave part of it: who reads it must notice, and has the other slot.
func (l *Lake) SaveNumbers(ctx context.Context, slot int, write func(io.Writer) error) error {
	at, name := l.o.Store.Sub(numbersPlace), numbersNames[slot]
	if err := at.Remove(ctx, name); err != nil {
		return err
	}
	w, err := at.Create(ctx, name)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process was faster
	}
	if err != nil {
		return err
	}
	if err := write(w); err != nil {
		w.Abort()
		return err
	}
	return w.Close()
}

// dropNumbers deletes what is kept. It is saved again within an hour.
func (l *Lake) dropNumbers(ctx context.Context) error {
	for _, name := range numbersNames {
		if err := l.o.Store.Sub(numbersPlace).Remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// OpenNumbers opens what SaveNumbers has kept in a slot; fs.ErrNotExist where there is nothing.
func (l *Lake) OpenNumbers(ctx context.Context, slot int) (objectstore.Object, error) {
	return l.o.Store.Sub(numbersPlace).Open(ctx, numbersNames[slot])
}

// copyNumbers copies them, if there are any.
func (l *Lake) copyNumbers(ctx context.Context, to objectstore.Store) error {
	for slot := range numbersNames {
		o, err := l.OpenNumbers(ctx, slot)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = (&Lake{o: Options{Store: to}}).SaveNumbers(ctx, slot, func(w io.Writer) error {
			_, err := io.Copy(w, io.NewSectionReader(o, 0, o.Size()))
			return err
		})
		if err := errors.Join(err, o.Close()); err != nil {
			return err
		}
	}
	return nil
}
