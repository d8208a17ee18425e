package jsonscan

import (
	"hash/maphash"
	"slices"
)

// linearNames is the number of members up to which names are compared one by one. Measured: a table costs more below
// about that number.
const linearNames = 12

// keepNames bounds the memory that Reset keeps for the next text; arbitrary.
const keepNames = 1024

var nameSeed = maphash.MakeSeed()

// Names finds a name that occurs twice in one object. It is a stack, because objects nest: Open begins an object, Close
// ends it. The work is linear in the number of names for any names: the hash is seeded.
type Names struct {
	names  []string
	frames [MaxLevels + 1]nameFrame
	depth  int
}

// nameFrame is one object on the stack.
type nameFrame struct {
	base  int      // offset of its first name in names
	table []uint32 // slots hold 1 + the offset of a name in names, 0 when free; unused while there are few names
	used  bool
}

// Reset forgets all names.
func (n *Names) Reset() {
	n.depth = 0
	if cap(n.names) > keepNames {
		n.names = nil
	}
	clear(n.names[:cap(n.names)])
	n.names = n.names[:0]
	for i := range n.frames {
		if f := &n.frames[i]; cap(f.table) > 2*keepNames {
			f.table = nil
		}
	}
}

// Open begins an object inside the current one.
func (n *Names) Open() {
	f := &n.frames[n.depth]
	f.base, f.used = len(n.names), false
	n.depth++
}

// Close ends the innermost object.
func (n *Names) Close() {
	n.depth--
	n.names = n.names[:n.frames[n.depth].base]
}

// Add adds a name to the innermost object and reports whether it is new there.
func (n *Names) Add(name string) bool {
	f := &n.frames[n.depth-1]
	if !f.used {
		own := n.names[f.base:]
		if slices.Contains(own, name) {
			return false
		}
		n.names = append(n.names, name)
		if len(own) == linearNames {
			f.used = true
			n.rebuild(f, 4*linearNames)
		}
		return true
	}
	own := len(n.names) - f.base
	if 2*own >= len(f.table) {
		n.rebuild(f, 2*len(f.table))
	}
	slot := n.slot(f, name)
	if f.table[slot] != 0 {
		return false
	}
	n.names = append(n.names, name)
	f.table[slot] = uint32(len(n.names))
	return true
}

// slot returns the slot that holds the name, or the free slot where it belongs.
func (n *Names) slot(f *nameFrame, name string) uint64 {
	size := uint64(len(f.table))
	i := maphash.String(nameSeed, name) % size
	for f.table[i] != 0 && n.names[f.table[i]-1] != name {
		if i++; i == size {
			i = 0
		}
	}
	return i
}

// rebuild makes a table of the given size from the object's names. The size depends on this object only: otherwise
// many small objects after a large one would each clear a large table.
func (n *Names) rebuild(f *nameFrame, size int) {
	if cap(f.table) < size {
		f.table = make([]uint32, size)
	} else {
		f.table = f.table[:size]
		clear(f.table)
	}
	for i := f.base; i < len(n.names); i++ {
		f.table[n.slot(f, n.names[i])] = uint32(i + 1)
	}
}
