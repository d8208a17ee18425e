package iceberg

import (
	"errors"
	"fmt"
	"iter"

	"sluice/internal/objectstore"
)

// merger reads sorted files as one sorted sequence.
type merger[T any] struct {
	compare func(a, b *T) int
	heads   []*head[T] // a heap: the least row is the first of the first
	files   int        // how many were opened
	begun   bool
}

// head is a file that is being read. It has at least one row.
type head[T any] struct {
	next func() ([]T, error, bool)
	stop func()
	rows []T
	file int // which of the files that were opened
}

// errUnreadable says that a file could not be read to its end.
var errUnreadable = errors.New("file cannot be read")

// open adds a file, of which it reads some columns. The file stays open until everything is read.
func (m *merger[T]) open(t *Table[T], p *dataFile, o objectstore.Object, columns []Column[T]) error {
	h := &head[T]{file: m.files}
	m.files++
	h.next, h.stop = iter.Pull2(chunks(t, p, o, columns))
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

// chunks is a whole file, some rows at a time; it ends with an error where the file cannot be read.
func chunks[T any](t *Table[T], p *dataFile, o objectstore.Object, columns []Column[T]) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		var broken error
		rows := int64(0)
		err := readRowsOf(p, o, &selection[T]{rest: columns}, func(err error) { broken = err }, func(some []T) error {
			rows += int64(len(some))
			if broken != nil || !yield(some, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && broken == nil {
			return // nobody wants more
		}
		if broken == nil && rows != p.rows {
			broken = fmt.Errorf("%d rows instead of %d", rows, p.rows)
		}
		if broken != nil {
			yield(nil, t.unreadableFile(p, broken))
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

// each hands every row to yield, in order, valid until it returns; its error ends it.
func (m *merger[T]) each(yield func(*T) error) error {
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
