package erasure

import (
	"iter"
	"slices"
	"sync"

	"sluice/event"
)

// Set is some tombstones. It never changes. The zero value has none.
type Set struct {
	summers  sync.Pool
	erased   []erased // sorted by digest
	spans    []span
	kinds    []Kind           // that occur
	latest   int64            // before of the newest, Unix seconds
	datasets map[string]int64 // deleted ones: Before, Unix seconds
}

// erased is an identifier, and of which rows it was erased.
type erased struct {
	digest
	span int32 // in spans
}

// span are the rows of a dataset, or of all, that were received up to a time, in Unix seconds.
type span struct {
	dataset string
	before  int64
}

// Set makes a set of some tombstones.
func (t *Tombstones) Set(stones []Tombstone) *Set {
	s := &Set{datasets: map[string]int64{}}
	s.summers.New = func() any { return newSummer(t.secret) }
	for i := range stones {
		stone := &stones[i]
		if stone.Whole {
			s.datasets[stone.Dataset] = max(s.datasets[stone.Dataset], stone.Before.Unix())
			continue
		}
		for _, k := range stone.Kinds {
			if !slices.Contains(s.kinds, k) {
				s.kinds = append(s.kinds, k)
			}
		}
		s.spans = append(s.spans, span{stone.Dataset, stone.Before.Unix()})
		s.latest = max(s.latest, stone.Before.Unix())
		for rest := stone.Digests; len(rest) >= len(digest{}); rest = rest[len(digest{}):] {
			s.erased = append(s.erased, erased{digest(rest[:len(digest{})]), int32(len(s.spans) - 1)})
		}
	}
	slices.SortFunc(s.erased, func(a, b erased) int { return compareDigests(a.digest, b.digest) })
	return s
}

// Kinds are those of the identifiers.
func (s *Set) Kinds() []Kind { return s.kinds }

// Datasets says whether datasets were deleted.
func (s *Set) Datasets() bool { return s != nil && len(s.datasets) > 0 }

// Deleted says whether what was received for a dataset at a time, in Unix seconds, is of one that was deleted.
func (s *Set) Deleted(dataset string, received int64) bool {
	if !s.Datasets() {
		return false
	}
	before, deleted := s.datasets[dataset]
	return deleted && received <= before
}

// Erased says whether a row carries an identifier that was erased after the row was received, or is of a deleted
// dataset.
func (s *Set) Erased(r *event.Row) bool {
	if s.Deleted(r.DatasetID, r.ReceivedAt) {
		return true
	}
	for range s.Of(r) {
		return true
	}
	return false
}

// Of yields the kinds of identifiers of a row that were erased after the row was received.
func (s *Set) Of(r *event.Row) iter.Seq[Kind] {
	return func(yield func(Kind) bool) {
		if s == nil || r.ReceivedAt > s.latest || len(s.erased) == 0 {
			return
		}
		h := s.summers.Get().(*summer)
		defer s.summers.Put(h)
		for _, k := range s.kinds {
			if id := k.Of(r); id != "" && s.has(h.digest(k, k.Fold(id)), r) && !yield(k) {
				return
			}
		}
	}
}

// has says whether a digest of a row's identifier is that of an erased one.
func (s *Set) has(of digest, r *event.Row) bool {
	first, _ := slices.BinarySearchFunc(s.erased, of, func(e erased, d digest) int { return compareDigests(e.digest, d) })
	for _, e := range s.erased[first:] {
		if e.digest != of {
			return false
		}
		if w := &s.spans[e.span]; r.ReceivedAt <= w.before && (w.dataset == "" || w.dataset == r.DatasetID) {
			return true
		}
	}
	return false
}
