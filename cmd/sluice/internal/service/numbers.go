package service

import (
	"context"
	"time"

	"sluice/event"
	"sluice/internal/api"
	"sluice/internal/campaign"
	"sluice/internal/hours"
)

// numbers answers GET /v1/stats from the index that the console shows.
func (s *Service) numbers(ctx context.Context, datasetID string, window api.NumbersWindow, now time.Time) (api.Numbers,
	error,
) {
	n, err := readNumbers(ctx, s.hours, datasetID, hours.NewWindow(window.Step, window.Steps, now))
	n.Freshness.DelaySeconds = int64(s.backlog.Age().Seconds())
	return n, err
}

// campaigns answers GET /v1/stats?by=campaign.
func (s *Service) campaigns(
	ctx context.Context, datasetID string, window api.NumbersWindow, now time.Time,
) ([]campaign.Campaign, error) {
	return s.hours.Campaigns(ctx, datasetID, hours.NewWindow(window.Step, window.Steps, now))
}

// memberOf names the members of identifiers as the index counts them.
var memberOf = []struct{ name, member string }{
	{"email", "email_sha256"},
	{"ifa", "ifa"},
	{"ip", "ip"},
	{"partner", "partner_id"},
}

func readNumbers(ctx context.Context, x *hours.Index, datasetID string, w hours.Window) (api.Numbers, error) {
	view := x.View()
	if w.Step >= 86400 || w.Steps > 24 || !view.Whole(datasetID) { // memory has all of the last 24 hours
		view.Close()
		d, err := x.Detail(ctx, datasetID, w)
		return answerOf(x, d, w), err
	}
	defer view.Close()
	return answerOf(x, view.Dataset(datasetID), w), nil
}

func answerOf(x *hours.Index, d *hours.Dataset, w hours.Window) api.Numbers {
	t := d.Totals(w)
	n := api.Numbers{
		From: unix(w.From), To: unix(w.To()), Complete: x.Complete(),
		Received: t.Received(), Accepted: t.Accepted, Rejected: t.Rejected, Late: t.Late,
		Outcomes: api.OutcomeCounts{
			Unrestricted:    d.Count(hours.KindPrivacy, event.Unrestricted.String(), w),
			MeasurementOnly: d.Count(hours.KindPrivacy, event.MeasurementOnly.String(), w),
			Suppressed:      d.Count(hours.KindPrivacy, event.Suppressed.String(), w),
		},
		EventTypes: []api.TypeCount{}, Rejections: []api.RejectionCount{},
		Freshness: api.Freshness{CountedAt: x.ReadAt().UTC().Truncate(time.Second), LastEventHour: unix(d.Last())},
	}
	requests := d.Requests(w)
	n.Requests = api.RequestCounts{Accepted: requests.Accepted, Rejected: requests.Rejected, ByCode: map[string]int64{}}
	for _, g := range requests.ByCode {
		n.Requests.ByCode[g.Name] = g.Count
	}
	for _, g := range d.Types(w) {
		n.EventTypes = append(n.EventTypes, api.TypeCount{EventType: g.Name, Accepted: g.Count})
	}
	for _, r := range d.Reasons(w) {
		n.Rejections = append(n.Rejections, api.RejectionCount{
			ErrorCode: r.Code, Field: r.Field, Events: r.Events, Problems: r.Problems, FirstSeen: unix(r.First),
			LastSeen: unix(r.Last),
		})
	}
	for _, m := range memberOf {
		i := api.IdentifierCount{Field: m.member, Events: d.Count(hours.KindIdentifiers, m.name, w)}
		if t.Accepted > 0 {
			i.Share = float64(i.Events) / float64(t.Accepted)
		}
		n.Identifiers = append(n.Identifiers, i)
	}
	r := d.Readiness(w)
	n.MatchReadiness = api.MatchReadiness{
		Points: r.Points(), Formula: hours.ReadinessFormula, Terms: api.ReadinessTerms{
			Strong: r.Strong, Weak: r.Weak, Accepted: r.Accepted,
		},
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
