package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/internal/audit"
	"sluice/internal/dataset"
	"sluice/internal/deletion"
	"sluice/internal/identifier"
	"sluice/internal/lake"
)

// round does something at random, sends events, and waits until they are committed.
func (s *soak) round() {
	n := s.commits.Load()
	if len(s.senders) == 0 {
		s.makeDataset()
		s.makeReader()
	}
	if n%s.day() >= s.part/2 && s.done["erase"] <= int(n/s.day()) {
		s.erase()
	}
	s.leave(4)
	for s.rand.IntN(3) > 0 {
		s.something()
	}
	s.send()
	s.settle()
	if s.done["round"]++; s.done["round"]%12 == 0 {
		s.follow()
		select {
		case s.upkeep <- make(chan struct{}):
		default: // it is at it
		}
	}
}

// settle waits until everything that was accepted is committed, and moves the clock.
func (s *soak) settle() {
	end, err := s.stream.Last(s.t.Context(), 0)
	if err != nil {
		s.t.Fatal(err)
	}
	within := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.loader.Watermark(0) < end {
		if <-tick.C; time.Now().After(within) {
			s.t.Fatalf("frame %d is not committed: %+v", end, s.loader.Stats())
		}
	}
	s.commits.Store(s.loader.Stats().Commits)
}

// day is how many commits a day has.
func (s *soak) day() int64 { return s.part * soakDay }

// something is one thing that somebody does. What operators change is rare.
func (s *soak) something() {
	everything := []action{
		{"look up a submission", s.lookUp},
		{"look up in the console", s.lookUpInConsole},
		{"stats", s.stats},
		{"page", s.page},
		{"catalog", s.catalog},
		{"rejected", s.reject},
		{"keyed", s.keyed},
		{"read the feed", s.readFeed},
		{"visit", s.visit},
		{"document", s.document},
	}
	changes := []action{
		{"dataset", s.changeDataset},
		{"key", s.changeKey},
		{"reader", s.changeReader},
	}
	one := pick(s, everything)
	if s.rand.IntN(20) == 0 {
		one = pick(s, changes)
	}
	s.done[one.name]++
	one.do()
}

type action struct {
	name string
	do   func()
}

// pick is one of all.
func pick[T any](s *soak, all []T) T { return all[s.rand.IntN(len(all))] }

// ask sends a request and returns the answer, whose status must be one of those given.
func (s *soak) ask(method, at, token, body string, header http.Header, want ...int) (http.Header, []byte) {
	r, err := http.NewRequest(method, at, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	content, err := io.ReadAll(a.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if !slices.Contains(want, a.StatusCode) {
		s.t.Fatalf("%s %s: got %d, want one of %v: %.500s", method, at, a.StatusCode, want, content)
	}
	return a.Header, content
}

func (s *soak) opsAt(path string) string { return strings.TrimSuffix(s.OpsURL(), "/") + path }

// send sends a batch, some of it invalid, or one event of somebody who may be erased.
func (s *soak) send() {
	x := pick(s, s.senders)
	var content []byte
	if s.rand.IntN(2) == 0 {
		_, content = s.ask(http.MethodPost, s.URL()+"/v1/events", x.key, s.event(x), nil, 200)
	} else {
		n := 2 + s.rand.IntN(8)
		if s.commits.Load() < s.day() { // memory that is used again becomes as large as the largest file that was written
			n *= 2
		}
		body := string(s.source.AppendBatch(nil, x.id, s.now().Unix(), n))
		body = "[" + s.event(x) + "," + body[1:] // one at least is valid
		_, content = s.ask(http.MethodPost, s.URL()+"/v1/events/batch", x.key, body, nil, 200)
	}
	s.remember(content)
	s.stored = s.last
}

// event is a valid event of one of a thousand people.
func (s *soak) event(x *soakSender) string {
	s.last = s.person()
	return fmt.Sprintf(`{"data_set_id":%q,"timestamp":%d,"event_type":"purchase","value":%d,"currency_code":"EUR","identifiers":{"email_sha256":"%s"}}`,
		x.id, s.now().Unix(), s.rand.IntN(1000), s.last)
}

func (s *soak) person() string { return fmt.Sprintf("%064x", 1000+s.rand.IntN(1000)) }

// remember keeps the submission id of a receipt.
func (s *soak) remember(receipt []byte) {
	var r struct {
		ID string `json:"submission_id"`
	}
	if err := json.Unmarshal(receipt, &r); err != nil || r.ID == "" {
		s.t.Fatalf("got the receipt %.200s (%v)", receipt, err)
	}
	s.receipts = newest(s.receipts, r.ID)
}

// newest adds one to a list of the newest, some of which are from the day before.
func newest(all []string, one string) []string {
	if all = append(all, one); len(all) > 1000 {
		all = slices.Delete(all, 0, 500)
	}
	return all
}

// keyed sends with an idempotency key, then the same again, then something else.
func (s *soak) keyed() {
	x := pick(s, s.senders)
	if s.rand.IntN(3) == 0 || x.idempotency == 0 {
		x.idempotency, x.body = x.idempotency+1, s.event(x)
	}
	header := http.Header{"Idempotency-Key": {fmt.Sprintf("%s-%d", x.id, x.idempotency)}}
	_, content := s.ask(http.MethodPost, s.URL()+"/v1/events", x.key, x.body, header, 200)
	s.remember(content)
	if s.rand.IntN(4) == 0 {
		s.ask(http.MethodPost, s.URL()+"/v1/events", x.key, s.event(x)+" ", header, 422)
	}
}

func (s *soak) lookUp() {
	if len(s.receipts) == 0 {
		return
	}
	x := pick(s, s.senders)
	s.ask(http.MethodGet, s.URL()+"/v1/submissions/"+pick(s, s.receipts)+pick(s, []string{"", "?include=events"}), x.key, "", nil, 200, 404)
}

func (s *soak) lookUpInConsole() {
	ids := slices.Concat(s.receipts, s.rejected, []string{"single.none", "", s.person()})
	s.ask(http.MethodGet, s.opsAt("/lookup?id="+url.QueryEscape(pick(s, ids))), "", "", nil, 200)
}

func (s *soak) stats() {
	x := pick(s, s.senders)
	s.ask(http.MethodGet, s.URL()+"/v1/stats?window="+pick(s, []string{"1h", "24h", "7d", "30d"}), x.key, "", nil, 200)
}

func (s *soak) page() {
	x := pick(s, s.senders)
	at := pick(s, []string{"/", "/?window=7d", "/datasets", "/dataset?id=" + x.id, "/diagnosis?dataset=" + x.id, "/live", "/try", "/system", "/metrics", "/readyz", "/none"})
	s.ask(http.MethodGet, s.opsAt(at), "", "", nil, 200, 404)
}

func (s *soak) document() {
	x := pick(s, s.senders)
	if s.rand.IntN(2) == 0 {
		s.ask(http.MethodPost, s.URL()+"/v1/events/validate", x.key, s.event(x), nil, 200)
		return
	}
	s.ask(http.MethodGet, s.URL()+pick(s, []string{"/v1/schema/events", "/openapi.json", "/docs"}), x.key, "", nil, 200)
}

func (s *soak) catalog() {
	at := pick(s, []string{"config", "namespaces", "namespaces/sluice/tables", "namespaces/sluice/tables/events", "namespaces/sluice/tables/rejections", "namespaces/sluice/tables/hours", "namespaces/none"})
	s.ask(http.MethodGet, s.opsAt("/iceberg/v1/"+at), s.token(), "", nil, 200, 404)
}

// token is that of a reader.
func (s *soak) token() string {
	return pick(s, s.readers).token
}

// reject sends what is rejected, under a request id that is new.
func (s *soak) reject() {
	x := pick(s, s.senders)
	id := fmt.Sprintf("soak-%d-%d", s.commits.Load(), s.rand.Uint32())
	header := http.Header{"X-Request-Id": {id}}
	at, key, body, want := s.URL()+"/v1/events", x.key, s.event(x), 400
	switch s.rand.IntN(8) {
	case 0:
		body = body[1:]
	case 1:
		last := "a"
		if strings.HasSuffix(key, last) {
			last = "b"
		}
		key, want = key[:len(key)-1]+last, 403
	case 2:
		key, want = "", 403
	case 3:
		body, want = strings.Replace(body, x.id, "another", 1), 403
	case 4:
		header.Set("Origin", "https://shop.example")
		want = 403
	case 5:
		at, want = at+"/"+id, 404
	case 6:
		header.Set("Content-Type", "text/plain")
		want = 415
	case 7:
		body = strings.Replace(body, "purchase", id, 1)
	}
	s.ask(http.MethodPost, at, key, body, header, want)
	s.rejected = newest(s.rejected, id)
}

// readFeed reads from the end, or, before the erasure of the day, from the beginning: the feed keeps what was read until
// something is erased.
func (s *soak) readFeed() {
	from := ""
	if s.commits.Load()%s.day() < s.part/2 {
		from = "&cursor=earliest"
	}
	s.ask(http.MethodGet, s.opsAt("/feed/v1/events?purpose=measurement&limit=1000"+from), s.token(), "", nil, 200)
}

// follow reads the feed from where it was to its end.
func (s *soak) follow() {
	var last struct {
		Cursor   string `json:"cursor"`
		CaughtUp bool   `json:"caught_up"`
	}
	for !last.CaughtUp {
		from := ""
		if s.cursor != "" {
			from = "&cursor=" + s.cursor
		}
		_, content := s.ask(http.MethodGet, s.opsAt("/feed/v1/events?purpose=measurement&limit=1000"+from), s.token(), "", nil, 200, 410)
		lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
		if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil {
			s.t.Fatalf("last line of the feed: %v", err)
		}
		s.cursor = last.Cursor
	}
}

// visitor follows the feed or the live view until it is told to leave.
type visitor struct {
	leave context.CancelFunc
	gone  sync.WaitGroup
}

// visit lets one come.
func (s *soak) visit() {
	at, token := s.opsAt("/live/events"), ""
	if s.rand.IntN(2) == 0 {
		at, token = s.opsAt("/feed/v1/events?purpose=optimization&wait=30s&limit=10000"), s.token()
	}
	ctx, leave := context.WithCancel(context.WithoutCancel(s.t.Context()))
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	v := &visitor{leave: leave}
	v.gone.Go(func() {
		a, err := s.client.Do(r)
		if err != nil {
			return
		}
		defer a.Body.Close()
		_, _ = io.Copy(io.Discard, a.Body)
	})
	s.visitors = append(s.visitors, v)
}

// leave makes visitors leave until there are so many.
func (s *soak) leave(most int) {
	for len(s.visitors) > most {
		i := s.rand.IntN(len(s.visitors))
		s.visitors[i].leave()
		s.visitors[i].gone.Wait()
		s.visitors = slices.Delete(s.visitors, i, i+1)
	}
}

// noted makes what an operator did part of the audit log, as the commands do.
func (s *soak) noted(err error, action, object string) {
	if err = errors.Join(err, s.audit.Append(s.t.Context(), audit.Entry{Time: s.now(), Actor: "user:soak", Action: action, Object: object})); err != nil {
		s.t.Fatalf("%s %s: %v", action, object, err)
	}
}

func (s *soak) makeDataset() {
	id := fmt.Sprintf("shop-%d", len(s.senders))
	_, keyID, key, err := s.registry.Create(s.t.Context(), dataset.Spec{ID: id, SuppressOptOut: len(s.senders)%2 == 0})
	s.noted(err, "dataset.create", id)
	s.senders = append(s.senders, &soakSender{id: id, key: key.Reveal(), keyID: keyID})
}

// changeDataset closes and opens a dataset, or sets something of it.
func (s *soak) changeDataset() {
	if len(s.senders) < 4 {
		s.makeDataset()
		return
	}
	x := pick(s, s.senders)
	if s.rand.IntN(2) == 0 {
		s.noted(s.registry.Disable(s.t.Context(), x.id), "dataset.disable", x.id)
		s.ask(http.MethodPost, s.URL()+"/v1/events", x.key, s.event(x), nil, 403)
		s.noted(s.registry.Enable(s.t.Context(), x.id), "dataset.enable", x.id)
		return
	}
	name := fmt.Sprintf("Shop %d", s.rand.Uint32())
	_, err := s.registry.Set(s.t.Context(), x.id, func(d *dataset.Dataset) { d.Name = name })
	s.noted(err, "dataset.set", x.id)
}

// changeKey gives a dataset a new key, and revokes the one before.
func (s *soak) changeKey() {
	x := pick(s, s.senders)
	keyID, key, err := s.registry.RotateKey(s.t.Context(), x.id, time.Hour)
	s.noted(err, "key.rotate", x.id)
	_, err = s.registry.RevokeKey(s.t.Context(), x.keyID)
	s.noted(err, "key.revoke", x.keyID)
	s.ask(http.MethodPost, s.URL()+"/v1/events", x.key, s.event(x), nil, 403)
	x.key, x.keyID = key.Reveal(), keyID
}

// makeReader makes a reader under a name that no live one has.
func (s *soak) makeReader() {
	n := 0
	for slices.ContainsFunc(s.readers, func(r soakReader) bool { return r.name == fmt.Sprintf("reader-%d", n) }) {
		n++
	}
	name := fmt.Sprintf("reader-%d", n)
	_, token, err := s.Service.readers.Create(s.t.Context(), dataset.ReaderSpec{Name: name, Allow: []string{dataset.AllowFeed, dataset.AllowCatalog}})
	s.noted(err, "reader.create", name)
	s.readers = append(s.readers, soakReader{name, token.Reveal()})
}

// changeReader makes a reader, or revokes one of several.
func (s *soak) changeReader() {
	if len(s.readers) < 4 {
		s.makeReader()
		return
	}
	i := s.rand.IntN(len(s.readers))
	s.noted(s.Service.readers.Revoke(s.t.Context(), s.readers[i].name), "reader.revoke", s.readers[i].name)
	s.readers = slices.Delete(s.readers, i, i+1)
}

// erase erases who has an event: first beside the service, as the command does, which changes the tables under it; later
// as the service does it. The service reads its tables anew after the first, and what had gathered in memory until then
// would not be seen.
func (s *soak) erase() {
	s.done["erase"]++
	beside := s.commits.Load() <= soakFirst*s.part
	l := s.lake
	if beside {
		var err error
		l, err = lake.OpenDir(s.t.Context(), filepath.Join(s.dir, "lake"), lake.Options{Now: s.now, SnapshotRetention: math.MaxInt64})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	rows := int64(0)
	list := s.erasures.NewList()
	list.Put(identifier.Email, s.stored)
	_, err := s.erasures.Add(s.t.Context(), list, "", s.now(), s.streamRetention())
	if err == nil {
		var done deletion.Done
		done, err = deletion.Apply(s.t.Context(), s.erasures, l, s.now(), nil)
		rows = done.Rows
	}
	if s.noted(err, "erase", ""); rows == 0 && !beside {
		s.t.Error("an erasure found no row, so older snapshots stay, and the figures cannot be compared")
	}
}
