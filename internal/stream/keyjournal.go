package stream

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"sluice/internal/durable"
)

// keyJournal makes a start fast: it says which keys the frames up to some sequence number have, so that only the frames
// behind it must be read. The frames alone decide what is stored. The journal is written some seconds late, and what is
// missing or torn in it is read from the frames again.
//
// A journal is a directory of files, numbered in order. Each begins with a block that names the stream and the
// sequence numbers at which the file begins; each further block has keys.
//
//	bytes  block
//	4      length of the body, little endian
//	4      CRC32C of the body
//	…      body: the number of partitions p; for each partition the sequence number up to which every key is known after
//	       this block (uvarints); then the name of the stream in the first block of a file, and keys in each other block
//
// A key is 13 bytes: its first byte, four bytes of sum and eight bytes of position (see keyTable), little endian.
type keyJournal struct {
	dir    string
	stream string // its identity

	mu      sync.Mutex
	entries []byte // keys that no file has yet

	// One goroutine uses what follows.
	file  *os.File // nil before the first write
	n     uint64   // number of file
	size  int64
	ends  []uint64 // every key up to here is in the files
	files []journalFile
}

// journalFile is a file that is not written any more.
type journalFile struct {
	n    uint64
	ends []uint64 // at the end of the file
}

const (
	journalEntry = 1 + 4 + 8
	// journalFileSize is when a new file begins: files are deleted whole, when everything in them has aged out
	// (arbitrary).
	journalFileSize = 16 << 20
	// journalBlockSize bounds a block, and with it what a damaged length can make a reader allocate.
	journalBlockSize = 4 << 20
	journalExt       = ".keys"
)

func (j *keyJournal) path(n uint64) string {
	return filepath.Join(j.dir, fmt.Sprintf("%012d%s", n, journalExt))
}

// add notes a key. It is written with the next flush.
func (j *keyJournal) add(k *key, at Position) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, k[0])
	j.entries = binary.LittleEndian.AppendUint32(j.entries, k.sum())
	j.entries = binary.LittleEndian.AppendUint64(j.entries, at.pack())
}

// flush writes what was added, and that every key up to ends is known. The caller read ends before what it calls flush
// for was added. After an error the journal ends at the last whole block: a later flush begins a new file.
func (j *keyJournal) flush(ends []uint64) error {
	j.mu.Lock()
	entries := j.entries
	j.entries = nil
	j.mu.Unlock()
	if len(entries) == 0 && slices.Equal(ends, j.ends) {
		return nil
	}
	err := j.write(entries, ends)
	if err != nil {
		j.end()
		j.mu.Lock()
		j.entries = append(entries, j.entries...)
		j.mu.Unlock()
	}
	return err
}

// flushLarge flushes if much was added, so that reading many frames takes little memory.
func (j *keyJournal) flushLarge(ends []uint64) error {
	j.mu.Lock()
	large := len(j.entries) >= journalBlockSize
	j.mu.Unlock()
	if !large {
		return nil
	}
	return j.flush(ends)
}

func (j *keyJournal) write(entries []byte, ends []uint64) error {
	if j.file != nil && j.size >= journalFileSize {
		if err := j.file.Sync(); err != nil {
			return err
		}
		j.end()
	}
	if j.file == nil {
		if err := j.begin(); err != nil {
			return err
		}
	}
	const most = journalBlockSize / 2 / journalEntry * journalEntry
	for len(entries) > most { // the ends hold after the last block only
		if err := j.block(j.ends, entries[:most]); err != nil {
			return err
		}
		entries = entries[most:]
	}
	if err := j.block(ends, entries); err != nil {
		return err
	}
	j.ends = slices.Clone(ends)
	return nil
}

// begin makes the next file.
func (j *keyJournal) begin() error {
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(j.path(j.n+1), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	j.file, j.size = f, 0
	j.n++
	return j.block(j.ends, []byte(j.stream))
}

// block writes one block in one call.
func (j *keyJournal) block(ends []uint64, rest []byte) error {
	b := make([]byte, 8, 8+10*(len(ends)+1)+len(rest))
	b = binary.AppendUvarint(b, uint64(len(ends)))
	for _, seq := range ends {
		b = binary.AppendUvarint(b, seq)
	}
	b = append(b, rest...)
	binary.LittleEndian.PutUint32(b, uint32(len(b)-8))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
	n, err := j.file.Write(b)
	j.size += int64(n)
	return err
}

// end closes the file that is being written.
func (j *keyJournal) end() {
	if j.file == nil {
		return
	}
	_ = j.file.Close() // what is torn is not read
	j.file = nil
	j.files = append(j.files, journalFile{j.n, j.ends})
}

// close flushes for the last time and brings the file to the disk.
func (j *keyJournal) close(ends []uint64) error {
	err := j.flush(ends)
	if j.file != nil {
		err = errors.Join(err, j.file.Sync())
		j.end()
		err = errors.Join(err, durable.Sync(j.dir))
	}
	return err
}

// expire deletes the files that name only frames below first.
func (j *keyJournal) expire(first []uint64) error {
	for len(j.files) > 0 && allBelow(j.files[0].ends, first) {
		if err := os.Remove(j.path(j.files[0].n)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		j.files = j.files[1:]
	}
	return nil
}

func allBelow(ends, first []uint64) bool {
	for p, seq := range ends {
		if p >= len(first) || seq >= first[p] {
			return false
		}
	}
	return true
}

// load reads the journal into a table, and says up to where every key is in the journal. Where there are more keys than
// the table should hold, the oldest are left out: they age out first. A journal of another stream, or one with a gap,
// counts as empty.
func (j *keyJournal) load(t *keyTable, partitions int) ([]uint64, error) {
	numbers, size, err := j.list()
	if err != nil {
		return nil, err
	}
	keys, over := int(size/journalEntry), 0
	if t.most > 0 && keys > t.most {
		keys, over = t.most, -t.most
		if _, err := j.scan(numbers, partitions, func(_ byte, _ uint32, place uint64) {
			if !t.gone(place) {
				over++
			}
		}); err != nil {
			return nil, err
		}
	}
	t.reserve(keys)
	whole, err := j.scan(numbers, partitions, func(shard byte, sum uint32, place uint64) {
		if over > 0 && !t.gone(place) {
			over--
			t.leave(place)
			return
		}
		t.load(shard, sum, place)
	})
	if err != nil {
		return nil, err
	}
	if !whole {
		t.clear()
		return make([]uint64, partitions), j.drop(numbers, partitions)
	}
	return slices.Clone(j.ends), nil
}

// eachKey is called with each key of a journal.
type eachKey func(shard byte, sum uint32, place uint64)

// scan hands every key of the files to each, in the order in which they were stored. It returns false where the journal
// is of another stream or has a gap.
func (j *keyJournal) scan(numbers []uint64, partitions int, each eachKey) (bool, error) {
	j.ends, j.files = make([]uint64, partitions), nil
	for i, n := range numbers {
		j.n = n
		whole, err := j.scanFile(n, i == 0, each)
		if err != nil || !whole {
			return false, err
		}
		j.files = append(j.files, journalFile{n, slices.Clone(j.ends)})
	}
	return true, nil
}

// list returns the numbers of the files, in order, and how large they are together.
func (j *keyJournal) list() (numbers []uint64, size int64, err error) {
	entries, err := os.ReadDir(j.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	for _, e := range entries {
		var n uint64
		if _, err := fmt.Sscanf(e.Name(), "%d", &n); err != nil || filepath.Base(j.path(n)) != e.Name() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, 0, err
		}
		numbers, size = append(numbers, n), size+info.Size()
	}
	slices.Sort(numbers)
	return numbers, size, err
}

// drop deletes a journal that cannot be used.
func (j *keyJournal) drop(numbers []uint64, partitions int) error {
	j.files, j.ends = nil, make([]uint64, partitions)
	for _, n := range numbers {
		j.n = max(j.n, n)
		if err := os.Remove(j.path(n)); err != nil {
			return err
		}
	}
	return nil
}

// scanFile reads the whole blocks of a file. It returns false where the file does not continue the one before.
func (j *keyJournal) scanFile(n uint64, first bool, each eachKey) (bool, error) {
	f, err := os.Open(j.path(n))
	if err != nil {
		return false, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	ends, name, ok := readBlock(r, len(j.ends))
	if !ok { // the process ended while it began the file
		return true, nil
	}
	if !bytes.Equal(name, []byte(j.stream)) || !first && !slices.Equal(ends, j.ends) {
		return false, nil
	}
	j.ends = ends
	for {
		ends, keys, ok := readBlock(r, len(j.ends))
		if !ok {
			return true, nil
		}
		for ; len(keys) >= journalEntry; keys = keys[journalEntry:] {
			each(keys[0], binary.LittleEndian.Uint32(keys[1:]), binary.LittleEndian.Uint64(keys[5:]))
		}
		j.ends = ends
	}
}

// readBlock returns what a block says, for at least so many partitions. It is not ok at the end of the file and where
// the file is damaged.
func readBlock(r io.Reader, partitions int) (ends []uint64, rest []byte, ok bool) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, nil, false
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size > journalBlockSize {
		return nil, nil, false
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil ||
		crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, nil, false
	}
	count, w := binary.Uvarint(body)
	if w <= 0 || count > MaxPartitions {
		return nil, nil, false
	}
	body = body[w:]
	ends = make([]uint64, max(partitions, int(count)))
	for p := range count {
		ends[p], w = binary.Uvarint(body)
		if w <= 0 {
			return nil, nil, false
		}
		body = body[w:]
	}
	return ends, body, true
}
