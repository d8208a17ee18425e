package feed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/engine"
	"sluice/internal/lake"
	"sluice/internal/purpose"
	"sluice/internal/stream"
)

// Rows are narrowed by type and campaign, each of which may be given more than once.
func TestFilters(t *testing.T) {
	s := openSite(t, engine.Options{Dir: t.TempDir()}, stream.Options{})
	s.send("shop", 40)
	for query, want := range map[string][]string{
		"campaign=n1":                          {"n1"},
		"campaign=n1&campaign=n3&campaign=n4":  {"n1", "n3"},
		"type=purchase&campaign=n2":            {"n2"},
		"type=share&type=purchase&campaign=n2": {"n2"},
		"type=share":                           nil,
		"campaign=N1":                          nil,
	} {
		if got, _ := s.all("purpose=measurement&limit=3&"+query, Earliest); !same(got, want) {
			t.Errorf("%s: got %v, want %v", query, got, want)
		}
	}
}

// What a follower is told about completeness holds for its cursor: it has read everything that was stored by then. It stands
// still while nothing is known, and does not go back.
func TestCompleteThrough(t *testing.T) {
	s := openSite(t, engine.Options{Dir: t.TempDir()}, stream.Options{Partitions: 2})
	var oldest atomic.Int64
	s.Feed.o.Oldest = func(context.Context) (int64, bool) { return oldest.Load(), oldest.Load() > 0 }
	s.send("shop", 8)
	cursor, none := Earliest, time.Unix(0, 0)
	for i, c := range []struct {
		oldest int64
		limit  int
		want   int64
	}{
		{1000, 1, 0}, // there are rows left
		{1005, 100, 1005},
		{0, 100, 1005},   // a node cannot be asked
		{900, 100, 1005}, // one has come whose clock is behind
		{1007, 100, 1007},
	} {
		oldest.Store(c.oldest)
		p := s.get("all", fmt.Sprintf("/feed/v1/events?purpose=measurement&limit=%d&cursor=%s", c.limit, cursor))
		if p.status != 200 || !p.Complete.Equal(none.Add(time.Duration(c.want)*time.Second)) {
			t.Errorf("%d: got %d, %v, want %d", i, p.status, p.Complete, c.want)
		}
		cursor = p.Cursor
	}
}

func TestRead(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		empty := s.get("all", "/feed/v1/events?purpose=measurement")
		if empty.status != 200 || len(empty.rows) != 0 || !empty.CaughtUp {
			t.Fatalf("an empty stream: got %+v", empty)
		}
		for range 40 {
			s.send("shop", 1+rand.IntN(7))
		}
		measured, end := s.all("purpose=measurement&limit=7", empty.Cursor)
		if !same(measured, want(s.sent, purpose.Measurement)) {
			t.Errorf("measurement: got %d rows, want %d", len(measured), len(want(s.sent, purpose.Measurement)))
		}
		optimized, _ := s.all("purpose=optimization&limit=3", Earliest)
		if !same(optimized, want(s.sent, purpose.Optimization)) {
			t.Errorf("optimization: got %d rows, want %d", len(optimized), len(want(s.sent, purpose.Optimization)))
		}
		// The same cursor gives the same rows in the same order, whatever the size of the pages, and after more has come.
		s.send("shop", 5)
		for _, limit := range []int{1, 2, 50, 100_000} {
			again, _ := s.all(fmt.Sprintf("purpose=measurement&limit=%d", limit), Earliest)
			if !slices.Equal(again[:len(measured)], measured) {
				t.Errorf("in pages of %d the order differs", limit)
			}
		}
		rest, _ := s.all("purpose=measurement", end)
		if !same(append(slices.Clone(measured), rest...), want(s.sent, purpose.Measurement)) {
			t.Errorf("after the cursor: got %d rows and %d, of %d", len(measured), len(rest), len(want(s.sent, purpose.Measurement)))
		}
		if text := s.get("all", "/feed/v1/events?purpose=measurement&cursor=earliest&limit=10000").text; strings.Contains(text, "suppressed") {
			t.Error("a suppressed row was handed out")
		}
		if from := s.get("all", "/feed/v1/events?purpose=measurement"); len(from.rows) != 0 {
			t.Errorf("from now on: got %d rows", len(from.rows))
		}
	})
}

// Rows side by side come in one piece; what lies between is in no piece.
func TestRun(t *testing.T) {
	f := &frame{text: []byte("0123456")}
	for i, r := range []row{
		{dataset: "a", purpose: purpose.Measurement},
		{dataset: "a", purpose: purpose.Optimization},
		{dataset: "b", purpose: purpose.Optimization},
		{dataset: "a", purpose: 0},
		{dataset: "b", purpose: purpose.Measurement},
		{dataset: "b", purpose: purpose.Optimization},
		{dataset: "a", purpose: purpose.Measurement},
		{dataset: "a", purpose: purpose.Optimization},
	} {
		r.at = uint32(i)
		if i > 3 {
			r.at--
		}
		r.end = r.at + 1
		if r.purpose == 0 {
			r.end = r.at
		}
		f.rows = append(f.rows, r)
	}
	for _, c := range []struct {
		q    Query
		want string
	}{
		{Query{Purpose: purpose.Measurement, Limit: 9, Bytes: 99}, "0123456"},
		{Query{Purpose: purpose.Optimization, Limit: 9, Bytes: 99}, "12 4 6"},
		{Query{Purpose: purpose.Measurement, Dataset: "a", Limit: 9, Bytes: 99}, "01 56"},
		{Query{Purpose: purpose.Measurement, Dataset: "b", Limit: 9, Bytes: 99}, "234"},
		{Query{Purpose: purpose.Measurement, Dataset: "c", Limit: 9, Bytes: 99}, ""},
		{Query{Purpose: purpose.Measurement, Limit: 2, Bytes: 99}, "01 23 45 6"},
		{Query{Purpose: purpose.Measurement, Limit: 9, Bytes: 3}, "012 345 6"},
	} {
		var got []string
		for at := uint64(0); at < uint64(len(f.rows)); {
			lines, n, next := f.run(&c.q, at)
			if next <= at || n != len(lines) {
				t.Fatalf("%+v: from %d to %d, %d rows in %q", c.q, at, next, n, lines)
			}
			if n > 0 {
				got = append(got, string(lines))
			}
			at = next
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: got %q, want %q", c.q, got, c.want)
		}
	}
}

func TestDatasets(t *testing.T) {
	s := openSite(t, engine.Options{Dir: t.TempDir()}, stream.Options{})
	s.send("other", 8)
	s.send("shop", 8)
	const path = "/feed/v1/events?purpose=measurement&cursor=earliest"
	for name, c := range map[string]struct {
		token, path string
		status      int
		code        string
		rows        int
	}{
		"all":                       {"all", path, 200, "", 12},
		"one":                       {"all", path + "&dataset=shop", 200, "", 6},
		"none":                      {"all", path + "&dataset=nowhere", 200, "", 0},
		"bound":                     {"bound", path, 200, "", 6},
		"bound, its own":            {"bound", path + "&dataset=shop", 200, "", 6},
		"bound, another":            {"bound", path + "&dataset=other", 403, "DATASET_FORBIDDEN", 0},
		"not the feed":              {"catalog", path, 403, "READER_FORBIDDEN", 0},
		"nobody":                    {"", path, 401, "MISSING_TOKEN", 0},
		"a sender's key":            {"sluice_000000000000_00000000000000000000000000000000000000", path, 401, "INVALID_TOKEN", 0},
		"no purpose":                {"all", "/feed/v1/events", 400, "INVALID_PARAMETER", 0},
		"another purpose":           {"all", "/feed/v1/events?purpose=resale", 400, "INVALID_PARAMETER", 0},
		"no limit":                  {"all", path + "&limit=0", 400, "INVALID_PARAMETER", 0},
		"a limit that is no number": {"all", path + "&limit=x", 400, "INVALID_PARAMETER", 0},
		"a wait that is none":       {"all", path + "&wait=x", 400, "INVALID_PARAMETER", 0},
		"a negative wait":           {"all", path + "&wait=-1s", 400, "INVALID_PARAMETER", 0},
		"an empty dataset":          {"all", path + "&dataset=", 400, "INVALID_PARAMETER", 0},
		"two datasets":              {"all", path + "&dataset=shop&dataset=other", 400, "INVALID_PARAMETER", 0},
		"bound, an empty dataset":   {"bound", path + "&dataset=", 400, "INVALID_PARAMETER", 0},
		"an empty type":             {"all", path + "&type=", 400, "INVALID_PARAMETER", 0},
		"a type and an empty one":   {"all", path + "&type=purchase&type=", 400, "INVALID_PARAMETER", 0},
		"no event type":             {"all", path + "&type=purchase&type=Purchase", 400, "INVALID_PARAMETER", 0},
		"an empty campaign":         {"all", path + "&campaign", 400, "INVALID_PARAMETER", 0},
		"an escape that is none":    {"all", path + "&dataset=%zz", 400, "INVALID_PARAMETER", 0},
		"half an escape":            {"all", path + "&type=purchase%", 400, "INVALID_PARAMETER", 0},
		"a semicolon":               {"all", path + "&dataset=shop;wait=1s", 400, "INVALID_PARAMETER", 0},
		"two purposes":              {"all", path + "&purpose=optimization", 400, "INVALID_PARAMETER", 0},
		"two cursors":               {"all", path + "&cursor=earliest", 400, "INVALID_PARAMETER", 0},
		"two types":                 {"all", path + "&type=purchase&type=sign_up", 200, "", 12},
		"a wait in seconds":         {"all", path + "&wait=0.1", 200, "", 12},
		"no cursor":                 {"all", "/feed/v1/events?purpose=measurement&cursor=AAAA", 400, "INVALID_CURSOR", 0},
		"another path":              {"all", "/feed/v1/rows", 404, "NOT_FOUND", 0},
		"no snapshot":               {"all", "/feed/v1/cursor", 400, "INVALID_PARAMETER", 0},
		"two snapshots":             {"all", "/feed/v1/cursor?snapshot=17&snapshot=18", 400, "INVALID_PARAMETER", 0},
		"a snapshot, and more":      {"all", "/feed/v1/cursor?snapshot=17&%zz", 400, "INVALID_PARAMETER", 0},
		"an unknown snapshot":       {"all", "/feed/v1/cursor?snapshot=17", 404, "SNAPSHOT_NOT_FOUND", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &site{Feed: s.Feed, t: t, web: s.web}
			got := s.get(c.token, c.path)
			if got.status != c.status || got.Code != c.code || len(got.rows) != c.rows || (c.code != "") != (got.Hint != "") {
				t.Errorf("got %d %q, %d rows, hint %q; want %d %q, %d rows", got.status, got.Code, len(got.rows), got.Hint, c.status, c.code, c.rows)
			}
		})
	}
}

// A follower that waits gets a row within a second of its acknowledgement, and a revoked one nothing more.
func TestWait(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		begin := s.get("all", "/feed/v1/events?purpose=measurement")
		got := make(chan page, 1)
		go func() { got <- s.get("all", "/feed/v1/events?purpose=measurement&wait=30s&cursor="+begin.Cursor) }()
		revoked := make(chan page, 1)
		go func() { revoked <- s.get("bound", "/feed/v1/events?purpose=measurement&wait=30s&cursor="+begin.Cursor) }()
		for s.places.count() < 2 {
			time.Sleep(time.Millisecond)
		}
		s.tokens.revoke("bound")
		begun := time.Now()
		if p := <-revoked; p.status != 401 || len(p.rows) != 0 {
			t.Errorf("revoked while it waited: got %d and %d rows", p.status, len(p.rows))
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("the revocation held after %v", took)
		}
		begun = time.Now()
		s.send("shop", 1)
		p := <-got
		if took := time.Since(begun); len(p.rows) != 1 || took > time.Second {
			t.Errorf("got %d rows after %v, want 1 within a second", len(p.rows), took)
		}
		begun = time.Now()
		p = s.get("all", "/feed/v1/events?purpose=measurement&wait=300ms&cursor="+p.Cursor)
		if took := time.Since(begun); len(p.rows) != 0 || !p.CaughtUp || took < 300*time.Millisecond {
			t.Errorf("nothing came: got %d rows after %v", len(p.rows), took)
		}
	})
}

// load commits what was sent to the table, as the loader does, up to the newest frame of each partition.
func (s *site) load() int64 {
	s.t.Helper()
	for p := range s.stream.Partitions() {
		marks, err := s.lake.Watermarks(s.t.Context(), uint8(p))
		if err != nil {
			s.t.Fatal(err)
		}
		b := lake.Batch{Spans: []lake.Span{{Partition: uint8(p), From: marks, To: marks.Events}}}
		err = s.stream.Scan(s.t.Context(), uint8(p), marks.Events+1, func(f stream.Frame) error {
			for slot, record := range f.Records {
				sub, err := testIDs.DecodeRecord(string(record), uint8(p), f.Seq, uint16(slot))
				if err != nil {
					return err
				}
				b.Events = append(b.Events, sub.Rows...)
			}
			b.Spans[0].To = f.Seq
			return nil
		})
		if err == nil && b.Spans[0].To > marks.Events {
			err = s.lake.Commit(s.t.Context(), b, 0)
		}
		if err != nil && !errors.Is(err, stream.ErrBehind) {
			s.t.Fatal(err)
		}
	}
	snap, err := s.lake.Snapshot(s.t.Context(), 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return snap.ID
}

// A cursor of a snapshot continues exactly after the rows of the snapshot, also when newer ones have come.
func TestSnapshot(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, s *site) {
		for range 9 {
			s.send("shop", 4)
		}
		first := s.load()
		loaded := s.sent
		for range 9 {
			s.send("shop", 4)
		}
		if s.load() == first {
			t.Fatal("no newer snapshot")
		}
		got := s.get("all", fmt.Sprintf("/feed/v1/cursor?snapshot=%d", first))
		if got.status != 200 || got.Snapshot != first {
			t.Fatalf("got %+v", got)
		}
		rows, _ := s.all("purpose=measurement", got.Cursor)
		if all := append(want(loaded, purpose.Measurement), rows...); !same(all, want(s.sent, purpose.Measurement)) {
			t.Errorf("the table and the feed: got %d rows, want %d, each once", len(all), len(want(s.sent, purpose.Measurement)))
		}
	})
}

// A follower is told that it is the table that cannot be read.
func TestTableIsAway(t *testing.T) {
	s := openSite(t, engine.Options{Dir: t.TempDir()}, stream.Options{})
	s.Feed.o.Tables = away{}
	got := s.get("all", "/feed/v1/cursor?snapshot=17")
	if got.status != 503 || !strings.Contains(got.text, "table") || strings.Contains(got.text, "stream") || strings.Contains(got.Hint, "cursor") {
		t.Errorf("got %d %s, want 503 about the table", got.status, got.text)
	}
}

// What the stream no longer holds is in the table: the answer says which snapshot, and which cursor follows it.
func TestExpired(t *testing.T) {
	for _, partitions := range []int{1, 3} {
		s := openSite(t, engine.Options{Dir: t.TempDir()}, stream.Options{Partitions: partitions, MaxAge: time.Second})
		old := s.get("all", "/feed/v1/events?purpose=measurement")
		for range 9 {
			s.send("shop", 4)
		}
		s.load()
		for { // until the stream has forgotten them
			b, err := s.stream.Bounds(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(b, func(b stream.Bounds) bool { return b.First <= b.Last }) {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		loaded := s.sent
		s.send("shop", 4)
		got := s.get("all", "/feed/v1/events?purpose=measurement&cursor="+old.Cursor)
		if got.status != 410 || got.Code != "CURSOR_EXPIRED" || got.Snapshot == 0 || got.Cursor == "" {
			t.Fatalf("got %+v", got)
		}
		rows, _ := s.all("purpose=measurement", got.Cursor)
		if all := append(want(loaded, purpose.Measurement), rows...); !same(all, want(s.sent, purpose.Measurement)) {
			t.Errorf("the table and the feed: got %d rows, want %d, each once", len(all), len(want(s.sent, purpose.Measurement)))
		}
		if snap, err := s.lake.Snapshot(t.Context(), got.Snapshot); err != nil || snap.ID != got.Snapshot {
			t.Errorf("the snapshot: got %+v, %v", snap, err)
		}
	}
}

// A cursor of another stream, and one from the future, belong to nothing that can be read.
func TestForeignCursor(t *testing.T) {
	s := openSite(t, engine.Options{Dir: t.TempDir()}, stream.Options{})
	s.send("shop", 4)
	c, err := s.Cursor(t.Context(), Earliest)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Cursor){
		"another stream":       func(c *Cursor) { c.stream++ },
		"the future":           func(c *Cursor) { c.parts[0].seq = 1000 },
		"another log":          func(c *Cursor) { c.log++ },
		"the log's future":     func(c *Cursor) { c.erased.seq = 1000 },
		"the log's past":       func(c *Cursor) { c.erased.seq = 0 },
		"more partitions":      func(c *Cursor) { c.parts = append(c.parts, position{seq: 1}) },
		"unchanged, for proof": nil,
	} {
		other := *c
		other.parts = slices.Clone(c.parts)
		status := 200
		if change != nil {
			change(&other)
			status = 410
		}
		if got := s.get("all", "/feed/v1/events?purpose=measurement&cursor="+s.Text(&other)); got.status != status {
			t.Errorf("%s: got %d %s, want %d", name, got.status, got.text, status)
		}
	}
}

func TestCursorText(t *testing.T) {
	c := &Cursor{stream: 1<<63 + 5, parts: []position{{1, 0}, {1 << 40, 4095}, {7, 3}}}
	f := New(Options{Secret: []byte("a secret")})
	text := f.Text(c)
	back, err := f.parse(text)
	if err != nil || !reflect.DeepEqual(back, c) {
		t.Fatalf("got %+v, %v", back, err)
	}
	if _, err := New(Options{Secret: []byte("another")}).parse(text); err == nil {
		t.Error("a cursor of another service is taken for one of this")
	}
	if again := f.Text(c); again == text || len(again) != len(f.Text(&Cursor{parts: []position{{1, 0}, {1, 0}, {1, 0}}})) {
		t.Error("a cursor shows whether, or how much, was sent since another one")
	}
	for i := range text {
		for _, other := range []string{text[:i], text[:i] + "A" + text[i+1:], text + text[i:]} {
			if other == text {
				continue
			}
			if _, err := f.parse(other); err == nil {
				t.Errorf("%q is taken for a cursor", other)
			}
		}
	}
}

func FuzzCursor(f *testing.F) {
	site := New(Options{})
	f.Add(site.Text(&Cursor{stream: 1, parts: []position{{1, 0}}}))
	f.Add("earliest")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := site.parse(text); err == nil {
			if again, err := site.parse(site.Text(c)); err != nil || !reflect.DeepEqual(again, c) {
				t.Errorf("%q: got %v", text, err)
			}
		}
	})
}

// A partition that is added later is followed from its beginning.
func TestMorePartitions(t *testing.T) {
	e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	open := func(n int) *stream.Stream {
		st, err := stream.Open(t.Context(), e, stream.Options{Partitions: n})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	one := open(1)
	before := New(Options{Stream: one})
	old, err := before.Cursor(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	_ = one.Close()
	st := open(3)
	defer st.Close()
	c, err := New(Options{Stream: st}).Cursor(t.Context(), before.Text(old))
	if err != nil || len(c.parts) != 3 || c.parts[2].seq != 1 {
		t.Errorf("got %+v, %v, want the new partitions from their beginning", c, err)
	}
}

// A follower that does not read is cut off, and holds up neither those who write nor those who read.
func TestSlowFollower(t *testing.T) {
	s := openSite(t, engine.Options{Dir: t.TempDir()}, stream.Options{})
	s.writeWait = 300 * time.Millisecond
	for range 60 { // more than the buffers of two sockets hold
		s.send("shop", 1000)
	}
	conn, err := net.Dial("tcp", s.web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "GET /feed/v1/events?purpose=measurement&cursor=earliest&limit=10000 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer all\r\n\r\n")
	for deadline := time.Now().Add(30 * time.Second); s.Stats().Rows == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the slow follower is not served at all")
		}
	}
	begun := time.Now()
	s.send("shop", 4)
	if got := s.get("all", "/feed/v1/events?purpose=measurement&cursor=earliest&limit=10"); len(got.rows) != 10 {
		t.Errorf("another follower: got %d rows", len(got.rows))
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("others waited %v", took)
	}
	for deadline := time.Now().Add(10 * time.Second); s.Stats().Followers > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the slow follower is still served after %v", time.Since(begun))
		}
	}
	if got := s.Stats().Cut; got != 1 {
		t.Errorf("got %d followers that were cut off, want 1", got)
	}
}

// One reader has at most a fifth of all places, and another one gets in however many are taken.
func TestFollowersAreBounded(t *testing.T) {
	s := openSite(t, engine.Options{Dir: t.TempDir()}, stream.Options{})
	for range readerPlaces {
		if !s.places.enter("bound") {
			t.Fatal("a reader does not get its places")
		}
	}
	if got := s.get("bound", "/feed/v1/events?purpose=measurement"); got.status != 429 || got.Code != "TOO_MANY_FOLLOWERS" {
		t.Errorf("a reader with all its places: got %d %q", got.status, got.Code)
	}
	for i := range maxFollowers - readerPlaces {
		s.places.enter(fmt.Sprint("other-", i/readerPlaces))
	}
	if n := s.places.count(); n != maxFollowers || s.places.enter("other-0") {
		t.Errorf("got %d places, want %d and no more", n, maxFollowers)
	}
	if got := s.get("all", "/feed/v1/events?purpose=measurement"); got.status != 200 || s.Stats().Rejected != 1 {
		t.Errorf("a reader without a place: got %d, %+v", got.status, s.Stats())
	}
	s.places.leave("bound")
	s.places.enter("other-9")
	if got := s.get("bound", "/feed/v1/events?purpose=measurement"); got.status != 429 {
		t.Errorf("all places are taken: got %d", got.status)
	}
	for range readerPlaces - 1 {
		s.places.leave("bound")
	}
	if got := s.get("bound", "/feed/v1/events?purpose=measurement"); got.status != 200 {
		t.Errorf("its first place: got %d", got.status)
	}
}

// A request that finds nothing for its reader answers soon, with a cursor behind what it looked at, and asking on finds
// everything.
func TestScanIsBounded(t *testing.T) {
	for _, partitions := range []int{1, 3} {
		s := openSite(t, engine.Options{Dir: t.TempDir()}, stream.Options{Partitions: partitions})
		for range 12 {
			s.send("other", 4)
		}
		s.send("shop", 4)
		s.scanTime = 1
		first := s.get("bound", "/feed/v1/events?purpose=measurement&wait=30s&cursor=earliest")
		if first.status != 200 || len(first.rows) != 0 || first.CaughtUp || first.Cursor == "" {
			t.Fatalf("got %d %s", first.status, first.text)
		}
		rows := 0
		for p, n := first, 0; !p.CaughtUp; n++ {
			if n > 1000 {
				t.Fatal("the cursor does not move")
			}
			p = s.get("bound", "/feed/v1/events?purpose=measurement&cursor="+p.Cursor)
			rows += len(p.rows)
		}
		if rows != 3 { // the fourth is suppressed
			t.Errorf("%d partitions: got %d rows, want 3", partitions, rows)
		}
		all, _ := s.all("purpose=measurement", Earliest)
		if !same(all, want(s.sent, purpose.Measurement)) {
			t.Errorf("%d partitions: got %d rows in steps, want %d", partitions, len(all), len(want(s.sent, purpose.Measurement)))
		}
	}
}
