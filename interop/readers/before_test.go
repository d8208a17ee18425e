package readers

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/interop/readers/sent"
)

// The whole data directory of the version before is taken over: what was loaded is repaired, what was only in the stream
// is loaded, old submission ids are found, and a request with an idempotency key of then is still answered with its first
// receipt.
func TestDataDirectoryOfTheVersionBefore(t *testing.T) {
	bin, dir := program(t), unpack(t, "data-524a9ec")
	lines, err := ReadSent(filepath.Join(archives, "data-524a9ec.sent.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	var want []Row
	keyed := map[string][]sent.Line{}
	for _, l := range lines {
		if l.Row != nil {
			want = append(want, l.Row)
		}
		if l.IdempotencyKey != "" {
			keyed[l.IdempotencyKey] = append(keyed[l.IdempotencyKey], l)
		}
	}
	s, err := sent.Start(bin, dir, "--table-retention", "0", "--commit-every", "200ms")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	out, err := exec.Command(bin, "key", "issue", "shop-a", "--data", dir).Output()
	if err != nil {
		t.Fatalf("a new key for an old dataset: %v", err)
	}
	key := strings.TrimSpace(string(out))
	err = sent.Eventually(60*time.Second, "loaded and repaired", func() error {
		if out, err := exec.Command(bin, "lake", "check", "--data", dir).CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		rows, err := ReadNDJSON(export(t, bin, dir, "ndjson"))
		if err == nil && len(rows) != len(want) {
			err = fmt.Errorf("%d events, want %d", len(rows), len(want))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(keyed) == 0 {
		t.Fatal("got no requests with an idempotency key: the test shows nothing")
	}
	for once, all := range keyed {
		if all[0].Body["data_set_id"] != "shop-a" {
			continue
		}
		again, header, err := s.Again(key, all, once)
		if err != nil || again != all[0].SubmissionID || header != "true" {
			t.Errorf("%s: got %s, replayed %q, %v, want the first receipt %s", once, again, header, err, all[0].SubmissionID)
		}
	}
	s.Stop()
	checkEvents(t, "taken over", dir, want, true)
}

