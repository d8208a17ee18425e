package objectstore

import (
	"net/http"
	"sync/atomic"
)

// Requests counts the requests that were sent to a bucket, repeated ones as well, by how stores charge for them. Put
// has the parts of multipart uploads and what begins and ends them.
type Requests struct {
	Put, Get, Head, List, Delete uint64
}

// counter counts requests on their way to the store.
type counter struct {
	next                         http.RoundTripper
	put, get, head, list, remove atomic.Uint64
	versions                     atomic.Bool // a deleted object left a version
}

// RoundTrip counts a request and sends it.
func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.Method {
	case http.MethodPut, http.MethodPost:
		c.put.Add(1)
	case http.MethodHead:
		c.head.Add(1)
	case http.MethodDelete:
		c.remove.Add(1)
	default:
		if r.URL.Query().Has("list-type") {
			c.list.Add(1)
		} else {
			c.get.Add(1)
		}
	}
	answer, err := c.next.RoundTrip(r)
	// A store that keeps versions writes a marker instead of deleting, and names it.
	if err == nil && r.Method == http.MethodDelete &&
		(answer.Header.Get("X-Amz-Delete-Marker") != "" || answer.Header.Get("X-Amz-Version-Id") != "") {
		c.versions.Store(true)
	}
	return answer, err
}

// KeepsVersions says whether the bucket has kept what was deleted from it, as versioning and an object lock do. It is
// known once an object was deleted; OpenS3 does, but for a bucket that is read only.
func (s *S3) KeepsVersions() bool { return s.sent.versions.Load() }

// Stats counts the requests since the bucket was opened, those of all places in it.
func (s *S3) Stats() Requests {
	c := s.sent
	return Requests{
		Put: c.put.Load(), Get: c.get.Load(), Head: c.head.Load(), List: c.list.Load(),
		Delete: c.remove.Load(),
	}
}
