package event

import "hash/maphash"

// linearNames is up to how many members the names of an object are compared one by one; a table costs more until
// about there (measured).
const linearNames = 12

// keepNames is how much room for names a Decoder keeps from one body to the next.
const keepNames = 1024

var nameSeed = maphash.MakeSeed()

// nameSet finds a name that occurs twice in one object. It is a stack, for objects inside objects: open marks the
// beginning of an object, close its end. The work grows with the number of names and not with its square, whatever
// the names are: the hash is seeded.
type nameSet struct {
	names  []string
	frames [maxLevels + 1]nameFrame
	depth  int
}

// nameFrame is one object on the stack.
type nameFrame struct {
	base  int      // its first name in names
	table []uint32 // slots with 1 + a name's place in names, 0 when free; unused while there are few names
	used  bool
}

func (n *nameSet) reset() {
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

func (n *nameSet) open() {
	f := &n.frames[n.depth]
	f.base, f.used = len(n.names), false
	n.depth++
}

func (n *nameSet) close() {
	n.depth--
	n.names = n.names[:n.frames[n.depth].base]
}

// add puts a name into the innermost object and says whether it is new there.
func (n *nameSet) add(name string) bool {
	f := &n.frames[n.depth-1]
	if !f.used {
		own := n.names[f.base:]
		for _, other := range own {
			if other == name {
				return false
			}
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

// slot is where the name is in the table, or the free slot where it belongs.
func (n *nameSet) slot(f *nameFrame, name string) uint64 {
	size := uint64(len(f.table))
	i := maphash.String(nameSeed, name) % size
	for f.table[i] != 0 && n.names[f.table[i]-1] != name {
		if i++; i == size {
			i = 0
		}
	}
	return i
}

// rebuild makes a table of the given size and puts the object's names into it. The size follows the object, not
// what an earlier one needed: otherwise many small objects after a huge one would each pay for clearing its table.
func (n *nameSet) rebuild(f *nameFrame, size int) {
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
