package gpp

import "strconv"

// canadian are the official names of fields of a Canadian TC string that a European one has under another name.
var canadian = map[string]string{
	"PolicyVersion":                      "TcfPolicyVersion",
	"SpecialFeatureOptins":               "SpecialFeatureExpressConsent",
	"PurposeConsents":                    "PurposesExpressConsent",
	"PurposeLegitimateInterests":         "PurposesImpliedConsent",
	"VendorConsents":                     "VendorExpressConsent",
	"VendorLegitimateInterests":          "VendorImpliedConsent",
	"PublisherRestrictions":              "PubRestrictions",
	"PublisherPurposesSegmentType":       "PubPurposesSegmentType",
	"PublisherConsents":                  "PubPurposesExpressConsent",
	"PublisherLegitimateInterests":       "PubPurposesImpliedConsent",
	"PublisherCustomConsents":            "CustomPurposesExpressConsent",
	"PublisherCustomLegitimateInterests": "CustomPurposesImpliedConsent",
	"VendorsDisclosedSegmentType":        "DisclosedVendorsSegmentType",
	"VendorsDisclosed":                   "DisclosedVendors",
}

// official is the name of a field of a European TC string in that string or in a Canadian one.
func official(name string, europe bool) string {
	if other := canadian[name]; other != "" && !europe {
		return other
	}
	return name
}

// maxListed is how many vendor ids a string's JSON spells out. Real vendor lists have some thousand vendors and a
// string three of them; a hostile one of a few hundred characters could ask for a hundred million.
const maxListed = 8192

// AppendJSON adds the decoded sections as a JSON object, by official section and field names. An opaque section is
// left out. A list of vendors with which more than 8,192 ids would be written is written
// as [first,last] pairs.
func (g *String) AppendJSON(b []byte) []byte {
	b, _ = g.appendJSON(b)
	return b
}

// appendJSON also returns how many steps the vendor lists took.
func (g *String) appendJSON(b []byte) (_ []byte, steps int) {
	w := object{b: append(b, '{')}
	for i := range g.sections {
		s := &g.sections[i]
		if s.opaque {
			continue
		}
		w.name(s.Name())
		w.open()
		switch {
		case s.layout != nil:
			w.us(s)
		case s.tcf != nil:
			w.tcf(s.tcf, s.id == TCFEUv2)
		default:
			p, _ := s.USPrivacy()
			w.integer("Version", 1)
			w.text("Notice", string(p.Notice))
			w.text("OptOutSale", string(p.OptOutSale))
			w.text("LspaCovered", string(p.LspaCovered))
		}
		w.b = append(w.b, '}')
	}
	return append(w.b, '}'), w.sorter.steps
}

// MarshalJSON is what AppendJSON adds.
func (g *String) MarshalJSON() ([]byte, error) { return g.AppendJSON(nil), nil }

// object writes members of JSON objects.
type object struct {
	b      []byte
	listed int // vendor ids written so far
	sorter sorter
}

func (w *object) open() { w.b = append(w.b, '{') }

func (w *object) name(name string) {
	if last := w.b[len(w.b)-1]; last != '{' && last != '[' {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
}

func (w *object) integer(name string, v int) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, int64(v), 10)
}

func (w *object) boolean(name string, v bool) {
	w.name(name)
	w.b = strconv.AppendBool(w.b, v)
}

func (w *object) text(name, v string) {
	w.name(name)
	w.b = append(w.b, '"')
	for i := range len(v) {
		if v[i] == '\\' { // the one character of a letters field that JSON escapes
			w.b = append(w.b, '\\')
		}
		w.b = append(w.b, v[i])
	}
	w.b = append(w.b, '"')
}

// slots writes two-bit values, one as a number, several as an array.
func (w *object) slots(name string, v uint64, slots int) {
	w.name(name)
	if slots == 1 {
		w.b = append(w.b, '0'+byte(v&3))
		return
	}
	w.b = append(w.b, '[')
	for i := slots - 1; i >= 0; i-- {
		w.item()
		w.b = append(w.b, '0'+byte(v>>(2*i)&3))
	}
	w.b = append(w.b, ']')
}

func (w *object) us(s *Section) {
	l := s.layout
	w.integer(l.versionName(), int(s.version))
	official := layoutOf[s.id] // a mislabelled usnat shows what its version has, as the official libraries do
	if int(s.version) == l.version {
		official = l
	}
	for i := range l.fields {
		f, show := &l.fields[i], official.fields[i].slots
		w.slots(f.name, s.values>>(f.shift+2*(f.slots-show)), show)
	}
	// A section header lists what follows, so there absence is absence. Everywhere else the official form has the
	// members of a subsection at all times, and says whether it was there.
	if s.headed && !s.subbed {
		return
	}
	switch l.extra {
	case gpcSubsection:
		w.integer("GpcSegmentType", 1)
		w.boolean("Gpc", s.gpc == gpcTrue)
		w.boolean("GpcSegmentIncluded", s.subbed)
	case sensitiveSubsection:
		w.slots(sensitiveName, uint64(s.sensitive), sensitiveSlots)
		w.boolean("SensitiveDataConsentSegmentIncluded", s.subbed)
	}
}

func (w *object) tcf(t *TCF, europe bool) {
	n := func(name string) string { return official(name, europe) }
	w.integer("Version", t.Version)
	w.time("Created", t.Created)
	w.time("LastUpdated", t.LastUpdated)
	w.integer("CmpId", t.CmpID)
	w.integer("CmpVersion", t.CmpVersion)
	w.integer("ConsentScreen", t.ConsentScreen)
	w.text("ConsentLanguage", t.ConsentLanguage.String())
	w.integer("VendorListVersion", t.VendorListVersion)
	w.integer(n("PolicyVersion"), t.PolicyVersion)
	if europe {
		w.boolean("IsServiceSpecific", t.IsServiceSpecific)
	}
	w.boolean("UseNonStandardStacks", t.UseNonStandardStacks)
	w.set(n("SpecialFeatureOptins"), t.SpecialFeatures, 12)
	w.set(n("PurposeConsents"), t.PurposeConsents, 24)
	w.set(n("PurposeLegitimateInterests"), t.PurposeLegitimateInterest, 24)
	if europe {
		w.boolean("PurposeOneTreatment", t.PurposeOneTreatment)
		w.text("PublisherCountryCode", t.PublisherCountryCode.String())
	}
	w.vendors(n("VendorConsents"), t.VendorConsents)
	w.vendors(n("VendorLegitimateInterests"), t.VendorLegitimateInterest)
	w.restrictions(n("PublisherRestrictions"), t.Restrictions)
	w.integer(n("PublisherPurposesSegmentType"), publisherSegment)
	w.set(n("PublisherConsents"), t.PublisherConsents, 24)
	w.set(n("PublisherLegitimateInterests"), t.PublisherLegitimateInterest, 24)
	w.integer("NumCustomPurposes", t.CustomPurposes)
	w.set(n("PublisherCustomConsents"), t.CustomConsents, t.CustomPurposes)
	w.set(n("PublisherCustomLegitimateInterests"), t.CustomLegitimateInterest, t.CustomPurposes)
	if europe {
		w.integer("VendorsAllowedSegmentType", allowedSegment)
		w.vendors("VendorsAllowed", t.VendorsAllowed)
	}
	w.integer(n("VendorsDisclosedSegmentType"), disclosedSegment)
	w.vendors(n("VendorsDisclosed"), t.VendorsDisclosed)
}

func (w *object) time(name string, d Decisecond) {
	w.name(name)
	w.b = append(w.b, '"')
	w.b = d.Time().AppendFormat(w.b, "2006-01-02T15:04:05.000Z")
	w.b = append(w.b, '"')
}

func (w *object) set(name string, s Set, n int) {
	w.name(name)
	w.b = append(w.b, '[')
	for id := 1; id <= n; id++ {
		w.item()
		w.b = strconv.AppendBool(w.b, s.Has(id))
	}
	w.b = append(w.b, ']')
}

// vendors writes ids in ascending order, each once, whatever the ranges are.
func (w *object) vendors(name string, v Vendors) {
	w.name(name)
	w.b = append(w.b, '[')
	spans, count := w.sorter.ascending(v)
	pairs := w.listed+count > maxListed
	if !pairs {
		w.listed += count
	}
	for _, s := range spans {
		if pairs {
			w.item()
			w.b = append(w.b, '[')
			w.b = strconv.AppendInt(w.b, int64(s.first), 10)
			w.b = append(w.b, ',')
			w.b = strconv.AppendInt(w.b, int64(s.last), 10)
			w.b = append(w.b, ']')
			continue
		}
		for id := s.first; id <= s.last; id++ {
			w.item()
			w.b = strconv.AppendInt(w.b, int64(id), 10)
		}
	}
	w.b = append(w.b, ']')
}

// item begins an array element.
func (w *object) item() {
	if w.b[len(w.b)-1] != '[' {
		w.b = append(w.b, ',')
	}
}

func (w *object) restrictions(name string, r Restrictions) {
	w.name(name)
	w.b = append(w.b, '[')
	for one := range r.All() {
		w.item()
		w.open()
		w.integer("key", one.Purpose)
		w.integer("type", one.Type)
		w.vendors("ids", one.Vendors)
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, ']')
}
