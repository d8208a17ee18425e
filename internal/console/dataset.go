package console

import (
	"fmt"
	"net/http"
	"strings"

	"sluice/internal/alarm"
	"sluice/internal/dataset"
	"sluice/internal/hours"
	"sluice/internal/humanize"
)

type datasetPage struct {
	ID, Name, State, Class, Policy, Sum, DiagnosisPath string
	CampaignsPath                                      string
	First                                              string // how to send the first event; empty once there was one
	Window                                             string // in words
	Windows                                            []link
	Tiles                                              []tile
	Chart, Requests                                    chart
	RequestSum                                         string
	Score                                              score
	Identifiers, Privacy, Age, Types, Rejected         bars
	Revenue                                            []hours.Revenue
	Keys                                               []keyRow
}

type keyRow struct{ ID, State, Class, Issued, Used, Ends string }

func (c *Console) dataset(w http.ResponseWriter, r *http.Request) {
	s := c.look()
	id := r.URL.Query().Get("id")
	d := s.dataset(id)
	if d == nil {
		c.missing(w, noDataset)
		return
	}
	win, offered := c.pickWindow(r, "day", "week", "month", "year")
	day := newWindow("day", s.Now)
	p := datasetPage{
		ID: d.ID, Name: d.Name, Policy: policy(d), DiagnosisPath: alarm.DiagnosisPath(d.ID) + win.query(),
		CampaignsPath: campaignsPath(d.ID) + win.query(), Window: win.say, Windows: offered, Keys: keyRows(d, s),
	}
	numbers, err := c.s.Hours.History(r.Context(), id, s.Now)
	sum := numbers.Totals(win.Window)
	p.State, p.Class = condition(d, numbers.Totals(day.Window), numbers.Requests(day.Window), numbers.Last(), s.Now)
	if numbers.Last() == 0 && c.s.Hours.Complete() {
		p.First = c.curl(d.ID, s)
	}
	requests := numbers.Requests(win.Window)
	p.Tiles = append(tiles(sum, hours.Totals{}, hours.Totals{}), requestTile(requests))
	p.Tiles[0].Share = humanize.Percent(humanize.Share(sum.Accepted, sum.Received())) + " of received"
	p.Requests = requestChart(win, numbers)
	p.RequestSum = requestSum(requests, win)
	p.Chart = volumeChart(win, numbers)
	p.Sum = unreadDays(err) + arithmetic(sum, win)
	p.Score = readiness(numbers.Readiness(win.Window), sum)
	p.Identifiers = identifierBars(numbers, win, sum.Accepted)
	p.Privacy = groupBars(numbers.Groups(hours.KindPrivacy, win.Window), sum.Accepted, "Privacy outcomes", "Outcome")
	p.Age = ageBars(numbers, win, sum.Accepted)
	p.Types = groupBars(numbers.Types(win.Window), sum.Accepted, "Event types", "Type")
	p.Rejected = rejectedBars(numbers.Reasons(win.Window), sum)
	p.Revenue = numbers.Revenue(win.Window)
	c.show(w, http.StatusOK, "dataset", d.ID, "/datasets", refreshEvery, p)
}

// unreadDays says that the numbers of earlier days could not be read.
func unreadDays(err error) string {
	if err == nil {
		return ""
	}
	return "The tables cannot be read now: these numbers are not whole. "
}

const noEvents = "No accepted events in this window."

// policy says in words what was decided at provisioning.
func policy(d *dataset.Dataset) string {
	say := "an opt-out restricts to measurement"
	if d.SuppressOptOut {
		say = "an opt-out removes every identifier"
	}
	parts := []string{say}
	if d.RequestsPerSecond > 0 {
		parts = append(parts, fmt.Sprintf("at most %g requests/s", d.RequestsPerSecond))
	}
	if d.EventsPerSecond > 0 {
		parts = append(parts, fmt.Sprintf("at most %g events/s", d.EventsPerSecond))
	}
	if len(parts) == 1 {
		parts = append(parts, "no rate limit")
	}
	if d.RetentionDays > 0 {
		parts = append(parts, "rows are kept for "+humanize.Plural(d.RetentionDays, "day", "days"))
	}
	return strings.Join(parts, " · ")
}

// requestTile counts requests that were rejected whole.
func requestTile(r hours.Requests) tile {
	return tile{
		ID: "requests", Name: "Rejected requests", Class: "k2", Day: r.Rejected,
		Share: "of " + humanize.Plural(r.Accepted+r.Rejected, "request", "requests"),
	}
}

// requestSum says how many requests were rejected, and why most of them.
func requestSum(r hours.Requests, w window) string {
	say := fmt.Sprintf("%s = %s accepted + %s rejected whole, %s.",
		humanize.Plural(r.Accepted+r.Rejected, "request", "requests"), humanize.Count(r.Accepted), humanize.Count(r.Rejected),
		w.say)
	for i := range r.ByCode {
		if i == namedMost {
			say += " Others are on Diagnosis."
			break
		}
		say += fmt.Sprintf(" %s: %s.", r.ByCode[i].Name, humanize.Count(r.ByCode[i].Count))
	}
	return say + " Requests that were told to come later (429, 5xx) are neither."
}

func groupBars(groups []hours.Group, whole int64, caption, head string) bars {
	b := bars{Caption: caption, Head: head, Empty: noEvents}
	classes := map[string]string{"measurement_only": "k4", "suppressed": "k5", "unrestricted": "k6"}
	notes := map[string]string{"measurement_only": "restricted"}
	for i := range groups {
		g := &groups[i]
		b.add(g.Name, notes[g.Name], classes[g.Name], g.Count, whole)
	}
	return b
}

// identifierNames are the identifiers in the order senders know them, and as the loader calls them.
var identifierNames = []struct{ name, member, note string }{
	{"email", "email_sha256", "hashed e-mail"},
	{"ifa", "ifa", "advertising id"},
	{"ip", "ip", "hashed IPv4"},
	{"partner", "partner_id", "the sender's own id"},
}

func identifierBars(d *hours.Dataset, w window, accepted int64) bars {
	b := bars{Caption: "Identifier coverage", Head: "Identifier", Empty: noEvents}
	if accepted == 0 {
		return b
	}
	for _, i := range identifierNames {
		n := d.Count(hours.KindIdentifiers, i.name, w.Window)
		b.add(i.member, i.note, "", n, accepted)
	}
	if n := accepted - d.Count(hours.KindIdentifiers, "any", w.Window); n > 0 {
		b.add("none", "suppressed", "k5", n, accepted)
	}
	return b
}

// ages are the loader's classes of age at receipt, in words.
var ages = map[string]struct{ say, class string }{
	"future": {"ahead of our clock", "k7"}, "0s": {"under 1 minute", "k6"}, "1m": {"1 to 10 minutes", "k6"},
	"10m": {"10 minutes to 1 hour", "k6"},
	"1h":  {"1 to 6 hours", "k1"}, "6h": {"6 hours to 1 day", "k1"}, "1d": {"1 to 3 days", "k1"},
	"3d": {"3 to 7 days", "k3"}, "7d": {"7 to 30 days: late", "k2"},
}

func ageBars(d *hours.Dataset, w window, accepted int64) bars {
	b := bars{Caption: "Age at receipt", Head: "Age", Empty: noEvents}
	if accepted == 0 {
		return b
	}
	for _, name := range hours.AgeNames {
		n := d.Count(hours.KindAge, name, w.Window)
		if name == "future" && n == 0 {
			continue
		}
		b.add(ages[name].say, "", ages[name].class, n, accepted)
	}
	return b
}

func rejectedBars(reasons []hours.Reason, sum hours.Totals) bars {
	b := bars{Caption: "Rejected events", Head: "First problem", Empty: "No event was rejected in this window."}
	for _, r := range reasons[:min(len(reasons), 8)] {
		b.add(r.Code, r.Field, "k2", r.Events, sum.Received())
	}
	return b
}

func keyRows(d *dataset.Dataset, s *state) []keyRow {
	var out []keyRow
	for i := len(d.Keys) - 1; i >= 0; i-- {
		k := &d.Keys[i]
		row := keyRow{
			ID: k.ID, Issued: humanize.Time(k.Created), Used: humanize.Ago(s.Now, s.Used[k.ID].Accepted),
			Ends: "never", State: "live", Class: "ok",
		}
		switch {
		case !k.Revoked.IsZero():
			row.State, row.Class, row.Ends = "revoked", "", humanize.Time(k.Revoked)
		case !k.Live(s.Now):
			row.State, row.Class, row.Ends = "expired", "", humanize.Time(k.Expires)
		case !k.Expires.IsZero():
			row.State, row.Class, row.Ends = "rotating out", "warn", humanize.Time(k.Expires)+", in "+
				humanize.Span(k.Expires.Sub(s.Now))
		}
		if rejected := s.Used[k.ID].Rejected; !k.Live(s.Now) && !rejected.IsZero() {
			row.Used += "; rejected " + humanize.Ago(s.Now, rejected)
			if s.Now.Sub(rejected) < alarm.KeyInUse {
				row.State, row.Class = row.State+", still in use", "warn"
			}
		}
		out = append(out, row)
	}
	return out
}

// score says how much of a dataset's events can be matched.
type score struct {
	Known                         bool
	Points                        int
	Word, Formula, Worked, Advice string
	Rejected                      string // what the score does not count
}

func readiness(r hours.Readiness, sum hours.Totals) score {
	rejected := "No event was rejected."
	if sum.Rejected > 0 {
		rejected = fmt.Sprintf("Rejected events are not counted: %s of %s received, %s.", humanize.Count(sum.Rejected),
			humanize.Count(sum.Received()), humanize.Percent(humanize.Share(sum.Rejected, sum.Received())))
	}
	if r.Accepted == 0 {
		return score{Rejected: rejected}
	}
	points := r.Points()
	out := score{
		Known: true, Rejected: rejected, Points: int(points + 0.5), Formula: hours.ReadinessFormula,
		Worked: fmt.Sprintf("100 × (%s + 0.4 × %s) ÷ %s = %.1f", humanize.Count(r.Strong), humanize.Count(r.Weak),
			humanize.Count(r.Accepted), points),
	}
	switch {
	case points >= 80:
		out.Word, out.Advice = "ready", "Nearly every event can be matched to a person or device."
	case points >= 50:
		out.Word, out.Advice = "fair", "More events with email_sha256 or ifa would raise it most."
	default:
		out.Word, out.Advice = "poor", "Most events carry only an address hash or nothing: send email_sha256 where the "+
			"customer is known, ifa from apps and televisions."
	}
	return out
}
