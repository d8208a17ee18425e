package lake

import (
	"context"
	"fmt"

	"sluice/internal/iceberg"
	"sluice/internal/metadata"
	"sluice/internal/watermark"
)

// The tables cannot be loaded from a stream of which their watermarks say nothing: events would be there twice, or
// never.
var (
	ErrOtherStream = watermark.ErrOtherStream // they were loaded from another stream
	ErrNoWatermark = watermark.ErrNoWatermark // they have rows, and no watermark at all
)

// What somebody else can do to the tables while they are open. They are taken up again when they are put back.
var (
	ErrNoTable    = iceberg.ErrNoTable    // they are gone
	ErrOtherTable = iceberg.ErrOtherTable // others are in their place
)

// Version is that of the tables as this program writes them, and the latest that it reads.
const Version = metadata.FormatVersion

// ErrVersion says that the tables are of a later version than this program knows.
var ErrVersion = metadata.ErrVersion

// Watermarks are the sequence numbers in one partition of the stream up to which each table holds everything.
type Watermarks struct{ Events, Rejections, Hours uint64 }

// Least is the lowest of the three: what comes after it is missing in one table at least.
func (w Watermarks) Least() uint64 { return min(w.Events, w.Rejections, w.Hours) }

// Watermarks says how far the tables are. Rejections and hours are not written to when there is nothing for them; how
// far they are is then noted in the table of events.
func (l *Lake) Watermarks(ctx context.Context, partition uint8) (w Watermarks, err error) {
	rejections, err := l.progress(ctx, l.rejections)
	if err != nil {
		return w, err
	}
	hours, err := l.progress(ctx, l.hours)
	if err != nil {
		return w, err
	}
	events, err := l.progress(ctx, l.events)
	if err != nil {
		return w, err
	}
	return Watermarks{
		Events:     events.Watermarks[partition],
		Rejections: max(rejections.Watermarks[partition], events.Settled[partition]),
		Hours:      max(hours.Watermarks[partition], events.Settled[partition]),
	}, nil
}

// progress is that of a table which belongs to the stream.
func (l *Lake) progress(ctx context.Context, t anyTable) (watermark.Progress, error) {
	p, err := t.Progress(ctx)
	if err == nil {
		err = p.Belongs(l.o.Stream)
	}
	if err != nil {
		return p, fmt.Errorf("table %s: %w", t.Stats().Name, err)
	}
	return p, nil
}

// Reached is the highest watermark of any table in each partition, of whichever stream it is.
func (l *Lake) Reached(ctx context.Context) (map[uint8]uint64, error) {
	out := map[uint8]uint64{}
	for _, t := range l.loaded() {
		p, err := t.Progress(ctx)
		if err != nil {
			return nil, err
		}
		for partition, mark := range p.Watermarks {
			out[partition] = max(out[partition], mark)
		}
	}
	return out, nil
}

// Adopt makes the tables continue the stream that the lake was opened for, after marks. The caller knows that nothing
// of the stream after the marks is in the tables, and that everything before them is, or is gone. Tables that belong to
// the stream already stay as they are; Adopt says whether there were others. After a crash the next call does the rest.
func (l *Lake) Adopt(ctx context.Context, marks map[uint8]uint64) (adopted bool, err error) {
	for _, t := range l.loaded() {
		did, err := t.Adopt(ctx, l.o.Stream, marks)
		if err != nil {
			return adopted, err
		}
		adopted = adopted || did
	}
	return adopted, nil
}

// ParseWatermarks reads watermarks as a snapshot's summary has them, such as "0:17,1:4".
func ParseWatermarks(text string) (map[uint8]uint64, error) { return watermark.Parse(text) }
