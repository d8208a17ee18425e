package backup

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"sluice/internal/durable"
	"sluice/internal/engine"
)

// erasedName is the log of erased events in a backup: a line of JSON that describes it, and its entries, each
// behind its length (4 bytes, big endian).
const erasedName = "erased.log"

// SaveErased copies the log of erased events into a directory. With final it does not go on here. Call it before
// SaveRegistry: what the log names has a tombstone there.
func SaveErased(ctx context.Context, e *engine.Engine, dir string, final bool) error {
	j, err := e.Journal(ctx, engine.ErasedJournal)
	if err != nil {
		return err
	}
	st, err := j.State(ctx)
	if err != nil {
		return err
	}
	about := engine.JournalCopy{First: max(1, st.FirstSeq), Created: st.Created}
	if !final { // the copy gives numbers out again that cursors may name
		about.Created = time.Time{}
	}
	out, err := json.Marshal(about)
	if err != nil {
		return err
	}
	out = append(out, '\n')
	err = j.Scan(ctx, about.First, func(_ uint64, entry []byte) error {
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(entry))), entry...)
		return nil
	})
	if err != nil {
		return fmt.Errorf("copy the log of erased events: %w", err)
	}
	return durable.WriteFile(filepath.Join(dir, erasedName), out)
}

// RestoreErased makes the log of erased events of an engine that has none. Call it behind the stream, which says
// how long entries are kept.
func RestoreErased(ctx context.Context, e *engine.Engine, dir string) error {
	f, err := os.Open(filepath.Join(dir, erasedName))
	if errors.Is(err, fs.ErrNotExist) { // nothing was erased
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 64<<10)
	line, err := in.ReadBytes('\n')
	var about engine.JournalCopy
	if err == nil {
		err = json.Unmarshal(line, &about)
	}
	if err != nil || about.First == 0 {
		return fmt.Errorf("read %s: it is damaged", erasedName)
	}
	return e.RestoreJournal(ctx, engine.ErasedJournal, about, func() (run [][]byte, err error) {
		for len(run) < 64 { // arbitrary: few syncs, little memory
			var size [4]byte
			if _, err := io.ReadFull(in, size[:]); errors.Is(err, io.EOF) {
				return run, nil
			} else if err != nil {
				return nil, fmt.Errorf("read %s: %w", erasedName, err)
			}
			entry := make([]byte, min(binary.BigEndian.Uint32(size[:]), 1<<20))
			if _, err := io.ReadFull(in, entry); err != nil {
				return nil, fmt.Errorf("read %s: %w", erasedName, err)
			}
			run = append(run, entry)
		}
		return run, nil
	})
}
