package event

import "sluice/event/internal/jsonscan"

// checkCustomData is the rule of custom_data. The row keeps the text that came; only if there are nulls in it, it is
// rewritten without them.
func (d *Decoder) checkCustomData(t *draft, r *Row) {
	const f = fieldCustomData
	if !t.is(f) {
		return
	}
	pointer := f.pointer()
	raw := t.text[f]
	broken := d.broken
	if t.custom.members > customDataMembers {
		d.problem(InvalidCustomData, pointer, "custom_data has more than 100 members.", "")
	}
	if t.custom.deepest > 1+customDataDepth { // the event is a level, too
		d.problem(InvalidCustomData, pointer, "custom_data is nested deeper than 3 levels.", "")
	}
	if len(raw) > customDataBytes {
		d.problem(InvalidCustomData, pointer, "custom_data is larger than 32 KiB.", "")
	}
	if d.broken == broken && t.custom.nulls {
		from := d.scan.Arena.Len()
		d.scan.Arena.Grow(len(raw))
		jsonscan.WriteWithoutNulls(&d.scan.Arena, raw)
		raw = d.scan.Arena.String()[from:]
		if t.custom.arrayNulls {
			d.warn(NullDropped, pointer, "An array in custom_data held nulls. They were dropped, so other elements moved.")
		}
	}
	r.CustomData = raw
}
