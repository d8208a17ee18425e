package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/event"
	"sluice/internal/api"
	"sluice/internal/lake"
)

type diagnosisPage struct {
	DatasetID, Sum string
	First          bool
	Windows        []link
	Cases          []diagnosisCase
}

// diagnosisCase is one reason for rejections: a code at a field.
type diagnosisCase struct {
	Code, Field, Meaning, Remedy, Example, Win, First, Last string
	Events, Problems                                        int64
	Trend                                                   []int64
	Datasets                                                []caseDataset
	MoreDatasets                                            string
}

type caseDataset struct {
	ID, Path string
	Events   int64
	Share    float64
}

func (c *Console) diagnosis(w http.ResponseWriter, r *http.Request) {
	s := c.look()
	win := c.pickWindow(r, "day", "week", "month", "year")
	p := diagnosisPage{
		DatasetID: r.URL.Query().Get("dataset"), First: len(s.datasets) == 0,
		Windows: windows(r.URL, win.name, "day", "week", "month", "year"),
	}
	view := c.s.Hours.View()
	defer view.Close()
	hours := view.Dataset(p.DatasetID)
	sum := hours.Totals(win.Window)
	for _, reason := range hours.Reasons(win.Window) {
		p.Cases = append(p.Cases, diagnose(view, reason, win, sum, p.DatasetID, s.now))
		if len(p.Cases) == 100 {
			break
		}
	}
	p.Sum = fmt.Sprintf("%s events rejected of %s received %s: %s. Each is counted once, at its first problem; the counts below add up to that.",
		num(sum.Rejected), num(sum.Received()), win.say, pct(share(sum.Rejected, sum.Received())))
	c.show(w, r, http.StatusOK, "diagnosis", "Diagnosis", "/diagnosis", refreshEvery, p)
}

func diagnose(view lake.HourView, f lake.Reason, w window, sum lake.Totals, datasetID string, now time.Time) diagnosisCase {
	d := diagnosisCase{
		Code: f.Code, Field: f.Field, Events: f.Events, Problems: f.Problems, Trend: make([]int64, w.Steps),
		Win: pct(share(f.Events, sum.Received())) + " of received", Example: api.ValidExample(event.Code(f.Code), f.Field),
	}
	if f.Events == 0 { // nothing to add up: such a request was rejected before its events were read, or they had another problem first
		d.Win = "beside another problem"
		if kindOf(f.Code) == event.RequestKind {
			d.Win = "requests rejected whole"
		}
	}
	f.AddTo(d.Trend, w.Window)
	d.First, d.Last = time.Unix(f.First, 0).UTC().Format("2 Jan 2006, 15:00"), lastHour(now, f.Last)
	d.Meaning, d.Remedy = explain(f.Code)
	for id, set := range view.Datasets() {
		if datasetID != "" && id != datasetID {
			continue
		}
		if n, _ := set.Rejected(f.Code, f.Field, w.Window); n > 0 {
			d.Datasets = append(d.Datasets, caseDataset{id, datasetPath(id), n, share(n, set.Totals(w.Window).Received())})
		}
	}
	slices.SortFunc(d.Datasets, func(a, b caseDataset) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), strings.Compare(a.ID, b.ID))
	})
	if len(d.Datasets) > 5 {
		d.MoreDatasets = num(len(d.Datasets) - 5)
		d.Datasets = d.Datasets[:5]
	}
	return d
}

func kindOf(code string) event.Kind {
	info, _ := event.LookupCode(event.Code(code))
	return info.Kind
}

// explain gives a code's meaning and remedy, from the one table of codes.
func explain(code string) (meaning, remedy string) {
	info, _ := event.LookupCode(event.Code(code))
	return info.Meaning, info.Remedy
}
