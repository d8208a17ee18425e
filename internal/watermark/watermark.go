// Package watermark says what of a stream a table holds: up to which sequence number of each partition everything is in
// it. A commit that adds rows moves the watermarks with them, so that the same frames again change nothing.
package watermark

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ErrFenced says that another writer moved the watermark: start again from the progress of the table.
var ErrFenced = errors.New("another writer has moved the watermark")

// A table whose watermarks say nothing about a stream must not be loaded from it: rows would be there twice, or never.
var (
	ErrOtherStream = errors.New("the table was loaded from another stream")
	ErrNoWatermark = errors.New("the table has rows, and no watermark that says up to where the stream is in it")
)

// Origin says where rows come from: which stream, and what of each of its partitions. A stream without a name is not
// compared with the one that the table was loaded from.
type Origin struct {
	Stream string
	Spans  []Span
	// After is done beside the writing of the files, and before anybody sees the rows: its error ends the commit. It does
	// not touch the table. nil does nothing.
	After func() error
}

// Span is what a batch of rows holds of a partition of the stream: everything after From, up to To.
type Span struct {
	Partition uint8
	From, To  uint64
	// Sparse says that a table may be behind From, because it is not written to when there are no rows for it.
	Sparse bool
	// Settled is noted beside the watermark: up to where the tables that are written together with this one, but less
	// often, hold everything.
	Settled uint64
}

// Progress is what of a stream a table holds. Nobody changes its maps.
type Progress struct {
	Stream     string           // identity of the stream; "" where nothing of one is in the table
	Watermarks map[uint8]uint64 // up to where each partition is in the table
	Settled    map[uint8]uint64 // see Span.Settled
	Rows       bool             // the table has rows; it is not written down
	Deleted    string           // a mark that the last deletion of rows left
}

// Belongs says whether watermarks of a stream with this identity can be continued. "" belongs to every table.
func (p *Progress) Belongs(stream string) error {
	switch {
	case stream == "" || len(p.Watermarks) == 0 && !p.Rows:
		return nil
	case len(p.Watermarks) == 0:
		return ErrNoWatermark
	case p.Stream != stream:
		return ErrOtherStream
	}
	return nil
}

// Has says whether the table has what an origin holds already, or fences the caller off.
func (p *Progress) Has(from Origin) (done bool, err error) {
	if err := p.Belongs(from.Stream); err != nil {
		return false, err
	}
	there, isNew := false, false
	for _, span := range from.Spans {
		at := p.Watermarks[span.Partition]
		switch behind := at == span.From || at < span.From && span.Sparse; {
		case behind && span.From == span.To: // no frame; perhaps a note
			isNew = isNew || !span.Sparse && span.Settled > p.Settled[span.Partition]
		case behind:
			isNew = true
		case at == span.To:
			there = true
		default:
			return false, ErrFenced
		}
	}
	if there && isNew {
		return false, ErrFenced
	}
	return !isNew, nil
}

// After is the progress when what an origin holds is in the table.
func (p *Progress) After(from Origin) *Progress {
	next := &Progress{
		Stream: cmp.Or(from.Stream, p.Stream), Deleted: p.Deleted,
		Watermarks: map[uint8]uint64{}, Settled: map[uint8]uint64{},
	}
	maps.Copy(next.Watermarks, p.Watermarks)
	maps.Copy(next.Settled, p.Settled)
	for _, span := range from.Spans {
		next.Watermarks[span.Partition] = span.To
		if !span.Sparse {
			next.Settled[span.Partition] = max(span.Settled, next.Settled[span.Partition])
		}
	}
	return next
}

// The names under which a snapshot's summary and the table's properties hold progress.
const (
	markProperty    = "sluice.watermark"
	streamProperty  = "sluice.stream"
	settledProperty = "sluice.settled"
	deletedProperty = "sluice.erased"
)

// Read reads the progress from a snapshot's summary or a table's properties, and says whether they have any.
func Read(from map[string]string) (p Progress, found bool) {
	text, found := from[markProperty]
	return Progress{
		Stream: from[streamProperty], Watermarks: parse(text), Settled: parse(from[settledProperty]),
		Deleted: from[deletedProperty],
	}, found
}

// Write puts the progress into a snapshot's summary or a table's properties.
func (p *Progress) Write(to map[string]string) {
	to[markProperty] = format(p.Watermarks)
	if p.Stream != "" {
		to[streamProperty] = p.Stream
	}
	if len(p.Settled) > 0 {
		to[settledProperty] = format(p.Settled)
	}
	if p.Deleted != "" {
		to[deletedProperty] = p.Deleted
	}
}

// Parse reads watermarks as a snapshot's summary has them, such as "0:17,1:4".
func Parse(text string) (map[uint8]uint64, error) {
	marks := parse(text)
	if len(marks) == 0 || format(marks) != text {
		return nil, errors.New(`watermarks are a partition and a sequence number each, such as "0:17,1:4"`)
	}
	return marks, nil
}

func parse(text string) map[uint8]uint64 {
	out := map[uint8]uint64{}
	for pair := range strings.SplitSeq(text, ",") {
		p, seq, _ := strings.Cut(pair, ":")
		partition, err1 := strconv.ParseUint(p, 10, 8)
		n, err2 := strconv.ParseUint(seq, 10, 64)
		if err1 == nil && err2 == nil {
			out[uint8(partition)] = n
		}
	}
	return out
}

func format(marks map[uint8]uint64) string {
	var b []byte
	for _, p := range slices.Sorted(maps.Keys(marks)) {
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "%d:%d", p, marks[p])
	}
	return string(b)
}
