package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/event"
)

// A rejected request leaves a line with dataset, key, code and request id; the next ones of the same kind are counted, and
// the line a minute later has the count.
func TestRejectedRequestsAreLogged(t *testing.T) {
	s := openServiceIn(t, t.TempDir(), nil)
	s.key = s.dataset(specShop)
	for i := range 5 {
		s.post("/v1/events", badEvent(), fmt.Sprintf("X-Request-Id: first-%d", i))
	}
	s.post("/v1/events", "{", "X-Request-Id: another-code")
	s.clock.Set(noon.Add(sampleEvery))
	s.post("/v1/events", badEvent(), "X-Request-Id: a-minute-later")
	id := s.reg.Datasets()[0].Keys[0].ID
	if _, err := s.reg.RevokeKey(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	s.post("/v1/events", badEvent(), "X-Request-Id: revoked")
	s.post("/v1/nowhere", badEvent(), "X-Request-Id: nowhere")

	var got []string
	for line := range strings.Lines(s.log.String()) {
		if _, rest, found := strings.Cut(strings.TrimSpace(line), `level=INFO msg="request rejected" `); found {
			got = append(got, rest)
		}
	}
	want := []string{
		"code=INVALID_EVENT_TYPE status=400 dataset=shop key_id=" + id + " route=/v1/events request_id=first-0",
		"code=MALFORMED_JSON status=400 dataset=shop key_id=" + id + " route=/v1/events request_id=another-code",
		"code=INVALID_EVENT_TYPE status=400 dataset=shop key_id=" + id + " route=/v1/events request_id=a-minute-later rejected_since_last_line=4",
		`code=INVALID_API_KEY status=403 dataset="" key_id=` + id + " route=/v1/events request_id=revoked",
		`code=NOT_FOUND status=404 dataset="" key_id="" route=other request_id=nowhere`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestSampleIsBounded(t *testing.T) {
	var s sample
	for i := range sampleLimit {
		if _, ok := s.take(sampleKey{dataset: fmt.Sprint(i), code: event.MissingField}, noon); !ok {
			t.Fatalf("dataset %d got no line", i)
		}
	}
	one := sampleKey{dataset: "one more", code: event.MissingField}
	if _, ok := s.take(one, noon); ok || len(s.lines) != sampleLimit {
		t.Errorf("got a line for more than %d kinds of rejections", sampleLimit)
	}
	if _, ok := s.take(one, noon.Add(sampleEvery)); !ok || len(s.lines) != 1 {
		t.Errorf("a minute later: got %v and %d kinds, want a line and 1", ok, len(s.lines))
	}
	if _, ok := s.take(one, noon.Add(-time.Hour)); !ok {
		t.Error("no line after the clock was set back")
	}
}
