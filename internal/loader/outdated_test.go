package loader

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/internal/stream"
)

// laterFrame is a whole frame of the version after ours.
func laterFrame(t *testing.T) stream.Frame {
	t.Helper()
	b := stream.AppendFrame(nil, []byte("x"))
	b[3]++
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.LittleEndian.PutUint32(b[4:], crc32.Update(crc32.Checksum(b[:4], table), table, b[8:]))
	_, err := stream.DecodeFrame(b)
	return stream.Frame{Seq: 3, Raw: b, Damaged: err}
}

// A loader that meets a frame or a record of a later version stores what comes before it, with its counts, and stops: it says
// which program to use, and nothing goes into quarantine.
func TestLaterVersionStopsLoading(t *testing.T) {
	for name, later := range map[string]stream.Frame{
		"frame":  laterFrame(t),
		"record": {Seq: 3, Records: [][]byte{record(made(1, "d")), append([]byte{2}, record(made(1, "d"))[1:]...)}},
	} {
		t.Run(name, func(t *testing.T) {
			src, _ := someParts(t, 2, 2)
			src.list[1] = append(src.list[1], later, stream.Frame{Seq: 4, Records: [][]byte{record(made(4, "d"))}})
			lk, dir := openLake(t, t.TempDir(), nil), t.TempDir()
			l, stop := start(t, Options{Stream: src, Lake: lk, Quarantine: dir, Settle: time.Hour})
			until(t, "the loader to stop", func() bool { return l.Stats().Stopped != "" })
			until(t, "what comes before", func() bool {
				marks, err := lk.Watermarks(t.Context(), 1)
				return err == nil && marks.Least() == 2
			})
			stop()
			st := l.Stats()
			if !strings.Contains(st.Stopped, "version 2, this program knows 1") || !strings.Contains(st.Stopped, "newer version") || st.Damaged != 0 {
				t.Errorf("got %d damaged and %q, want the versions and what to do", st.Damaged, st.Stopped)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("got %v %v in quarantine, want nothing", entries, err)
			}
			if marks, err := lk.Watermarks(t.Context(), 1); err != nil || marks.Events != 2 {
				t.Errorf("got %+v %v, want nothing after frame 2", marks, err)
			}
		})
	}
}

// The same for tables that a newer program has changed while this one runs.
func TestLaterTablesStopLoading(t *testing.T) {
	src, _ := someParts(t, 1, 2)
	dir := t.TempDir()
	lk := openLake(t, dir, nil)
	rewrite(t, dir, "events", func(m map[string]any) { m["properties"].(map[string]any)["sluice.table-version"] = "2" })
	l, _ := start(t, Options{Stream: src, Lake: lk, Quarantine: t.TempDir()})
	until(t, "the loader to stop", func() bool { return strings.Contains(l.Stats().Stopped, `version "2", this program knows 1`) })
}
