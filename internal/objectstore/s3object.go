package objectstore

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
)

// How an object is read. Readers of Parquet ask for the end first, and then for pages of many columns in turn: blocks
// keep that from becoming a request for each page, and their number bounds the memory of an open object.
const (
	blockBytes = 256 << 10
	maxBlocks  = 40 // 10 MiB; more than a table has columns
)

// s3Object reads an object in blocks. It keeps the end of the object, and the blocks that were read last.
type s3Object struct {
	ctx  context.Context // of all requests until Close
	s    *S3
	name string
	size int64
	tail []byte // the last bytes of the object

	mu     sync.Mutex
	blocks map[int64][]byte
	recent []int64 // the block read last comes last
}

// Open asks for the end of an object, which tells its size, unless it was opened lately.
func (s *S3) Open(ctx context.Context, name string) (Object, error) {
	if !isLocal(name) {
		return nil, errOutside
	}
	tail, size, known := s.tails.get(s.key(name))
	if !known {
		var err error
		tail, size, err = s.get(ctx, name, fmt.Sprintf("bytes=-%d", blockBytes))
		if status(err) == 416 { // an empty object has no last bytes
			tail, size, err = s.get(ctx, name, "")
		}
		if err != nil {
			return nil, err
		}
		s.tails.put(s.key(name), tail, size)
	}
	return &s3Object{ctx: ctx, s: s, name: name, size: size, tail: tail, blocks: map[int64][]byte{}}, nil
}

// ReadEnd asks for the last bytes of an object.
func (s *S3) ReadEnd(ctx context.Context, name string, n int) ([]byte, error) {
	b, _, err := s.get(ctx, name, fmt.Sprintf("bytes=-%d", n))
	if status(err) == 416 { // it is empty
		return nil, nil
	}
	return b, err
}

func (o *s3Object) Size() int64 { return o.size }

func (o *s3Object) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.blocks, o.recent, o.tail = map[int64][]byte{}, nil, nil
	return nil
}

func (o *s3Object) ReadAt(p []byte, at int64) (n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n < len(p) {
		if at >= o.size {
			return n, io.EOF
		}
		if from := o.size - int64(len(o.tail)); at >= from {
			k := copy(p[n:], o.tail[at-from:])
			n, at = n+k, at+int64(k)
			continue
		}
		b, err := o.block(at / blockBytes)
		if err != nil {
			return n, err
		}
		k := copy(p[n:], b[at%blockBytes:])
		n, at = n+k, at+int64(k)
	}
	return n, nil
}

// block is one of the object's blocks, of which the last may be short.
func (o *s3Object) block(i int64) ([]byte, error) {
	if b, ok := o.blocks[i]; ok {
		if k := slices.Index(o.recent, i); k < len(o.recent)-1 {
			o.recent = append(slices.Delete(o.recent, k, k+1), i)
		}
		return b, nil
	}
	from := i * blockBytes
	to := min(from+blockBytes, o.size)
	b, size, err := o.s.get(o.ctx, o.name, fmt.Sprintf("bytes=%d-%d", from, to-1))
	if err != nil {
		return nil, err
	}
	if size != o.size || int64(len(b)) != to-from {
		return nil, fmt.Errorf("%s changed while it was read", o.s.Location(o.name))
	}
	if len(o.recent) == maxBlocks {
		delete(o.blocks, o.recent[0])
		o.recent = o.recent[1:]
	}
	o.blocks[i] = b
	o.recent = append(o.recent, i)
	return b, nil
}
