package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"sluice/event"
	"sluice/internal/lake"
)

func newExport() *cobra.Command {
	var q lake.Query
	var from, to, eventFrom, eventTo, format, output string
	cmd := &cobra.Command{
		Use: "export", Short: "Print stored events", Args: cobra.NoArgs,
		Long: `Prints stored events, one a line, with the members of a stored row and times as RFC 3339.
What the server has acknowledged but not yet loaded is waited for. --from and --to speak of the time
of receipt; --event-from and --event-to of the time at which the event happened; the ends are not
included. With an identifier it prints what is stored about one person, for a subject access request.

In CSV a cell that a spreadsheet would run as a formula begins with an apostrophe.`,
		Example: `  sluice export --dataset shop --from 2026-11-01 --to 2026-11-02
  sluice export --format parquet --output events.parquet`,
	}
	cmd.Flags().StringVar(&q.Dataset, "dataset", "", "only this dataset")
	cmd.Flags().StringVar(&from, "from", "", "received at this time or later: RFC 3339 or a date")
	cmd.Flags().StringVar(&to, "to", "", "received before this time: RFC 3339 or a date")
	cmd.Flags().StringVar(&eventFrom, "event-from", "", "happened at this time or later: RFC 3339 or a date")
	cmd.Flags().StringVar(&eventTo, "event-to", "", "happened before this time: RFC 3339 or a date")
	cmd.Flags().StringVar(&q.EventType, "type", "", "only events of this type")
	named := identifierFlags(cmd)
	cmd.Flags().StringVar(&format, "format", "ndjson", "ndjson, csv or parquet")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this file instead of stdout")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		write := map[string]func(*cobra.Command, *lake.Lake, lake.Query, io.Writer) (int64, error){
			"ndjson": writeNDJSON, "csv": writeCSV, "parquet": writeParquet,
		}[format]
		if write == nil {
			return errors.New("--format is ndjson, csv or parquet")
		}
		if f := cmd.Flags().Lookup("type"); f.Changed {
			if err := checkTypes(q.EventType); err != nil {
				return err
			}
		}
		if q.From, q.To, err = parsePeriod("--from", from, "--to", to); err != nil {
			return err
		}
		if q.EventFrom, q.EventTo, err = parsePeriod("--event-from", eventFrom, "--event-to", eventTo); err != nil {
			return err
		}
		if q.Identifier, err = oneIdentifier(named); err != nil && q.Identifier.Kind != "" {
			return err
		}
		l, err := openSettled(cmd, false, lakeToRead)
		if errors.Is(err, errNotSettled) {
			return failed(fmt.Errorf("nothing was exported, because events would be missing: %w; try again when the backlog "+
				"is gone", err))
		}
		if err != nil {
			return failed(err)
		}
		rows, err := writeTo(cmd, output, func(w io.Writer) (int64, error) {
			rows, err := write(cmd, l, q, w)
			if err == nil && rows == 0 && q.Dataset != "" { // one without events, or a mistyped one
				err = datasetExists(cmd, q.Dataset)
			}
			return rows, err
		})
		detail := map[string]string{"rows": strconv.FormatInt(rows, 10), "format": format}
		if k := q.Identifier.Kind; k != "" { // the deed is noted, the identifier is not
			detail["identifier"] = k.Name()
		}
		return failed(errors.Join(err, noteAlone(cmd, "export", q.Dataset, detail)))
	}
	return cmd
}

// writeTo lets write fill the file named output, or stdout without a name.
func writeTo(cmd *cobra.Command, output string, write func(io.Writer) (int64, error)) (rows int64, err error) {
	if output == "" || output == "/dev/stdout" { // which may lead to a file
		return buffer(cmd.OutOrStdout(), write)
	}
	// What is no file, such as a pipe or /dev/null, is written to: a file that takes its name would destroy it.
	there, err := os.Stat(output)
	switch {
	case err == nil && there.IsDir():
		return 0, fmt.Errorf("%s is a directory: name a file in it", output)
	case err == nil && !there.Mode().IsRegular():
		return writeInto(output, write)
	}
	// Stored identifiers are personal data: the file is the owner's alone, also where a file with other rights was, or a
	// link to one elsewhere. It takes its name when it is whole.
	dir, prefix := filepath.Dir(output), ".export-"+filepath.Base(output)+"-"
	removeLeft(dir, prefix)
	file, err := os.CreateTemp(dir, prefix+"*") // with mode 600
	if err != nil {
		return 0, err
	}
	rows, err = buffer(file, write)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), output)
	}
	if err != nil {
		return rows, errors.Join(err, os.Remove(file.Name()))
	}
	return rows, nil
}

// writeInto lets write fill what has a name and is no regular file.
func writeInto(name string, write func(io.Writer) (int64, error)) (rows int64, err error) {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	rows, err = buffer(file, write)
	return rows, errors.Join(err, file.Close())
}

// removeLeft removes what exports to the same name have left that were killed. One that runs has written to its file
// since this program began.
func removeLeft(dir, prefix string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok || strings.Trim(number, "0123456789") != "" {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.ModTime().Before(begun) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// begun is when this program began.
var begun = time.Now()

func buffer(out io.Writer, write func(io.Writer) (int64, error)) (int64, error) {
	buffered := bufio.NewWriterSize(out, 256<<10)
	rows, err := write(buffered)
	return rows, errors.Join(err, buffered.Flush())
}

// parsePeriod reads the two ends of a period; each may be left open.
func parsePeriod(fromFlag, from, toFlag, to string) (begin, end time.Time, err error) {
	if begin, err = parseTime(fromFlag, from); err != nil {
		return begin, end, err
	}
	end, err = parseTime(toFlag, to)
	if err == nil && !begin.IsZero() && !end.IsZero() && !begin.Before(end) {
		err = fmt.Errorf("%s must be before %s", fromFlag, toFlag)
	}
	return begin, end, err
}

// parseTime reads a moment or a day, which begins at midnight UTC.
func parseTime(flag, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is a time such as 2026-11-14T23:40:05Z or a date such as 2026-11-14", flag)
}

func writeNDJSON(cmd *cobra.Command, l *lake.Lake, q lake.Query, w io.Writer) (rows int64, err error) {
	var line []byte
	for row, err := range l.Scan(cmd.Context(), q) {
		if err != nil {
			return rows, err
		}
		line = append(event.AppendJSON(line[:0], row), '\n')
		if _, err := w.Write(line); err != nil {
			return rows, err
		}
		rows++
	}
	return rows, nil
}

func writeParquet(cmd *cobra.Command, l *lake.Lake, q lake.Query, w io.Writer) (int64, error) {
	return l.WriteParquet(cmd.Context(), q, w)
}

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
