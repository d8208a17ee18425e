// Package audit keeps the record of what operators did: an append-only file in which every line seals the one before it.
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sluice/internal/durable"
)

// The files of the log inside the data directory.
const (
	FileName = "audit.jsonl" // one entry a line
	HeadName = "audit.head"  // number and seal of the last entry, so that a cut tail is noticed
)

// maxLine bounds an entry. Arbitrary, and far above what the actions of this program say.
const maxLine = 64 << 10

// ErrTampered is what Verify wraps when the file is not what Append left.
var ErrTampered = errors.New("audit log was changed")

// Entry is one deed. It names things (a dataset, a key id, the kind of an identifier), never a secret and never
// a value from an event.
type Entry struct {
	Seq    uint64            `json:"seq"`
	Time   time.Time         `json:"time"`
	Actor  string            `json:"actor"`  // who: "user:alice", "console:10.0.0.7"
	Action string            `json:"action"` // what: "dataset.create", "console.login"
	Object string            `json:"object,omitempty"`
	Detail map[string]string `json:"detail,omitempty"`
	Prev   string            `json:"prev"` // seal of the entry before, 64 zeros for the first
}

// Log is the audit log of one data directory. Any number of processes may append to it at once.
type Log struct {
	dir string
	mu  sync.Mutex // flock is per open file, and each call opens its own; mu keeps the queue short in this process
}

// Open is the log in dir. The file is made by the first Append.
func Open(dir string) *Log { return &Log{dir: dir} }

// sealed is a line of the file: the entry and, last, the SHA-256 over every byte before the comma.
const sealKey = `,"seal":"`

// Append adds an entry and returns once it is on stable storage. Seq, Prev and the seal are given here.
//
// The order of writes: the line, fsync, the head, fsync. A crash inside the line leaves a torn tail that the next
// Append cuts off (no caller got nil for it); a crash before the head leaves a head that is one entry
// behind, which Verify accepts, for the chain reaches further than the head and holds it.
func (l *Log) Append(e Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := os.OpenFile(filepath.Join(l.dir, FileName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open audit log: %w", err)
	}
	defer f.Close()
	if err := durable.Lock(f, durable.Exclusive); err != nil {
		return fmt.Errorf("lock audit log: %w", err)
	}
	end, last, err := tail(f)
	if err != nil {
		return err
	}
	e.Seq, e.Prev = last.Seq+1, last.seal
	line, seal, err := encode(e)
	if err != nil {
		return err
	}
	if err := f.Truncate(end); err != nil {
		return fmt.Errorf("cut torn audit line: %w", err)
	}
	if _, err := f.WriteAt(line, end); err != nil {
		return fmt.Errorf("append audit entry: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync audit log: %w", err)
	}
	if err := writeHead(l.dir, e.Seq, seal); err != nil {
		return err
	}
	if e.Seq == 1 {
		return durable.Sync(l.dir)
	}
	return nil
}

func encode(e Entry) (line []byte, seal string, err error) {
	e.Time = e.Time.UTC().Truncate(time.Millisecond)
	line, err = json.Marshal(e)
	if err != nil {
		return nil, "", fmt.Errorf("encode audit entry: %w", err)
	}
	line = line[:len(line)-1] // without the closing brace: the seal comes last
	sum := sha256.Sum256(line)
	seal = hex.EncodeToString(sum[:])
	line = append(line, sealKey+seal+"\"}\n"...)
	if len(line) > maxLine {
		return nil, "", fmt.Errorf("audit entry of %d bytes is over %d", len(line), maxLine)
	}
	return line, seal, nil
}

// last is what the next entry needs to know of the one before.
type last struct {
	Seq  uint64
	seal string
}

var zeroSeal = fmt.Sprintf("%064d", 0)

// tail finds where the last whole line ends, and what it says. It reads only the end of the file.
func tail(f *os.File) (end int64, _ last, _ error) {
	info, err := f.Stat()
	if err != nil {
		return 0, last{}, err
	}
	from := max(0, info.Size()-2*maxLine) // a torn line and the whole one before it
	buf := make([]byte, info.Size()-from)
	if _, err := f.ReadAt(buf, from); err != nil && err != io.EOF {
		return 0, last{}, fmt.Errorf("read audit log: %w", err)
	}
	for len(buf) > 0 && buf[len(buf)-1] != '\n' {
		buf = buf[:len(buf)-1]
	}
	if len(buf) == 0 {
		if from > 0 {
			return 0, last{}, fmt.Errorf("%w: no line ends in its last %d bytes", ErrTampered, 2*maxLine)
		}
		return 0, last{seal: zeroSeal}, nil
	}
	start := len(buf) - 1
	for start > 0 && buf[start-1] != '\n' {
		start--
	}
	e, seal, err := decode(buf[start : len(buf)-1])
	if err != nil {
		return 0, last{}, fmt.Errorf("last line: %w", err)
	}
	return from + int64(len(buf)), last{Seq: e.Seq, seal: seal}, nil
}

// decode reads a line without its newline and holds it against its own seal.
func decode(line []byte) (Entry, string, error) {
	cut := len(line) - len(sealKey) - 64 - len(`"}`)
	if cut < 0 || string(line[cut:cut+len(sealKey)]) != sealKey || string(line[len(line)-2:]) != `"}` {
		return Entry{}, "", fmt.Errorf("%w: a line without a seal", ErrTampered)
	}
	seal := string(line[cut+len(sealKey) : len(line)-2])
	if sum := sha256.Sum256(line[:cut]); hex.EncodeToString(sum[:]) != seal {
		return Entry{}, "", fmt.Errorf("%w: a line does not match its seal", ErrTampered)
	}
	var e Entry
	if err := json.Unmarshal(append(line[:cut:cut], '}'), &e); err != nil {
		return Entry{}, "", fmt.Errorf("%w: a line is not an entry", ErrTampered)
	}
	return e, seal, nil
}

// writeHead overwrites the head in place: it is shorter than a disk sector, so it is never half old, half new.
func writeHead(dir string, seq uint64, seal string) error {
	f, err := os.OpenFile(filepath.Join(dir, HeadName), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open audit head: %w", err)
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%020d %s\n", seq, seal); err != nil {
		return fmt.Errorf("write audit head: %w", err)
	}
	return f.Sync()
}
