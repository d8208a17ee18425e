package backup

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	c, err := openErased(dir)
	if err != nil {
		return err
	}
	defer c.Close()
	return e.RestoreJournal(ctx, engine.ErasedJournal, c.about, c.next)
}

// erasedCopy is the log of erased events in a backup while it is read.
type erasedCopy struct {
	io.Closer
	path  string
	in    *bufio.Reader
	about engine.JournalCopy
}

func openErased(dir string) (*erasedCopy, error) {
	path := filepath.Join(dir, erasedName)
	f, err := os.Open(path)
	if err != nil {
		return nil, damaged(path, err)
	}
	c := &erasedCopy{Closer: f, path: path, in: bufio.NewReaderSize(f, 64<<10)}
	line, err := c.in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &c.about)
	}
	if err == nil && c.about.First == 0 {
		err = errors.New("it does not say where it begins")
	}
	if err != nil {
		return nil, errors.Join(damaged(path, err), f.Close())
	}
	return c, nil
}

// next reads some entries, none at the end.
func (c *erasedCopy) next() (run [][]byte, err error) {
	for len(run) < 64 { // arbitrary: few syncs, little memory
		var size [4]byte
		if _, err := io.ReadFull(c.in, size[:]); errors.Is(err, io.EOF) {
			return run, nil
		} else if err != nil {
			return nil, damaged(c.path, err)
		}
		n := binary.BigEndian.Uint32(size[:])
		if n > 8<<20 { // the engine takes no more
			return nil, damaged(c.path, errors.New("an entry is too long"))
		}
		entry := make([]byte, n)
		if _, err := io.ReadFull(c.in, entry); err != nil {
			return nil, damaged(c.path, err)
		}
		run = append(run, entry)
	}
	return run, nil
}
