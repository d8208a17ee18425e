package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"sluice/internal/durable"
)

// Summary is what Verify found.
type Summary struct {
	Entries uint64    // how many there are
	First   time.Time // when the first was written
	Last    time.Time // when the last was written
	Seal    string    // the last seal: note it elsewhere, and nobody can rewrite the past unseen
	Torn    bool      // a crash left half a line at the end; the next Append cuts it off
}

// Verify reads the whole log and holds every line against its seal, its number and the line before, and the end
// against the head. An error that is ErrTampered names the first line that does not fit.
func (l *Log) Verify() (Summary, error) {
	var s Summary
	f, err := os.Open(filepath.Join(l.dir, FileName))
	if errors.Is(err, fs.ErrNotExist) {
		if head, err := readHead(l.dir); err == nil {
			return s, fmt.Errorf("%w: the log is gone, its head says %d entries", ErrTampered, head.Seq)
		}
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("open audit log: %w", err)
	}
	defer f.Close()
	if err := durable.Lock(f, durable.Shared); err != nil {
		return s, fmt.Errorf("lock audit log: %w", err)
	}
	head, headErr := readHead(l.dir)
	headSeen, err := s.read(f, head)
	switch {
	case err != nil:
		return s, err
	case s.Entries <= 1 && errors.Is(headErr, fs.ErrNotExist): // the first Append did not come as far as the head
	case headErr != nil:
		return s, fmt.Errorf("%w: no readable head: %w", ErrTampered, headErr)
	case !headSeen:
		return s, fmt.Errorf("%w: the head names entry %d, which is not in the log", ErrTampered, head.Seq)
	case s.Entries > head.Seq+1:
		return s, fmt.Errorf("%w: the log goes on for %d entries after its head", ErrTampered, s.Entries-head.Seq)
	}
	return s, nil
}

// read follows the chain to its end and says whether the head is part of it.
func (s *Summary) read(f io.Reader, head last) (headSeen bool, _ error) {
	prev := zeroSeal
	r := bufio.NewReaderSize(f, maxLine)
	for {
		line, err := r.ReadSlice('\n')
		if err == io.EOF {
			s.Torn = len(line) > 0
			return headSeen, nil
		}
		if err != nil {
			return false, fmt.Errorf("read audit log at line %d: %w", s.Entries+1, err)
		}
		e, seal, err := decode(line[:len(line)-1])
		if err != nil {
			return false, fmt.Errorf("line %d: %w", s.Entries+1, err)
		}
		if e.Seq != s.Entries+1 || e.Prev != prev {
			return false, fmt.Errorf("%w: line %d does not follow the line before it", ErrTampered, s.Entries+1)
		}
		if s.Entries == 0 {
			s.First = e.Time
		}
		s.Entries, s.Last, s.Seal, prev = e.Seq, e.Time, seal, seal
		headSeen = headSeen || head == last{e.Seq, seal}
	}
}

// Size is how many bytes the log has: it grows with every entry.
func (l *Log) Size() int64 {
	info, err := os.Stat(filepath.Join(l.dir, FileName))
	if err != nil {
		return 0
	}
	return info.Size()
}

// Tail is the last n entries, newest first. It trusts the file; Verify does not.
func (l *Log) Tail(n int) ([]Entry, error) {
	f, err := os.Open(filepath.Join(l.dir, FileName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	const window = 256 << 10 // arbitrary: hundreds of entries of the usual size
	from := max(0, info.Size()-window)
	buf := make([]byte, info.Size()-from)
	if _, err := f.ReadAt(buf, from); err != nil && err != io.EOF {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	var out []Entry
	end := len(buf)
	for i := len(buf) - 1; i >= -1 && len(out) < n; i-- {
		if i >= 0 && buf[i] != '\n' || i < 0 && from > 0 {
			continue
		}
		if e, _, err := decode(buf[i+1 : end]); err == nil {
			out = append(out, e)
		}
		end = max(i, 0)
	}
	return out, nil
}

func readHead(dir string) (last, error) {
	b, err := os.ReadFile(filepath.Join(dir, HeadName))
	if err != nil {
		return last{}, err
	}
	var h last
	if _, err := fmt.Sscanf(string(b), "%d %64s\n", &h.Seq, &h.seal); err != nil {
		return last{}, fmt.Errorf("read audit head: %w", err)
	}
	return h, nil
}
