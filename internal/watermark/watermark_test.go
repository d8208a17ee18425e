package watermark

import (
	"errors"
	"maps"
	"testing"
)

func TestWatermarks(t *testing.T) {
	for text, want := range map[string]map[uint8]uint64{
		"": {}, "0:17": {0: 17}, "0:17,1:4,63:1099511627775": {0: 17, 1: 4, 63: 1099511627775}, "x:1,300:2,5": {},
	} {
		got := parse(text)
		if !maps.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
		if len(want) > 0 && format(got) != text {
			t.Errorf("got %q, want %q", format(got), text)
		}
	}
}

// A table takes what continues it, once, and nothing else.
func TestHas(t *testing.T) {
	one := func(from, to uint64) []Span { return []Span{{From: from, To: to}} }
	ours := Progress{Stream: "a", Watermarks: map[uint8]uint64{0: 7, 1: 3}, Settled: map[uint8]uint64{0: 5}}
	for name, c := range map[string]struct {
		p     Progress
		empty bool
		from  Origin
		done  bool
		err   error
	}{
		"the next frames":                 {ours, false, Origin{"a", one(7, 9), nil}, false, nil},
		"the same again":                  {ours, false, Origin{"a", one(4, 7), nil}, true, nil},
		"a gap":                           {ours, false, Origin{"a", one(8, 9), nil}, false, ErrFenced},
		"an overlap":                      {ours, false, Origin{"a", one(6, 9), nil}, false, ErrFenced},
		"behind":                          {ours, false, Origin{"a", one(2, 4), nil}, false, ErrFenced},
		"a gap in a sparse table":         {ours, false, Origin{"a", []Span{{From: 8, To: 9, Sparse: true}}, nil}, false, nil},
		"an overlap in a sparse table":    {ours, false, Origin{"a", []Span{{From: 5, To: 9, Sparse: true}}, nil}, false, ErrFenced},
		"two partitions":                  {ours, false, Origin{"a", []Span{{From: 7, To: 9}, {Partition: 1, From: 3, To: 4}}, nil}, false, nil},
		"two, and one brings nothing":     {ours, false, Origin{"a", []Span{{From: 7, To: 9}, {Partition: 1, From: 3, To: 3}}, nil}, false, nil},
		"two, and one is there":           {ours, false, Origin{"a", []Span{{From: 4, To: 7}, {Partition: 1, From: 3, To: 4}}, nil}, false, ErrFenced},
		"no frame, no note":               {ours, false, Origin{"a", []Span{{From: 7, To: 7, Settled: 5}}, nil}, true, nil},
		"no frame, a note":                {ours, false, Origin{"a", []Span{{From: 7, To: 7, Settled: 7}}, nil}, false, nil},
		"another stream":                  {ours, false, Origin{"b", one(7, 9), nil}, false, ErrOtherStream},
		"a stream that nobody named":      {ours, false, Origin{"", one(7, 9), nil}, false, nil},
		"watermarks of no stream":         {Progress{Watermarks: map[uint8]uint64{0: 7}}, false, Origin{"a", one(7, 9), nil}, false, ErrOtherStream},
		"rows without a watermark":        {Progress{}, false, Origin{"a", one(0, 9), nil}, false, ErrNoWatermark},
		"nothing at all":                  {Progress{}, true, Origin{"a", one(0, 9), nil}, false, nil},
		"no rows, but another's progress": {ours, true, Origin{"b", one(7, 9), nil}, false, ErrOtherStream},
	} {
		c.p.Rows = !c.empty
		if done, err := c.p.Has(c.from); done != c.done || !errors.Is(err, c.err) {
			t.Errorf("%s: got %v, %v, want %v, %v", name, done, err, c.done, c.err)
		}
	}
}
