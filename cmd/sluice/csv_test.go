package main

import (
	"slices"
	"testing"

	"sluice/event"
)

// A spreadsheet runs no cell of an export.
func TestCellsAreHarmless(t *testing.T) {
	t.Parallel()
	columns := event.Columns()
	column := func(name string) *event.Column {
		return &columns[slices.IndexFunc(columns, func(c event.Column) bool { return c.Name == name })]
	}
	for cell, want := range map[string]string{
		"": "", "shop": "shop", "=1+1": "'=1+1", "+1": "'+1", "-2": "'-2", "@SUM(A1)": "'@SUM(A1)", "\tx": "'\tx", "\rx": "'\rx", "a=b": "a=b",
		"\nx": "'\nx", "\n=1": "'\n=1", "\ufeff=1": "'\ufeff=1", "\u00a0=1": "'\u00a0=1", " \u200b@x": "' \u200b@x", "＝1": "'＝1",
		"＋1": "'＋1", "－1": "'－1", "＠x": "'＠x", "é=": "é=", " x": " x", "\u00a0": "\u00a0", "\xff=": "\xff=",
	} {
		if got := harmless(column("cp_name"), cell); got != want {
			t.Errorf("%q: got %q, want %q", cell, got, want)
		}
	}
	if got := harmless(column("value"), "-2.5"); got != "-2.5" {
		t.Errorf("got %q, want a number to stay one", got)
	}
}
