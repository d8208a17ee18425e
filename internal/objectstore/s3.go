package objectstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
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
	ReadOnly  bool              // nothing is written, and OpenS3 does not try
}

// S3 is a Store in a bucket of an S3-compatible store.
type S3 struct {
	o      S3Options
	client *minio.Client // repeats what can be repeated
	single *minio.Client // never repeats a request: for the conditional write, whose answers differ in meaning
	tails  *tailCache    // of objects that were opened; those of all places in the bucket
	sent   *counter      // requests of all places in the bucket
}

// graceS3 is for how long an object stays that nothing lists. A bucket has no lock that ends with its process, so a
// sweep cannot know whether somebody is about to list a young object.
const graceS3 = 24 * time.Hour

// OpenS3 opens a bucket that answers, and makes sure that it keeps two writers apart, unless nothing is written.
func OpenS3(ctx context.Context, o S3Options) (*S3, error) {
	s, err := NewS3(o)
	if err != nil || o.ReadOnly {
		return s, err
	}
	return s, s.Probe(ctx)
}

// NewS3 is a bucket that nobody has asked yet. Who writes to it calls Probe before.
func NewS3(o S3Options) (*S3, error) {
	s := &S3{o: o, tails: newTailCache(tailCacheBytes, time.Now)}
	if s.o.Timeout == 0 {
		s.o.Timeout = 15 * time.Second // arbitrary: a committer that is cut off must notice before it keeps others waiting
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return nil, errors.New("the endpoint is a URL such as https://s3.eu-central-1.amazonaws.com")
	}
	chain := []credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{},
		&credentials.IAM{Client: &http.Client{Timeout: 5 * time.Second}},
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
	s.single, err = minio.New(u.Host, &options)
	return s, err
}

// Probe makes sure that the bucket keeps two writers apart: an object that is written twice on the condition that there
// is none must be rejected the second time.
func (s *S3) Probe(ctx context.Context) error {
	name := "probe-" + rand.Text()
	defer func() { _ = s.Remove(ctx, name) }()
	if err := s.CreateExclusive(ctx, name, []byte("first")); err != nil {
		return fmt.Errorf("write to %s: %w", s.Location(""), err)
	}
	switch err := s.CreateExclusive(ctx, name, []byte("second")); {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return fmt.Errorf("write to %s: %w", s.Location(""), err)
	}
	return fmt.Errorf("%s ignores conditional writes (If-None-Match): two writers could overwrite each other's commits; "+
		"use a store that honours them", s.Location(""))
}

func (s *S3) key(name string) string { return path.Join(s.o.Prefix, name) }

// Location is the s3 URL of an object.
func (s *S3) Location(name string) string {
	return strings.TrimSuffix("s3://"+path.Join(s.o.Bucket, s.key(name)), "/")
}

// Path is the s3 URL, too: there is no shorter name.
func (s *S3) Path(name string) string { return s.Location(name) }

// Sub is the prefix below.
func (s *S3) Sub(name string) Store {
	sub := *s
	sub.o.Prefix = s.key(name)
	return &sub
}

// ReadOnly says how the bucket was opened.
func (s *S3) ReadOnly() bool { return s.o.ReadOnly }

// mayWrite says why an object by that name cannot be written or removed.
func (s *S3) mayWrite(name string) error {
	switch {
	case s.o.ReadOnly:
		return ErrReadOnly
	case !isLocal(name):
		return errOutside
	}
	return nil
}

// Grace is for how long an object that nothing lists has to stay.
func (s *S3) Grace() time.Duration { return graceS3 }

// request is the context of one request. Bodies of n bytes have a second more for each megabyte.
func (s *S3) request(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.o.Timeout+time.Duration(n>>20)*time.Second)
}

// status is the HTTP status of an answer, 0 where there was none.
func status(err error) int {
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return response.StatusCode
	}
	return 0
}

// Away says whether an error means that the bucket did not answer, or answered that it does not work now: it may later.
// What it rejects, it rejects later, too.
func Away(err error) bool {
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok && response.StatusCode != 0 {
		return passing(response.StatusCode)
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}

// passing says whether the same request may get another answer than this one.
func passing(code int) bool {
	return code >= 500 || code == http.StatusRequestTimeout || code == http.StatusTooManyRequests
}

// missing gives the error for an object that is not there its usual form. A bucket that is not there is another error.
func missing(err error) error {
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok && response.StatusCode == http.StatusNotFound &&
		response.Code != minio.NoSuchBucket {
		return fmt.Errorf("%w: %s", fs.ErrNotExist, response.Code)
	}
	return err
}

// putOptions are those of a whole object. Over HTTP without TLS the client signs the body in chunks, and then sends no
// length for an empty one, which stores reject.
func putOptions(data []byte) minio.PutObjectOptions {
	return minio.PutObjectOptions{DisableMultipart: true, DisableContentSha256: len(data) == 0}
}

func (s *S3) put(ctx context.Context, name string, data []byte) error {
	if err := s.mayWrite(name); err != nil {
		return err
	}
	return s.tryPut(ctx, s.client, name, data, putOptions(data))
}

func (s *S3) tryPut(
	ctx context.Context, by *minio.Client, name string, data []byte, options minio.PutObjectOptions,
) error {
	ctx, cancel := s.request(ctx, len(data))
	defer cancel()
	_, err := by.PutObject(ctx, s.o.Bucket, s.key(name), bytes.NewReader(data), int64(len(data)), options)
	return err
}

// Replace writes a whole object over what is there. Another Replace can come between the look and the write.
func (s *S3) Replace(ctx context.Context, name string, data []byte, keep func(there []byte) bool) error {
	if keep != nil {
		if err := s.mayWrite(name); err != nil {
			return err
		}
		there, err := s.Read(ctx, name)
		if err == nil && keep(there) {
			return nil
		}
	}
	return s.put(ctx, name, data)
}

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
func (s *S3) CreateExclusive(ctx context.Context, name string, data []byte) error {
	if err := s.mayWrite(name); err != nil {
		return err
	}
	deadline := time.Now().Add(exclusiveFor)
	uncertain := false
	for pause := exclusivePause; ; pause = min(2*pause, 5*time.Second) {
		options := putOptions(data)
		options.SetMatchETagExcept("*")
		err := s.tryPut(ctx, s.single, name, data, options)
		code := status(err)
		switch {
		case err == nil:
			return nil
		case code == http.StatusPreconditionFailed:
			there, err := s.Read(ctx, name)
			switch {
			case err == nil && bytes.Equal(there, data):
				return nil
			case err == nil:
				return fs.ErrExist
			case !errors.Is(err, fs.ErrNotExist): // else it was removed meanwhile: try again
				uncertain = true
			}
		case code == http.StatusConflict: // neither has won
		case code == 0 || passing(code):
			uncertain = uncertain || code == 0 || code >= 500
		case uncertain:
			return errors.Join(ErrUncertain, err)
		default:
			return err
		}
		if ctx.Err() != nil || time.Now().Add(pause).After(deadline) {
			if uncertain {
				return errors.Join(ErrUncertain, err)
			}
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// Read reads a whole object.
func (s *S3) Read(ctx context.Context, name string) ([]byte, error) {
	b, _, err := s.get(ctx, name, "")
	return b, err
}

// get reads a range of an object, all of it for "", and says how long the object is.
func (s *S3) get(ctx context.Context, name, span string) (b []byte, size int64, err error) {
	if !isLocal(name) {
		return nil, 0, errOutside
	}
	for pause := exclusivePause; ; pause *= 2 {
		b, size, err = s.tryGet(ctx, name, span)
		if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil ||
			status(err) >= 400 || pause > 4*time.Second {
			return b, size, err
		}
		select { // the answer broke off in its body
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (s *S3) tryGet(ctx context.Context, name, span string) (b []byte, size int64, err error) {
	ctx, cancel := s.request(ctx, partBytes)
	defer cancel()
	var options minio.GetObjectOptions
	if span != "" {
		options.Set("Range", span)
	}
	core := minio.Core{Client: s.client}
	body, _, header, err := core.GetObject(ctx, s.o.Bucket, s.key(name), options)
	if err != nil {
		return nil, 0, missing(err)
	}
	b, err = io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		return nil, 0, err
	}
	_, total, part := strings.Cut(header.Get("Content-Range"), "/")
	if !part {
		return b, int64(len(b)), nil
	}
	if _, err := fmt.Sscan(total, &size); err != nil {
		return nil, 0, fmt.Errorf("the store sent no length: %w", err)
	}
	return b, size, nil
}

// Exists asks for the head of an object.
func (s *S3) Exists(ctx context.Context, name string) (bool, error) {
	if !isLocal(name) {
		return false, errOutside
	}
	ctx, cancel := s.request(ctx, 0)
	defer cancel()
	_, err := s.client.StatObject(ctx, s.o.Bucket, s.key(name), minio.StatObjectOptions{})
	if err = missing(err); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// List lists by one request for each thousand objects, each with a deadline. Objects whose name is none of a Store's
// are nobody's, and not in it.
func (s *S3) List(ctx context.Context, dir string, deep bool) ([]Entry, error) {
	if !isLocal(dir) {
		return nil, errOutside
	}
	prefix := s.key(dir) + "/"
	if prefix == "/" {
		prefix = ""
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(s.o.Timeout, func() { cancel(context.DeadlineExceeded) })
	defer late.Stop()
	var out []Entry
	for object := range s.client.ListObjects(ctx, s.o.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: deep}) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if object.Err != nil {
			return nil, object.Err
		}
		late.Reset(s.o.Timeout) // the next request may begin
		name := strings.TrimSuffix(strings.TrimPrefix(object.Key, prefix), "/")
		if !isLocal(name) {
			continue
		}
		name = path.Join(dir, name)
		if strings.HasSuffix(object.Key, "/") {
			out = append(out, Entry{Name: name, Dir: true})
			continue
		}
		out = append(out, Entry{Name: name, Size: object.Size, Modified: object.LastModified})
	}
	return out, context.Cause(ctx)
}

// Remove deletes an object.
func (s *S3) Remove(ctx context.Context, name string) error {
	if err := s.mayWrite(name); err != nil {
		return err
	}
	ctx, cancel := s.request(ctx, 0)
	defer cancel()
	s.tails.forget(s.key(name))
	err := missing(s.client.RemoveObject(ctx, s.o.Bucket, s.key(name), minio.RemoveObjectOptions{}))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Sync has nothing to do: a store answers when an object is durable.
func (s *S3) Sync(context.Context) error { return nil }

// LockShared locks nothing; Grace stands in for it.
func (s *S3) LockShared(ctx context.Context) (func(), error) { return func() {}, ctx.Err() }

// LockExclusive locks nothing; see LockShared.
func (s *S3) LockExclusive(ctx context.Context) (func(), error) { return func() {}, ctx.Err() }
