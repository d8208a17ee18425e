package stream

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// key is an idempotency key as it is stored: 192 bits of its hash. No two keys will ever have the same.
type key [24]byte

// slotKey is the key of one record of a frame.
type slotKey struct {
	slot uint16
	key  key
}

// keyTable remembers where the records of keys are, in 13 to 16 bytes of memory a key. It keeps 40 bits of a key: the
// place that it names is a candidate, and the frame there has the whole key. Its methods may be called by many
// goroutines.
type keyTable struct {
	shards [256]keyShard
	first  [MaxPartitions]atomic.Uint64 // what is below has aged out
	left   [MaxPartitions]atomic.Uint64 // the last frame with a key that was left out; 0 means none
	count  atomic.Int64
	most   int // keys that there is space for; 0 means any number
}

// keyShard is an open-addressing hash table with linear probing. Where an entry belongs follows from its sum alone, so
// the table can be rebuilt without the keys.
type keyShard struct {
	mu     sync.Mutex
	sums   []uint32 // 0 is free
	places []uint64
	used   int
}

// KeyCost is how many bytes of memory a key takes at most.
const KeyCost = 16

// A shard is rebuilt when maxLoad of it is used, to a size of which its live entries use minLoad.
const (
	maxLoad = 0.92
	minLoad = 0.78
)

// sum is the part of a key that its shard keeps.
func (k *key) sum() uint32 { return max(1, binary.LittleEndian.Uint32(k[1:])) }

// pack puts a position into 64 bits: 6 for the partition, 46 for the sequence number, 12 for the slot.
func (at Position) pack() uint64 {
	return uint64(at.Partition)<<58 | at.Seq<<12&(1<<58-1) | uint64(at.Slot)
}

func unpack(p uint64) Position {
	return Position{Partition: uint8(p >> 58), Seq: p << 6 >> 18, Slot: uint16(p & (MaxSlots - 1))}
}

// insert notes where the record of a key is. To insert the same twice changes nothing.
func (t *keyTable) insert(k *key, at Position) { t.insertSum(k[0], k.sum(), at.pack()) }

// load notes where the record of a key is that an earlier process stored, if there is space.
func (t *keyTable) load(shard byte, sum uint32, place uint64) {
	switch {
	case t.gone(place):
	case t.full():
		t.leave(place)
	default:
		t.insertSum(shard, sum, place)
	}
}

// leave notes that a key is not in the table.
func (t *keyTable) leave(place uint64) {
	at := unpack(place)
	left := &t.left[at.Partition]
	left.Store(max(left.Load(), at.Seq)) // one goroutine loads
}

// full says whether there is no space for another key.
func (t *keyTable) full() bool { return t.most > 0 && t.len() >= t.most }

// complete says whether the table has every key that has not aged out. Else a key that it does not have may be in use.
func (t *keyTable) complete() bool {
	for p := range t.left {
		if left := t.left[p].Load(); left > 0 && left >= t.first[p].Load() {
			return false
		}
	}
	return true
}

func (t *keyTable) insertSum(shard byte, sum uint32, place uint64) {
	s := &t.shards[shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	if float64(s.used+1) > maxLoad*float64(len(s.sums)) {
		s.rebuild(t)
	}
	if s.put(sum, place) {
		t.count.Add(1)
	}
}

// put adds an entry, unless it is there. There is a free place.
func (s *keyShard) put(sum uint32, place uint64) bool {
	i := s.home(sum)
	for s.sums[i] != 0 {
		if s.sums[i] == sum && s.places[i] == place {
			return false
		}
		if i++; i == len(s.sums) {
			i = 0
		}
	}
	s.sums[i], s.places[i] = sum, place
	s.used++
	return true
}

func (s *keyShard) home(sum uint32) int { return int(uint64(sum) * uint64(len(s.sums)) >> 32) }

// find appends the places where the record of a key may be.
func (t *keyTable) find(k *key, to []Position) []Position {
	s, sum := &t.shards[k[0]], k.sum()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sums) == 0 {
		return to
	}
	for i := s.home(sum); s.sums[i] != 0; {
		if s.sums[i] == sum {
			to = append(to, unpack(s.places[i]))
		}
		if i++; i == len(s.sums) {
			i = 0
		}
	}
	return to
}

// live counts the entries that have not aged out.
func (s *keyShard) live(t *keyTable) (n int) {
	for i, sum := range s.sums {
		if sum != 0 && !t.gone(s.places[i]) {
			n++
		}
	}
	return n
}

func (t *keyTable) gone(place uint64) bool {
	at := unpack(place)
	return at.Seq < t.first[at.Partition].Load()
}

// rebuild drops what has aged out and gives the rest the space that it needs, and one more.
func (s *keyShard) rebuild(t *keyTable) {
	size := int(float64(s.live(t)+1)/minLoad) + 2
	sums, places, used := s.sums, s.places, s.used
	s.sums, s.places, s.used = make([]uint32, size), make([]uint64, size), 0
	for i, sum := range sums {
		if sum != 0 && !t.gone(places[i]) {
			s.put(sum, places[i])
		}
	}
	t.count.Add(int64(s.used - used))
}

// reserve makes an empty table large enough for n keys.
func (t *keyTable) reserve(n int) {
	size := int(float64(n)/float64(len(t.shards))/minLoad) + 2
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.sums, s.places = make([]uint32, size), make([]uint64, size)
		s.mu.Unlock()
	}
}

// sweep gives back the memory of what has aged out. A few keys are not worth the work, unless others wait for their
// space.
func (t *keyTable) sweep() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		if live := s.live(t); float64(live) < 0.9*minLoad*float64(len(s.sums)) || live < s.used && t.full() {
			s.rebuild(t)
		}
		s.mu.Unlock()
	}
}

// len returns how many keys are remembered, some of which may have aged out.
func (t *keyTable) len() int { return int(t.count.Load()) }

// clear forgets everything.
func (t *keyTable) clear() {
	for p := range t.left {
		t.left[p].Store(0)
	}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		t.count.Add(-int64(s.used))
		s.sums, s.places, s.used = nil, nil, 0
		s.mu.Unlock()
	}
}
