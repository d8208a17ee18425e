package parquetfile

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go/format"
)

// indexBytes is to how many bytes the page index cuts a bound: a whole hash fits.
const indexBytes = 32

// addBounds notes the least and greatest value of the page in the index, and of the column in the statistics.
func (c *chunk) addBounds(all, nulls int) {
	c.meta.Statistics.NullCount += int64(nulls)
	c.index.NullCounts = append(c.index.NullCounts, int64(nulls))
	c.index.NullPages = append(c.index.NullPages, nulls == all)
	if nulls == all {
		c.index.MinValues = append(c.index.MinValues, []byte{})
		c.index.MaxValues = append(c.index.MaxValues, []byte{})
		return
	}
	least, greatest := c.bounds()
	c.index.MinValues = append(c.index.MinValues, c.cutLeast(least))
	c.index.MaxValues = append(c.index.MaxValues, c.cutGreatest(greatest))
	c.widen(&c.meta.Statistics.MinValue, &c.meta.Statistics.MaxValue, least, greatest)
}

// widen moves bounds so that all from low to high is within; nil is where there are none yet.
func (c *leafType) widen(least, greatest *[]byte, low, high []byte) {
	if *least == nil || c.compare(low, *least) < 0 {
		*least = low
	}
	if *greatest == nil || c.compare(high, *greatest) > 0 {
		*greatest = high
	}
}

// bounds are the least and greatest value of a page that has one, in memory of their own.
func (c *chunk) bounds() (least, greatest []byte) {
	switch {
	case c.useDict:
		c.used = append(c.used[:0], make([]bool, c.values.len())...)
		for _, n := range c.numbers {
			c.used[n] = true
		}
		for n, used := range c.used {
			if used {
				v := c.values.value(int32(n))
				c.widen(&least, &greatest, v, v)
			}
		}
	case c.encoding == format.DeltaBinaryPacked:
		least = binary.LittleEndian.AppendUint64(nil, uint64(slices.Min(c.integers)))[:c.width]
		greatest = binary.LittleEndian.AppendUint64(nil, uint64(slices.Max(c.integers)))[:c.width]
	case c.physical == format.FixedLenByteArray:
		least, greatest = fixedExtremes(c.plain, c.width)
	case c.width > 0:
		for at := 0; at < len(c.plain); at += c.width {
			v := c.plain[at : at+c.width]
			c.widen(&least, &greatest, v, v)
		}
	default:
		least, greatest = textExtremes(c.plain)
	}
	least, greatest = append([]byte{}, least...), append([]byte{}, greatest...)
	if c.physical == format.Double {
		spreadZero(least, greatest)
	}
	return least, greatest
}

// fixedExtremes compares the first eight bytes as numbers: for hashes and ids that nearly always decides.
func fixedExtremes(plain []byte, width int) (least, greatest []byte) {
	least, greatest = plain[:width], plain[:width]
	low := binary.BigEndian.Uint64(least)
	high := low
	for at := width; at < len(plain); at += width {
		v := plain[at : at+width]
		head := binary.BigEndian.Uint64(v)
		if head < low || head == low && bytes.Compare(v, least) < 0 {
			least, low = v, head
		}
		if head > high || head == high && bytes.Compare(v, greatest) > 0 {
			greatest, high = v, head
		}
	}
	return least, greatest
}

func textExtremes(plain []byte) (least, greatest []byte) {
	for at := 0; at < len(plain); {
		end := at + 4 + int(binary.LittleEndian.Uint32(plain[at:]))
		v := plain[at+4 : end : end]
		if at == 0 {
			least, greatest = v, v
		} else if bytes.Compare(v, least) < 0 {
			least = v
		} else if bytes.Compare(v, greatest) > 0 {
			greatest = v
		}
		at = end
	}
	return least, greatest
}

// spreadZero gives the bounds of floats the sign that Parquet wants of a zero: readers may not tell the two apart.
func spreadZero(least, greatest []byte) {
	if float(least) == 0 {
		binary.LittleEndian.PutUint64(least, 1<<63)
	}
	if float(greatest) == 0 {
		binary.LittleEndian.PutUint64(greatest, 0)
	}
}

func float(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }

// integer is an integer of the column's width, 4 or 8 bytes.
func (c *leafType) integer(b []byte) int64 {
	if c.width == 4 {
		return int64(int32(binary.LittleEndian.Uint32(b)))
	}
	return int64(binary.LittleEndian.Uint64(b))
}

// compare orders two values of the column in plain encoding.
func (c *leafType) compare(a, b []byte) int {
	switch c.physical {
	case format.Int32, format.Int64:
		return cmp.Compare(c.integer(a), c.integer(b))
	case format.Double:
		return cmp.Compare(float(a), float(b))
	}
	return bytes.Compare(a, b)
}

// cutLeast cuts a lower bound of text between two characters, to the bytes of the index. Other values fit.
func (c *leafType) cutLeast(v []byte) []byte {
	if !c.text || len(v) <= indexBytes {
		return v
	}
	end := indexBytes
	for end > 0 && !utf8.RuneStart(v[end]) {
		end--
	}
	return v[:end]
}

// cutGreatest cuts an upper bound of text, and raises its last character. Where none can be raised it stays whole.
func (c *leafType) cutGreatest(v []byte) []byte {
	if !c.text || len(v) <= indexBytes {
		return v
	}
	if up := raise(bytes.Runes(c.cutLeast(v))); up != nil {
		return up
	}
	return v
}

// boundLength is to how many characters the bounds of a whole file are cut: Iceberg's own default.
const boundLength = 16

// cutBounds cuts the bounds of a file that are text. Where no text of that length is above the greatest value, there is
// no upper one.
func (c *leafType) cutBounds(least, greatest []byte) (lower, upper []byte) {
	lower, upper = least, greatest
	if c.text && utf8.RuneCount(least) > boundLength {
		lower = []byte(string(bytes.Runes(least)[:boundLength]))
	}
	if c.text && utf8.RuneCount(greatest) > boundLength {
		upper = raise(bytes.Runes(greatest)[:boundLength])
	}
	return lower, upper
}

// raise is the least text above all that begin with r, cut where a character can be raised; nil where none can.
func raise(r []rune) []byte {
	for i := len(r) - 1; i >= 0; i-- {
		next := r[i] + 1
		if next == 0xd800 {
			next = 0xe000 // surrogates are no characters
		}
		if next <= utf8.MaxRune {
			r[i] = next
			return []byte(string(r[:i+1]))
		}
	}
	return nil
}

// boundaryOrder says in which order the pages of the index are.
func (c *chunk) boundaryOrder() format.BoundaryOrder {
	up, down := true, true
	last := -1
	for i, null := range c.index.NullPages {
		if null {
			continue
		}
		if last >= 0 {
			low := c.compare(c.index.MinValues[last], c.index.MinValues[i])
			high := c.compare(c.index.MaxValues[last], c.index.MaxValues[i])
			up = up && low <= 0 && high <= 0
			down = down && low >= 0 && high >= 0
		}
		last = i
	}
	switch {
	case up:
		return format.Ascending
	case down:
		return format.Descending
	}
	return format.Unordered
}
