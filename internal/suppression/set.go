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
	filter  []uint64          // a bit for the last bits of each digest: most look-ups end here
	all     *scope            // what concerns every dataset; nil for nothing
	scopes  map[string]*scope // of datasets with entries of their own, those of every dataset included
}

// perStart is how many digests share a start: so many that the starts stay in a processor's cache, and so few that a
// guess within them is right to a cache line or two. Arbitrary between these.
const perStart = 512

// perDigest is how many bits of the filter there are for a digest, at least, and at most twice as many: a byte at most,
// and in a list of ten million one look-up in seven goes on to the digests.
const perDigest = 4

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
	s.filter = make([]uint64, 1<<bits.Len(uint(len(s.digests)*perDigest/64)))
	huge(s.filter)
	for _, d := range s.digests {
		*s.passes(d) |= 1 << (d & 63)
	}
}

// passes is where the filter has the bit of a digest.
func (s *set) passes(d uint64) *uint64 { return &s.filter[d>>6&uint64(len(s.filter)-1)] }

// guess is where a digest should be: they are evenly spread. It is in the set only if it is between from and to.
func (s *set) guess(d uint64) (at, from, to int) {
	start := int(d >> s.shift)
	from, to = int(s.starts[start]), int(s.starts[start+1])
	within, _ := bits.Mul64(d<<(64-s.shift), uint64(to-from))
	return from + int(within), from, to
}

// has says whether a digest is in the set.
func (s *set) has(d uint64) bool {
	if *s.passes(d)>>(d&63)&1 == 0 {
		return false
	}
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

// probesMax is how many probes a scope has: each kind and key, for the dataset and for all.
const probesMax = 4 * maxKeys * 2

// scope is what the list says about the events of a dataset.
type scope struct {
	set    *set
	probes []probe
}

// probe is a kind of which there are entries, and how their digests are made.
type probe struct {
	kind   identifier.Kind
	digest digester
}

// Lists says whether a row carries an identifier of the list. It allocates nothing.
func (s *scope) Lists(r *event.Row) bool {
	var digests [probesMax]uint64
	n := 0
	for i := range s.probes {
		p := &s.probes[i]
		if id := p.kind.Of(r); id != "" {
			digests[n] = p.digest.digest(id)
			n++
		}
	}
	return slices.ContainsFunc(digests[:n], s.set.has) // all made before: the processor reads for them at the same time
}
