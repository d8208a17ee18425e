package stream

import (
	"runtime"
	"testing"
	"weak"
)

// A writer holds nothing of a frame that it has handed on, however long the next one takes to come.
func TestSentFramesAreCollected(t *testing.T) {
	w := &writer{}
	var sent []weak.Pointer[group]
	for range 20 {
		g := &group{buf: make([]byte, 1<<10)}
		sent = append(sent, weak.Make(g))
		w.full = append(w.full, g)
	}
	for range sent {
		w.due()
	}
	runtime.GC()
	held := 0
	for _, g := range sent {
		if g.Value() != nil {
			held++
		}
	}
	if held > 0 {
		t.Errorf("got %d of %d groups in memory, want none", held, len(sent))
	}
	runtime.KeepAlive(w)
}
