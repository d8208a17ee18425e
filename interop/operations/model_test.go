package operations

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"
)

// model is what a service must hold: everything that senders and operators know of it. A backup has a copy of it.
type model struct {
	datasets map[string]*datasetModel
	events   map[int]*eventModel // by value, which is different in every event, and which no outcome removes
	requests []*requestModel     // with an idempotency key
	receipts []receiptModel      // of what was acknowledged
	parts    int                 // partitions of the stream
}

type datasetModel struct {
	keys     []keyModel
	disabled bool
	suppress bool // the policy for an opt-out
	keep     int  // days; 0 is as long as the tables
}

type keyModel struct{ id, secret string }

// presence says what readers must find of an event.
type presence int

const (
	absent presence = iota // erased
	maybe                  // nobody knows whether it was stored, or whether it was before it was erased
	once
)

type eventModel struct {
	dataset    string
	person     int // whose e-mail address it carries
	optedOut   bool
	suppressed bool      // by the policy of its dataset when it was accepted
	received   time.Time // by the clock of the service
	presence   presence
}

type requestModel struct {
	dataset, path, key, body string
	events                   []int
	receipt                  string // "" while nobody knows it
	moved                    bool   // it was sent before the service moved into a cluster, which does not know its receipt
	sent                     time.Time
}

type receiptModel struct {
	dataset, id string
	accepted    int
}

func newModel() *model {
	return &model{datasets: map[string]*datasetModel{}, events: map[int]*eventModel{}, parts: 1}
}

// clone is a copy that shares nothing which changes.
func (m *model) clone() *model {
	out := &model{
		datasets: map[string]*datasetModel{}, events: map[int]*eventModel{}, receipts: slices.Clone(m.receipts), parts: m.parts,
	}
	for id, d := range m.datasets {
		copied := *d
		copied.keys = slices.Clone(d.keys)
		out.datasets[id] = &copied
	}
	for value, e := range m.events {
		copied := *e
		out.events[value] = &copied
	}
	for _, r := range m.requests {
		copied := *r
		out.requests = append(out.requests, &copied)
	}
	return out
}

// erasure is an identifier that was erased, from one dataset or, with "", from all. Or it is everybody: a dataset was deleted.
type erasure struct {
	person  int
	dataset string
}

const everybody = -1

// erase notes an erasure.
func (m *model) erase(e erasure) {
	if e.person == everybody {
		m.drop(e.dataset)
		return
	}
	for _, event := range m.events {
		if event.person == e.person && !event.suppressed && (e.dataset == "" || event.dataset == e.dataset) {
			event.presence = absent
		}
	}
}

// drop notes that a dataset was deleted.
func (m *model) drop(dataset string) {
	delete(m.datasets, dataset)
	for _, event := range m.events {
		if event.dataset == dataset {
			event.presence = absent
		}
	}
	m.requests = slices.DeleteFunc(m.requests, func(r *requestModel) bool { return r.dataset == dataset })
	m.receipts = slices.DeleteFunc(m.receipts, func(r receiptModel) bool { return r.dataset == dataset })
}

// keep is for how long rows of a dataset are kept.
func (m *model) keep(dataset string) time.Duration {
	if d := m.datasets[dataset]; d != nil && d.keep > 0 {
		return time.Duration(d.keep) * 24 * time.Hour
	}
	return retention
}

// setKeep notes another retention. What was too old before may be gone.
func (m *model) setKeep(dataset string, days int, now time.Time) {
	for _, e := range m.events {
		if e.dataset == dataset && e.presence == once && e.want(now, m.newest(), m.keep(dataset)) != once {
			e.presence = maybe
		}
	}
	m.datasets[dataset].keep = days
}

// retention is for how long the tables keep events.
const retention = 3 * 24 * time.Hour

// edge is how near to the end of a day nobody says whether a day is over: the service reads its clock a little later.
const edge = 2 * time.Minute

// newest is when the newest event was received that is stored for certain. Ages count from there, or from a later receipt.
func (m *model) newest() (at time.Time) {
	for _, e := range m.events {
		if e.presence == once && e.received.After(at) {
			at = e.received
		}
	}
	return at
}

// want is what a reader must find of an event at a time, if the newest receipt is not older than newest.
func (e *eventModel) want(now, newest time.Time, keep time.Duration) presence {
	over := e.received.Truncate(24 * time.Hour).Add(24*time.Hour + keep)
	switch {
	case e.presence == absent || now.After(over.Add(edge)) && newest.After(over):
		return absent
	case now.After(over.Add(-edge)):
		return maybe
	}
	return e.presence
}

// ids lists the datasets in order, so that the same seed chooses the same.
func (m *model) ids() []string { return slices.Sorted(maps.Keys(m.datasets)) }

// hash is the SHA-256 of the e-mail address of a person.
func hash(person int) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "person-%d@example.com", person))
}

func hexHash(person int) string {
	h := hash(person)
	return hex.EncodeToString(h[:])
}

// unhash is a hash in hex, of what iceberg-go prints for a binary value.
func unhash(text string) string {
	h, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return text
	}
	return hex.EncodeToString(h)
}
