package objectstore

import (
	"fmt"
	"testing"
	"time"
)

// The cache keeps what was used last, within its bytes and its age.
func TestTailCache(t *testing.T) {
	now := time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)
	c := newTailCache(100, func() time.Time { return now })
	has := func(name string) bool {
		b, size, ok := c.get(name)
		if ok && (len(b) != 30 || size != 1000) {
			t.Errorf("%s: got %d bytes of %d, want 30 of 1000", name, len(b), size)
		}
		return ok
	}
	for i := range 4 {
		c.put(fmt.Sprint(i), make([]byte, 30), 1000)
		if !has("0") { // it is used all the time
			t.Errorf("after %d: got 0 dropped, want the one used longest ago", i)
		}
	}
	if has("1") || !has("2") || !has("3") || c.bytes != 90 {
		t.Errorf("got %d bytes, want those of 0, 2 and 3", c.bytes)
	}
	c.put("large", make([]byte, 101), 1000)
	c.put("3", make([]byte, 30), 1000) // again
	c.forget("2")
	c.forget("nothing")
	if has("large") || has("2") || !has("3") || c.bytes != 60 {
		t.Errorf("got %d bytes, want those of 0 and 3", c.bytes)
	}
	now = now.Add(tailCacheAge + time.Second)
	if has("0") || has("3") || c.bytes != 0 || c.recent.Len() != 0 {
		t.Errorf("got %d bytes after their time, want none", c.bytes)
	}
}
