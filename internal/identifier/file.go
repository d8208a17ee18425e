package identifier

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxLine bounds a line of NDJSON: four of the longest identifiers, escaped.
const maxLine = 64 << 10

// Read calls yield for each identifier of a file, folded, and returns how many rows the file has. It is CSV with a
// header, or NDJSON, which begins with a brace; the columns are email_sha256, ifa, ip and partner_id. Empty values are
// skipped. A column of another name is an error: it may hold people who would be left out. Errors name the row and
// never a value.
func Read(r io.Reader, maxRows int, yield func(Kind, string) error) (rows int, err error) {
	in := bufio.NewReaderSize(r, maxLine)
	if mark, _ := in.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = in.Discard(3) // it is in the buffer
	}
	next, err := rowsOf(in)
	if err != nil {
		return 0, err
	}
	for {
		row, err := next()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		rows++
		if err == nil && rows > maxRows {
			err = fmt.Errorf("the file has more than %d rows: divide it", maxRows)
		}
		for name, value := range row {
			if err == nil {
				err = one(name, value, yield)
			}
		}
		if err != nil {
			return rows, fmt.Errorf("row %d: %w", rows, err)
		}
	}
}

// one yields a value of a row.
func one(name, value string, yield func(Kind, string) error) error {
	k, ok := kindOf(name)
	if !ok {
		return errColumn
	}
	if strings.TrimSpace(value) == "" {
		return nil
	}
	folded, err := k.Parse(value)
	if err != nil {
		return err
	}
	return yield(k, folded)
}

var errColumn = errors.New("the columns of the file are email_sha256, ifa, ip and partner_id, one of them or more: " +
	"rename or remove the others")

// kindOf finds the kind of a column. Exports spell ip as the table does.
func kindOf(name string) (Kind, bool) {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name() == name || string(k) == name })
	if i < 0 {
		return "", false
	}
	return Kinds[i], true
}

// rowsOf returns what reads the next row of a file. The map is valid until the next one.
func rowsOf(in *bufio.Reader) (func() (map[string]string, error), error) {
	if isNDJSON(in) {
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, maxLine)
		return func() (map[string]string, error) {
			for lines.Scan() {
				if strings.TrimSpace(lines.Text()) != "" {
					return object(lines.Bytes())
				}
			}
			if errors.Is(lines.Err(), bufio.ErrTooLong) {
				return nil, fmt.Errorf("a line is longer than %d bytes", maxLine)
			}
			return nil, cmp.Or(lines.Err(), io.EOF)
		}, nil
	}
	c := csv.NewReader(in)
	c.ReuseRecord, c.TrimLeadingSpace = true, true
	header, err := c.Read()
	if _, ok := errors.AsType[*csv.ParseError](err); ok || errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty, or its first line is not CSV: the first line of CSV names the columns, " +
			"and NDJSON has an object in each line")
	} else if err != nil {
		return nil, err
	}
	header = slices.Clone(header)
	for i, name := range header {
		header[i] = strings.TrimSpace(name)
		if _, ok := kindOf(header[i]); !ok {
			return nil, errColumn
		}
		if slices.Contains(header[:i], header[i]) {
			return nil, errors.New("the first line names a column twice")
		}
	}
	row := map[string]string{}
	return func() (map[string]string, error) {
		record, err := c.Read()
		if _, ok := errors.AsType[*csv.ParseError](err); ok {
			err = errors.New("it is not CSV with as many values as the first line has names")
		}
		for i, value := range record {
			if i < len(header) {
				row[header[i]] = value
			}
		}
		return row, err
	}, nil
}

// isNDJSON looks at the first character that is no white space.
func isNDJSON(in *bufio.Reader) bool {
	for {
		c, err := in.Peek(1)
		if err != nil {
			return false
		}
		if !strings.ContainsRune(" \t\r\n", rune(c[0])) {
			return c[0] == '{'
		}
		_, _ = in.Discard(1) // it is in the buffer
	}
}

var errObject = errors.New("it is not a JSON object whose members are strings") // the cause repeats what was read

// object reads a line of NDJSON. Null is absence. A member that is there twice is an error, as a column of CSV is: the
// last one would take the place of another person.
func object(line []byte) (map[string]string, error) {
	if !json.Valid(line) {
		return nil, errObject
	}
	in := json.NewDecoder(bytes.NewReader(line))
	if begin, _ := in.Token(); begin != json.Delim('{') {
		return nil, errObject
	}
	row := map[string]string{}
	for in.More() {
		token, _ := in.Token() // the line is valid
		name, _ := token.(string)
		var value string
		if err := in.Decode(&value); err != nil {
			return nil, errObject
		}
		if _, ok := kindOf(name); !ok {
			return nil, errColumn
		}
		if _, twice := row[name]; twice {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		row[name] = value
	}
	return row, nil
}
