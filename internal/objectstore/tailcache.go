package objectstore

import (
	"container/list"
	"sync"
	"time"
)

// What a tailCache keeps. A footer with its page indexes fits into a block; a small object is one whole. So the files
// of a day that a page or a look-up asks for again cost no request.
const (
	tailCacheBytes = 32 << 20 // of all objects of a bucket together; arbitrary, 128 large files
	tailCacheAge   = 10 * time.Minute
)

// tailCache keeps the ends of objects that were opened last. Objects do not change. It forgets them by age as well, so
// that what was erased elsewhere does not stay in memory for long.
type tailCache struct {
	now func() time.Time
	max int

	mu     sync.Mutex
	bytes  int
	byName map[string]*list.Element
	recent list.List // of *tail; the one used last comes first
}

type tail struct {
	name string
	b    []byte
	size int64 // of the object
	at   time.Time
}

func newTailCache(maxBytes int, now func() time.Time) *tailCache {
	return &tailCache{now: now, max: maxBytes, byName: map[string]*list.Element{}}
}

// get returns the end of an object, which nobody may change, and the size of the object.
func (c *tailCache) get(name string) (b []byte, size int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byName[name]
	if e == nil {
		return nil, 0, false
	}
	t := e.Value.(*tail)
	if c.now().Sub(t.at) > tailCacheAge {
		c.drop(e)
		return nil, 0, false
	}
	c.recent.MoveToFront(e)
	return t.b, t.size, true
}

func (c *tailCache) put(name string, b []byte, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byName[name]; e != nil {
		c.drop(e)
	}
	if len(b) > c.max {
		return
	}
	c.byName[name] = c.recent.PushFront(&tail{name, b, size, c.now()})
	for c.bytes += len(b); c.bytes > c.max; {
		c.drop(c.recent.Back())
	}
}

// forget drops an object that is being removed.
func (c *tailCache) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byName[name]; e != nil {
		c.drop(e)
	}
}

func (c *tailCache) drop(e *list.Element) {
	t := c.recent.Remove(e).(*tail)
	delete(c.byName, t.name)
	c.bytes -= len(t.b)
}
