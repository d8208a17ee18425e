package traffictest

import (
	"testing"
	"time"

	"sluice/event"
)

// The standard mix is accepted whole and of the size that figures are given for; the lively one is not.
func TestMixes(t *testing.T) {
	now := time.Date(2026, 11, 14, 12, 0, 0, 0, time.UTC)
	decode := func(mix Mix) (*event.Result, int) {
		body := New(mix, 1).AppendBatch(nil, "shop", now.Unix(), 1000)
		var d event.Decoder
		result, problem := d.Decode(string(body), event.Batch, event.Policy{DatasetID: "shop"}, now)
		if problem != nil {
			t.Fatal(problem)
		}
		return result, len(body) / 1000
	}
	standard, bytes := decode(Standard)
	if standard.Rejected != 0 {
		t.Errorf("standard: %d rejected, the first: %+v", standard.Rejected, standard.Errors[0])
	}
	if bytes < 500 || bytes > 800 {
		t.Errorf("standard: %d bytes an event", bytes)
	}
	lively, _ := decode(Lively)
	if lively.Rejected == 0 || lively.Rejected > 200 {
		t.Errorf("lively: %d of 1000 rejected", lively.Rejected)
	}
	outcomes := map[event.Outcome]int{}
	for i := range standard.Rows {
		outcomes[standard.Rows[i].Privacy]++
	}
	if outcomes[event.Unrestricted] == 0 || outcomes[event.MeasurementOnly] == 0 {
		t.Errorf("standard: outcomes %v", outcomes)
	}
}
