package event

import "sluice/event/internal/jsonscan"

// checkCustomData is the rule of custom_data. The row keeps the text that came; only if there are nulls in it, it is
// rewritten without them.
func (d *Decoder) checkCustomData(t *draft, r *Row) {
	const f = fieldCustomData
	if !t.is(f) {
		return
	}
	pointer := fieldTable[f].Pointer
	raw := t.text[f]
	good := true
	if t.customMembers > customDataMembers {
		d.problem(InvalidCustomData, pointer, "custom_data has more than 100 members.", "")
		good = false
	}
	if t.customDeepest > customDataDepth {
		d.problem(InvalidCustomData, pointer, "custom_data is nested deeper than 3 levels.", "")
		good = false
	}
	if len(raw) > customDataBytes {
		d.problem(InvalidCustomData, pointer, "custom_data is larger than 32 KiB.", "")
		good = false
	}
	if good && t.customNulls {
		from := d.scan.Arena.Len()
		d.scan.Arena.Grow(len(raw))
		jsonscan.WriteWithoutNulls(&d.scan.Arena, raw)
		raw = d.scan.Arena.String()[from:]
		if t.customArrayNulls {
			d.warn(NullDropped, pointer, "An array in custom_data held nulls. They were dropped, so other elements moved.")
		}
	}
	r.CustomData = raw
}
