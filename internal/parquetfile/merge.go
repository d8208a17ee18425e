package parquetfile

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// merger reads sorted files as one sorted sequence.
type merger[T any] struct {
	compare func(a, b *T) int
	damaged func(source int, err error) // see MergeRows
	heads   []*head[T]                  // a heap: the least row is the first of the first
	files   int                         // how many were opened
	begun   bool
}

// head is a file that is being read. It has at least one row.
type head[T any] struct {
	next func() ([]T, error, bool)
	stop func()
	rows []T
	file int // which of the files that were opened
}

// Source is a file that is read to its end: it must be so many bytes long and have so many rows.
type Source struct {
	In          Input
	Bytes, Rows int64
}

// SourceError says that a source cannot be read to its end.
type SourceError struct {
	Source int // its index
	Err    error
}

func (e *SourceError) Error() string { return fmt.Sprintf("source %d: %v", e.Source, e.Err) }

// Unwrap returns what is wrong with the source.
func (e *SourceError) Unwrap() error { return e.Err }

// sourceError blames a source, unless ctx has cut it off.
func sourceError(ctx context.Context, source int, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &SourceError{source, err}
}

// MergeRows hands all rows of sorted files to yield, in order, valid until it returns; its error ends the merge. Of
// each row, these columns are set. A *SourceError says which file cannot be read; with damaged, which is told of it,
// what cannot be read is left out instead.
func MergeRows[T any](
	ctx context.Context, sources []Source, columns []Column[T], compare func(a, b *T) int,
	damaged func(source int, err error), yield func(*T) error,
) error {
	m := merger[T]{compare: compare, damaged: damaged}
	defer m.close()
	for i := range sources {
		if err := m.open(ctx, &sources[i], columns); err != nil {
			return err
		}
	}
	for {
		row, err := m.next()
		if row == nil || err != nil {
			return err
		}
		if err := yield(row); err != nil {
			return err
		}
	}
}

// open adds a file, of which it reads some columns. The file stays open until everything is read.
func (m *merger[T]) open(ctx context.Context, from *Source, columns []Column[T]) error {
	h := &head[T]{file: m.files}
	m.files++
	h.next, h.stop = iter.Pull2(m.chunks(ctx, from, h.file, columns))
	more, err := h.fill()
	if err != nil || !more {
		h.stop()
		return err
	}
	m.heads = append(m.heads, h)
	for i := len(m.heads) - 1; i > 0 && m.less(i, (i-1)/2); i = (i - 1) / 2 {
		m.swap(i, (i-1)/2)
	}
	return nil
}

func (m *merger[T]) close() {
	for _, h := range m.heads {
		h.stop()
	}
}

var errEnough = errors.New("enough")

// chunks is a whole file, some rows at a time; it ends with an error where the file cannot be read.
func (m *merger[T]) chunks(ctx context.Context, from *Source, n int, columns []Column[T]) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		var broken error
		rows := int64(0)
		damaged := func(err error) {
			if m.damaged == nil {
				broken = err
			} else {
				m.damaged(n, err)
			}
		}
		sel := &Selection[T]{Rest: columns}
		err := ReadRows(ctx, from.In, from.Bytes, sel, damaged, func(some []T) error {
			rows += int64(len(some))
			if broken != nil || !yield(some, nil) {
				return errEnough
			}
			return nil
		})
		switch {
		case broken != nil:
		case errors.Is(err, errEnough):
			return // nobody wants more
		case err != nil:
			broken = err
		case rows != from.Rows && m.damaged == nil:
			broken = fmt.Errorf("%d rows instead of %d", rows, from.Rows)
		}
		if broken != nil {
			yield(nil, sourceError(ctx, n, broken))
		}
	}
}

func (h *head[T]) fill() (more bool, err error) {
	h.rows, err, more = h.next()
	return more && err == nil, err
}

// next is the least row that has not been handed out, nil at the end. It is valid until the next call.
func (m *merger[T]) next() (*T, error) {
	if m.begun {
		if err := m.advance(); err != nil {
			return nil, err
		}
	}
	m.begun = true
	if len(m.heads) == 0 {
		return nil, nil
	}
	return &m.heads[0].rows[0], nil
}

// advance passes over the row that was handed out.
func (m *merger[T]) advance() error {
	if len(m.heads) == 0 {
		return nil
	}
	top := m.heads[0]
	if top.rows = top.rows[1:]; len(top.rows) == 0 {
		more, err := top.fill()
		if err != nil {
			return err
		}
		if !more {
			top.stop()
			last := len(m.heads) - 1
			m.heads[0] = m.heads[last]
			m.heads = m.heads[:last]
		}
	}
	for i := 0; ; {
		least := i
		for _, child := range [...]int{2*i + 1, 2*i + 2} {
			if child < len(m.heads) && m.less(child, least) {
				least = child
			}
		}
		if least == i {
			return nil
		}
		m.swap(i, least)
		i = least
	}
}

func (m *merger[T]) less(i, j int) bool {
	return m.compare(&m.heads[i].rows[0], &m.heads[j].rows[0]) < 0
}
func (m *merger[T]) swap(i, j int) { m.heads[i], m.heads[j] = m.heads[j], m.heads[i] }
