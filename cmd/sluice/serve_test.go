package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/engine"
	"sluice/internal/enginetest"
)

func receiptOf(t *testing.T, a answer, err error) string {
	t.Helper()
	var receipt struct {
		ID string `json:"submission_id"`
	}
	if err != nil || a.status != http.StatusOK || json.Unmarshal(a.body, &receipt) != nil || receipt.ID == "" {
		t.Fatalf("got %d %v %s", a.status, err, a.body)
	}
	return receipt.ID
}

// A submission can be looked up right after the 200, after kill −9, and after the stream has let go of it; another
// dataset never sees it.
func TestLookUp(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	key, _ := provisioned(t, dir, "shop")
	other, _ := provisioned(t, dir, "other")
	body := "[" + marked("shop", "one") + `,{"data_set_id":"shop"},` + marked("shop", "two") + "]"
	a, err := s.post(key, "/v1/events/batch", body)
	id := receiptOf(t, a, err)
	look := func(s *server, status string) string {
		t.Helper()
		a, err := s.call(http.MethodGet, key, "/v1/submissions/"+id+"?include=events", "")
		if err != nil || a.status != http.StatusOK {
			t.Fatalf("look-up: %d %v %s", a.status, err, a.body)
		}
		if !strings.Contains(string(a.body), `"accepted":2,"rejected":1,"late":0,"restricted":0,"suppressed":0`) ||
			status != "" && !strings.Contains(string(a.body), `"status":"`+status+`"`) {
			t.Fatalf("look-up: got %s, want status %s", a.body, status)
		}
		return string(a.body)
	}
	look(s, "")
	if a, _ := s.call(http.MethodGet, other, "/v1/submissions/"+id, ""); a.status != http.StatusNotFound {
		t.Errorf("another dataset sees it: %d", a.status)
	}
	s.stop(syscall.SIGKILL)
	s = start(t, dir)
	s.settle(t, key)
	stored := look(s, "PROCESSED")
	s.stop(syscall.SIGTERM)
	purge(t, dir)
	s = start(t, dir)
	if got := look(s, "PROCESSED"); got != stored {
		t.Errorf("from the table: got %s\nfrom the stream: %s", got, stored)
	}
	if a, _ := s.call(http.MethodGet, other, "/v1/submissions/"+id, ""); a.status != http.StatusNotFound {
		t.Errorf("another dataset sees it in the table: %d", a.status)
	}
}

// purge makes the stream let go of all its frames, as age does.
func purge(t *testing.T, dir string) {
	t.Helper()
	e, err := engine.Open(t.Context(), engine.Options{Dir: dir, Listen: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := enginetest.Attach(t, dir).Stream(t.Context(), "SLUICE_0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A revoked key and a disabled dataset are rejected by a running server within five seconds; a new key works at once.
func TestProvisioningBesideAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	key, keyID := provisioned(t, dir, "shop")
	status := func(key string) int {
		a, err := s.post(key, "/v1/events", marked("shop", "m"))
		if err != nil {
			t.Fatal(err)
		}
		return a.status
	}
	if got := status(key); got != http.StatusOK {
		t.Fatalf("a new key: %d", got)
	}
	second := strings.TrimSpace(sluice(t, "key", "issue", "shop", "--data", dir))
	if got := status(second); got != http.StatusOK {
		t.Fatalf("a second key: %d", got)
	}
	sluice(t, "key", "revoke", keyID, "--data", dir)
	eventually(t, 5*time.Second, "revoked", func() error { return want(status(key), http.StatusForbidden) })
	if got := status(second); got != http.StatusOK {
		t.Fatalf("the other key after the revocation: %d", got)
	}
	sluice(t, "dataset", "disable", "shop", "--data", dir)
	eventually(t, 5*time.Second, "disabled", func() error { return want(status(second), http.StatusForbidden) })
	sluice(t, "dataset", "enable", "shop", "--data", dir)
	eventually(t, 5*time.Second, "enabled", func() error { return want(status(second), http.StatusOK) })
	eventually(t, 20*time.Second, "the last use of keys", func() error {
		var keys []struct {
			KeyID    string    `json:"key_id"`
			State    string    `json:"state"`
			LastUsed time.Time `json:"last_used"`
			Rejected time.Time `json:"last_rejected"`
		}
		if err := json.Unmarshal([]byte(sluice(t, "key", "list", "shop", "--json", "--data", dir)), &keys); err != nil {
			return err
		}
		if len(keys) != 2 || keys[0].KeyID != keyID || keys[0].State != "revoked" || keys[0].LastUsed.IsZero() || keys[0].Rejected.IsZero() || keys[1].LastUsed.IsZero() {
			return fmt.Errorf("got %+v, want both used and the first one rejected", keys)
		}
		return nil
	})
	if out := sluice(t, "key", "list", "shop", "--data", dir); !strings.Contains(out, "LAST USED") || strings.Count(out, time.Now().UTC().Format("2006-01-02")) < 5 {
		t.Errorf("got %s, want two times of issue, two of use and one of rejection", out)
	}
}

// A duration in the log has its unit, in both formats.
func TestLoggedDurations(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"text": "took=1.5s", "json": `"took":"1.5s"`} {
		var out strings.Builder
		log, err := newLogger(&out, format, "info")
		if err != nil {
			t.Fatal(err)
		}
		log.Info("answered", "took", 1500*time.Millisecond)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: got %s, want %s", format, out.String(), want)
		}
	}
}

func want(got, want int) error {
	if got != want {
		return fmt.Errorf("got %d, want %d", got, want)
	}
	return nil
}

// What a person or an attacker could use is nowhere it should not be: not in a log, not in an answer, and the key
// in no file at all. Plain addresses and suppressed hashes are in no file either.
func TestNothingLeaks(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, "--log-level", "debug", "--log-format", "text")
	key, _ := provisioned(t, dir, "shop")
	const (
		address    = "marked.person@example.com"
		stored     = "aa11bb22cc33dd44ee55ff6677889900aa11bb22cc33dd44ee55ff6677889900"
		suppressed = "5e11ed5e11ed5e11ed5e11ed5e11ed5e11ed5e11ed5e11ed5e11ed5e11ed5e11"
		child      = "DBABLA~ClViiJlAIEZU.YA" // the national section with a known child without consent
	)
	now := time.Now().Unix()
	event := func(id, rest string) string {
		return fmt.Sprintf(`{"data_set_id":"shop","timestamp":%d,"event_type":"purchase","identifiers":{"email_sha256":%q}%s}`, now, id, rest)
	}
	var answers strings.Builder
	for _, r := range []struct{ path, body string }{
		{"/v1/events", event(stored, "")},
		{"/v1/events", event(address, "")},
		{"/v1/events", event(stored, `,"page_url":"https://x.example/?e=marked.person%40example.com"`)},
		{"/v1/events", event(stored, `,"marked.person@example.com":1`)},
		{"/v1/events", event(stored, `,"custom_data":{"marked.person@example.com":"x"}`)},
		{"/v1/events", event(suppressed, `,"privacy":{"gpp_string":"`+child+`","gpp_sid":[7]},"custom_data":{"m":"`+suppressed+`"}`)},
		{"/v1/events/batch", "[" + event(address, "") + "," + event(stored, "") + "]"},
		{"/v1/events", `{"marked.person@example.com`},
		{"/v1/events/validate", event(address, "")},
		{"/v1/nothing/marked.person@example.com", "{}"},
	} {
		a, err := s.post(key, r.path, r.body, "Idempotency-Key", "idempotency-marked-"+fmt.Sprint(len(r.body)))
		if err != nil {
			t.Fatal(err)
		}
		answers.Write(a.body)
		if strings.Contains(r.body, suppressed) && (a.status != http.StatusOK || !strings.Contains(string(a.body), "PRIVACY_SUPPRESSED")) {
			t.Errorf("the event to suppress: %d %s", a.status, a.body)
		}
	}
	s.settle(t, key)
	metrics, err := http.Get(s.ops + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer metrics.Body.Close()
	s.stop(syscall.SIGTERM)
	secret := key[strings.LastIndex(key, "_")+1:]
	for name, text := range map[string]string{"log": s.said(), "answers": answers.String()} {
		for what, mark := range map[string]string{"address": "marked.person", "hash": stored, "suppressed hash": suppressed, "key": secret} {
			if strings.Contains(text, mark) {
				t.Errorf("the %s is in the %s", what, name)
			}
		}
	}
	unhexed := func(s string) string {
		var b strings.Builder
		for i := 0; i < len(s); i += 2 {
			var c byte
			fmt.Sscanf(s[i:i+2], "%02x", &c)
			b.WriteByte(c)
		}
		return b.String()
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		for what, mark := range map[string]string{
			"address": "marked.person", "suppressed hash": suppressed, "suppressed digest": unhexed(suppressed), "key": secret, "consent string": child,
		} {
			if strings.Contains(string(content), mark) {
				t.Errorf("the %s is in %s", what, filepath.Base(path))
			}
		}
		if info, err := d.Info(); err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be read by others: %v", strings.TrimPrefix(path, dir), info.Mode())
		}
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files, %v", files, err)
	}
}

// Erase, beside a running server and without one: the events are in no file of the table any more, the others stay.
func TestErase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	key, _ := provisioned(t, dir, "shop")
	const gone = "9774d56d682e549cdeadbeef00112233"
	send := func(mark, ifa string) {
		t.Helper()
		body := fmt.Sprintf(`{"data_set_id":"shop","timestamp":%d,"event_type":"purchase","identifiers":{"ifa":%q,"partner_id":%q}}`, time.Now().Unix(), ifa, mark)
		a, err := s.post(key, "/v1/events", body)
		receiptOf(t, a, err)
	}
	erase := func(args ...string) (rows int) {
		t.Helper()
		var done struct {
			Rows  int       `json:"rows"`
			Until time.Time `json:"stream_until"`
		}
		out := sluice(t, append([]string{"erase", "--data", dir, "--json", "--yes"}, args...)...)
		if err := json.Unmarshal([]byte(out), &done); err != nil || time.Until(done.Until) < 70*time.Hour || time.Until(done.Until) > 73*time.Hour {
			t.Fatalf("erase: %q (%v)", out, err)
		}
		return done.Rows
	}
	for i := range 5 {
		send(fmt.Sprintf("gone-%d", i), strings.ToUpper(gone))
		send(fmt.Sprintf("stays-%d", i), "9774d56d682e549cdeadbeef0011223"+fmt.Sprint(i+4))
	}
	if rows := erase("--ifa", gone); rows != 5 {
		t.Errorf("beside a server: %d rows erased, want 5", rows)
	}
	send("gone-again", gone)
	s.stop(syscall.SIGKILL)
	if rows := erase("--ifa", gone); rows != 1 {
		t.Errorf("without a server: %d rows erased, want 1", rows)
	}
	if rows := erase("--partner-id", "stays-0"); rows != 1 {
		t.Errorf("by partner id: %d rows erased, want 1", rows)
	}
	found := stored(t, dir, "shop")
	if len(found) != 4 || found["stays-1"] != 1 {
		t.Errorf("left: %v", found)
	}
	err := filepath.WalkDir(filepath.Join(dir, "lake"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(strings.ToLower(string(content)), gone) {
			t.Errorf("the identifier is in %s", filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
