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
