package api

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	"sluice/event"
	"sluice/internal/dataset"
)

// A rejected request is found by its request id for a day, with the reasons that its answer gave.
func TestRejectedRequestsAreFound(t *testing.T) {
	s := openShop(t)
	md5 := strings.Replace(goodEvent(""), someHash, "d41d8cd98f00b204e9800998ecf8427a", 1)
	whole := s.post("/v1/events", md5, "X-Request-Id: order-77")
	if whole.StatusCode != 400 {
		t.Fatalf("got %d %s", whole.StatusCode, whole.text)
	}
	last := func(id string) (RejectedRequest, bool) {
		all := s.Rejected(id)
		if len(all) == 0 {
			return RejectedRequest{}, false
		}
		return all[0], true
	}
	r, ok := last("order-77")
	if !ok || r.DatasetID != "shop" || r.KeyID == "" || r.Status != 400 || r.Path != "/v1/events" || !r.At.Equal(noon) || r.Rejected != 1 || len(r.Reasons) != 1 {
		t.Fatalf("got %+v %v", r, ok)
	}
	if got := r.Reasons[0]; got.Field != "/identifiers/email_sha256" || !strings.Contains(got.Message+got.Hint, "MD5") || !strings.Contains(whole.text, got.Message) {
		t.Errorf("got %+v, want the reason of the answer: %s", got, whole.text)
	}
	part := s.post("/v1/events/batch", "["+md5+","+goodEvent("")+","+md5+"]")
	r, ok = last(part.Header.Get("X-Request-Id"))
	if !ok || r.Status != 200 || r.Accepted != 1 || r.Rejected != 2 || len(r.Reasons) != 1 || r.SubmissionID != part.object(t)["submission_id"] {
		t.Errorf("in part: got %+v %v", r, ok)
	}
	s.post("/v1/events", goodEvent(""), "X-Request-Id: stranger", "Authorization:", "Authorization: Bearer nonsense")
	if r, ok = last("stranger"); !ok || r.DatasetID != "" || r.Code != event.InvalidAPIKey || r.Status != 403 {
		t.Errorf("without a key: got %+v %v", r, ok)
	}
	s.post("/v1/events", goodEvent(""), "X-Request-Id: accepted")
	if r, ok = last("accepted"); ok {
		t.Errorf("an accepted request: got %+v", r)
	}
	s.post("/v1/events", goodEvent(`,"custom_data":{"their-own-name":{"a":"a@shop.example"}}`), "X-Request-Id: named")
	if r, ok = last("named"); !ok || strings.Contains(fmt.Sprint(r), "their-own-name") || r.Reasons[0].Field != "/custom_data" {
		t.Errorf("a member name of the sender: got %+v %v", r, ok)
	}
	s.clock.Advance(time.Hour)
	s.post("/v1/events", md5)
	said := s.Said("shop", event.InvalidIdentifier, "/identifiers/email_sha256")
	if len(said) != 1 || said[0].Requests != 3 || !strings.Contains(said[0].Message+said[0].Hint, "MD5") || !said[0].First.Equal(noon) || !said[0].Last.Equal(noon.Add(time.Hour)) {
		t.Errorf("said: got %+v", said)
	}
	s.clock.Advance(23*time.Hour + time.Second)
	if _, ok = last("order-77"); ok {
		t.Error("a request of the day before is still known")
	}
	if len(s.Said("shop", event.InvalidIdentifier, "/identifiers/email_sha256")) != 1 {
		t.Error("a message of this day is gone")
	}
	s.clock.Advance(2 * time.Hour)
	if said := s.Said("shop", event.InvalidIdentifier, "/identifiers/email_sha256"); len(said) != 0 {
		t.Errorf("a message of the day before: got %+v", said)
	}
}

// A sender that uses the request id of another, with or without a key, hides nothing.
func TestRequestIDsOfOthers(t *testing.T) {
	s := openShop(t)
	other := s.dataset(dataset.Spec{ID: "other"})
	s.post("/v1/events", badEvent(), "X-Request-Id: order-77")
	s.clock.Advance(time.Second)
	s.post("/v1/events", strings.Replace(badEvent(), `"shop"`, `"other"`, 1), "X-Request-Id: order-77", "Authorization:", "Authorization: Bearer "+other)
	s.post("/v1/events", badEvent(), "X-Request-Id: order-77", "Authorization:")
	var got []string
	for _, r := range s.Rejected("order-77") {
		got = append(got, r.DatasetID)
	}
	if want := []string{"other", "shop", ""}; !slices.Equal(got, want) {
		t.Errorf("got requests of %q, want %q", got, want)
	}
}

// The journal takes no more memory than its bounds allow, and one dataset does not push out the others.
func TestJournalIsBounded(t *testing.T) {
	var j journal
	add := func(id, dataset string, at time.Time, message string) {
		j.add(&RejectedRequest{RequestID: id, DatasetID: dataset, At: at, Reasons: []RejectedReason{{Code: event.MissingField, Field: "/timestamp", Message: message}}}, true)
	}
	add("first", "quiet", noon, "once")
	for i := range 3 * journalShare {
		add(fmt.Sprint("loud-", i), "loud", noon, fmt.Sprint("message ", i))
	}
	if j.byID["first"] == nil || j.byID["loud-0"] != nil || j.order.Len() != 1+journalShare || len(j.byID) != j.order.Len() {
		t.Errorf("one loud dataset: got %d requests, %d ids", j.order.Len(), len(j.byID))
	}
	if said := j.said[saidKey{"loud", event.MissingField, "/timestamp"}].all; len(said) != saidPlace || said[saidPlace-1].Message != fmt.Sprint("message ", 3*journalShare-1) {
		t.Errorf("messages: got %+v", said)
	}
	for i := range 20 { // together they have more than there is room for
		for n := range journalShare {
			add(fmt.Sprint(n), fmt.Sprint("loud-", i), noon, "m")
		}
	}
	if j.byID["first"] == nil || j.order.Len() != journalMost || len(j.owners) != 22 {
		t.Errorf("many loud datasets: got %d requests of %d datasets", j.order.Len(), len(j.owners))
	}
	for _, own := range j.owners {
		if own.dataset != "quiet" && len(own.all) < journalMost/22 {
			t.Errorf("%s has only %d requests", own.dataset, len(own.all))
		}
	}
	for i := range 2 * journalMost {
		add("same", fmt.Sprint("dataset-", i), noon, "m")
	}
	if j.order.Len() != journalMost || len(j.owners) != journalMost || len(j.most) != journalMost || len(j.said) != saidMost {
		t.Errorf("many datasets: got %d requests of %d datasets, %d places", j.order.Len(), len(j.owners), len(j.said))
	}
	add("next", "quiet", noon.Add(25*time.Hour), "m")
	if j.order.Len() != 1 || len(j.owners) != 1 || len(j.byID) != 1 || j.byID["next"] == nil {
		t.Errorf("a day later: got %d requests", j.order.Len())
	}
	if add("again", "other", noon.Add(25*time.Hour), "m"); len(j.said) != 2 {
		t.Errorf("a day later: got %d places", len(j.said))
	}
}

// A request that the journal has dropped is not in memory any more.
func TestDroppedRequestsAreCollected(t *testing.T) {
	var j journal
	const dropped = 300 // fewer than make the journal take a new array
	var all []weak.Pointer[RejectedRequest]
	for i := range journalShare + dropped {
		r := &RejectedRequest{RequestID: fmt.Sprint(i), At: noon, DatasetID: "shop"}
		all = append(all, weak.Make(r))
		j.add(r, true)
	}
	runtime.GC()
	held := 0
	for _, r := range all {
		if r.Value() != nil {
			held++
		}
	}
	if held != journalShare {
		t.Errorf("got %d requests in memory, want %d", held, journalShare)
	}
	runtime.KeepAlive(&j)
}
