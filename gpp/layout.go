package gpp

import (
	"strconv"
	"strings"
)

// layout is the order of two-bit values in the core of a US section, with what the outcome rules look at. A core is
// a six-bit version and at most 32 values, so the values fit one word, the last value lowest.
type layout struct {
	row
	fields   []field
	slots    int // number of two-bit values
	length   int // of the core in characters, version included, without padding
	relevant masks
}

// subsection is what may follow the core.
type subsection uint8

const (
	noSubsection subsection = iota
	gpcSubsection
	sensitiveSubsection
)

// field is a run of two-bit values under one official name.
type field struct {
	name  string
	slots int
	shift int // of its last value
}

// lowBits has the low bit of every two-bit value.
const lowBits = 0x5555555555555555

// mask selects the field's values by their low bits.
func (f *field) mask() uint64 {
	return lowBits & (1<<(2*f.slots) - 1) << f.shift
}

// The blocks that sections share.
const (
	standard  = " SaleOptOutNotice TargetedAdvertisingOptOutNotice SaleOptOut TargetedAdvertisingOptOut"
	mspa      = " MspaCoveredTransaction MspaOptOutOptionMode MspaServiceProviderMode"
	child     = " KnownChildSensitiveDataConsents"
	further   = " AdditionalDataProcessingConsent"
	sensitive = " " + sensitiveName
	national  = "SharingNotice SaleOptOutNotice SharingOptOutNotice TargetedAdvertisingOptOutNotice" +
		" SensitiveDataProcessingOptOutNotice SensitiveDataLimitUseNotice SaleOptOut SharingOptOut TargetedAdvertisingOptOut"
	newer = "MspaCoveredTransaction MspaMode ProcessingNotice" + standard
)

// row is a layout as the table has it.
type row struct {
	id      int
	name    string
	version int // the one version of this layout; 0 for the sections that begin with an MspaVersion
	extra   subsection
	young   string // the known-child values, counted from 1, that cover children under 13
	words   string // the fields: a name is followed by a colon and the number of its values if they are several
}

// layouts is the table of all US layouts.
var layouts = compile([]row{
	{7, "usnat", 1, gpcSubsection, "2", national + sensitive + ":12" + child + ":2 PersonalDataConsents" + mspa},
	{7, "usnat", 2, gpcSubsection, "2", national + sensitive + ":16" + child + ":3 PersonalDataConsents" + mspa},
	{
		8, "usca", 1, gpcSubsection, "12",
		"SaleOptOutNotice SharingOptOutNotice SensitiveDataLimitUseNotice SaleOptOut SharingOptOut" +
			sensitive + ":9" + child + ":2 PersonalDataConsents" + mspa,
	},
	{9, "usva", 1, noSubsection, "1", "SharingNotice" + standard + sensitive + ":8" + child + mspa},
	{10, "usco", 1, gpcSubsection, "1", "SharingNotice" + standard + sensitive + ":7" + child + mspa},
	{
		11, "usut", 1, noSubsection, "1",
		"SharingNotice SaleOptOutNotice TargetedAdvertisingOptOutNotice SensitiveDataProcessingOptOutNotice" +
			" SaleOptOut TargetedAdvertisingOptOut" + sensitive + ":8" + child + mspa,
	},
	{12, "usct", 1, gpcSubsection, "1", "SharingNotice" + standard + sensitive + ":8" + child + ":3" + mspa},
	{13, "usfl", 1, noSubsection, "1", "ProcessingNotice" + standard + sensitive + ":8" + child + ":3" + further + mspa},
	{14, "usmt", 1, gpcSubsection, "1", "SharingNotice" + standard + sensitive + ":8" + child + ":3" + further + mspa},
	{15, "usor", 1, gpcSubsection, "1", "ProcessingNotice" + standard + sensitive + ":11" + child + ":3" + further + mspa},
	{16, "ustx", 1, gpcSubsection, "1", "ProcessingNotice" + standard + sensitive + ":8" + child + further + mspa},
	{17, "usde", 1, gpcSubsection, "1", "ProcessingNotice" + standard + sensitive + ":9" + child + ":5" + further + mspa},
	{
		18, "usia", 1, gpcSubsection, "1",
		"ProcessingNotice SaleOptOutNotice TargetedAdvertisingOptOutNotice SensitiveDataOptOutNotice" +
			" SaleOptOut TargetedAdvertisingOptOut" + sensitive + ":8" + child + mspa,
	},
	{19, "usne", 1, gpcSubsection, "1", "ProcessingNotice" + standard + sensitive + ":8" + child + further + mspa},
	{20, "usnh", 1, gpcSubsection, "1", "ProcessingNotice" + standard + sensitive + ":8" + child + ":3" + further + mspa},
	{21, "usnj", 1, gpcSubsection, "1", "ProcessingNotice" + standard + sensitive + ":10" + child + ":5" + further + mspa},
	{22, "ustn", 1, gpcSubsection, "1", "ProcessingNotice" + standard + sensitive + ":8" + child + further + mspa},
	{23, "usmn", 1, gpcSubsection, "1", "ProcessingNotice" + standard + sensitive + ":8" + child + further + mspa},
	{24, "usmd", 0, gpcSubsection, "", newer + further},
	{25, "usin", 0, sensitiveSubsection, "1", newer + child + further},
	{26, "usky", 0, sensitiveSubsection, "1", newer + child + further},
	{27, "usri", 0, sensitiveSubsection, "1", newer + child + further},
})

// A sensitive-data subsection is eight values under the name that a core has for its own.
const (
	sensitiveName  = "SensitiveDataProcessing"
	sensitiveSlots = 8
)

// layoutOf finds a section's layout: the first one of its id, the version-2 layout of usnat apart.
var layoutOf = func() (t [maxID + 1]*layout) {
	for i := range layouts {
		if l := &layouts[i]; t[l.id] == nil {
			t[l.id] = l
		}
	}
	return t
}()

// usnatV2 is the layout that version 2 of usnat defines, which mislabelled strings use under version 1.
var usnatV2 = &layouts[1]

func compile(rows []row) []layout {
	out := make([]layout, len(rows))
	for i, row := range rows {
		l := layout{row: row}
		for _, word := range strings.Fields(row.words) {
			name, count, several := strings.Cut(word, ":")
			f := field{name: name, slots: 1}
			if several {
				f.slots, _ = strconv.Atoi(count)
			}
			l.slots += f.slots
			l.fields = append(l.fields, f)
		}
		at := l.slots
		for j := range l.fields {
			at -= l.fields[j].slots
			l.fields[j].shift = 2 * at
		}
		l.length = 1 + (2*l.slots+5)/6
		l.relevant = l.masks(row.young)
		out[i] = l
	}
	return out
}

// field finds a field by its official name.
func (l *layout) field(name string) *field {
	for i := range l.fields {
		if l.fields[i].name == name {
			return &l.fields[i]
		}
	}
	return nil
}

// newest is the newest version that is read of a section with this layout.
func (l *layout) newest() uint8 {
	if l.id == USNat {
		return uint8(usnatV2.version)
	}
	return uint8(max(l.version, 1))
}

// versionName is the official name of a section's first six bits.
func (l *layout) versionName() string {
	if l.version == 0 {
		return "MspaVersion"
	}
	return "Version"
}
