package send

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// service is the real one, in a process of its own.
type service struct {
	bin, data string
	url, key  string
}

func startService(t *testing.T) *service {
	t.Helper()
	dir := t.TempDir()
	s := &service{bin: dir, data: filepath.Join(dir, "data")}
	build := exec.Command("go", "build", "-o", dir, "./cmd/sluice", "./cmd/sluice-send")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	out, err := exec.Command(filepath.Join(dir, "sluice"), "dataset", "create", "spring", "--data", s.data, "--json").Output()
	must(t, err)
	var made struct {
		Key string `json:"api_key"`
	}
	must(t, json.Unmarshal(out, &made))
	s.key = made.Key
	s.serve(t)
	return s
}

func (s *service) serve(t *testing.T) {
	t.Helper()
	cmd := exec.Command(filepath.Join(s.bin, "sluice"), "serve", "--data", s.data, "--listen", "127.0.0.1:0", "--ops", "127.0.0.1:0",
		"--log-format", "json", "--commit-every", "500ms")
	log, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
	})
	ready := make(chan string, 1)
	go func() {
		defer close(ended)
		for scan := bufio.NewScanner(log); scan.Scan(); {
			var line struct{ API string }
			if json.Unmarshal(scan.Bytes(), &line) == nil && line.API != "" {
				ready <- line.API
			}
		}
		_ = cmd.Wait() // it was killed
	}()
	select {
	case s.url = <-ready:
	case <-time.After(time.Minute):
		t.Fatal("the service did not start within a minute")
	}
}

// send runs sluice-send.
func (s *service) send(t *testing.T, url string, args ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(s.bin, "sluice-send"), args...)
	cmd.Env = append(os.Environ(), "SLUICE_URL="+url, "SLUICE_API_KEY="+s.key)
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
func (s *service) checkStored(t *testing.T, n int) {
	t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		seen := s.export(t)
		total := 0
		for _, times := range seen {
			total += times
		}
		if total >= n {
			for i := range n {
				if times := seen[strconv.Itoa(i)]; times != 1 {
					t.Fatalf("row %d is stored %d times", i, times)
				}
			}
			if total != n {
				t.Errorf("%d rows are stored, want %d", total, n)
			}
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%d rows are stored, want %d", total, n)
		}
	}
}

func (s *service) export(t *testing.T) map[string]int {
	t.Helper()
	out, err := exec.Command(filepath.Join(s.bin, "sluice"), "export", "--data", s.data, "--format", "ndjson").Output()
	must(t, err)
	seen := map[string]int{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var row struct {
			CustomData struct{ Order string } `json:"custom_data"`
		}
		must(t, d.Decode(&row))
		seen[row.CustomData.Order]++
	}
	return seen
}
