package gpp

import (
	"cmp"
	"iter"
	"slices"
)

// coding is how a TC string writes its vendor ranges.
type coding uint8

const (
	intRanges       coding = iota // Europe: a maximum, then bits or a range of integers
	fibonacciRanges               // Canada: a maximum, then bits or a range of Fibonacci codes
	legacyRanges                  // Canada before 2026: integers as in Europe, in publisher restrictions too
	legacyOptimized               // likewise, but publisher restrictions have a maximum and may be bits
)

// leastRange is the fewest bits a range has. A count that the remaining bits cannot hold is rejected at once.
func (c coding) leastRange() int {
	if c == fibonacciRanges {
		return 1 + 2
	}
	return singleBits
}

// maxVendor is the highest vendor id a range may name.
const maxVendor = 1<<16 - 1

// Vendors is a set of vendor ids. It is a view of the string it was read from: four thousand ranges of sixty thousand
// vendors each cost nothing until somebody asks.
type Vendors struct {
	text   string
	pos    int32 // of the first bit or the first range item
	count  int32 // number of bits or of range items
	ranged bool
	coding coding
}

// vendors reads an optimized range: a maximum, one bit, and bits or ranges.
func (b *bits) vendors(c coding) (Vendors, string) {
	head := b.read(16 + 1)
	if head&1 == 1 {
		return b.ranges(c) // no range is held to the maximum
	}
	v := Vendors{text: b.s, pos: int32(b.pos()), count: int32(head >> 1)}
	b.skip(int(v.count))
	if b.short {
		return Vendors{}, truncated
	}
	return v, ""
}

// ranges reads a list of ranges and checks every one.
func (b *bits) ranges(c coding) (Vendors, string) {
	v := Vendors{text: b.s, count: int32(b.read(12)), ranged: true, coding: c}
	v.pos = int32(b.pos())
	if b.short || int(v.count)*c.leastRange() > b.left() {
		return Vendors{}, truncated
	}
	var reason string
	if c == fibonacciRanges {
		last := 0
		for i := int32(0); i < v.count && reason == ""; i++ {
			_, last, reason = b.fibonacciItem(last, maxVendor)
		}
	} else {
		reason = b.passInts(int(v.count))
	}
	if reason != "" {
		return Vendors{}, reason
	}
	return v, ""
}

// item reads one range: a single id or a group.
func (b *bits) item(c coding, last int) (start, end int, reason string) {
	if c == fibonacciRanges {
		return b.fibonacciItem(last, maxVendor)
	}
	return b.intItem()
}

// The bits of a range of integers: a flag, the first id, and the last id if the flag is set.
const (
	singleBits = 1 + 16
	groupBits  = 1 + 16 + 16
)

// intItem reads one range of integers.
func (b *bits) intItem() (start, end int, reason string) {
	group := b.bool()
	start = int(b.read(16))
	end = start
	if group {
		end = int(b.read(16))
	}
	return start, end, b.judge(start, end)
}

// judge returns why a range is none, or "" if it is one.
func (b *bits) judge(start, end int) string {
	switch {
	case b.short:
		return truncated
	case start == 0:
		return "a range begins with vendor 0"
	case end < start:
		return "a range ends before it begins"
	}
	return ""
}

// passInts reads a list of ranges of integers without keeping them. It is intItem in a loop, with the reader's state in
// registers and its bits at the top of the word, because lists have hundreds of ranges: it takes a fifth of the time.
func (b *bits) passInts(count int) string {
	s, acc, n := b.s[b.next:], b.acc<<(64-b.n), b.n
	for count > 0 {
		// Two single ids at a time, which most ranges are.
		const pair, flags = 2 * singleBits, 1<<63 | 1<<(63-singleBits)
		for count >= 2 {
			for n < pair && len(s) >= 5 {
				c := s[:5]
				acc |= (uint64(sextet[c[0]])<<24 | uint64(sextet[c[1]])<<18 | uint64(sextet[c[2]])<<12 |
					uint64(sextet[c[3]])<<6 | uint64(sextet[c[4]])) << ((64 - 30 - n) & 63)
				s, n = s[5:], n+30
			}
			if n < pair || acc&flags != 0 || acc>>47&maxVendor == 0 || acc>>30&maxVendor == 0 {
				break
			}
			acc <<= pair
			n -= pair
			count -= 2
		}
		if count == 0 {
			break
		}
		width := uint(singleBits)
		if acc>>63 == 1 {
			width = groupBits
		}
		for n < width && s != "" {
			acc |= uint64(sextet[s[0]]) << ((64 - 6 - n) & 63)
			if s, n = s[1:], n+6; acc>>63 == 1 {
				width = groupBits
			}
		}
		if n < width {
			b.fail()
			return truncated
		}
		start := acc >> 47 & maxVendor
		end := start
		if width == groupBits {
			end = acc >> 31 & maxVendor
		}
		acc <<= width & 63
		n -= width
		count--
		if start == 0 || end < start {
			return b.judge(int(start), int(end))
		}
	}
	b.next, b.acc, b.n = len(b.s)-len(s), acc>>(64-n), n
	return ""
}

// Ranges yields the vendors as ranges, first and last id, in the order of the string. They may overlap.
func (v Vendors) Ranges() iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		b := bitsAt(v.text, int(v.pos))
		if v.ranged {
			last := 0
			for range v.count {
				var start int
				start, last, _ = b.item(v.coding, last)
				if !yield(start, last) {
					return
				}
			}
			return
		}
		start := 0
		for id := 1; id <= int(v.count); id++ {
			set := b.bool()
			switch {
			case set && start == 0:
				start = id
			case !set && start != 0:
				if !yield(start, id-1) {
					return
				}
				start = 0
			}
		}
		if start != 0 {
			yield(start, int(v.count))
		}
	}
}

// Has reports whether the vendor is in the set.
func (v Vendors) Has(id int) bool {
	if !v.ranged {
		if id < 1 || id > int(v.count) {
			return false
		}
		b := bitsAt(v.text, int(v.pos)+id-1)
		return b.bool()
	}
	for start, end := range v.Ranges() {
		if start <= id && id <= end {
			return true
		}
	}
	return false
}

// Restrictions are what the publisher forbids or asks of vendors, purpose by purpose.
type Restrictions struct {
	text   string
	pos    int32
	count  int32
	coding coding
}

// Restriction is one of them.
type Restriction struct {
	Purpose int
	Type    int // 0: not allowed, 1: consent is needed, 2: legitimate interest is needed
	Vendors Vendors
}

func (b *bits) restrictions(c coding) (Restrictions, string) {
	r := Restrictions{text: b.s, count: int32(b.read(12)), coding: c}
	r.pos = int32(b.pos())
	if b.short || int(r.count)*leastRestriction > b.left() {
		return Restrictions{}, truncated
	}
	for range r.count {
		if _, reason := b.restriction(c); reason != "" {
			return Restrictions{}, reason
		}
	}
	return r, ""
}

// leastRestriction is the fewest bits a restriction has: purpose, type and the count of an empty list. A count that
// the remaining bits cannot hold is rejected at once.
const leastRestriction = 6 + 2 + 12

func (b *bits) restriction(c coding) (r Restriction, reason string) {
	head := b.read(6 + 2)
	r.Purpose, r.Type = int(head>>2), int(head&3)
	if r.Type == 3 {
		return r, "a restriction of type 3, which is not defined"
	}
	if c == intRanges || c == legacyRanges {
		r.Vendors, reason = b.ranges(c)
	} else {
		r.Vendors, reason = b.vendors(c)
	}
	return r, reason
}

// Len is the number of restrictions.
func (r Restrictions) Len() int { return int(r.count) }

// All yields the restrictions in the order of the string.
func (r Restrictions) All() iter.Seq[Restriction] {
	return func(yield func(Restriction) bool) {
		b := bitsAt(r.text, int(r.pos))
		for range r.count {
			one, _ := b.restriction(r.coding)
			if !yield(one) {
				return
			}
		}
	}
}

// span is a range of vendor ids, both ends included.
type span struct{ first, last int32 }

// sorter writes vendors as ascending ranges. It holds memory for one list at a time, so that a string of many lists
// costs no more than its length.
type sorter struct {
	spans []span
	steps int // spans that were read, sorted or merged: a measure of the work, for tests
}

// ascending returns the vendors as ascending ranges that do not overlap or touch, and the number of vendors. The ranges
// are valid until the next call. The work is linear in the number of ranges if they come sorted, as encoders write
// them; otherwise they are sorted first. It does not depend on how many vendors a range has.
func (o *sorter) ascending(v Vendors) (spans []span, count int) {
	o.spans = o.spans[:0]
	sorted := true
	for start, end := range v.Ranges() {
		if n := len(o.spans); n > 0 && int32(start) < o.spans[n-1].first {
			sorted = false
		}
		o.spans = append(o.spans, span{int32(start), int32(end)})
	}
	o.steps += len(o.spans)
	if !sorted {
		slices.SortFunc(o.spans, func(a, b span) int {
			o.steps++
			return cmp.Compare(a.first, b.first)
		})
	}
	merged := o.spans[:0]
	for _, s := range o.spans {
		if n := len(merged); n > 0 && s.first <= merged[n-1].last+1 {
			merged[n-1].last = max(merged[n-1].last, s.last)
			continue
		}
		merged = append(merged, s)
	}
	for _, s := range merged {
		count += int(s.last-s.first) + 1
	}
	return merged, count
}
