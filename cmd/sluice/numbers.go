package main

import (
	"time"

	"sluice/event"
	"sluice/internal/api"
	"sluice/internal/lake"
)

// numbers answers GET /v1/stats from the index that the console shows.
func (s *service) numbers(datasetID string, window api.NumbersWindow, now time.Time) api.Numbers {
	n := readNumbers(s.hours, datasetID, lake.NewWindow(window.Step, window.Steps, now))
	n.Freshness.DelaySeconds = int64(s.backlog().Seconds())
	return n
}

// memberOf names the members of identifiers as the index counts them.
var memberOf = []struct{ name, member string }{{"email", "email_sha256"}, {"ifa", "ifa"}, {"ip", "ip"}, {"partner", "partner_id"}}

func readNumbers(x *lake.HourIndex, datasetID string, w lake.Window) api.Numbers {
	view := x.View()
	defer view.Close()
	d := view.Dataset(datasetID)
	t := d.Totals(w)
	n := api.Numbers{
		From: unix(w.From), To: unix(w.To()), Complete: x.Complete(),
		Received: t.Received(), Accepted: t.Accepted, Rejected: t.Rejected, Late: t.Late,
		Outcomes: api.OutcomeCounts{
			Unrestricted:    d.Count(lake.KindPrivacy, event.Unrestricted.String(), w),
			MeasurementOnly: d.Count(lake.KindPrivacy, event.MeasurementOnly.String(), w),
			Suppressed:      d.Count(lake.KindPrivacy, event.Suppressed.String(), w),
		},
		EventTypes: []api.TypeCount{}, Rejections: []api.RejectionCount{},
		Freshness: api.Freshness{CountedAt: x.ReadAt().UTC().Truncate(time.Second), LastEventHour: unix(d.Last())},
	}
	for _, g := range d.Types(w) {
		n.EventTypes = append(n.EventTypes, api.TypeCount{EventType: g.Name, Accepted: g.Count})
	}
	for _, r := range d.Reasons(w) {
		n.Rejections = append(n.Rejections, api.RejectionCount{
			ErrorCode: r.Code, Field: r.Field, Events: r.Events, Problems: r.Problems, FirstSeen: unix(r.First), LastSeen: unix(r.Last),
		})
	}
	for _, m := range memberOf {
		i := api.IdentifierCount{Field: m.member, Events: d.Count(lake.KindIdentifiers, m.name, w)}
		if t.Accepted > 0 {
			i.Share = float64(i.Events) / float64(t.Accepted)
		}
		n.Identifiers = append(n.Identifiers, i)
	}
	r := d.Readiness(w)
	n.MatchReadiness = api.MatchReadiness{
		Points: r.Points(), Formula: lake.ReadinessFormula, Terms: api.ReadinessTerms{Strong: r.Strong, Weak: r.Weak, Accepted: r.Accepted},
	}
	return n
}

// unix is a time of the index; 0 is none.
func unix(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}
