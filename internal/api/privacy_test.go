package api

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/dataset"
	"sluice/internal/journal"
)

// Marked values, sent through every path in every way, come back in no answer but the one that is made to show
// them, and appear in no log line. The key is nowhere on disk either, and what is suppressed or rejected is not.
func TestNothingLeaks(t *testing.T) {
	dir := t.TempDir()
	s := openServiceIn(t, dir, nil)
	s.key = s.dataset(specShop)
	const (
		email  = "marked.person@leak-test.example"
		hash   = "aaaabbbbccccddddeeeeffff0000111122223333444455556666777788889999"
		secret = "marked-secret-value"
	)
	shows := strings.NewReplacer("HASH", hash, "EMAIL", email, "SECRET", secret)
	bodies := []string{
		goodEvent(`,"custom_data":{"note":"SECRET"},"source":"SECRET"`),
		strings.Replace(goodEvent(`,"cp_name":"EMAIL"`), someHash, "HASH", 1),
		strings.Replace(goodEvent(""), someHash, "EMAIL", 1),
		strings.Replace(goodEvent(`,"event_id":"SECRET","ext":{"a":"SECRET"},"unknown":"SECRET"`), someHash, "HASH", 1),
		strings.Replace(goodEvent(`,"value":"SECRET","currency_code":"SECRET","mmt_only":"SECRET"`), `"purchase"`, `"SECRET"`, 1),
		strings.Replace(goodEvent(`,"privacy":{"gpp_string":"SECRET","gpp_sid":["SECRET"],"us_privacy_string":"SECRET"}`), someHash, "HASH", 1),
		strings.Replace(goodEvent(`,"schema_version":"SECRET"`), "shop", "SECRET", 1),
		`{"data_set_id":"shop","SECRET`, `"SECRET"`, `SECRET`,
	}
	answers := ""
	for _, b := range bodies {
		body := shows.Replace(b)
		for _, path := range []string{"/v1/events", "/v1/events/batch"} {
			text := body
			if strings.HasSuffix(path, "batch") {
				text = "[" + body + "," + goodEvent("") + "]"
			}
			answers += s.post(path, text).text
			answers += s.post(path, text, "Idempotency-Key: "+secret).text
			answers += s.post(path, gzipOf(t, text), "Content-Encoding: gzip", "Prefer: handling=strict").text
		}
		if r := s.post("/v1/events/validate", body); r.StatusCode != 200 || strings.Contains(r.text, `"valid":false`) {
			answers += r.text
		}
	}
	answers += s.post("/v1/events", shows.Replace(bodies[0]), "Authorization:", "Authorization: Bearer "+secret).text
	answers += s.post("/v1/"+secret, "{}").text
	answers += s.send("GET", "/v1/submissions/"+secret, "").text
	answers += s.post("/v1/events", "{}", "Content-Type:", "Content-Type: "+secret).text
	answers += s.post("/v1/events", "{}", "Content-Encoding: "+secret).text
	s.flush(t.Context())
	log := s.log.String()
	for _, r := range s.Journal.Recent(s.clock.Now(), 1000, func(*journal.Request) bool { return true }) {
		log += fmt.Sprintf("%+v\n", r)
	}
	if !strings.Contains(log, "PLAINTEXT_PII") {
		t.Error("the journal is not part of the search")
	}
	for name, marked := range map[string]string{"e-mail": email, "hash": hash, "secret": secret, "key": s.key} {
		if strings.Contains(answers, marked) {
			t.Errorf("the %s is in an answer", name)
		}
		if strings.Contains(log, marked) {
			t.Errorf("the %s is in the log", name)
		}
	}
	s.stop()
	for name, marked := range map[string]string{"e-mail": email, "key": s.key} {
		if file := findOnDisk(t, dir, marked); file != "" {
			t.Errorf("the %s is in %s", name, file)
		}
	}
	if findOnDisk(t, dir, secret) == "" {
		t.Error("the search finds nothing at all: an accepted value must be on disk")
	}
}

// Names that a sender made up can be identifiers. Those of a suppressed event are in no answer that may be stored, and on no
// disk; the answer says how many there are. Validation, which stores nothing, names them.
func TestSuppressedEventNamesNoMember(t *testing.T) {
	dir := t.TempDir()
	s := openServiceIn(t, dir, nil)
	s.key = s.dataset(dataset.Spec{ID: "shop", SuppressOptOut: true})
	event := func(more, identifier, signal string) string {
		return strings.Replace(goodEvent(more+`,"privacy":{"us_privacy_string":"1YYN"`+signal+`}`), `"identifiers":{`, `"identifiers":{`+identifier, 1)
	}
	named := event(`,"marked_top":1,"Marked-Top-2":{"marked_inside":1}`, `"marked_identifier":1,`, `,"marked_signal":true,"marked_signal_2":1`)
	for path, body := range map[string]string{"/v1/events": named, "/v1/events/batch": "[" + named + "," + goodEvent("") + "]"} {
		first := s.post(path, body, "Idempotency-Key: k")
		if first.StatusCode != 200 || strings.Contains(strings.ToLower(first.text), "marked") {
			t.Errorf("%s: got %d %s", path, first.StatusCode, first.text)
		}
		for _, want := range []string{`"code":"UNKNOWN_FIELD","field":"","message":"3 members are unknown`, `"code":"PRIVACY_NOT_UNDERSTOOD","field":"","message":"2 consent signals were not understood`} {
			if strings.Count(first.text, want) != 1 {
				t.Errorf("%s: got %s, want %s once", path, first.text, want)
			}
		}
		if again := s.post(path, body, "Idempotency-Key: k"); again.text != first.text {
			t.Errorf("%s: replayed %s, want %s", path, again.text, first.text)
		}
		s.post(path, body)
		valid := s.post("/v1/events/validate", body)
		for _, want := range []string{"/marked_top", "/Marked-Top-2", "/identifiers/marked_identifier", "/privacy/marked_signal", "/privacy/marked_signal_2"} {
			if !strings.Contains(valid.text, `"field":"`+want+`"`) {
				t.Errorf("validation: got %s, want %s", valid.text, want)
			}
		}
	}
	for _, r := range s.records(t) {
		if text := strings.ToLower(fmt.Sprintf("%+v", r)); strings.Contains(text, "marked") {
			t.Errorf("a record holds a name: %s", text)
		}
	}
	s.stop()
	for _, name := range []string{"marked", "Marked"} {
		if found := findOnDisk(t, dir, name); found != "" {
			t.Errorf("a name is on disk: %s", found)
		}
	}
}

// findOnDisk names a file that holds the text.
func findOnDisk(t *testing.T, dir, text string) (found string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), text) {
			found = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
