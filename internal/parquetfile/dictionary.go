package parquetfile

import (
	"encoding/binary"
	"hash/maphash"
)

// dictionary gives each value of a column a number, in the order in which they come.
type dictionary struct {
	width   int      // of a value in bytes; 0 is for values of any length
	data    []byte   // the values, in Parquet's plain encoding
	offsets []uint32 // where each begins in data
	slots   []slot   // a hash table with open addressing, a power of two long, at most half full
	last    int32    // the number that was given out last; values often repeat
}

// slot is a place in the hash table. number is one more than that of the value; 0 is an empty slot.
type slot struct{ hash, number uint32 }

var seed = maphash.MakeSeed()

const leastSlots = 64

// reset forgets all values and keeps the memory.
func (d *dictionary) reset() {
	d.data, d.offsets, d.last = d.data[:0], d.offsets[:0], 0
	if d.slots == nil {
		d.slots = make([]slot, leastSlots)
	}
	clear(d.slots)
}

func (d *dictionary) len() int { return len(d.offsets) }

// value is a value by its number. It is valid until the next reset.
func (d *dictionary) value(n int32) []byte {
	at := int(d.offsets[n])
	if d.width > 0 {
		return d.data[at : at+d.width]
	}
	size := int(binary.LittleEndian.Uint32(d.data[at:]))
	return d.data[at+4 : at+4+size]
}

// number is the number of a value, a new one for a new value.
func (d *dictionary) number(v string) int32 {
	if len(d.offsets) > 0 && string(d.value(d.last)) == v {
		return d.last
	}
	hash := uint32(maphash.String(seed, v))
	mask := uint32(len(d.slots) - 1)
	i := hash & mask
	for d.slots[i].number != 0 {
		if s := d.slots[i]; s.hash == hash && string(d.value(int32(s.number-1))) == v {
			d.last = int32(s.number - 1)
			return d.last
		}
		i = (i + 1) & mask
	}
	d.last = int32(len(d.offsets))
	d.slots[i] = slot{hash, uint32(d.last) + 1}
	d.offsets = append(d.offsets, uint32(len(d.data)))
	if d.width == 0 {
		d.data = binary.LittleEndian.AppendUint32(d.data, uint32(len(v)))
	}
	d.data = append(d.data, v...)
	if 2*len(d.offsets) > len(d.slots) {
		d.grow()
	}
	return d.last
}

func (d *dictionary) grow() {
	old := d.slots
	d.slots = make([]slot, 2*len(old))
	mask := uint32(len(d.slots) - 1)
	for _, s := range old {
		if s.number == 0 {
			continue
		}
		i := s.hash & mask
		for d.slots[i].number != 0 {
			i = (i + 1) & mask
		}
		d.slots[i] = s
	}
}
