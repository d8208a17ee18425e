package audit

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sluice/internal/durable"
	"sluice/internal/engine"
)

// The files of a log in a backup.
const (
	fileName = "audit.jsonl" // one entry a line
	headName = "audit.head"  // number and seal of the last entry
)

// Save writes the log into dir as files, for a backup.
func (l *Log) Save(ctx context.Context, dir string) error {
	end, err := l.end(ctx)
	if err != nil || end.Seq == 0 {
		return err
	}
	var b bytes.Buffer
	err = l.journal.Scan(ctx, 1, func(number uint64, line []byte) error {
		if number <= end.Seq {
			b.Write(line)
			b.WriteByte('\n')
		}
		return nil
	})
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, headName), fmt.Appendf(nil, "%d %s", end.Seq, end.seal))
	}
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, fileName), b.Bytes())
	}
	return err
}

// Check says whether Save wrote a log into dir. One without entries has no files; that of a backup has the backup.
func Check(dir string) error {
	for _, name := range []string{fileName, headName} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("the audit log is damaged: %w", err)
		}
	}
	return nil
}

// Restore makes the log of an engine that has none from the files that Save wrote into dir: every entry as it is, under
// its number. What is wrong in the files, Verify says of the log.
func Restore(ctx context.Context, e *engine.Engine, dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		return fmt.Errorf("restore audit log: %w", err)
	}
	lines := bytes.Split(text, []byte("\n"))
	lines = lines[:len(lines)-1] // what is behind the last end of a line is none
	first := uint64(1)           // the oldest entries may have gone before the backup was made
	if len(lines) > 0 {
		if entry, _, err := decode(lines[0]); err == nil {
			first = entry.Seq
		}
	}
	err = e.RestoreJournal(ctx, engine.AuditJournal, engine.JournalCopy{First: first}, func() (run [][]byte, err error) {
		n := min(256, len(lines)) // arbitrary: few syncs
		run, lines = lines[:n], lines[n:]
		return run, nil
	})
	if err != nil {
		return fmt.Errorf("restore audit log: %w", err)
	}
	head, err := os.ReadFile(filepath.Join(dir, headName))
	if err != nil {
		return fmt.Errorf("restore audit log: %w", err)
	}
	settings, err := e.Bucket(ctx, engine.Settings)
	if err == nil {
		_, err = settings.Put(ctx, headKey, head)
	}
	return err
}
