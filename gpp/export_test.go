package gpp

// Layout is a row of the table of US sections, for tests that go over all of them.
type Layout struct {
	ID, Version int
	Fields      []LayoutField
	GPC         bool
	Sensitive   int
}

// LayoutField is one field of a Layout.
type LayoutField struct {
	Name   string
	Values int
}

// Layouts are all US layouts.
func Layouts() (all []Layout) {
	for i := range layouts {
		l := Layout{ID: layouts[i].id, Version: max(layouts[i].version, 1), GPC: layouts[i].extra == gpcSubsection}
		if layouts[i].extra == sensitiveSubsection {
			l.Sensitive = sensitiveSlots
		}
		for _, f := range layouts[i].fields {
			l.Fields = append(l.Fields, LayoutField{f.name, f.slots})
		}
		all = append(all, l)
	}
	return all
}

// SectionName is the name of a section id.
func SectionName(id int) string { return names[id] }

// Plain is plain.
func Plain(s string, i int) int { return plain(s, i) }

// PassInts reads a list of ranges both ways from bit pos on and returns what each says, and where each stands then.
func PassInts(s string, pos, count int) (fast, slow string, fastAt, slowAt int) {
	a, b := bitsAt(s, pos), bitsAt(s, pos)
	fast = a.passInts(count)
	for range count {
		if _, _, slow = b.intItem(); slow != "" {
			break
		}
	}
	return fast, slow, a.pos(), b.pos()
}

// ParseUsual reads a string in the short way; nil if it is not for it.
func ParseUsual(s string) *String {
	if g := new(String); g.parseUsual(s) {
		return g
	}
	return nil
}

// ParseAny reads a string in the general way.
func ParseAny(s string) (*String, error) {
	g := new(String)
	if err := g.parseAny(s); err != nil {
		return nil, err
	}
	return g, nil
}

// JSONSteps is AppendJSON, with the number of steps that the vendor lists took.
func (g *String) JSONSteps() (text []byte, steps int) { return g.appendJSON(nil) }
