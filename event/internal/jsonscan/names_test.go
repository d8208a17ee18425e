package jsonscan

import (
	"strconv"
	"testing"
)

// TestNameSet holds that a name is found in its own object only, however many there are and however deep.
func TestNameSet(t *testing.T) {
	var n Names
	for _, size := range []int{1, linearNames, linearNames + 1, linearNames + 2, 1000, 5} {
		n.Open()
		for i := range size {
			if !n.Add(strconv.Itoa(i)) {
				t.Fatalf("%d of %d: got reported as known", i, size)
			}
			if i == size/2 {
				n.Open()
				for j := range 3 * linearNames {
					if !n.Add(strconv.Itoa(j)) || n.Add(strconv.Itoa(j)) {
						t.Fatalf("%d inside of %d of %d", j, i, size)
					}
				}
				n.Close()
			}
		}
		for i := range size {
			if n.Add(strconv.Itoa(i)) {
				t.Fatalf("%d of %d: not found", i, size)
			}
		}
		n.Close()
	}
	if n.depth != 0 || len(n.names) != 0 {
		t.Errorf("got depth %d, %d names left", n.depth, len(n.names))
	}
	n.Reset()
	for i := range n.names[:cap(n.names)] {
		if n.names[:cap(n.names)][i] != "" {
			t.Fatal("a name is kept after a reset")
		}
	}
}
