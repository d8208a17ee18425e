package console

import (
	"net/http"
	"slices"
	"time"

	"sluice/internal/hours"
)

// window is a stretch of time that a page shows.
type window struct {
	hours.Window
	name, say string
}

// query keeps the window in the address of another page.
func (w window) query() string { return "&window=" + w.name }

type span struct {
	name, label, say string
	step             time.Duration
	steps            int
}

// spans are the windows a page offers.
var spans = []span{
	{"hour", "Hour", "in the last hour, by the minute", time.Minute, 60},
	{"day", "Day", "in the last 24 hours", time.Hour, 24},
	{"week", "Week", "in the last 7 days", time.Hour, 7 * 24},
	{"month", "Month", "in the last 30 days", 24 * time.Hour, 30},
	{"year", "13 months", "in the last 13 months", 24 * time.Hour, 396},
}

// pickWindow is the window that the request asks for, or the last day, and the links to all windows that the page
// offers. They keep the rest of its query.
func (c *Console) pickWindow(r *http.Request, names ...string) (picked window, offered []link) {
	name := r.URL.Query().Get("window")
	if !slices.Contains(names, name) {
		name = "day"
	}
	for _, s := range spans {
		if slices.Contains(names, s.name) {
			q := r.URL.Query()
			q.Set("window", s.name)
			offered = append(offered, link{Name: s.label, Path: r.URL.Path + "?" + q.Encode(), Current: s.name == name})
		}
	}
	return newWindow(name, c.now()), offered
}

// newWindow is the span by this name that ends with the step that is running now.
func newWindow(name string, now time.Time) window {
	s := spans[slices.IndexFunc(spans, func(s span) bool { return s.name == name })]
	return window{hours.NewWindow(s.step, s.steps, now), s.name, s.say}
}
