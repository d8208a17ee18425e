package bench

import (
	"context"
	"errors"
	"time"

	"sluice/internal/objectstore"
)

// Bucket is where the tables of measured servers are, if not in a directory.
type Bucket struct {
	URL  string   // such as s3://bucket/prefix; each load has a prefix of its own below it
	Args []string // of serve, beside --lake: how the bucket is reached
	Open func(ctx context.Context, url string) (objectstore.Store, error)
}

// Dollars for a thousand requests: Amazon S3 Standard in us-east-1. Compare them with the current price list. DELETE is free.
const (
	dollarsPut = 0.005  // and LIST
	dollarsGet = 0.0004 // and HEAD
)

// BucketFigures are the requests that a server sent to its bucket while it was under load and until all was loaded.
type BucketFigures struct {
	Seconds float64 `json:"seconds"`
	Put     float64 `json:"put"`
	Get     float64 `json:"get"`
	Head    float64 `json:"head"`
	List    float64 `json:"list"`
	Delete  float64 `json:"delete"`
}

// Day is what a number of requests is in a day.
func (b *BucketFigures) Day(n float64) float64 {
	if b.Seconds == 0 {
		return 0
	}
	return n / b.Seconds * 86400
}

// Dollars is what the requests of a day cost.
func (b *BucketFigures) Dollars() float64 {
	return (b.Day(b.Put+b.List)*dollarsPut + b.Day(b.Get+b.Head)*dollarsGet) / 1000
}

// add adds what was sent between two readings.
func (b *BucketFigures) add(from, to BucketFigures, took time.Duration) {
	b.Seconds += took.Seconds()
	b.Put += to.Put - from.Put
	b.Get += to.Get - from.Get
	b.Head += to.Head - from.Head
	b.List += to.List - from.List
	b.Delete += to.Delete - from.Delete
}

// readRequests takes the requests that a server has sent to its bucket out of its metrics.
func readRequests(metrics map[string]float64) (b BucketFigures, err error) {
	for method, into := range map[string]*float64{"PUT": &b.Put, "GET": &b.Get, "HEAD": &b.Head, "LIST": &b.List, "DELETE": &b.Delete} {
		n, found := metrics[`sluice_objectstore_requests_total{method="`+method+`"}`]
		if !found {
			return b, errors.New("the metrics of the server do not count requests to a bucket")
		}
		*into = n
	}
	return b, nil
}

// empty deletes everything in a place.
func empty(s objectstore.Store) error {
	objects, err := s.List("", true)
	if err != nil {
		return err
	}
	var failed error
	for _, o := range objects {
		failed = errors.Join(failed, s.Remove(o.Name))
	}
	return failed
}
