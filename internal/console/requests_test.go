package console

import (
	"net/url"
	"strings"
	"testing"

	"sluice/internal/dataset"
)

// The page lists requests, newest first, and its filters narrow it.
func TestRequestsPage(t *testing.T) {
	s := openService(t)
	s.dataset(dataset.Spec{ID: "shop"})
	s.dataset(dataset.Spec{ID: "other"})
	s.post("shop", "/v1/events", `{"data_set_id":"shop",}`)
	s.post("shop", "/v1/events", `{"data_set_id":"other"}`)
	s.post("other", "/v1/events/batch", "["+plainEvent("other")+`,{"data_set_id":"other"}]`)
	s.post("shop", "/v1/events", plainEvent("shop"))
	for query, want := range map[string]string{
		"":                               "200|200 MISSING_FIELD, in part|403 DATASET_FORBIDDEN|400 MALFORMED_JSON",
		"outcome=rejected":               "200 MISSING_FIELD, in part|403 DATASET_FORBIDDEN|400 MALFORMED_JSON",
		"outcome=accepted":               "200",
		"dataset=shop":                   "200|403 DATASET_FORBIDDEN|400 MALFORMED_JSON",
		"status=200":                     "200|200 MISSING_FIELD, in part",
		"code=MALFORMED_JSON":            "400 MALFORMED_JSON",
		"dataset=other&code=NONE":        "",
		"dataset=shop&status=403&code=":  "403 DATASET_FORBIDDEN",
		"code=" + url.QueryEscape("<b>"): "",
	} {
		_, page := s.read("/requests?" + query)
		_, list, _ := strings.Cut(page, "<tbody>")
		var got []string
		for _, row := range strings.Split(list, "</tr>") {
			if _, answer, found := strings.Cut(row, `<span class="pill `); found {
				got = append(got, between(answer, ">", "<"))
			}
		}
		if strings.Join(got, "|") != want || strings.Contains(page, "<b>") {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
}

// By the minute, what came before the start of the node is not known: it is not drawn as zero.
func TestMinutesBeforeTheStart(t *testing.T) {
	s := openService(t)
	s.dataset(dataset.Spec{ID: "shop"})
	until(t, "a dataset", func() bool { return len(s.console.look().Datasets) == 1 })
	_, page := s.read("/?window=hour")
	if n := strings.Count(page, "not known</td>"); n < 2*57 || n > 2*59 || !strings.Contains(page, "Events since this node started at") {
		t.Errorf("got %d unknown numbers: %s", n, page)
	}
	if _, page = s.read("/"); strings.Contains(page, "not known</td>") {
		t.Error("by the hour everything is known")
	}
}
