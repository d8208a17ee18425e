package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/dataset"
	"sluice/internal/engine"
	"sluice/internal/enginetest"
	"sluice/internal/erasure"
	"sluice/internal/lake"
	"sluice/internal/purpose"
	"sluice/internal/stream"
	"sluice/internal/submission"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

// tokens are readers by their tokens. They can be revoked.
type tokens struct {
	mu  sync.Mutex
	all map[string]*dataset.Reader
}

func (t *tokens) Authenticate(token string) (*dataset.Reader, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.all[token]; r != nil {
		return r, nil
	}
	return nil, dataset.ErrToken
}

func (t *tokens) revoke(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, token)
}

// site is a feed over a real stream and a real lake.
type site struct {
	*Feed
	t      testing.TB
	stream *stream.Stream
	lake   *lake.Lake
	tokens *tokens
	erased *erasure.Tombstones
	web    *httptest.Server
	sent   int
}

// onEveryEngine runs a test over the embedded engine and over a server of its own, with one partition and with several.
func onEveryEngine(t *testing.T, test func(t *testing.T, s *site)) {
	for _, partitions := range []int{1, 3} {
		t.Run(fmt.Sprintf("embedded, %d partitions", partitions), func(t *testing.T) {
			test(t, openSite(t, engine.Options{Dir: t.TempDir()}, stream.Options{Partitions: partitions}))
		})
		t.Run(fmt.Sprintf("external, %d partitions", partitions), func(t *testing.T) {
			srv := enginetest.Start(t, "")
			test(t, openSite(t, engine.Options{URL: srv.URL(), Token: enginetest.Token}, stream.Options{Partitions: partitions}))
		})
	}
}

func openSite(t testing.TB, eo engine.Options, so stream.Options) *site {
	t.Helper()
	e, err := engine.Open(t.Context(), eo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	st, err := stream.Open(t.Context(), e, so)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = st.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done; _ = st.Close() })
	l, err := lake.OpenDir(t.Context(), t.TempDir(), lake.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, stream: st, lake: l, tokens: &tokens{all: map[string]*dataset.Reader{
		"all":     {Name: "all", Allow: []string{"feed"}},
		"bound":   {Name: "bound", Allow: []string{"feed"}, DatasetID: "shop"},
		"catalog": {Name: "catalog", Allow: []string{"catalog"}},
	}}}
	if s.erased, err = erasure.Open(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	s.Feed = New(Options{Stream: st, IDs: testIDs, Erasures: s.erased, Tables: l, Readers: s.tokens, Log: slog.New(slog.DiscardHandler)})
	s.web = httptest.NewServer(s.Handler())
	t.Cleanup(s.web.Close)
	for st.Ready() != nil {
		time.Sleep(time.Millisecond)
	}
	return s
}

// testIDs are the submission ids of a secret that all tests share.
var testIDs = func() *submission.IDs {
	ids, err := submission.NewIDs(make([]byte, 32))
	if err != nil {
		panic(err) // the length of the secret is right
	}
	return ids
}()

// send appends a submission of rows with all outcomes, and returns it.
func (s *site) send(id string, rows int) *submission.Submission {
	s.t.Helper()
	now := time.Now()
	sub := &submission.Submission{Kind: submission.Batch, Base: submission.NewBase(now), ReceivedAt: now.Unix(), DatasetID: id}
	for i := range rows {
		s.sent++
		r := event.Row{
			SubmissionIndex: int32(i), ReceivedAt: now.Unix(), DatasetID: id, EventTime: now.Unix(), EventType: "purchase",
			SchemaVersion: "1.0", CampaignID: fmt.Sprintf("n%d", s.sent),
		}
		switch s.sent % 4 {
		case 0:
			r.Privacy = event.Suppressed
		case 1:
			r.Privacy, r.PartnerID = event.MeasurementOnly, "person"
		case 2:
			r.Late, r.PartnerID = true, "late person"
		case 3:
			r.OptimizationEligible, r.PartnerID = true, "person"
		}
		sub.Rows = append(sub.Rows, r)
	}
	at, err := s.stream.Append(s.t.Context(), submission.AppendRecord(nil, sub))
	if err != nil {
		s.t.Fatal(err)
	}
	testIDs.Place(sub, at.Partition, at.Seq, at.Slot)
	return sub
}

// page is an answer.
type page struct {
	status   int
	rows     []string // campaign ids
	ids      []string // event ids of rows
	erased   []string // event ids of erased ones
	text     string
	Cursor   string    `json:"cursor"`
	CaughtUp bool      `json:"caught_up"`
	Complete time.Time `json:"complete_through"`
	Code     string    `json:"error_code"`
	Hint     string    `json:"hint"`
	Snapshot int64     `json:"snapshot_id"`
}

func (s *site) get(token, path string) page {
	s.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), "GET", s.web.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	p := page{status: answer.StatusCode}
	decoder := json.NewDecoder(answer.Body)
	for decoder.More() {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			s.t.Fatal(err)
		}
		p.text += string(raw) + "\n"
		var row struct {
			ID       string `json:"event_id"`
			Campaign string `json:"cp_id"`
			Erased   struct {
				ID string `json:"event_id"`
			} `json:"erased"`
		}
		if err := json.Unmarshal(raw, &row); err != nil {
			s.t.Fatal(err)
		}
		if row.Erased.ID != "" {
			p.erased = append(p.erased, row.Erased.ID)
		} else if row.ID != "" {
			if slices.Contains(p.erased, row.ID) {
				s.t.Errorf("%s: a row follows the line that says it is erased", path)
			}
			p.rows, p.ids = append(p.rows, row.Campaign), append(p.ids, row.ID)
		} else if err := json.Unmarshal(raw, &p); err != nil {
			s.t.Fatal(err)
		}
	}
	return p
}

// all reads from a cursor to the end.
func (s *site) all(query, cursor string) (rows []string, end string) {
	s.t.Helper()
	for {
		p := s.get("all", "/feed/v1/events?"+query+"&cursor="+cursor)
		if p.status != 200 || p.Cursor == "" {
			s.t.Fatalf("got %d %s", p.status, p.text)
		}
		rows = append(rows, p.rows...)
		if cursor = p.Cursor; p.CaughtUp {
			return rows, cursor
		}
	}
}

// want is the rows of the first n that were sent which a purpose may have.
func want(n int, of purpose.Purpose) (out []string) {
	for i := 1; i <= n; i++ {
		if i%4 == 3 || of == purpose.Measurement && i%4 != 0 {
			out = append(out, fmt.Sprintf("n%d", i))
		}
	}
	return out
}

func same(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
