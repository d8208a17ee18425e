package loader

import (
	"testing"
	"time"

	"sluice/internal/lake"
	"sluice/internal/stream"
)

// A batch is as large as the frames that it holds. One that counted those of a partition that has left would be
// committed too early, again and again.
func TestDroppedFramesDoNotCount(t *testing.T) {
	l := &Loader{o: Options{MaxRows: 1000, MaxSize: 1 << 20, Now: time.Now}}
	b := newBatch(l)
	stays := newAssignment(&partition{l: l, id: 0}, lake.Watermarks{}, nil)
	leaves := newAssignment(&partition{l: l, id: 1}, lake.Watermarks{}, nil)
	small, large := record(made(1, "d")), record(made(50, "d"))
	for _, a := range []struct {
		to   *assignment
		data [][]byte
	}{{stays, [][]byte{small}}, {leaves, [][]byte{large, large}}, {stays, [][]byte{small}}, {leaves, [][]byte{large}}} {
		if err := b.add(arrival{a.to, stream.Frame{Seq: a.to.to + 1, Records: a.data}}); err != nil {
			t.Fatal(err)
		}
	}
	b.drop(leaves)
	if len(b.frames) != 2 || b.rows != 2 || b.size != 2*len(small) {
		t.Errorf("got %d frames, %d rows and %d bytes, want 2, 2 and %d", len(b.frames), b.rows, b.size, 2*len(small))
	}
}
