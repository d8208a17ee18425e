package objectstore

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/minio/minio-go/v7"
)

// partBytes bounds the memory of an object that is being written, and is the size of its parts.
const partBytes = 16 << 20

// dropFor is how long an upload that failed waits for the store to drop its parts. Arbitrary: it is short, because a
// process that ends waits for it, and because a rule of the bucket drops them, too (docs/operate.md).
const dropFor = 2 * time.Second

// Create starts a new object. It is kept in memory up to partBytes, and then sent in parts, each with a deadline of its
// own.
func (s *S3) Create(ctx context.Context, name string) (Writer, error) {
	if err := s.mayWrite(name); err != nil {
		return nil, err
	}
	return &s3Writer{ctx: ctx, s: s, core: minio.Core{Client: s.client}, name: name}, nil
}

// s3Writer is one PUT for a small object, and a multipart upload for a large one.
type s3Writer struct {
	ctx    context.Context // of all requests until Close or Abort
	s      *S3
	core   minio.Core
	name   string
	buffer []byte // what is not sent yet
	size   int
	upload string // id of the multipart upload, once the buffer was too small
	parts  []minio.CompletePart
	err    error
}

func (w *s3Writer) Write(p []byte) (n int, err error) {
	for n < len(p) && w.err == nil {
		if len(w.buffer) == partBytes {
			w.err = w.sendPart()
			continue
		}
		some := min(len(p)-n, partBytes-len(w.buffer))
		w.buffer = append(w.buffer, p[n:n+some]...)
		n += some
	}
	w.size += n
	return n, w.err
}

func (w *s3Writer) sendPart() error {
	if w.upload == "" {
		ctx, cancel := w.s.request(w.ctx, 0)
		defer cancel()
		id, err := w.core.NewMultipartUpload(ctx, w.s.o.Bucket, w.s.key(w.name), minio.PutObjectOptions{})
		if err != nil {
			return err
		}
		w.upload = id
	}
	ctx, cancel := w.s.request(w.ctx, len(w.buffer))
	defer cancel()
	part, err := w.core.PutObjectPart(ctx, w.s.o.Bucket, w.s.key(w.name), w.upload, len(w.parts)+1,
		bytes.NewReader(w.buffer), int64(len(w.buffer)), minio.PutObjectPartOptions{})
	if err != nil {
		return err
	}
	w.parts = append(w.parts, minio.CompletePart{PartNumber: len(w.parts) + 1, ETag: part.ETag})
	w.buffer = w.buffer[:0]
	return nil
}

func (w *s3Writer) Close() error {
	if w.upload == "" && w.err == nil {
		return w.s.put(w.ctx, w.name, w.buffer)
	}
	if w.err == nil {
		w.err = w.sendPart()
	}
	if w.err == nil {
		w.err = w.complete()
	}
	if w.err != nil {
		return errors.Join(w.err, w.drop())
	}
	return nil
}

// complete makes an object of the parts. A store may copy them, so it has as much time as all of them had.
func (w *s3Writer) complete() error {
	ctx, cancel := w.s.request(w.ctx, w.size)
	defer cancel()
	_, err := w.core.CompleteMultipartUpload(ctx, w.s.o.Bucket, w.s.key(w.name), w.upload, w.parts,
		minio.PutObjectOptions{})
	return err
}

// drop gives the parts up, also when the context is over.
func (w *s3Writer) drop() error {
	if w.buffer = nil; w.upload == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), dropFor)
	defer cancel()
	return w.core.AbortMultipartUpload(ctx, w.s.o.Bucket, w.s.key(w.name), w.upload)
}

// Abort gives the object up.
func (w *s3Writer) Abort() { _ = w.drop() }
