package console

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

// historyMax is how many alarms are remembered. Arbitrary.
const historyMax = 50

// history remembers when alarms began and ended, and says so in the log, once each.
type history struct {
	mu  sync.Mutex
	all []episode // oldest first
}

type episode struct {
	name, subject, level, say string    // subject is the dataset that it is about, or empty
	since, until              time.Time // until is zero while it lasts
}

// look compares the alarms that are on with those that were.
func (h *history) look(now time.Time, on []raised, log *slog.Logger) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.all {
		e := &h.all[i]
		if !e.until.IsZero() {
			continue
		}
		j := slices.IndexFunc(on, func(a raised) bool { return a.Name == e.name && a.Subject == e.subject })
		if j < 0 {
			e.until = now
			log.Info("alarm is over", "alarm", e.name, "lasted", now.Sub(e.since).Round(time.Second))
			continue
		}
		e.say = on[j].Say
	}
	for _, a := range on {
		if slices.ContainsFunc(h.all, func(e episode) bool { return e.name == a.Name && e.subject == a.Subject && e.until.IsZero() }) {
			continue
		}
		log.Warn("alarm", "alarm", a.Name, "severity", a.Level, "says", a.Say)
		h.all = append(h.all, episode{a.Name, a.Subject, a.Level, a.Say, now, time.Time{}})
	}
	if n := len(h.all) - historyMax; n > 0 {
		h.all = slices.Delete(h.all, 0, n)
	}
}

// recent are the alarms, newest first.
func (h *history) recent() []episode {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := slices.Clone(h.all)
	slices.Reverse(out)
	return out
}
