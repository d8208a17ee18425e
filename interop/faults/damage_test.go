//go:build faults

package faults

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// metric reads one number of /metrics; of several series it is the sum.
func (s *server) metric(t *testing.T, name string) (sum float64) {
	t.Helper()
	r, err := servicetest.Client.Get(s.Ops() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^`+name+`(?:\{.*\})? (\S+)$`).FindAllSubmatch(text, -1)
	if found == nil {
		t.Fatalf("no metric %s", name)
	}
	for _, f := range found {
		v, err := strconv.ParseFloat(string(f[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += v
	}
	return sum
}

// harm is what befalls a file at rest.
type harm struct {
	name string
	do   func(path string) error
}

var harms = []harm{
	{"bit flipped", func(path string) error {
		b, err := os.ReadFile(path)
		if err != nil || len(b) == 0 {
			return errors.Join(err, fmt.Errorf("%d bytes", len(b)))
		}
		b[rand.IntN(len(b))] ^= 1 << rand.IntN(8)
		return os.WriteFile(path, b, 0o600)
	}},
	{"4 KiB of zeros", func(path string) error {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		at := rand.Int64N(info.Size())
		_, err = f.WriteAt(make([]byte, min(4096, info.Size()-at)), at)
		return err
	}},
	{"cut off", func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, rand.Int64N(info.Size()))
	}},
	{"gone", os.Remove},
}

// newest is the file of a pattern that sorts last by length and name, which for numbered files is the highest number.
func newest(t *testing.T, pattern ...string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pattern...))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s: %v", filepath.Join(pattern...), err)
	}
	return slices.MaxFunc(files, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
}

// Damage to the stream's blocks before anything of them was loaded, the worst time for it: the service starts, tells of
// every loss, stores what is whole once, and takes new events.
func TestDamagedStream(t *testing.T) {
	for _, h := range harms {
		t.Run(h.name, func(t *testing.T) {
			var sum servicetest.Toll
			for range rounds(t, 5, 1) {
				o := damagedStream(t, h)
				sum.Acked, sum.Stored, sum.Lost = sum.Acked+o.Acked, sum.Stored+o.Stored, sum.Lost+o.Lost
			}
			t.Log(sum)
		})
	}
}

func damagedStream(t *testing.T, h harm) servicetest.Toll {
	t.Helper()
	dir := t.TempDir()
	l := newLedger("shop", provisioned(t, dir, "shop"))
	s := start(t, dir, launch{env: []string{"SLUICE_FAILPOINT_NOLOADER=1"}})
	for i := range 200 {
		l.Send(s, l.Request(i%servicetest.Kinds))
	}
	s.Stop(syscall.SIGTERM)
	if err := h.do(newest(t, dir, "engine", "jetstream", "*", "streams", "SLUICE_0", "msgs", "*.blk")); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir, launch{args: quick})
	l.Settle(t, s, 60*time.Second)
	o := l.compare(t, dir)
	damaged, missing := s.metric(t, "sluice_load_damaged_frames"), s.metric(t, "sluice_load_missing_frames")
	t.Logf("%s; %v frames damaged, %v missing", o, damaged, missing)
	if o.Doubled+o.Foreign > 0 {
		t.Errorf("%d events are stored twice, %d were never sent", o.Doubled, o.Foreign)
	}
	// Each request went alone, so each has a frame of its own.
	if float64(o.Requests) > damaged+missing {
		t.Errorf("%d requests are lost, %v frames are reported:\n%s", o.Requests, damaged+missing, s.Said())
	}
	if o.Lost > 0 {
		eventually(t, 10*time.Second, "alarm", func() error {
			if !strings.Contains(s.Said(), "alarm=SluiceDamagedFrames") && !strings.Contains(s.Said(), "alarm=SluiceSequenceGap") {
				return errors.New("no alarm")
			}
			return nil
		})
	}
	s.Stop(syscall.SIGTERM)
	return o
}

// Damage to the newest metadata of the table: it goes back to the version before and loads again what that one lacks.
// Nothing is lost and nothing stored twice.
func TestDamagedMetadata(t *testing.T) {
	for _, file := range []struct{ name, pattern string }{
		{"version", "v*.metadata.json"},
		{"manifest list", "snap-*.avro"},
		{"manifest", "*-m0.avro"},
	} {
		for _, h := range harms {
			t.Run(file.name+" "+h.name, func(t *testing.T) {
				for range rounds(t, 3, 1) {
					damagedMetadata(t, file.pattern, h)
				}
			})
		}
	}
}

func damagedMetadata(t *testing.T, pattern string, h harm) {
	t.Helper()
	dir := t.TempDir()
	l := newLedger("shop", provisioned(t, dir, "shop"))
	s := start(t, dir, launch{args: quick})
	for i := range 30 {
		l.Send(s, l.Request(i%servicetest.Kinds))
	}
	l.Settle(t, s, 30*time.Second)
	s.Stop(syscall.SIGKILL)
	if err := h.do(youngest(t, filepath.Join(dir, "lake", "events", "metadata"), pattern)); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir, launch{args: quick})
	l.Settle(t, s, 60*time.Second)
	l.check(t, dir)
	s.Stop(syscall.SIGTERM)
	// Our own reader leaves out files by what the manifests say of them: that must be right, too.
	out, err := sluice(t, nil, "export", "--data", dir, "--dataset", "shop", "--from", "2020-01-01", "--to", "2100-01-01")
	if err != nil {
		t.Error(err)
	}
	if got, want := strings.Count(out, "\n"), len(stored(t, dir, "shop")); got != want {
		t.Errorf("%d events are exported, %d are stored", got, want)
	}
}

// youngest is the file of a directory that was written last.
func youngest(t *testing.T, dir, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	age := func(path string) int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime().UnixNano()
	}
	return slices.MaxFunc(files, func(a, b string) int { return cmp.Compare(age(a), age(b)) })
}

// Damage to a part of the table: an export gives everything else, says that something is missing, and fails; upkeep
// finds it, counts it and alarms; the service goes on.
func TestDamagedFiles(t *testing.T) {
	for _, h := range harms {
		t.Run(h.name, func(t *testing.T) {
			for range rounds(t, 2, 1) {
				damagedPart(t, h)
			}
		})
	}
}

func damagedPart(t *testing.T, h harm) {
	t.Helper()
	dir := t.TempDir()
	l := newLedger("shop", provisioned(t, dir, "shop"))
	many(t, dir, l)
	whole := stored(t, dir, "shop")
	files, err := dataFiles(dir, "events")
	if err != nil {
		t.Fatal(err)
	}
	hurt := files[rand.IntN(len(files))]
	inside := map[string]bool{}
	queryFiles(t, []string{hurt}, "select partner_id, 1 from t", func(mark string, _ int64) { inside[mark] = true })
	if err := h.do(hurt); err != nil {
		t.Fatal(err)
	}
	out, err := sluice(t, nil, "export", "--data", dir, "--dataset", "shop")
	if err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("an export without a part: %v, want it to fail and say so", err)
	}
	for mark := range whole {
		there := strings.Contains(out, `"partner_id":"`+mark+`"`)
		if !there && !inside[mark] {
			t.Errorf("%s is in a whole part and is not exported", mark)
		}
	}
	s := start(t, dir, launch{env: []string{"SLUICE_FAILPOINT_UPKEEP=1"}, args: quick})
	eventually(t, 30*time.Second, "upkeep to find it", func() error {
		l.Send(s, l.Request(servicetest.MixedBatch)) // more files, so that there is something to compact
		if n := s.metric(t, "sluice_lake_damaged_files_total"); n == 0 {
			return errors.New("not counted")
		}
		if !strings.Contains(s.Said(), "damaged") {
			return errors.New("not logged")
		}
		return nil
	})
	eventually(t, 10*time.Second, "alarm", func() error {
		if !strings.Contains(s.Said(), "alarm=SluiceDamagedFiles") {
			return errors.New("no alarm")
		}
		return nil
	})
	l.Settle(t, s, 60*time.Second)
	s.Stop(syscall.SIGTERM)
}
