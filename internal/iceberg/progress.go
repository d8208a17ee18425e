package iceberg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// ErrFenced says that another writer moved the watermark: start again from Progress.
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
	// After is done beside the writing of the files, and before anybody sees the rows: its error ends the commit. It does not
	// touch the table. nil does nothing.
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

// progress is what of a stream a table holds. It never changes.
type progress struct {
	stream  string           // its identity
	marks   map[uint8]uint64 // the watermarks: up to where each partition is in the table
	settled map[uint8]uint64 // see Span.Settled
	deleted string           // see Witness.Mark
}

// The names under which a snapshot's summary and the table's properties hold progress.
const (
	watermarkProperty = "sluice.watermark"
	streamProperty    = "sluice.stream"
	settledProperty   = "sluice.settled"
	deletedProperty   = "sluice.erased"
)

// Progress is what of a stream a table holds.
type Progress struct {
	Stream     string           // identity of the stream; "" where nothing of one is in the table
	Watermarks map[uint8]uint64 // up to where each partition is in the table
	Settled    map[uint8]uint64 // see Span.Settled
	Rows       bool             // the table has rows
	Deleted    string           // see Witness.Mark
}

// Progress says what of a stream the table holds.
func (t *table) Progress(ctx context.Context) (Progress, error) {
	s, err := t.refresh(ctx)
	if err != nil {
		return Progress{}, err
	}
	return Progress{Stream: s.stream, Watermarks: s.marks, Settled: s.settled, Rows: s.hasRows(), Deleted: s.deleted}, nil
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

func (s *state) hasRows() bool {
	for _, m := range s.manifests {
		if len(m.files) > 0 {
			return true
		}
	}
	return false
}

// has says whether the table has what an origin holds already, or fences the caller off.
func (s *state) has(from Origin) (done bool, err error) {
	p := Progress{Stream: s.stream, Watermarks: s.marks, Rows: s.hasRows()}
	if err := p.Belongs(from.Stream); err != nil {
		return false, err
	}
	there, isNew := false, false
	for _, span := range from.Spans {
		at := s.marks[span.Partition]
		switch behind := at == span.From || at < span.From && span.Sparse; {
		case behind && span.From == span.To: // no frame; perhaps a note
			isNew = isNew || !span.Sparse && span.Settled > s.settled[span.Partition]
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

// after is the progress when what an origin holds is in the table.
func (s *state) after(from Origin) *progress {
	next := &progress{stream: s.stream, marks: map[uint8]uint64{}, settled: map[uint8]uint64{}, deleted: s.deleted}
	maps.Copy(next.marks, s.marks)
	maps.Copy(next.settled, s.settled)
	if from.Stream != "" {
		next.stream = from.Stream
	}
	for _, span := range from.Spans {
		next.marks[span.Partition] = span.To
		if !span.Sparse {
			next.settled[span.Partition] = max(span.Settled, next.settled[span.Partition])
		}
	}
	return next
}

// Adopt makes the table continue another stream: from now on its watermarks are marks, and belong to the stream. It does
// nothing where they belong to it already. The caller knows that nothing after the marks is in the table.
//
// Steps: T.manifest, T.list, T.metadata, T.committed.
func (t *table) Adopt(ctx context.Context, stream string, marks map[uint8]uint64) (adopted bool, err error) {
	_, err = t.update(ctx, func(s *state) (*change, error) {
		adopted = false
		if s.stream == stream && len(s.marks) > 0 || !s.hasRows() && len(s.marks) == 0 {
			return nil, nil
		}
		adopted = true
		return &change{operation: replaced, progress: &progress{stream, marks, marks, s.deleted}}, nil
	})
	if err != nil {
		return false, fmt.Errorf("adopt %s: %w", t.layout.name, err)
	}
	return adopted, nil
}

// progress is what of the stream the table holds. A snapshot that another program made does not say, so its parent is
// asked, and the table's properties where that is gone.
func (m *metadata) progress() progress {
	if cur := m.current(); cur != nil {
		if at, ok := m.progressAt(cur); ok {
			return at
		}
	}
	return readProgress(m.Properties)
}

// progressAt is progress as of a snapshot. It is not ok if neither the snapshot nor one before it that is kept says.
func (m *metadata) progressAt(s *snapshot) (progress, bool) {
	for ; s != nil; s = m.snapshot(*s.Parent) {
		if _, ok := s.Summary[watermarkProperty]; ok {
			return readProgress(s.Summary), true
		}
		if s.Parent == nil {
			break
		}
	}
	return progress{}, false
}

func readProgress(from map[string]string) progress {
	return progress{from[streamProperty], parseWatermarks(from[watermarkProperty]), parseWatermarks(from[settledProperty]), from[deletedProperty]}
}

// write puts the progress into a snapshot's summary or the table's properties.
func (p *progress) write(to map[string]string) {
	to[watermarkProperty] = formatWatermarks(p.marks)
	if p.stream != "" {
		to[streamProperty] = p.stream
	}
	if len(p.settled) > 0 {
		to[settledProperty] = formatWatermarks(p.settled)
	}
	if p.deleted != "" {
		to[deletedProperty] = p.deleted
	}
}

// ParseWatermarks reads watermarks as a snapshot's summary has them, such as "0:17,1:4".
func ParseWatermarks(text string) (map[uint8]uint64, error) {
	marks := parseWatermarks(text)
	if len(marks) == 0 || formatWatermarks(marks) != text {
		return nil, errors.New(`watermarks are a partition and a sequence number each, such as "0:17,1:4"`)
	}
	return marks, nil
}

// Watermarks are written as "0:17,1:4".
func parseWatermarks(text string) map[uint8]uint64 {
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

func formatWatermarks(marks map[uint8]uint64) string {
	var b []byte
	for p := range 256 {
		seq, ok := marks[uint8(p)]
		if !ok {
			continue
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(p), 10)
		b = append(b, ':')
		b = strconv.AppendUint(b, seq, 10)
	}
	return string(b)
}
