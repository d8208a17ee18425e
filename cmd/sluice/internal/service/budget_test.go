package service

import "testing"

// An eighth of the memory each.
func TestBudget(t *testing.T) {
	for _, c := range []struct {
		said, inFlight, connections int64
		keys                        int
	}{
		{1 << 20, 32 << 20, 256, 8 << 10}, // less in flight would be of no use
		{256 << 20, 32 << 20, 1365, 2 << 20},
		{2 << 30, 256 << 20, 10922, 16 << 20},
		{16 << 30, 2 << 30, 87381, 128 << 20},
	} {
		if a, b, k := bytesInFlight(c.said), connections(c.said), idempotencyKeys(c.said); a != c.inFlight || b != c.connections || k != c.keys {
			t.Errorf("%d: got %d bytes in flight, %d connections and %d keys, want %+v", c.said, a, b, k, c)
		}
	}
}
