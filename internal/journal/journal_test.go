package journal

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	"sluice/event"
)

var noon = time.Date(2026, 7, 30, 12, 0, 0, 0, time.UTC)

// The journal takes no more memory than its bounds allow, and one dataset does not push out the others.
func TestJournalIsBounded(t *testing.T) {
	var j Journal
	add := func(id, dataset string, at time.Time, message string) {
		j.Add(&Request{RequestID: id, DatasetID: dataset, At: at, Reasons: []Reason{{Code: event.MissingField, Field: "/timestamp", Message: message}}}, true)
	}
	add("first", "quiet", noon, "once")
	for i := range 3 * share {
		add(fmt.Sprint("loud-", i), "loud", noon, fmt.Sprint("message ", i))
	}
	if j.Find("first", noon) == nil || j.Find("loud-0", noon) != nil || j.order.Len() != 1+share {
		t.Errorf("one loud dataset: got %d requests", j.order.Len())
	}
	if said := j.said[saidKey{"loud", event.MissingField, "/timestamp"}].Value.(*saidAt).all; len(said) != saidPlace || said[saidPlace-1].Message != fmt.Sprint("message ", 3*share-1) {
		t.Errorf("messages: got %+v", said)
	}
	for i := range 20 { // together they have more than fits
		for n := range share {
			add(fmt.Sprint(n), fmt.Sprint("loud-", i), noon, "m")
		}
	}
	if j.Find("first", noon) == nil || j.order.Len() != most || len(j.owners) != 22 {
		t.Errorf("many loud datasets: got %d requests of %d datasets", j.order.Len(), len(j.owners))
	}
	for _, own := range j.owners {
		if own.dataset != "quiet" && len(own.all) < most/22 {
			t.Errorf("%s has only %d requests", own.dataset, len(own.all))
		}
	}
	for i := range 2 * most {
		add("same", fmt.Sprint("dataset-", i), noon, "m")
	}
	if j.order.Len() != most || len(j.owners) != most || len(j.most) != most || len(j.said) != saidMost {
		t.Errorf("many datasets: got %d requests of %d datasets, %d places", j.order.Len(), len(j.owners), len(j.said))
	}
	if last := fmt.Sprint("dataset-", 2*most-1); j.Said(last, event.MissingField, "/timestamp", noon) == nil || j.places.Len() != saidMost {
		t.Errorf("many datasets: the messages of the last one are not there; %d places", j.places.Len())
	}
	add("next", "quiet", noon.Add(25*time.Hour), "m")
	if j.order.Len() != 1 || len(j.owners) != 1 || j.Find("next", noon.Add(25*time.Hour)) == nil {
		t.Errorf("a day later: got %d requests", j.order.Len())
	}
	if add("again", "other", noon.Add(25*time.Hour), "m"); len(j.said) != 2 {
		t.Errorf("a day later: got %d places", len(j.said))
	}
}

// A request that the journal has dropped is not in memory any more.
func TestDroppedRequestsAreCollected(t *testing.T) {
	var j Journal
	const dropped = 300 // fewer than make the journal take a new array
	var all []weak.Pointer[Request]
	for i := range share + dropped {
		r := &Request{RequestID: fmt.Sprint(i), At: noon, DatasetID: "shop"}
		all = append(all, weak.Make(r))
		j.Add(r, true)
	}
	runtime.GC()
	held := 0
	for _, r := range all {
		if r.Value() != nil {
			held++
		}
	}
	if held != share {
		t.Errorf("got %d requests in memory, want %d", held, share)
	}
	runtime.KeepAlive(&j)
}

// Recent lists what matches, the latest first.
func TestRecent(t *testing.T) {
	var j Journal
	for i := range 10 {
		j.Add(&Request{RequestID: fmt.Sprint(i), DatasetID: fmt.Sprint("d", i%2), At: noon.Add(time.Duration(i) * time.Minute)}, true)
	}
	odd := func(r *Request) bool { return r.DatasetID == "d1" }
	if got := j.Recent(noon.Add(time.Hour), 3, odd); len(got) != 3 || got[0].RequestID != "9" || got[2].RequestID != "5" {
		t.Errorf("got %+v", got)
	}
	if got := j.Recent(noon.Add(24*time.Hour+7*time.Minute), 9, odd); len(got) != 2 {
		t.Errorf("a day later: got %+v", got)
	}
}

// The sample of accepted requests keeps the latest, and they stand among the rejected ones by time.
func TestAcceptedAreSampled(t *testing.T) {
	var j Journal
	begun := time.Unix(1_800_000_000, 0)
	at := func(i int) time.Time { return begun.Add(time.Duration(i) * time.Second) }
	j.Add(&Request{RequestID: "rejected", At: at(accepted), Code: event.MalformedJSON}, true)
	for i := range accepted + 10 {
		j.AddAccepted(&Request{At: at(i), Accepted: i})
	}
	all := j.Recent(at(accepted+10), 2*accepted, func(*Request) bool { return true })
	if len(all) != accepted+1 || all[0].Accepted != accepted+9 || all[len(all)-1].Accepted != 10 {
		t.Errorf("got %d requests, %d to %d", len(all), all[0].Accepted, all[len(all)-1].Accepted)
	}
	if all[9].Code == "" && all[10].Code == "" {
		t.Errorf("the rejected request is not in its place: %+v", all[8:12])
	}
	if few := j.Recent(at(accepted+10), 3, func(*Request) bool { return true }); len(few) != 3 || few[0].Accepted != accepted+9 {
		t.Errorf("got %+v, want the latest three", few)
	}
}
