package readers

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"sluice/interop/readers/sent"
)

// ReadSent reads a file of events that were sent, as the fixture program writes it.
func ReadSent(name string) ([]sent.Line, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []sent.Line
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var l sent.Line
		if err := decode(lines.Bytes(), &l); err != nil {
			return nil, err
		}
		if l.Row != nil {
			if l.Row, err = fromPlain(Events, l.Row); err != nil {
				return nil, err
			}
		}
		out = append(out, l)
	}
	return out, lines.Err()
}

// ReadNDJSON reads what sluice export writes.
func ReadNDJSON(content []byte) ([]Row, error) {
	var out []Row
	for line := range bytes.Lines(content) {
		var raw map[string]json.RawMessage
		if err := json.Unmarshal(line, &raw); err != nil {
			return nil, err
		}
		in := map[string]any{}
		for name, text := range raw {
			var v any
			if err := decode(text, &v); err != nil {
				return nil, err
			}
			if name == "custom_data" && v != nil {
				v = string(text) // an object, as it came
			}
			in[name] = v
		}
		row, err := fromPlain(Events, in)
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

// ReadCSV reads what sluice export --format csv writes.
func ReadCSV(content []byte) ([]Row, error) {
	records := csv.NewReader(bytes.NewReader(content))
	header, err := records.Read()
	if err != nil {
		return nil, err
	}
	var out []Row
	for {
		cells, err := records.Read()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		in := map[string]any{}
		for i, cell := range cells {
			if cell != "" {
				in[header[i]] = cell
			}
		}
		row, err := fromPlain(Events, in)
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
}

func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

// fromPlain takes a row whose values are JSON or text: times are numbers of microseconds or RFC 3339.
func fromPlain(t *Table, in map[string]any) (Row, error) {
	row := Row{}
	for name, v := range in {
		if v == nil {
			continue
		}
		row[name] = v
		for i := range t.Columns {
			if t.Columns[i].Name != name {
				continue
			}
			value, ok := plainValue(t.Columns[i].Kind, v)
			if !ok {
				return nil, fmt.Errorf("column %s: cannot read a %T", name, v)
			}
			row[name] = value
		}
	}
	return row, nil
}

func plainValue(kind Kind, v any) (any, bool) {
	text := fmt.Sprint(v)
	switch kind {
	case Text, UUID, Hash:
		s, ok := v.(string)
		return s, ok
	case Time:
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return at.UnixMicro(), true
		}
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	case Int32, Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	case Double:
		n, err := strconv.ParseFloat(text, 64)
		return n, err == nil
	case Bool:
		b, err := strconv.ParseBool(text)
		return b, err == nil
	}
	if s, ok := v.(string); ok {
		if err := decode([]byte(s), &v); err != nil {
			return nil, false
		}
	}
	return fromValue(Int32s, v)
}
