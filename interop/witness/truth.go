package witness

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// waiting is the first frame of a partition that is not in the table.
type waiting struct {
	seq    uint64
	stored time.Time // by the clock of the NATS server
}

// truth is what waits: asked from NATS and read from the files of the table, without a line of the program under test.
type truth struct {
	streams []jetstream.Stream // the partitions
	table   []string           // directories in which the metadata of the table of events may lie
	passed  map[int]uint64     // frames without records that were seen: up to here
}

// openTruth finds the partitions.
func openTruth(ctx context.Context, js jetstream.JetStream, table []string) (*truth, error) {
	t := &truth{table: table, passed: map[int]uint64{}}
	for p := 0; ; p++ {
		s, err := js.Stream(ctx, fmt.Sprint("SLUICE_", p))
		if errors.Is(err, jetstream.ErrStreamNotFound) && p > 0 {
			return t, nil
		}
		if err != nil {
			return nil, err
		}
		t.streams = append(t.streams, s)
	}
}

// waits returns the first frame of each partition that is not in the table.
func (t *truth) waits(ctx context.Context) (map[int]waiting, error) {
	marks, err := t.watermarks()
	if err != nil {
		return nil, err
	}
	found := map[int]waiting{}
	for p, s := range t.streams {
		for from := max(marks[p], t.passed[p]) + 1; ; {
			m, err := s.GetMsg(ctx, from, jetstream.WithGetMsgSubject(">"))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				break
			}
			if err != nil {
				return nil, err
			}
			if hasRecords(m.Data) {
				found[p] = waiting{m.Sequence, m.Time}
				break
			}
			t.passed[p] = m.Sequence
			from = m.Sequence + 1
		}
	}
	return found, nil
}

// hasRecords says whether a frame has any: docs/format.md says where their number is.
func hasRecords(frame []byte) bool {
	if len(frame) < 10 {
		return true // damaged: nobody knows
	}
	n := binary.LittleEndian.Uint16(frame[8:])
	return n > 0 && n != 0xFFFF
}

var versionName = regexp.MustCompile(`^v(\d+)\.metadata\.json$`)

// snapshot is one of the table's metadata.
type snapshot struct {
	Sequence int64 `json:"sequence-number"`
	Summary  map[string]string
}

// watermarks reads, from the newest metadata file of the table, up to which number each partition is in it.
func (t *truth) watermarks() (map[int]uint64, error) {
	var newest string
	last := -1
	for _, dir := range t.table {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if name := versionName.FindStringSubmatch(e.Name()); name != nil {
				if n, err := strconv.Atoi(name[1]); err == nil && n > last {
					newest, last = filepath.Join(dir, e.Name()), n
				}
			}
		}
	}
	if newest == "" {
		return map[int]uint64{}, nil // no table: nothing is in it
	}
	text, err := os.ReadFile(newest)
	if err != nil {
		return nil, err
	}
	var table struct{ Snapshots []snapshot }
	if err := json.Unmarshal(text, &table); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(newest), err)
	}
	slices.SortFunc(table.Snapshots, func(a, b snapshot) int { return cmp.Compare(b.Sequence, a.Sequence) })
	marks := map[int]uint64{}
	for _, s := range table.Snapshots {
		if text := s.Summary["sluice.watermark"]; text != "" {
			for one := range strings.SplitSeq(text, ",") {
				var p int
				var seq uint64
				if _, err := fmt.Sscanf(one, "%d:%d", &p, &seq); err != nil {
					return nil, fmt.Errorf("watermark %q: %w", text, err)
				}
				marks[p] = seq
			}
			break
		}
	}
	return marks, nil
}
