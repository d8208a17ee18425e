package gpp

import (
	mathbits "math/bits"
	"strconv"
	"time"
)

// TCF is the content of a TC string. The Canadian one differs in words: Consents are its express consents,
// LegitimateInterests its implied consents, for purposes and vendors alike.
type TCF struct {
	Version                   int
	Created, LastUpdated      Decisecond
	CmpID, CmpVersion         int
	ConsentScreen             int
	ConsentLanguage           Letters
	VendorListVersion         int
	PolicyVersion             int
	IsServiceSpecific         bool // always false in Canada, where the string has no such field
	UseNonStandardStacks      bool
	SpecialFeatures           Set
	PurposeConsents           Set
	PurposeLegitimateInterest Set
	PurposeOneTreatment       bool    // Europe only
	PublisherCountryCode      Letters // Europe only
	VendorConsents            Vendors
	VendorLegitimateInterest  Vendors
	Restrictions              Restrictions

	// What the segments after the core say. A segment that is not there leaves zero values.
	VendorsDisclosed            Vendors
	HasVendorsDisclosed         bool    // the segment is there; TCF 2.3 demands it
	VendorsAllowed              Vendors // Europe only
	PublisherConsents           Set
	PublisherLegitimateInterest Set
	CustomPurposes              int
	CustomConsents              Set
	CustomLegitimateInterest    Set
}

// Decisecond is a time in tenths of a second since 1970.
type Decisecond uint64

// Time is the same instant in UTC.
func (d Decisecond) Time() time.Time { return time.UnixMilli(int64(d) * 100).UTC() }

// Letters is a two-letter code, of a language or a country.
type Letters [2]byte

// String is the two letters.
func (l Letters) String() string { return string(l[:]) }

// Set is a set of ids from 1 to 64.
type Set uint64

// Has reports whether the id is in the set.
func (s Set) Has(id int) bool { return id >= 1 && id <= 64 && s>>(id-1)&1 == 1 }

// newestTCF is the newest version of TC strings, European and Canadian: a European one may be in either section.
const newestTCF = 2

// disclosedFrom is the creation time from which TCF 2.3 holds, 2026-03-01T00:00:00Z.
const disclosedFrom Decisecond = 17_723_232_000

// undisclosed reports whether a section is a European TC string of TCF 2.3 without the vendors that were disclosed to
// the person: no vendor may rely on it.
func (s *Section) undisclosed() bool {
	return s.id == TCFEUv2 && s.tcf != nil && !s.tcf.HasVendorsDisclosed && s.tcf.Created >= disclosedFrom
}

// parseTCFEU reads the section as a European TC string, into t.
func (s *Section) parseTCFEU(t *TCF) *Error {
	if err := parseTCF(s, t, intRanges, 2); err != nil {
		return err
	}
	s.tcf, s.version = t, 2
	return nil
}

// parseTCFCA reads the section as a Canadian TC string, into t. Encoders of before 2026 wrote ranges of plain integers
// where the specification has Fibonacci codes, and publisher restrictions as in Europe; a string that cannot be read
// one way is read the other ways. A published example of the specification has a European TC string here, which is kept
// without being read.
func (s *Section) parseTCFCA(t *TCF) *Error {
	if sextet[s.text[0]] == 2 && parseTCF(s, t, intRanges, 2) == nil {
		s.opaque = true
		return nil
	}
	if err := parseTCF(s, t, fibonacciRanges, 1); err != nil {
		if parseTCF(s, t, legacyRanges, 1) != nil && parseTCF(s, t, legacyOptimized, 1) != nil {
			return err
		}
	}
	s.tcf, s.version = t, 1
	return nil
}

// tcfParser reads one TC string in one coding of ranges.
type tcfParser struct {
	section *Section
	coding  coding
	tcf     *TCF
	seen    uint8 // segment types that were there
}

func (p *tcfParser) europe() bool { return p.coding == intRanges }

// fault is the error of a field, by the name that it has in Europe.
func (p *tcfParser) fault(field, reason string) *Error {
	return p.section.fault(official(field, p.europe()), reason)
}

func parseTCF(s *Section, t *TCF, c coding, version int) *Error {
	*t = TCF{}
	p := tcfParser{section: s, coding: c, tcf: t}
	core, rest := cut(s.text, '.')
	if err := p.parseCore(core, version); err != nil {
		return err
	}
	for rest != "" {
		var segment string
		segment, rest = cut(rest, '.')
		if err := p.parseSegment(segment); err != nil {
			return err
		}
	}
	return nil
}

func (p *tcfParser) parseCore(text string, version int) *Error {
	b, t := bits{s: text}, p.tcf
	europe := p.europe()
	if t.Version = int(b.read(6)); t.Version != version {
		return p.fault("Version", unknownVersion(t.Version, strconv.Itoa(version)))
	}
	t.Created = Decisecond(b.read(36))
	t.LastUpdated = Decisecond(b.read(36))
	t.CmpID = int(b.read(12))
	t.CmpVersion = int(b.read(12))
	t.ConsentScreen = int(b.read(6))
	t.ConsentLanguage = b.letters()
	t.VendorListVersion = int(b.read(12))
	t.PolicyVersion = int(b.read(6))
	if europe {
		t.IsServiceSpecific = b.bool()
	}
	t.UseNonStandardStacks = b.bool()
	t.SpecialFeatures = b.set(12)
	t.PurposeConsents = b.set(24)
	t.PurposeLegitimateInterest = b.set(24)
	if europe {
		t.PurposeOneTreatment = b.bool()
		t.PublisherCountryCode = b.letters()
	}
	if b.short {
		return p.fault("", truncated)
	}
	var reason string
	if t.VendorConsents, reason = b.vendors(p.coding); reason != "" {
		return p.fault("VendorConsents", reason)
	}
	if t.VendorLegitimateInterest, reason = b.vendors(p.coding); reason != "" {
		return p.fault("VendorLegitimateInterests", reason)
	}
	if t.Restrictions, reason = b.restrictions(p.coding); reason != "" {
		return p.fault("PublisherRestrictions", reason)
	}
	if reason = b.padding(false); reason != "" {
		return p.fault("", reason)
	}
	return nil
}

// Segment types.
const (
	disclosedSegment = 1
	allowedSegment   = 2
	publisherSegment = 3
)

func (p *tcfParser) parseSegment(text string) *Error {
	b, t := bits{s: text}, p.tcf
	kind := b.read(3)
	if kind == 0 {
		return p.fault("", "a second core")
	}
	if kind > publisherSegment || kind == allowedSegment && !p.europe() {
		return p.fault("", "a segment of type "+strconv.Itoa(int(kind))+", which is not known")
	}
	if p.seen>>kind&1 == 1 {
		return p.fault("", "two segments of type "+strconv.Itoa(int(kind)))
	}
	p.seen |= 1 << kind

	var field, reason string
	switch kind {
	case disclosedSegment:
		field = "VendorsDisclosed"
		t.VendorsDisclosed, reason = b.vendors(p.coding)
		t.HasVendorsDisclosed = true
	case allowedSegment:
		field = "VendorsAllowed"
		t.VendorsAllowed, reason = b.vendors(p.coding)
	case publisherSegment:
		field = "PublisherPurposesSegmentType"
		t.PublisherConsents = b.set(24)
		t.PublisherLegitimateInterest = b.set(24)
		t.CustomPurposes = int(b.read(6))
		t.CustomConsents = b.set(uint(t.CustomPurposes))
		t.CustomLegitimateInterest = b.set(uint(t.CustomPurposes))
		if b.short {
			reason = truncated
		}
	}
	if reason == "" {
		reason = b.padding(false)
	}
	if reason != "" {
		return p.fault(field, reason)
	}
	return nil
}

// letters reads two six-bit letters. 63 stands for a space in the official libraries.
func (b *bits) letters() (l Letters) {
	for i := range l {
		l[i] = 'A' + byte(b.read(6))
		if l[i] == 'A'+63 {
			l[i] = ' '
		}
	}
	return l
}

// set reads a field of n bits, up to 64, the first of which is id 1.
func (b *bits) set(n uint) Set { return Set(mathbits.Reverse64(b.wide(n)) >> (64 - n)) }
