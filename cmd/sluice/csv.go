package main

import (
	"encoding/csv"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"sluice/event"
	"sluice/internal/lake"
)

// writeCSV writes a header and a line a row. What is absent is empty; custom_data is JSON, gpp_sid a JSON array.
func writeCSV(cmd *cobra.Command, l *lake.Lake, q lake.Query, w io.Writer) (rows int64, err error) {
	out := csv.NewWriter(w)
	columns := event.Columns()
	cells := make([]string, len(columns))
	for i := range columns {
		cells[i] = columns[i].Name
	}
	if err := out.Write(cells); err != nil {
		return 0, err
	}
	var text []byte
	for row, err := range l.Scan(cmd.Context(), q) {
		if err != nil {
			return rows, err
		}
		for i := range columns {
			text = columns[i].AppendText(text[:0], row)
			cells[i] = harmless(&columns[i], string(text))
		}
		if err := out.Write(cells); err != nil {
			return rows, err
		}
		rows++
	}
	out.Flush()
	return rows, out.Error()
}

// harmless puts an apostrophe before a cell that a spreadsheet would run, also one that drops what it shows as nothing
// or takes full-width signs for the others. Numbers are left alone.
func harmless(column *event.Column, cell string) string {
	blank := func(c rune) bool { return unicode.IsSpace(c) || unicode.Is(unicode.Cf, c) }
	first, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(cell, blank))
	if cell == "" || column.Number != nil ||
		!strings.ContainsRune("\t\r\n", rune(cell[0])) && !strings.ContainsRune("=+-@＝＋－＠", first) {
		return cell
	}
	return "'" + cell
}
