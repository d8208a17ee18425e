package erasure

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	stdhash "hash"
	"slices"
	"sort"
	"time"

	"sluice/internal/identifier"
)

// summer makes digests. One goroutine uses it.
type summer struct {
	h   stdhash.Hash
	buf []byte
}

func newSummer(secret []byte) *summer { return &summer{h: hmac.New(sha256.New, secret)} }

// sum is the digest of an identifier as Fold spells it.
func (s *summer) sum(k Kind, id string) (out [sha256.Size]byte) {
	s.h.Reset()
	s.buf = append(append(append(s.buf[:0], k...), 0), id...)
	s.h.Write(s.buf)
	s.h.Sum(out[:0])
	return out
}

const (
	// shortDigest is how many bytes of a digest a list keeps: no two people of a table have the same.
	shortDigest = 16
	// listPart is how many identifiers one tombstone of a list has: half a mebibyte.
	listPart = 32 << 10
)

// List collects identifiers that are to be erased together. It keeps digests alone, 16 bytes each.
type List struct {
	Counts map[Kind]int // identifiers, by kind

	summer  *summer
	digests [][shortDigest]byte
}

// NewList makes an empty list.
func (t *Tombstones) NewList() *List {
	return &List{Counts: map[Kind]int{}, summer: newSummer(t.secret)}
}

// Put adds an identifier as Parse spells it.
func (l *List) Put(k Kind, id string) {
	sum := l.summer.sum(k, id)
	l.digests = append(l.digests, [shortDigest]byte(sum[:]))
	l.Counts[k]++
}

// AddList is Add for a list.
func (t *Tombstones) AddList(ctx context.Context, l *List, dataset string, at time.Time,
	retention time.Duration,
) ([]Tombstone, error) {
	stones := l.Tombstones(dataset, at, retention)
	for _, s := range stones {
		if err := t.put(ctx, s); err != nil {
			return nil, err
		}
	}
	return stones, nil
}

// Tombstones are those that AddList writes.
func (l *List) Tombstones(dataset string, at time.Time, retention time.Duration) (out []Tombstone) {
	slices.SortFunc(l.digests, func(a, b [shortDigest]byte) int { return bytes.Compare(a[:], b[:]) })
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

// list is the tombstones of lists that were erased at one time.
type list struct {
	digests []byte // sorted
	dataset string
	before  int64
}

// joinLists puts the parts of lists together.
func joinLists(stones []Tombstone) (out []list) {
	parts := slices.DeleteFunc(slices.Clone(stones), func(s Tombstone) bool { return len(s.Digests) == 0 })
	slices.SortFunc(parts, func(a, b Tombstone) int {
		return cmp.Or(a.Before.Compare(b.Before), cmp.Compare(a.Dataset, b.Dataset), bytes.Compare(a.Digests, b.Digests))
	})
	for _, s := range parts {
		if n := len(out); n > 0 && out[n-1].dataset == s.Dataset && out[n-1].before == s.Before.Unix() &&
			bytes.Compare(out[n-1].last(), s.Digests[:shortDigest]) < 0 {
			out[n-1].digests = append(out[n-1].digests, s.Digests...)
			continue
		}
		out = append(out, list{slices.Clip(s.Digests), s.Dataset, s.Before.Unix()})
	}
	return out
}

func (l *list) last() []byte { return l.digests[len(l.digests)-shortDigest:] }

func (l *list) has(sum [sha256.Size]byte) bool {
	_, found := sort.Find(len(l.digests)/shortDigest, func(i int) int {
		return bytes.Compare(sum[:shortDigest], l.digests[i*shortDigest:(i+1)*shortDigest])
	})
	return found
}
