package erasure

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	stdhash "hash"
	"slices"
	"time"

	"sluice/internal/identifier"
)

// digest is of an identifier, with a key. 16 bytes do: no two people of a table have the same.
type digest [16]byte

func compareDigests(a, b digest) int { return bytes.Compare(a[:], b[:]) }

// summer makes digests. One goroutine uses it.
type summer struct {
	h   stdhash.Hash
	buf []byte
	sum [sha256.Size]byte
}

func newSummer(secret []byte) *summer { return &summer{h: hmac.New(sha256.New, secret)} }

// digest is that of an identifier as Fold spells it.
func (s *summer) digest(k Kind, id string) digest {
	s.h.Reset()
	s.buf = append(append(append(s.buf[:0], k...), 0), id...)
	s.h.Write(s.buf)
	return digest(s.h.Sum(s.sum[:0]))
}

// listPart is how many identifiers one tombstone has at most: half a mebibyte.
const listPart = 32 << 10

// List collects identifiers that are to be erased together. It keeps digests alone, 16 bytes each.
type List struct {
	Counts map[Kind]int // identifiers, by kind

	summer  *summer
	digests []digest
}

// NewList makes an empty list.
func (t *Tombstones) NewList() *List {
	return &List{Counts: map[Kind]int{}, summer: newSummer(t.secret)}
}

// Put adds an identifier as Parse spells it.
func (l *List) Put(k Kind, id string) {
	l.digests = append(l.digests, l.summer.digest(k, id))
	l.Counts[k]++
}

// Tombstones are those that Add writes.
func (l *List) Tombstones(dataset string, at time.Time, retention time.Duration) (out []Tombstone) {
	slices.SortFunc(l.digests, compareDigests)
	l.digests = slices.Compact(l.digests)
	var kinds []Kind
	for _, k := range identifier.Kinds {
		if l.Counts[k] > 0 {
			kinds = append(kinds, k)
		}
	}
	for part := range slices.Chunk(l.digests, listPart) {
		s := newTombstone(dataset, at, retention)
		s.Kinds = kinds
		for i := range part {
			s.Digests = append(s.Digests, part[i][:]...)
		}
		s.key = s.name()
		out = append(out, s)
	}
	return out
}
