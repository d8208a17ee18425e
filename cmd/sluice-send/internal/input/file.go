package input

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Options say how a file is read.
type Options struct {
	Format    string   // ndjson, json, csv or tsv; "": by the name and the first bytes
	Delimiter string   // between columns; "": a comma for csv, a tab for tsv
	Map       []string // COLUMN=FIELD: the column fills this field of the event
	Hash      []string // COLUMN=FIELD: the column is normalised, hashed and fills the field
	Set       []string // FIELD=VALUE: the same value in every row
	Dataset   string   // data_set_id of delimited rows that have none
}

func pairs(list []string, flag string) (map[string]string, error) {
	m := map[string]string{}
	for _, s := range list {
		from, to, ok := strings.Cut(s, "=")
		if !ok || from == "" || to == "" {
			return nil, fmt.Errorf("--%s wants two words with = between them, not %q", flag, s)
		}
		if _, twice := m[from]; twice {
			return nil, fmt.Errorf("--%s names %q twice", flag, from)
		}
		m[from] = to
	}
	return m, nil
}

// mapping reads the options of a delimited file. For any other file it is nil, and these options are an error.
func (o *Options) mapping(format string) (*Mapping, error) {
	if format != CSV && format != TSV {
		if len(o.Map)+len(o.Hash)+len(o.Set) > 0 || o.Delimiter != "" {
			return nil, errors.New("--map, --hash, --set and --delimiter are for csv and tsv files")
		}
		return nil, nil
	}
	m := &Mapping{Dataset: o.Dataset, delimiter: ','}
	if format == TSV {
		m.delimiter = '\t'
	}
	switch d := strings.ReplaceAll(o.Delimiter, `\t`, "\t"); {
	case len(d) > 1 || d == `"` || d == "\n":
		return nil, errors.New("--delimiter wants one ASCII character that is not a quote")
	case d != "":
		m.delimiter = d[0]
	}
	var errs [3]error
	m.Map, errs[0] = pairs(o.Map, "map")
	m.Hash, errs[1] = pairs(o.Hash, "hash")
	m.Set, errs[2] = pairs(o.Set, "set")
	return m, errors.Join(errs[:]...)
}

// File is an open file whose rows can be read.
type File struct {
	*Source
	Mapping *Mapping // nil: rows are JSON
	Data    Position // where the data begin
	Rows    Rows
}

// Open opens a file, or stdin for "-", and reads its header if it has one.
func (o *Options) Open(name string, stdin io.Reader) (*File, error) {
	s, err := OpenSource(name, stdin, o.Format)
	if err != nil {
		return nil, err
	}
	f := &File{Source: s}
	if err := f.begin(o); err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

func (f *File) begin(o *Options) (err error) {
	if f.Mapping, err = o.mapping(f.Format); err != nil {
		return err
	}
	if f.Mapping != nil {
		f.delimiter = f.Mapping.delimiter
	}
	if f.Rows, err = f.Source.Rows(); err != nil {
		return err
	}
	if c, ok := f.Rows.(*csvRows); ok {
		header, err := c.readHeader()
		if err != nil {
			return err
		}
		if err := f.Mapping.bind(header); err != nil {
			return err
		}
		f.header = c.header
	}
	f.Data = f.Rows.Position()
	return nil
}

// Header is the first record of a delimited file, as written; nil for other files.
func (f *File) Header() []byte { return f.header }

// Seek moves to a place between rows; in a compressed file only forward.
func (f *File) Seek(p Position) (err error) {
	f.Rows, err = f.rowsFrom(p, f.Rows.Position().Offset)
	return err
}
