package objectstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3Options say how to reach a bucket. Bucket and Endpoint are required.
type S3Options struct {
	Bucket    string
	Prefix    string // without slashes at its ends; "" is the whole bucket
	Endpoint  string // such as https://s3.eu-central-1.amazonaws.com
	Region    string // "" asks the store
	PathStyle bool   // the bucket is part of the path, not of the host name

	// Credentials are looked for in this order: static ones if AccessKey is set, the AWS_* environment, the AWS profile
	// files, and the machine (container, instance, web identity).
	AccessKey, SecretKey string

	Transport http.RoundTripper // default: the client's own; tests count and spoil requests with it
	Timeout   time.Duration     // of one request without its body; default 15 s
}

// S3 is a Store in a bucket of an S3-compatible store.
type S3 struct {
	o      S3Options
	client *minio.Client // repeats what can be repeated
	single *minio.Client // never repeats a request: for the conditional write, whose answers differ in meaning
	ctx    context.Context
	tails  *tailCache // of objects that were opened; those of all places in the bucket
	sent   *counter   // requests of all places in the bucket
}

// graceS3 is for how long an object stays that nothing lists. A bucket has no lock that ends with its process, so a
// sweep cannot know whether somebody is about to list a young object.
const graceS3 = 24 * time.Hour

// OpenS3 opens a bucket, and makes sure that it keeps two writers apart: an object that is written twice on the
// condition that there is none must be rejected the second time. ctx ends requests of the Store.
func OpenS3(ctx context.Context, o S3Options) (*S3, error) {
	s := &S3{o: o, ctx: ctx, tails: newTailCache(tailCacheBytes, time.Now)}
	if s.o.Timeout == 0 {
		s.o.Timeout = 15 * time.Second // arbitrary: a committer that is cut off must notice before it keeps others waiting
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("the endpoint is a URL such as https://s3.eu-central-1.amazonaws.com")
	}
	chain := []credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: &http.Client{Timeout: 5 * time.Second}},
	}
	creds := credentials.NewChainCredentials(chain)
	if o.AccessKey != "" {
		creds = credentials.NewStaticV4(o.AccessKey, o.SecretKey, "")
	}
	s.sent = &counter{next: o.Transport}
	if o.Transport == nil {
		if s.sent.next, err = minio.DefaultTransport(u.Scheme == "https"); err != nil {
			return nil, err
		}
	}
	options := minio.Options{
		Creds: creds, Secure: u.Scheme == "https", Region: o.Region, Transport: s.sent, BucketLookup: minio.BucketLookupAuto,
		MaxRetries: 8, // some ten seconds
	}
	if o.PathStyle {
		options.BucketLookup = minio.BucketLookupPath
	}
	if s.client, err = minio.New(u.Host, &options); err != nil {
		return nil, err
	}
	options.MaxRetries = 1
	if s.single, err = minio.New(u.Host, &options); err != nil {
		return nil, err
	}
	return s, s.probe()
}

// probe makes sure of conditional writes.
func (s *S3) probe() error {
	name := "probe-" + newSuffix()
	defer func() { _ = s.Remove(name) }()
	if err := s.CreateExclusive(name, []byte("first")); err != nil {
		return fmt.Errorf("write to %s: %w", s.Location(""), err)
	}
	switch err := s.CreateExclusive(name, []byte("second")); {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return fmt.Errorf("write to %s: %w", s.Location(""), err)
	}
	return fmt.Errorf("%s ignores conditional writes (If-None-Match): two writers could overwrite each other's commits; use a store that honours them", s.Location(""))
}

func (s *S3) key(name string) string { return path.Join(s.o.Prefix, name) }

// Location is the s3 URL of an object.
func (s *S3) Location(name string) string {
	return strings.TrimSuffix("s3://"+path.Join(s.o.Bucket, s.key(name)), "/")
}

// Sub is the prefix below.
func (s *S3) Sub(name string) Store {
	sub := *s
	sub.o.Prefix = s.key(name)
	return &sub
}

// Grace is for how long an object that nothing lists has to stay.
func (s *S3) Grace() time.Duration { return graceS3 }

// request is the context of one request. Bodies of n bytes have a second more for each megabyte.
func (s *S3) request(n int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.ctx, s.o.Timeout+time.Duration(n>>20)*time.Second)
}

// status is the HTTP status of an answer, 0 where there was none.
func status(err error) int {
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return response.StatusCode
	}
	return 0
}

// missing gives the error for an object that is not there its usual form. A bucket that is not there is another error.
func missing(err error) error {
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok && response.StatusCode == http.StatusNotFound && response.Code != minio.NoSuchBucket {
		return fmt.Errorf("%w: %s", fs.ErrNotExist, response.Code)
	}
	return err
}

// Create starts a new object. It is kept in memory up to partBytes, and then sent in parts.
func (s *S3) Create(name string) (Writer, error) { return &s3Writer{s: s, name: name}, nil }

// partBytes bounds the memory of an object that is being written, and is the size of its parts.
const partBytes = 16 << 20

// s3Writer is one PUT for a small object, and a multipart upload for a large one.
type s3Writer struct {
	s      *S3
	name   string
	buffer bytes.Buffer
	pipe   *io.PipeWriter // once the buffer was too small
	done   chan error
}

func (w *s3Writer) Write(p []byte) (int, error) {
	if w.pipe != nil {
		return w.pipe.Write(p)
	}
	if w.buffer.Len()+len(p) <= partBytes {
		return w.buffer.Write(p)
	}
	in, out := io.Pipe()
	w.pipe, w.done = out, make(chan error, 1)
	go func() {
		_, err := w.s.client.PutObject(w.s.ctx, w.s.o.Bucket, w.s.key(w.name), in, -1, minio.PutObjectOptions{PartSize: partBytes})
		_ = in.CloseWithError(err)
		w.done <- err
	}()
	if _, err := w.pipe.Write(w.buffer.Bytes()); err != nil {
		return 0, err
	}
	w.buffer = bytes.Buffer{}
	return w.pipe.Write(p)
}

func (w *s3Writer) Close() error {
	if w.pipe != nil {
		return errors.Join(w.pipe.Close(), <-w.done)
	}
	return w.s.put(w.name, w.buffer.Bytes())
}

// Abort gives the object up.
func (w *s3Writer) Abort() {
	if w.pipe != nil {
		_ = w.pipe.CloseWithError(errors.New("given up"))
		<-w.done
	}
	w.buffer = bytes.Buffer{}
}

// putOptions are those of a whole object. Over HTTP without TLS the client signs the body in chunks, and then sends no
// length for an empty one, which stores reject.
func putOptions(data []byte) minio.PutObjectOptions {
	return minio.PutObjectOptions{DisableMultipart: true, DisableContentSha256: len(data) == 0}
}

func (s *S3) put(name string, data []byte) error {
	ctx, cancel := s.request(len(data))
	defer cancel()
	_, err := s.client.PutObject(ctx, s.o.Bucket, s.key(name), bytes.NewReader(data), int64(len(data)), putOptions(data))
	return err
}

// Replace writes a whole object over what is there.
func (s *S3) Replace(name string, data []byte) error { return s.put(name, data) }

// How long CreateExclusive tries to learn what became of its object. Arbitrary; the lease of a loader is shorter.
const (
	exclusiveFor   = 20 * time.Second
	exclusivePause = 100 * time.Millisecond
)

// CreateExclusive writes on the condition that there is no object by that name. What an answer means:
//
//	200             it is ours
//	412             there is one. It can be ours: an earlier try whose answer was lost, or one that somebody on the way
//	                repeated. So it is read and compared.
//	409             two writers met in the store, and neither has won: try again
//	no answer, 5xx  it may be there: try again with the same bytes, which the next answer then explains
//	else            the store rejected it
//
// When the time is up and a try may have worked, it answers ErrUncertain.
func (s *S3) CreateExclusive(name string, data []byte) error {
	deadline := time.Now().Add(exclusiveFor)
	uncertain := false
	for pause := exclusivePause; ; pause = min(2*pause, 5*time.Second) {
		err := s.tryExclusive(name, data)
		code := status(err)
		switch {
		case err == nil:
			return nil
		case code == http.StatusPreconditionFailed:
			same, err := s.same(name, data)
			switch {
			case err == nil && same:
				return nil
			case err == nil:
				return fs.ErrExist
			case !errors.Is(err, fs.ErrNotExist): // else it was removed meanwhile: try again
				uncertain = true
			}
		case code == http.StatusConflict: // neither has won
		case code == 0 || code >= 500 || code == http.StatusRequestTimeout || code == http.StatusTooManyRequests:
			uncertain = uncertain || code == 0 || code >= 500
		case uncertain:
			return errors.Join(ErrUncertain, err)
		default:
			return err
		}
		if s.ctx.Err() != nil || time.Now().Add(pause).After(deadline) {
			if uncertain {
				return errors.Join(ErrUncertain, err)
			}
			return err
		}
		select {
		case <-s.ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (s *S3) tryExclusive(name string, data []byte) error {
	ctx, cancel := s.request(len(data))
	defer cancel()
	options := putOptions(data)
	options.SetMatchETagExcept("*")
	_, err := s.single.PutObject(ctx, s.o.Bucket, s.key(name), bytes.NewReader(data), int64(len(data)), options)
	return err
}

func (s *S3) same(name string, data []byte) (bool, error) {
	there, err := s.Read(name)
	return err == nil && bytes.Equal(there, data), err
}

// Read reads a whole object.
func (s *S3) Read(name string) ([]byte, error) {
	b, _, err := s.get(name, "")
	return b, err
}

// get reads a range of an object, all of it for "", and says how long the object is.
func (s *S3) get(name, span string) (b []byte, size int64, err error) {
	for pause := exclusivePause; ; pause *= 2 {
		b, size, err = s.tryGet(name, span)
		if err == nil || errors.Is(err, fs.ErrNotExist) || s.ctx.Err() != nil || status(err) >= 400 || pause > 4*time.Second {
			return b, size, err
		}
		select { // the answer broke off in its body
		case <-s.ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (s *S3) tryGet(name, span string) (b []byte, size int64, err error) {
	ctx, cancel := s.request(partBytes)
	defer cancel()
	var options minio.GetObjectOptions
	if span != "" {
		options.Set("Range", span)
	}
	core := minio.Core{Client: s.client}
	body, info, header, err := core.GetObject(ctx, s.o.Bucket, s.key(name), options)
	if err != nil {
		return nil, 0, missing(err)
	}
	b, err = io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		return nil, 0, err
	}
	size = info.Size
	if _, total, ok := strings.Cut(header.Get("Content-Range"), "/"); ok {
		if _, err := fmt.Sscan(total, &size); err != nil {
			return nil, 0, fmt.Errorf("the store sent no length: %w", err)
		}
	} else {
		size = int64(len(b))
	}
	return b, size, nil
}

// Exists asks for the head of an object.
func (s *S3) Exists(name string) (bool, error) {
	ctx, cancel := s.request(0)
	defer cancel()
	_, err := s.client.StatObject(ctx, s.o.Bucket, s.key(name), minio.StatObjectOptions{})
	if err = missing(err); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// List lists by one request for each thousand objects.
func (s *S3) List(dir string, deep bool) ([]Entry, error) {
	prefix := s.key(dir) + "/"
	if prefix == "/" {
		prefix = ""
	}
	var out []Entry
	for object := range s.client.ListObjects(s.ctx, s.o.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: deep}) {
		if object.Err != nil {
			return nil, object.Err
		}
		name := path.Join(dir, strings.TrimSuffix(strings.TrimPrefix(object.Key, prefix), "/"))
		if strings.HasSuffix(object.Key, "/") {
			out = append(out, Entry{Name: name, Dir: true})
			continue
		}
		out = append(out, Entry{Name: name, Size: object.Size, Modified: object.LastModified})
	}
	return out, nil
}

// Remove deletes an object.
func (s *S3) Remove(name string) error {
	ctx, cancel := s.request(0)
	defer cancel()
	s.tails.forget(s.key(name))
	err := missing(s.client.RemoveObject(ctx, s.o.Bucket, s.key(name), minio.RemoveObjectOptions{}))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Sync has nothing to do: a store answers when an object is durable.
func (s *S3) Sync() error { return nil }

// Share and Alone lock nothing; Grace stands in for them.
func (s *S3) Share(ctx context.Context) (func(), error) { return func() {}, ctx.Err() }

// Alone locks nothing; see Share.
func (s *S3) Alone(ctx context.Context) (func(), error) { return func() {}, ctx.Err() }
