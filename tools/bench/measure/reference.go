package measure

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"

	"github.com/go-json-experiment/json/jsontext"
)

// Reference is the least that any such service must do, as an http.Handler: it reads the body, walks its JSON
// tokens once with a strict decoder, appends the body to a file that is synced in groups, answers, and does
// nothing else. No key, no rule, no row, no table. Our speed is given as a ratio to it.
type Reference struct {
	file  *os.File
	queue chan waiting
}

// waiting is a body whose sender waits until it is on stable storage.
type waiting struct {
	body []byte
	done chan error
}

// maxGroup is how many bodies share one sync at most.
const maxGroup = 4096

// OpenReference makes the file. Requests wait until Run is called.
func OpenReference(path string) (*Reference, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &Reference{file: f, queue: make(chan waiting, maxGroup)}, nil
}

// Close closes the file. Call it after Run has returned.
func (f *Reference) Close() error { return f.file.Close() }

// Run writes and syncs until ctx ends: all bodies that wait share one write and one sync.
func (f *Reference) Run(ctx context.Context) error {
	var data []byte
	var group []waiting
	for {
		select {
		case <-ctx.Done():
			return nil
		case w := <-f.queue:
			group = append(group[:0], w)
		}
		for more := true; more && len(group) < maxGroup; {
			select {
			case w := <-f.queue:
				group = append(group, w)
			default:
				more = false
			}
		}
		data = data[:0]
		for _, w := range group {
			data = append(data, w.body...)
		}
		_, err := f.file.Write(data)
		err = errors.Join(err, f.file.Sync())
		for _, w := range group {
			w.done <- err
		}
	}
}

// ServeHTTP answers once the body is on stable storage.
func (f *Reference) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := make([]byte, max(r.ContentLength, 0))
	if _, err := io.ReadFull(r.Body, body); err != nil {
		http.Error(w, "body", http.StatusBadRequest)
		return
	}
	tokens := jsontext.NewDecoder(bytes.NewBuffer(body))
	for {
		if _, err := tokens.ReadToken(); err == io.EOF {
			break
		} else if err != nil {
			http.Error(w, "json", http.StatusBadRequest)
			return
		}
	}
	if err := f.append(body); err != nil {
		http.Error(w, "file", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"status":"RECEIVED"}`)
}

func (f *Reference) append(body []byte) error {
	done := make(chan error, 1)
	f.queue <- waiting{body, done}
	return <-done
}
