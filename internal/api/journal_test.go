package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/event"
	"sluice/internal/dataset"
	"sluice/internal/journal"
)

// A rejected request is found by its request id for a day, with the reasons that its answer gave.
func TestRejectedRequestsAreFound(t *testing.T) {
	s := openShop(t)
	md5 := strings.Replace(goodEvent(""), someHash, "d41d8cd98f00b204e9800998ecf8427a", 1)
	whole := s.post("/v1/events", md5, "X-Request-Id: order-77")
	if whole.StatusCode != 400 {
		t.Fatalf("got %d %s", whole.StatusCode, whole.text)
	}
	last := func(id string) (journal.Request, bool) {
		all := s.Journal.Find(id, s.clock.Now())
		if len(all) == 0 {
			return journal.Request{}, false
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
	said := s.Journal.Said("shop", event.InvalidIdentifier, "/identifiers/email_sha256", s.clock.Now())
	if len(said) != 1 || said[0].Requests != 3 || !strings.Contains(said[0].Message+said[0].Hint, "MD5") || !said[0].Last.Equal(noon.Add(time.Hour)) {
		t.Errorf("said: got %+v", said)
	}
	s.clock.Advance(23*time.Hour + time.Second)
	if _, ok = last("order-77"); ok {
		t.Error("a request of the day before is still known")
	}
	if len(s.Journal.Said("shop", event.InvalidIdentifier, "/identifiers/email_sha256", s.clock.Now())) != 1 {
		t.Error("a message of this day is gone")
	}
	s.clock.Advance(2 * time.Hour)
	if said := s.Journal.Said("shop", event.InvalidIdentifier, "/identifiers/email_sha256", s.clock.Now()); len(said) != 0 {
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
	for _, r := range s.Journal.Find("order-77", s.clock.Now()) {
		got = append(got, r.DatasetID)
	}
	if want := []string{"other", "shop", ""}; !slices.Equal(got, want) {
		t.Errorf("got requests of %q, want %q", got, want)
	}
}
