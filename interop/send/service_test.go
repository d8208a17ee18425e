package send

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"sluice/interop/service"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sender is the service, and sluice-send beside it.
type sender struct {
	*service.Service
	program string
}

func startService(t *testing.T) *sender {
	t.Helper()
	root, dir := filepath.Join("..", ".."), t.TempDir()
	program, err := service.Build(root, dir)
	must(t, err)
	build := exec.Command("go", "build", "-o", dir, "./cmd/sluice-send")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return &sender{service.Start(t, program, "spring"), filepath.Join(dir, "sluice-send")}
}

// send runs sluice-send.
func (s *sender) send(t *testing.T, url string, args ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.program, args...)
	cmd.Env = append(os.Environ(), "SLUICE_URL="+url, "SLUICE_API_KEY="+s.Key)
	return cmd.CombinedOutput()
}

func writeOrders(t *testing.T, n int) string {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("timestamp,event_type,email,value,currency_code,custom_data.order\n")
	now := time.Now().Unix()
	for i := range n {
		fmt.Fprintf(&b, "%d,purchase,customer%d@example.com,%d.50,EUR,%d\n", now-int64(i%500_000), i, i%1000, i)
	}
	path := filepath.Join(t.TempDir(), "orders.csv")
	must(t, os.WriteFile(path, b.Bytes(), 0o600))
	return path
}

// checkStored waits until n rows are stored and wants every order among them once.
func (s *sender) checkStored(t *testing.T, n int) {
	t.Helper()
	seen := s.Stored(n)
	for i := range n {
		if times := seen[strconv.Itoa(i)]; times != 1 {
			t.Fatalf("row %d is stored %d times", i, times)
		}
	}
	if len(seen) != n {
		t.Errorf("%d rows are stored, want %d", len(seen), n)
	}
}
