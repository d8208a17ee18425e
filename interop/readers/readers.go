package readers

import (
	"context"
	"fmt"
)

// Source is what is to be read.
type Source struct {
	Dir    string              // holds a directory for each table; only the readers of Iceberg look at it
	Files  map[string][]string // Parquet files by table: those of its newest snapshot
	Tables []*Table            // nil means all of [Tables]
}

func (s *Source) tables() []*Table {
	if s.Tables == nil {
		return Tables
	}
	return s.Tables
}

// Read is what a reader found in one table.
type Read struct {
	Rows   []Row
	Errors []string // files, or the table, that it could not read
}

// Reader reads every table of a source. An error means that the reader cannot run here.
type Reader struct {
	Name    string
	Iceberg bool // it finds the files through the metadata of the table
	Read    func(context.Context, Source) (map[string]*Read, error)
}

// All are all readers.
var All = []Reader{
	{"hyparquet", false, readHyparquet},
	{"icebird", true, readIcebird},
	{"DuckDB", false, readDuckDB},
	{"arrow-go by position", false, readArrowByPosition},
	{"arrow-go by name", false, readArrowByName},
	{"iceberg-go", true, readIceberg},
}

// Check reads all tables of a lake with all readers and compares each with want (by table name). It compares footers, page
// indexes and manifests with what follows from the values.
func Check(ctx context.Context, src Source, want map[string][]Row) (*Report, error) {
	report := &Report{}
	facts, err := checkFiles(ctx, report, src, want)
	if err != nil {
		return nil, err
	}
	for _, t := range src.tables() {
		if err := checkManifests(ctx, report, t, src, facts); err != nil {
			report.add("manifests", t.Name, "unreadable", err.Error())
		}
	}
	return report, compareAll(ctx, report, src, want, true)
}

// CheckFiles is Check for Parquet files that belong to no Iceberg table.
func CheckFiles(ctx context.Context, src Source, want map[string][]Row) (*Report, error) {
	report := &Report{}
	_, err := checkFiles(ctx, report, src, want)
	return report, err
}

func checkFiles(ctx context.Context, report *Report, src Source, want map[string][]Row) (map[string]*fileFacts, error) {
	facts := map[string]*fileFacts{}
	for _, t := range src.tables() {
		for _, name := range src.Files[t.Name] {
			f, err := checkFile(report, t, name)
			if err != nil {
				report.add("footers", t.Name, "unreadable", err.Error())
				continue
			}
			facts[name] = f
		}
	}
	if err := compareAll(ctx, report, src, want, false); err != nil {
		return nil, err
	}
	return facts, checkDuckDB(ctx, report, src, want, facts)
}

// compareAll compares what the readers of one sort find.
func compareAll(ctx context.Context, report *Report, src Source, want map[string][]Row, iceberg bool) error {
	for _, r := range All {
		if r.Iceberg != iceberg {
			continue
		}
		got, err := r.Read(ctx, src)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		for _, t := range src.tables() {
			read := got[t.Name]
			for _, e := range read.Errors {
				report.add(r.Name, t.Name, "unreadable", e)
			}
			Compare(report, r.Name, t, read.Rows, want[t.Name])
		}
	}
	return nil
}
