package loader

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"sluice/event"
	"sluice/internal/erasure"
	"sluice/internal/stream"
)

// window is some frames of all partitions, and the ids of their events.
type window struct {
	ids         []event.ID
	first, last int64               // when events were received, Unix seconds
	spans       map[uint8][2]uint64 // the first and the last frame of each partition
	lacking     map[event.ID]bool
}

func compareIDs(a, b event.ID) int { return bytes.Compare(a[:], b[:]) }

// windows goes through the frames of all partitions in the order in which they were stored: then events of one time are
// in one window, and the table is read about once.
func (r *reload) windows(ctx context.Context) error {
	var heads []*head
	defer func() {
		for _, h := range heads {
			h.stop()
		}
	}()
	for p := range r.o.Stream.Partitions() {
		h := &head{partition: uint8(p)}
		h.next, h.stop = iter.Pull2(r.frames(ctx, uint8(p), 0))
		heads = append(heads, h)
		if err := h.advance(); err != nil {
			return err
		}
	}
	w := &window{spans: map[uint8][2]uint64{}}
	for {
		var oldest *head
		for _, h := range heads {
			if h.there && (oldest == nil || h.frame.Time.Before(oldest.frame.Time)) {
				oldest = h
			}
		}
		if oldest == nil || len(w.ids) >= windowIDs {
			if err := r.compare(ctx, w); err != nil {
				return err
			}
			w = &window{spans: map[uint8][2]uint64{}}
		}
		if oldest == nil {
			return nil
		}
		r.collect(w, oldest.partition, &oldest.frame)
		if err := oldest.advance(); err != nil {
			return err
		}
	}
}

// head is the next frame of a partition.
type head struct {
	partition uint8
	frame     stream.Frame
	there     bool
	next      func() (stream.Frame, error, bool)
	stop      func()
}

func (h *head) advance() (err error) {
	h.frame, err, h.there = h.next()
	return err
}

var errPassed = errors.New("passed")

// frames are those of a partition that the stream holds, from a number on.
func (r *reload) frames(ctx context.Context, partition uint8, from uint64) iter.Seq2[stream.Frame, error] {
	return func(yield func(stream.Frame, error) bool) {
		err := r.o.Stream.Scan(ctx, partition, from, func(f stream.Frame) error {
			if err := checkVersion(&f); err != nil {
				return err
			}
			if !yield(f, nil) {
				return errPassed
			}
			return nil
		})
		if err != nil && !errors.Is(err, errPassed) {
			yield(stream.Frame{}, err)
		}
	}
}

// collect adds the events of a frame to a window. Those behind the watermark are not in the table yet.
func (r *reload) collect(w *window, partition uint8, f *stream.Frame) {
	r.out.Frames++
	if f.Damaged != nil {
		r.out.Damaged++
	}
	for rows, err := range r.records(partition, f) {
		if err != nil {
			r.out.Damaged++
		}
		r.out.Events += int64(len(rows))
		if f.Seq > r.marks[partition] {
			r.out.Waiting += int64(len(rows))
			continue
		}
		for i := range rows {
			at := rows[i].ReceivedAt
			if len(w.ids) == 0 {
				w.first, w.last = at, at
			}
			w.first, w.last = min(w.first, at), max(w.last, at)
			w.ids = append(w.ids, rows[i].EventID)
		}
	}
	if f.Seq <= r.marks[partition] {
		span, ok := w.spans[partition]
		if !ok {
			span[0] = f.Seq
		}
		w.spans[partition] = [2]uint64{span[0], f.Seq}
	}
}

// records are the rows of each record of a frame, valid until the next one, or why it cannot be read.
func (r *reload) records(partition uint8, f *stream.Frame) iter.Seq2[[]event.Row, error] {
	return func(yield func([]event.Row, error) bool) {
		for slot, record := range f.Records {
			var err error
			r.decoded, err = r.decoder.Decode(&r.read, r.decoded[:0], view(record), partition, f.Seq, uint16(slot))
			if !yield(r.decoded, err) {
				return
			}
		}
	}
}

// compare finds which events of a window the table lacks, and loads them.
func (r *reload) compare(ctx context.Context, w *window) error {
	if len(w.ids) == 0 {
		return nil
	}
	slices.SortFunc(w.ids, compareIDs)
	has := make([]bool, len(w.ids))
	from, to := time.Unix(w.first, 0), time.Unix(w.last+1, 0)
	err := r.table.Scan(ctx, from, to, []string{"event_id"}, func(rows []event.Row) error {
		for k := range rows {
			if i, found := slices.BinarySearchFunc(w.ids, rows[k].EventID, compareIDs); found {
				has[i] = true
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.lacking = map[event.ID]bool{}
	for i, id := range w.ids {
		if !has[i] {
			_, has[i] = slices.BinarySearchFunc(r.salvaged, id, compareIDs)
		}
		if has[i] {
			r.out.Stored++
		} else {
			w.lacking[id] = true
		}
	}
	if len(w.lacking) == 0 {
		return nil
	}
	for p, span := range w.spans {
		for f, err := range r.frames(ctx, p, span[0]) {
			if err != nil {
				return err
			}
			if f.Seq > span[1] {
				break
			}
			for rows := range r.records(p, &f) {
				if err := r.load(ctx, w, rows); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// load adds those rows of a record that the table lacks, but for what was erased or is past its retention.
func (r *reload) load(ctx context.Context, w *window, rows []event.Row) error {
	kept := slices.DeleteFunc(rows, func(row event.Row) bool {
		if !w.lacking[row.EventID] {
			return true
		}
		if r.erased.Erased(&row) {
			r.out.Erased++
			r.left = append(r.left, erasure.Bare(&row))
			return true
		}
		if r.expired(row.DatasetID, row.ReceivedAt) {
			r.out.Expired++
			return true
		}
		return false
	})
	r.out.Loaded += int64(len(kept))
	return r.add(ctx, kept)
}
