package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"sluice/event"
)

// input are the flags that say how a file is read. upload and check share them.
type input struct {
	format    string
	delimiter string
	mapPairs  []string
	hashPairs []string
	setPairs  []string
}

func (in *input) register(flags *pflag.FlagSet) {
	flags.StringVar(&in.format, "format", "", "ndjson, json, csv or tsv; found from the name and the first bytes if not given")
	flags.StringVar(&in.delimiter, "delimiter", "", `what stands between columns: "," for csv, a tab for tsv`)
	flags.StringArrayVar(&in.mapPairs, "map", nil, "COLUMN=FIELD: the column fills this field of the event")
	flags.StringArrayVar(&in.hashPairs, "hash", nil, "COLUMN=email_sha256 or COLUMN=ip: the column is normalised, hashed here and fills the field")
	flags.StringArrayVar(&in.setPairs, "set", nil, "FIELD=VALUE: the same value in every row of a csv or tsv file")
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

// mapping reads the flags for a delimited file; for any other it is nil, and the flags are refused.
func (in *input) mapping(format, dataset string) (*mapping, error) {
	if format != formatCSV && format != formatTSV {
		if len(in.mapPairs)+len(in.hashPairs)+len(in.setPairs) > 0 || in.delimiter != "" {
			return nil, errors.New("--map, --hash, --set and --delimiter are for csv and tsv files")
		}
		return nil, nil
	}
	m := &mapping{Dataset: dataset, delimiter: ','}
	if format == formatTSV {
		m.delimiter = '\t'
	}
	switch d := strings.ReplaceAll(in.delimiter, `\t`, "\t"); {
	case len(d) > 1 || d == `"` || d == "\n":
		return nil, errors.New("--delimiter wants one ASCII character that is no quote")
	case d != "":
		m.delimiter = d[0]
	}
	var errs [3]error
	m.Map, errs[0] = pairs(in.mapPairs, "map")
	m.Hash, errs[1] = pairs(in.hashPairs, "hash")
	m.Set, errs[2] = pairs(in.setPairs, "set")
	return m, errors.Join(errs[:]...)
}

// opened is a file whose rows can be read.
type opened struct {
	*source
	mapping *mapping // nil: rows are JSON
	data    position // where the data begin
	rows    rows
}

// open opens a file and, where it has one, reads its header.
func (in *input) open(p *program, name string) (*opened, error) {
	s, err := openSource(name, p.stdin, in.format)
	if err != nil {
		return nil, exit(exitUsage, err)
	}
	o := &opened{source: s}
	fail := func(err error) (*opened, error) {
		s.Close()
		return nil, exit(exitUsage, fmt.Errorf("%s: %w", name, err))
	}
	if o.mapping, err = in.mapping(s.format, p.dataset); err != nil {
		return fail(err)
	}
	delimiter := byte(0)
	if o.mapping != nil {
		delimiter = o.mapping.delimiter
	}
	if o.rows, err = s.rows(delimiter); err != nil {
		return fail(err)
	}
	if c, ok := o.rows.(*csvRows); ok {
		header, err := c.readHeader()
		if err != nil {
			return fail(err)
		}
		if err := o.mapping.bind(header); err != nil {
			return fail(err)
		}
	}
	o.data = o.rows.position()
	return o, nil
}

// from goes to a place between rows; in a compressed file only forward.
func (o *opened) from(p position) error {
	delimiter := byte(0)
	if o.mapping != nil {
		delimiter = o.mapping.delimiter
	}
	old := o.rows
	r, err := o.source.rowsFrom(p, old.position().Offset, delimiter)
	if err != nil {
		return err
	}
	if c, ok := r.(*csvRows); ok {
		c.header = old.(*csvRows).header
	}
	o.rows = r
	return nil
}

// datasetOf finds the dataset of the first row of b that an event can be made of, "" if there is none.
func datasetOf(p *preparer, b *batch) string {
	now := p.now()
	p.load(b)
	for i := range b.spans {
		raw, ps := p.check(i, now, map[event.Code]int{})
		if len(ps) > 0 {
			continue
		}
		if r, _ := p.decoder.Decode(string(raw), event.Single, p.policy, now); r != nil && len(r.Rows) == 1 {
			return strings.Clone(r.Rows[0].DatasetID)
		}
	}
	return ""
}
