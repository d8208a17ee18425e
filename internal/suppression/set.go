package suppression

import (
	"math/bits"
	"slices"

	"sluice/event"
	"sluice/internal/identifier"
)

// set is the list in memory. It never changes; a new one takes its place.
type set struct {
	digests []uint64          // sorted
	starts  []uint32          // where the digests begin whose first bits are the index, and the end
	shift   int               // how many bits are behind those
	filter  []uint64          // four bits for each digest, in one word: almost every look-up ends here
	all     *scope            // what concerns every dataset; nil for nothing
	scopes  map[string]*scope // of datasets with entries of their own, those of every dataset included
}

// perStart is how many digests share a start: so many that the starts stay in a processor's cache, and so few that a
// guess within them is right to a cache line or two. Arbitrary between these.
const perStart = 512

// perDigest is how many bits of the filter there are for a digest: with so many, one look-up in a hundred goes on to
// the digests, which takes ten times as long.
const perDigest = 12

// index sorts digests, which the set owns then.
func (s *set) index(digests []uint64) {
	slices.Sort(digests)
	s.digests = slices.Compact(digests)
	n := bits.Len(uint(len(s.digests) / perStart))
	s.shift = 64 - n
	s.starts = make([]uint32, 1<<n+1)
	at := 0
	for i := range s.starts {
		for at < len(s.digests) && int(s.digests[at]>>s.shift) < i {
			at++
		}
		s.starts[i] = uint32(at)
	}
	s.filter = make([]uint64, len(s.digests)*perDigest/64+1)
	for _, d := range s.digests {
		*s.word(d) |= mask(d)
	}
	huge(s.filter)
	huge(s.digests)
}

// word is where the filter has the bits of a digest: as far from its beginning as the digest among all numbers.
func (s *set) word(d uint64) *uint64 {
	at, _ := bits.Mul64(d, uint64(len(s.filter)))
	return &s.filter[at]
}

// mask are the bits of a digest in its word.
func mask(d uint64) uint64 { return 1<<(d&63) | 1<<(d>>6&63) | 1<<(d>>12&63) | 1<<(d>>18&63) }

// guess is where a digest should be: they are evenly spread. It is in the set only if it is between from and to.
func (s *set) guess(d uint64) (at, from, to int) {
	start := int(d >> s.shift)
	from, to = int(s.starts[start]), int(s.starts[start+1])
	within, _ := bits.Mul64(d<<(64-s.shift), uint64(to-from))
	return from + int(within), from, to
}

// has says whether a digest is in the set. Ask the filter first.
func (s *set) has(d uint64) bool {
	i, from, to := s.guess(d)
	for i > from && s.digests[i] >= d {
		i--
	}
	for ; i < to && s.digests[i] <= d; i++ {
		if s.digests[i] == d {
			return true
		}
	}
	return false
}

// scope is what the list says about the events of a dataset.
type scope struct {
	set    *set
	probes []probe
}

// probe is a kind of which there are entries, and how their digests are made.
type probe struct {
	column int // of the kind, in Kinds
	digest digester
}

func newProbe(secret []byte, k identifier.Kind, dataset string) probe {
	return probe{slices.Index(identifier.Kinds, k), newDigester(secret, k, dataset)}
}

// Seek appends the digests of a row's identifiers, and has the processor read where the filter has them.
func (s *scope) Seek(r *event.Row, sought []uint64) []uint64 {
	ids := [...]string{r.EmailSHA256, r.IFA, r.IPSHA256, r.PartnerID} // in the order of Kinds; Kind.Of would be slower
	for i := range s.probes {
		p := &s.probes[i]
		if id := ids[p.column]; id != "" {
			d := p.digest.digest(id)
			prefetch(s.set.word(d))
			sought = append(sought, d)
		}
	}
	return sought
}

// Lists says whether one of the digests is in the list.
func (s *scope) Lists(sought []uint64) bool {
	for _, d := range sought {
		if m := mask(d); *s.set.word(d)&m == m && s.set.has(d) {
			return true
		}
	}
	return false
}
