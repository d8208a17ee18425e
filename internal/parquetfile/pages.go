package parquetfile

import (
	"errors"
	"io"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// columnPages are the pages of one column of a row group, read in their order, and the values of the open one, by
// their type.
type columnPages struct {
	pages    parquet.Pages // nil when closed
	physical format.Type
	maxDef   byte // the level of a value that is there

	// The page, from where it was read to. What is absent has a level and no value.
	page       parquet.Page
	left       int // rows
	reps, defs []byte
	at         int        // the next value
	typed      bool       // what follows is of this page: see view
	numbers    []int32    // of values in the dictionary; nil if values are those of the page
	values     pageValues // of the page, or of its dictionary
	dictionary parquet.Dictionary

	memory []int32 // for places
}

// pageValues are the values of a page or a dictionary, in the one form that it has.
type pageValues struct {
	int32s  []int32
	int64s  []int64
	floats  []float64
	data    []byte   // of a column of bytes or flags
	offsets []uint32 // in data, if values have any length

	texts string // see spell
	base  uint32 // where it begins in data
}

// next opens the next page; io.ErrUnexpectedEOF says that there is none.
func (p *columnPages) next() error {
	p.drop()
	page, err := p.pages.ReadPage()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	p.page, p.left = page, int(page.NumRows())
	p.reps, p.defs = page.RepetitionLevels(), page.DefinitionLevels()
	return nil
}

func (p *columnPages) drop() {
	if p.page != nil {
		parquet.Release(p.page)
	}
	p.page, p.left, p.reps, p.defs, p.at, p.typed = nil, 0, nil, nil, 0, false
}

func (p *columnPages) close() error {
	p.drop()
	if p.pages == nil {
		return nil
	}
	pages := p.pages
	p.pages, p.dictionary = nil, nil
	return pages.Close()
}

// view looks at the values of the page by their type, once. A page without a value has no type either.
func (p *columnPages) view() {
	if p.typed {
		return
	}
	p.typed = true
	v, d := p.page.Data(), p.page.Dictionary()
	switch {
	case d == nil:
		p.numbers, p.values = nil, viewPlain(v, p.physical)
	case d != p.dictionary:
		p.values = viewPlain(d.Page().Data(), p.physical)
		fallthrough
	default:
		p.numbers = v.Int32()
	}
	p.dictionary = d
}

// viewPlain is the values of a page that has no dictionary, or is one.
func viewPlain(v encoding.Values, physical format.Type) (out pageValues) {
	switch physical {
	case format.Int32:
		out.int32s = v.Int32()
	case format.Int64:
		out.int64s = v.Int64()
	case format.Double:
		out.floats = v.Double()
	default:
		out.data, out.offsets = v.Data()
	}
	return out
}

// place is where the value of the next level is, -1 if there is none.
func (p *columnPages) place() int32 {
	if p.defs != nil {
		def := p.defs[0]
		if p.defs = p.defs[1:]; def != p.maxDef {
			return -1
		}
	}
	p.view()
	p.at++
	if p.numbers != nil {
		return p.numbers[p.at-1]
	}
	return int32(p.at - 1)
}

// places are where the values of the next n rows are, none of which is a list.
func (p *columnPages) places(n int) []int32 {
	p.left -= n
	p.memory = p.memory[:0]
	if p.defs == nil && n > 0 {
		p.view()
		p.at += n
		if p.numbers != nil {
			return p.numbers[p.at-n : p.at]
		}
		for at := p.at - n; at < p.at; at++ {
			p.memory = append(p.memory, int32(at))
		}
		return p.memory
	}
	for range n {
		p.memory = append(p.memory, p.place())
	}
	return p.memory
}

// spell makes texts of the values that were passed over from one on; of those of a dictionary once.
func (p *columnPages) spell(from int) {
	v, to := &p.values, p.at
	if p.numbers != nil {
		if v.texts != "" {
			return
		}
		from, to = 0, len(v.offsets)-1
	}
	if from < to {
		v.base = v.offsets[from]
		v.texts = string(v.data[v.base:v.offsets[to]])
	}
}

// at is the value at a place; that of null is zero.
func at[V any](values []V, place int32) (v V) {
	if place >= 0 {
		v = values[place]
	}
	return v
}

// text is the text at a place; that of null is empty.
func (v *pageValues) text(place int32) string {
	if place < 0 {
		return ""
	}
	return v.texts[v.offsets[place]-v.base : v.offsets[place+1]-v.base]
}

// flag is the flag at a place; that of null is false.
func (v *pageValues) flag(place int32) bool { return place >= 0 && v.data[place/8]>>(place%8)&1 != 0 }

// fixed is the value at a place, of a column of so many bytes.
func (v *pageValues) fixed(place int32, width int) []byte {
	return v.data[int(place)*width : (int(place)+1)*width]
}

// append hands over values, from one up to another.
func (v *pageValues) append(c *chunk, from, to int) {
	switch {
	case v.int32s != nil:
		for _, n := range v.int32s[from:to] {
			c.putInt(int64(n))
		}
	case v.int64s != nil:
		for _, n := range v.int64s[from:to] {
			c.putInt(n)
		}
	case v.floats != nil:
		for _, n := range v.floats[from:to] {
			c.putFloat(n)
		}
	case c.physical == format.Boolean:
		for i := from; i < to; i++ {
			c.plain = append(c.plain, v.data[i/8]>>(i%8)&1)
		}
	case c.width > 0:
		c.plain = append(c.plain, v.data[from*c.width:to*c.width]...)
	default:
		for i := from; i < to; i++ {
			c.putBytes(text(v.data[v.offsets[i]:v.offsets[i+1]]))
		}
	}
}

// text is bytes as a text, for as long as nobody changes them.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
