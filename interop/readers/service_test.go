package readers

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/servicetest"
	"sluice/interop/readers/sent"
)

// What senders send over HTTP is what every reader reads from the tables, and what sluice export writes in every format.
func TestServiceStoresWhatWasSent(t *testing.T) {
	bin, dir := program(t), filepath.Join(t.TempDir(), "data")
	lines := sendAll(t, bin, dir)
	want := map[string][]Row{}
	suppressed := 0
	for _, l := range lines {
		if l.Row == nil {
			continue
		}
		want["events"] = append(want["events"], l.Row)
		if l.Row["privacy"] == "suppressed" {
			suppressed++
		}
	}
	if len(want["events"]) < 300 || suppressed == 0 {
		t.Fatalf("got %d events, %d of them suppressed, want more", len(want["events"]), suppressed)
	}

	report := &Report{}
	ndjson, err := ReadNDJSON(export(t, bin, dir, "ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	Compare(report, "export as ndjson", Events, ndjson, want["events"])
	cells, err := ReadCSV(export(t, bin, dir, "csv"))
	if err != nil {
		t.Fatal(err)
	}
	Compare(report, "export as csv", Events, cells, want["events"])
	if !report.Empty() {
		t.Errorf("export:\n%s", report)
	}
	file := filepath.Join(t.TempDir(), "events.parquet")
	export(t, bin, dir, "parquet", "--output", file)
	exported := Source{Files: map[string][]string{"events": {file}}, Tables: []*Table{Events}}
	if report, err = CheckFiles(t.Context(), exported, want); err != nil || !report.Empty() {
		t.Errorf("export as parquet: %v\n%s", err, report)
	}

	tables := filepath.Join(dir, "lake")
	l, err := openLake(t.Context(), settings{dir: tables, now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	src := source(t, l, tables)
	want["rejections"], want["hours"] = counted(t, src, lines)
	if report, err = Check(t.Context(), src, want); err != nil || !report.Empty() {
		t.Errorf("tables: %v\n%s", err, report)
	}
}

// sendAll sends sparse events, singly and in batches, some of them invalid, to a service that commits often, and stops it.
func sendAll(t *testing.T, bin, dir string) (lines []sent.Line) {
	t.Helper()
	keys := map[string]string{}
	for _, id := range []string{"shop-a", "shop-b"} {
		key, err := sent.CreateDataset(bin, dir, id)
		if err != nil {
			t.Fatal(err)
		}
		keys[id] = key
	}
	s, err := sent.Start(bin, dir, "--commit-every", "200ms")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Kill()
	gen := sent.New(setting(t, "SEED", 10))
	for round := range 14 {
		waiting := map[string]string{}
		for id, key := range keys {
			events := gen.Events(id, 3+(round*7)%40, round, time.Now())
			events = append(events, gen.Rejected(id, time.Now()))
			n := len(events)
			if round%4 == 3 {
				n = 1
			}
			var some []sent.Line
			for ; len(events) > 0; events = events[n:] {
				if some, err = s.Send(key, events[:n], ""); err != nil {
					t.Fatal(err)
				}
				lines = append(lines, some...)
			}
			if some[0].SubmissionID != "" { // else the last request was rejected whole
				waiting[key] = some[0].SubmissionID
			}
		}
		for key, id := range waiting {
			if err := s.AwaitProcessed(key, id); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Stop()
	return lines
}

// export runs sluice export, which loads what the stream still holds.
func export(t *testing.T, bin, dir, format string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, bin, append([]string{"export", "--data", dir, "--format", format}, args...)...).Output()
	if err != nil {
		t.Fatalf("export as %s: %v", format, err)
	}
	return out
}

// counted compares the sums of rejections and of accepted events with what was sent. The rows themselves depend on when
// the service wrote them down; one reader's rows are returned, for the others to agree with.
func counted(t *testing.T, src Source, lines []sent.Line) (rejections, hours []Row) {
	t.Helper()
	read, err := readDuckDB(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]int64{}, map[string]int64{}
	for _, row := range read["rejections"].Rows {
		key := fmt.Sprintln("rejected", row["data_set_id"], row["submission_id"], row["error_code"], row["field"])
		got[key] += row["count"].(int64)
	}
	for _, row := range read["hours"].Rows {
		if row["kind"] == "events" && row["field"] == "accepted" {
			got[fmt.Sprintln("accepted", row["hour"], row["data_set_id"], row["name"])] += row["count"].(int64)
		}
	}
	for _, l := range lines {
		if l.Row == nil {
			var id any
			if l.SubmissionID != "" {
				id = l.SubmissionID
			}
			want[fmt.Sprintln("rejected", l.Body["data_set_id"], id, l.Code, l.Field)]++
			continue
		}
		received := l.Row["received_at"].(int64)
		want[fmt.Sprintln("accepted", received-received%3600e6, l.Row["data_set_id"], l.Row["event_type"])]++
	}
	for key := range want {
		if got[key] != want[key] {
			t.Errorf("got %d, want %d of %s", got[key], want[key], key)
		}
		delete(got, key)
	}
	if len(got) > 0 {
		t.Errorf("got counts that nobody sent: %v", got)
	}
	return read["rejections"].Rows, read["hours"].Rows
}

// program builds the program under test.
func program(t *testing.T) string {
	t.Helper()
	p, err := servicetest.Build(filepath.Join("..", ".."), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return p.Path
}
