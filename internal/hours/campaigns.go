package hours

import (
	"context"
	"time"

	"sluice/internal/campaign"
	"sluice/internal/lake"
)

// Campaigns are those of a dataset in a window, as reported: the campaign.Max of the most events, and what is beside
// them. No number of them is in memory: it reads the tables, the days that are over and summed from the sums.
func (x *Index) Campaigns(ctx context.Context, id string, w Window) ([]campaign.Campaign, error) {
	release, err := x.cache.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var sums campaign.Sums
	err = x.lake.Settled(ctx, func(pending []lake.Hour) error {
		sums = campaign.Sums{}
		for i := range pending {
			if h := &pending[i]; h.DatasetID == id && campaign.Is(h.Kind) && h.Hour >= w.From && h.Hour < w.To() {
				sums.Add(lake.CampaignSum(h))
			}
		}
		return x.scanCampaigns(ctx, id, w, &sums)
	})
	return sums.Campaigns(), err
}

// scanCampaigns adds what the tables have of a window.
func (x *Index) scanCampaigns(ctx context.Context, id string, w Window, out *campaign.Sums) error {
	prints, summed, err := x.lake.Prints(ctx)
	if err != nil {
		return err
	}
	months := map[int32][]int32{}
	for day := int32(w.From / 86400); int64(day)*86400 < w.To(); day++ {
		from, to := max(int64(day)*86400, w.From), min(int64(day+1)*86400, w.To())
		print, there := prints[day]
		switch {
		case !there:
		case to-from == 86400 && summed[day] == print:
			months[monthOf(day)] = append(months[monthOf(day)], day)
		default:
			q := lake.NumberQuery{Dataset: id, From: time.Unix(from, 0), To: time.Unix(to, 0)}
			if err := whole(x.lake.ScanHours(ctx, q, func(h *lake.Hour) error {
				if campaign.Is(h.Kind) {
					out.Add(lake.CampaignSum(h))
				}
				return nil
			})); err != nil {
				return err
			}
		}
	}
	for _, days := range months {
		if err := x.eachDay(ctx, id, days, func(d *lake.DaySum) {
			if campaign.Is(d.Kind) {
				n := campaign.Number{Kind: d.Kind, Name: d.Name, Field: d.Field, Count: d.Count, Value: d.Value}
				out.Add(campaign.Sum{Number: n, First: d.First, Last: d.Last})
			}
		}); err != nil {
			return err
		}
	}
	return nil
}
