package lake

import (
	"testing"

	"sluice/event"
)

// Every column of an event is stored, and has a field id of its own.
func TestEveryColumnIsStored(t *testing.T) {
	row := newSampler(1, 1, 1).rows(1, noon)[0]
	row.SubmissionIndex, row.CustomEventName, row.CampaignName, row.Referer, row.CustomData = 7, "n", "c", "r", `{"a":1}`
	row.Value, row.HasValue, row.CurrencyCode = 12.5, true, "USD"
	row.EmailSHA256, row.IPSHA256, row.IFA, row.PartnerID = digest(1), digest(2), "9774d56d682e549c", "p"
	row.GPPString, row.GPPSID, row.USPrivacyString = "DBABLA~BVQqAAAAAgA.QA", []int32{7, 8}, "1YNN"
	row.Privacy, row.Late, row.MeasurementOnly, row.OptimizationEligible = event.MeasurementOnly, true, true, true
	row.SenderEventID, row.OrderID = "e", "o"
	ids := map[int]string{gppSIDElement: "gpp_sid"}
	for _, c := range event.Columns() {
		if got := string(c.AppendText(nil, &row)); got == string(c.AppendText(nil, &event.Row{})) {
			t.Errorf("%s has no value here: the test shows nothing of it", c.Name)
		}
		id := eventStorage[c.Name].id
		if ids[id] != "" {
			t.Errorf("%s and %s have the field id %d", c.Name, ids[id], id)
		}
		ids[id] = c.Name
	}
	if got, want := len(eventStorage), len(event.Columns()); got != want {
		t.Errorf("%d columns have a storage, want %d", got, want)
	}
	l := openLake(t, Options{Store: at(t, t.TempDir())})
	commit(t, l, []event.Row{row})
	same(t, collect(t, l, Query{}), []event.Row{row})
}
