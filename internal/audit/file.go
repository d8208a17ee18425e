package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sluice/internal/durable"
	"sluice/internal/engine"
)

// takenPrefix begins the names of the files of an earlier version once the engine has what is in them.
const takenPrefix = "taken-over."

// takeOver brings the entries of an earlier version's file into the engine, once. Into an empty log they come as they
// are, with their seals. A log that has entries of its own gets them as new ones that name where they come from. It goes
// on where an interrupted one stopped; the file gets another name when everything is stored.
func (l *Log) takeOver(ctx context.Context, dir string, now time.Time) error {
	path := filepath.Join(dir, FileName)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := durable.Lock(f, durable.Exclusive); err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) { // another process did it meanwhile
		return nil
	}
	lines, problem := readLines(f, dir)
	if len(lines) > 0 {
		same, err := l.continues(ctx, lines)
		if err == nil && same {
			err = l.copyLines(ctx, lines)
		} else if err == nil {
			err = l.appendLines(ctx, lines)
		}
		if err != nil {
			return err
		}
	}
	if problem != nil {
		e := Entry{Time: now, Actor: "sluice", Action: "audit.damaged", Detail: map[string]string{"file": takenPrefix + FileName, "problem": problem.Error()}}
		if err := l.Append(ctx, e); err != nil {
			return err
		}
	}
	for _, name := range []string{FileName, HeadName} { // the log first: without it no takeover begins
		err := os.Rename(filepath.Join(dir, name), filepath.Join(dir, takenPrefix+name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return durable.Sync(dir)
}

// readLines returns the lines of a file up to the first that was changed, and what is wrong with the file. Half a line
// at the end, which a crash left, was never reported as done.
func readLines(f *os.File, dir string) (lines [][]byte, problem error) {
	var c chain
	if b, err := os.ReadFile(filepath.Join(dir, HeadName)); err == nil {
		_, _ = fmt.Sscanf(string(b), "%d %64s\n", &c.head.Seq, &c.head.seal) // one that cannot be read is none
	}
	number := uint64(0)
	for r := bufio.NewReaderSize(f, maxLine); ; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return lines, c.close()
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if e, _, err := decode(line); number == 0 && err == nil {
			number = e.Seq - 1 // the log of a backup may have lost its oldest entries to its limit
		}
		number++
		if err := c.add(number, line); err != nil {
			return lines, err
		}
		lines = append(lines, line)
	}
}

// continues says whether the log in the engine is empty, or ends with one of the lines.
func (l *Log) continues(ctx context.Context, lines [][]byte) (bool, error) {
	if e, _, err := decode(lines[0]); err != nil || e.Seq != 1 {
		return false, err
	}
	_, number, err := l.journal.Ends(ctx)
	if err != nil || number == 0 {
		return err == nil, err
	}
	if number > uint64(len(lines)) {
		first, err := l.journal.Get(ctx, uint64(len(lines)))
		if errors.Is(err, engine.ErrNotFound) {
			return false, nil
		}
		return bytes.Equal(first, lines[len(lines)-1]), err
	}
	there, err := l.journal.Get(ctx, number)
	return bytes.Equal(there, lines[number-1]), err
}

// copyLines stores the lines that the log does not have yet.
func (l *Log) copyLines(ctx context.Context, lines [][]byte) error {
	_, number, err := l.journal.Ends(ctx)
	for err == nil && number < uint64(len(lines)) {
		err = l.journal.Append(ctx, lines[number], number)
		number++
		if err == nil {
			err = l.raiseHead(ctx, last{number, sealOf(lines[number-1])})
		}
	}
	return err
}

// originKey is the detail by which an entry that was taken over names the log it comes from, and its number there.
const originKey = "origin"

// appendLines stores the entries of another log as new ones.
func (l *Log) appendLines(ctx context.Context, lines [][]byte) error {
	origin := sealOf(lines[0])[:12] + "/"
	done := 0
	err := l.journal.Scan(ctx, 1, func(_ uint64, line []byte) error {
		e, _, err := decode(line)
		if number, ok := strings.CutPrefix(e.Detail[originKey], origin); err == nil && ok {
			n, _ := strconv.Atoi(number)
			done = max(done, n)
		}
		return nil
	})
	for ; err == nil && done < len(lines); done++ {
		e, _, _ := decode(lines[done]) // readLines has decoded it
		detail := map[string]string{originKey: origin + strconv.Itoa(done+1)}
		for k, v := range e.Detail {
			detail[k] = v
		}
		e.Detail = detail
		err = l.Append(ctx, e)
	}
	return err
}

// Save writes the log into dir as files, for a backup. Open takes them over.
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
		err = durable.WriteFile(filepath.Join(dir, HeadName), fmt.Appendf(nil, "%020d %s\n", end.Seq, end.seal))
	}
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, FileName), b.Bytes())
	}
	return err
}
