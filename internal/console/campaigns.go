package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"sluice/internal/alarm"
	"sluice/internal/campaign"
	"sluice/internal/humanize"
)

type campaignsPage struct {
	DatasetID, DatasetPath, Say string
	First                       bool
	Window                      string // as the form has to keep it
	Windows                     []link
	Datasets                    []string // to choose from
	Rows                        []campaignRow
}

type campaignRow struct {
	ID, Name       string
	Events         int64
	Types          []string // "purchase 12", the most frequent first
	Value, Refunds []string // "12.50 EUR", by currency
}

// chooseMax is how many datasets the form offers; others can be typed. Arbitrary.
const chooseMax = 1000

// campaignsEvery is how often the page asks again, in seconds: it reads the tables.
const campaignsEvery = 30

func campaignsPath(id string) string { return "/campaigns?" + url.Values{"dataset": {id}}.Encode() }

// campaigns shows the campaigns of a dataset as they were reported; of the busiest one where none is named.
func (c *Console) campaigns(w http.ResponseWriter, r *http.Request) {
	s := c.look()
	win, offered := c.pickWindow(r, "day", "week", "month")
	p := campaignsPage{
		DatasetID: r.URL.Query().Get("dataset"), First: len(s.Datasets) == 0, Window: win.name, Windows: offered,
	}
	for _, d := range s.Datasets[:min(len(s.Datasets), chooseMax)] {
		p.Datasets = append(p.Datasets, d.ID)
	}
	if p.DatasetID == "" && !p.First {
		p.DatasetID = c.busiest(s)
	}
	if !p.First && s.dataset(p.DatasetID) == nil {
		c.missing(w, noDataset)
		return
	}
	p.DatasetPath = alarm.DatasetPath(p.DatasetID) + win.query()
	list, err := c.s.Hours.Campaigns(r.Context(), p.DatasetID, win.Window)
	var events int64
	for i := range list {
		p.Rows = append(p.Rows, rowOf(&list[i]))
		events += p.Rows[i].Events
	}
	p.Say = unreadDays(err) + fmt.Sprintf("%s of %s, received %s.", humanize.Plural(events, "event", "events"),
		humanize.Plural(len(list), "campaign", "campaigns"), win.say)
	c.show(w, http.StatusOK, "campaigns", "Campaigns", "/campaigns", campaignsEvery, p)
}

// busiest is the dataset of the most events in the last day, or the first.
func (c *Console) busiest(s *state) string {
	day := newWindow("day", s.Now)
	view := c.s.Hours.View()
	defer view.Close()
	best, most := s.Datasets[0].ID, int64(0)
	for _, d := range s.Datasets {
		if n := view.Dataset(d.ID).Totals(day.Window).Accepted; n > most {
			best, most = d.ID, n
		}
	}
	return best
}

func rowOf(n *campaign.Campaign) campaignRow {
	row := campaignRow{ID: n.ID, Name: n.Name, Events: n.Total(), Value: amounts(n.Value), Refunds: amounts(n.Refunds)}
	types := slices.SortedFunc(maps.Keys(n.Events), func(a, b string) int {
		return cmp.Or(cmp.Compare(n.Events[b], n.Events[a]), cmp.Compare(a, b))
	})
	for _, t := range types {
		row.Types = append(row.Types, t+" "+humanize.Count(n.Events[t]))
	}
	return row
}

func amounts(by map[string]float64) (out []string) {
	for _, currency := range slices.Sorted(maps.Keys(by)) {
		out = append(out, humanize.Money(by[currency])+" "+currency)
	}
	return out
}
