package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/event"
	"sluice/internal/humanize"
	"sluice/internal/submission"
)

// The live view is a sample, so that a flood costs the accept path nothing: a look at an atomic while nobody
// watches, and at most liveRate lines a second made while somebody does.
const (
	liveRate    = 20
	liveViewers = 16 // arbitrary: each holds a connection and a small buffer
	liveShare   = 4  // of one address, where addresses differ; arbitrary
	liveBuffer  = 64
	liveWrite   = 10 * time.Second // for one line; a viewer that takes longer is cut off
	liveBeat    = 2 * time.Second  // a page that hears nothing for longer says so
)

// liveLine is what the page gets of an event: words, never an identifier.
type liveLine struct {
	Time        string `json:"time"`
	Dataset     string `json:"dataset"`
	Type        string `json:"type"`
	Outcome     []pill `json:"outcome"`
	Identifiers string `json:"identifiers"`
	Value       string `json:"value"`
	About       string `json:"about"`
}

type pill struct {
	Word  string `json:"word"`
	Class string `json:"class"`
}

// tap hands samples of arriving submissions to whoever watches.
type tap struct {
	watched atomic.Int32 // how many watch: the accept path's only cost while it is zero
	second  atomic.Int64 // of the sample, and
	taken   atomic.Int32 // how many lines it has taken
	mu      sync.Mutex
	viewers []*viewer // the oldest first
}

type viewer struct {
	addr    string // "" where all have the same
	dataset string // "" for all
	lines   chan liveLine
	ended   chan struct{} // closed when another viewer takes the place
}

// Wants says how many events of a submission the live view would show now, in Unix seconds.
func (c *Console) Wants(now int64) int {
	t := &c.tap
	if t.watched.Load() == 0 {
		return 0
	}
	if t.second.Load() != now {
		return liveRate
	}
	return max(0, liveRate-int(t.taken.Load()))
}

// Show takes a sample of a submission that was just acknowledged, or of the counts of a request rejected as a whole. It
// never blocks.
func (c *Console) Show(s *submission.Submission) {
	t := &c.tap
	if t.second.Swap(s.ReceivedAt) != s.ReceivedAt {
		t.taken.Store(0)
	}
	if t.taken.Load() >= liveRate || !t.mu.TryLock() {
		return
	}
	defer t.mu.Unlock()
	for i := range s.Rows {
		if t.taken.Add(1) > liveRate {
			return
		}
		t.send(s.DatasetID, rowLine(&s.Rows[i], s.ReceivedAt))
	}
	for _, r := range s.Rejections {
		if t.taken.Add(1) > liveRate {
			return
		}
		t.send(s.DatasetID, rejectionLine(s.DatasetID, r, s.ReceivedAt))
	}
}

func (t *tap) send(dataset string, l liveLine) {
	for _, v := range t.viewers {
		if v.dataset == "" || v.dataset == dataset {
			select {
			case v.lines <- l:
			default: // a slow viewer misses a line of a sample
			}
		}
	}
}

// watch adds a viewer. It never says no: the newest takes the place of the oldest of its own address when that has its
// share, and otherwise of the oldest of the address that has the most.
func (t *tap) watch(addr, dataset string) *viewer {
	t.mu.Lock()
	defer t.mu.Unlock()
	count := map[string]int{}
	for _, v := range t.viewers {
		count[v.addr]++
	}
	switch {
	case addr != "" && count[addr] >= liveShare:
		t.end(addr)
	case len(t.viewers) >= liveViewers:
		most := t.viewers[0].addr
		for _, v := range t.viewers {
			if count[v.addr] > count[most] {
				most = v.addr
			}
		}
		t.end(most)
	}
	v := &viewer{addr, dataset, make(chan liveLine, liveBuffer), make(chan struct{})}
	t.viewers = append(t.viewers, v)
	t.watched.Store(int32(len(t.viewers)))
	return v
}

// end takes the place of the oldest viewer of an address.
func (t *tap) end(addr string) {
	i := slices.IndexFunc(t.viewers, func(v *viewer) bool { return v.addr == addr })
	close(t.viewers[i].ended)
	t.viewers = slices.Delete(t.viewers, i, i+1)
}

// leave removes a viewer, unless another has its place already.
func (t *tap) leave(v *viewer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.viewers, v); i >= 0 {
		t.viewers = slices.Delete(t.viewers, i, i+1)
	}
	t.watched.Store(int32(len(t.viewers)))
}

func rowLine(r *event.Row, now int64) liveLine {
	l := liveLine{
		Time: clock(time.Unix(now, 0)), Dataset: strings.Clone(r.DatasetID), Type: strings.Clone(r.EventType),
		Outcome: []pill{{r.Privacy.String(), outcomeClass(r.Privacy)}}, Identifiers: kinds(r), About: about(r),
	}
	if r.Late {
		l.Outcome = append(l.Outcome, pill{"late", "warn"})
	}
	if r.HasValue {
		l.Value = humanize.Money(r.Value) + " " + r.CurrencyCode
	}
	return l
}

func rejectionLine(dataset string, r event.Rejection, now int64) liveLine {
	return liveLine{
		Time: clock(time.Unix(now, 0)), Dataset: strings.Clone(dataset), About: r.Field,
		Type: humanize.Plural(int(r.Count), "problem", "problems"), Outcome: []pill{{string(r.Code), "bad"}},
	}
}

// kinds says which identifiers an event carries, not what they are.
func kinds(r *event.Row) string {
	var out []string
	for _, m := range []struct{ name, value string }{
		{"e-mail", r.EmailSHA256}, {"ifa", r.IFA}, {"ip", r.IPSHA256}, {"partner", r.PartnerID},
	} {
		if m.value != "" {
			out = append(out, m.name)
		}
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}

// aboutMax is how much of a free text is shown. Arbitrary.
const aboutMax = 80

// about is what an event says of itself in its free texts. Queries of addresses and values of custom_data stay
// away: they are where senders put what identifies a person.
func about(r *event.Row) string {
	var parts []string
	add := func(name, s string) {
		if s != "" {
			parts = append(parts, name+" "+shorten(s))
		}
	}
	add("name", r.CustomEventName)
	add("source", r.Source)
	if r.CampaignID != r.DatasetID {
		add("campaign", r.CampaignID)
	}
	add("named", r.CampaignName)
	add("page", withoutQuery(r.PageURL))
	add("from", withoutQuery(r.Referer))
	add("data", strings.Join(members(r.CustomData), ", "))
	return strings.Join(parts, " · ")
}

func shorten(s string) string {
	s = strings.ToValidUTF8(s, "")
	if len(s) <= aboutMax {
		return strings.Clone(s)
	}
	return strings.ToValidUTF8(s[:aboutMax], "") + "…" // without half a character
}

// withoutQuery cuts an address before what follows its path.
func withoutQuery(s string) string {
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		s = s[:i]
	}
	u, err := url.Parse(s)
	if err != nil || u.User == nil {
		return s
	}
	u.User = nil
	return u.String()
}

// members are the names inside custom_data.
func members(data string) []string {
	d := json.NewDecoder(strings.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var out []string
	for d.More() && len(out) < 5 {
		name, err := d.Token()
		if err != nil {
			break
		}
		s, ok := name.(string)
		if !ok || d.Decode(new(json.RawMessage)) != nil {
			break
		}
		out = append(out, s)
	}
	return out
}

type livePage struct {
	Rate     int
	Datasets []option
	Stream   string
	Example  string
}

func (c *Console) live(w http.ResponseWriter, r *http.Request) {
	s := c.look()
	chosen := r.URL.Query().Get("dataset")
	c.show(w, http.StatusOK, "live", "Live", "/live", 0, livePage{
		Rate: liveRate, Datasets: s.options(chosen), Example: c.curl(chosen, s),
		Stream: "/live/events?" + url.Values{"dataset": {chosen}}.Encode(),
	})
}

// curl is the shortest way to send an event by hand.
func (c *Console) curl(chosen string, s *state) string {
	if len(s.Datasets) == 0 {
		return `sluice dataset create my-campaign`
	}
	if s.dataset(chosen) == nil { // a command to copy contains nothing that only the address says
		chosen = s.Datasets[0].ID
	}
	id, _ := json.Marshal(chosen)
	return fmt.Sprintf("curl -H \"Authorization: Bearer $KEY\" -H \"Content-Type: application/json\" \\\n  -d "+
		`'{"data_set_id":%s,"timestamp":%d,"event_type":"page_view",`+
		`"identifiers":{"ifa":"97987bca-ae59-4c7d-94ba-ee4f19ab8c21"}}' \`+"\n  %s/v1/events",
		strings.ReplaceAll(string(id), "'", `'\''`), s.Now.Unix(), c.o.APIURL)
}

// follow streams the live view. A page of another site gets nothing: a browser on this machine would follow for it.
func (c *Console) follow(w http.ResponseWriter, r *http.Request) {
	asked := *r
	asked.Method = http.MethodPost // what follows looks at no GET
	if http.NewCrossOriginProtection().Check(&asked) != nil {
		http.Error(w, "The live view is for the console's own page.", http.StatusForbidden)
		return
	}
	addr := ""
	if !c.o.Loopback {
		addr = c.guard.Addr(r)
	}
	v := c.tap.watch(addr, r.URL.Query().Get("dataset"))
	defer c.tap.leave(v)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	rc := http.NewResponseController(w)
	say := func(format string, args ...any) bool {
		_ = rc.SetWriteDeadline(time.Now().Add(c.writeTime))
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			return false
		}
		return rc.Flush() == nil
	}
	if say("retry: 1000\nevent: beat\ndata:\n\n") {
		c.stream(r.Context(), v, say)
	}
}

// stream sends a viewer its lines until it leaves, another takes its place or the server stops.
func (c *Console) stream(ctx context.Context, v *viewer, say func(format string, args ...any) bool) {
	beat := time.NewTicker(liveBeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.done:
			return
		case <-v.ended:
			say("event: replaced\ndata:\n\n")
			return
		case <-beat.C:
			if !say("event: beat\ndata:\n\n") {
				return
			}
		case l := <-v.lines:
			b, err := json.Marshal(l)
			if err != nil || !say("data: %s\n\n", b) {
				return
			}
		}
	}
}
