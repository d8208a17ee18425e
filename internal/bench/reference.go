package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Reference is the least that any such service must do, as an http.Handler: it reads the body, walks its JSON
// tokens once with a strict decoder, appends the body to a file that is synced in groups, answers, and does
// nothing else. No key, no rule, no row, no table. Our speed is given as a ratio to it.
type Reference struct {
	file *os.File
	wake chan struct{}

	mu   sync.Mutex
	next *commit
}

// commit is a group of bodies that share one sync.
type commit struct {
	data []byte
	done chan struct{}
	err  error
}

// OpenReference makes the file. Requests wait until Run is called.
func OpenReference(path string) (*Reference, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &Reference{file: f, wake: make(chan struct{}, 1)}, nil
}

// Close closes the file. Call it after Run has returned.
func (f *Reference) Close() error { return f.file.Close() }

// Run writes and syncs until ctx ends.
func (f *Reference) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.wake:
		}
		f.mu.Lock()
		c := f.next
		f.next = nil
		f.mu.Unlock()
		if c == nil {
			continue
		}
		_, err := f.file.Write(c.data)
		c.err = errors.Join(err, f.file.Sync())
		close(c.done)
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
	f.mu.Lock()
	c := f.next
	if c == nil {
		c = &commit{done: make(chan struct{})}
		f.next = c
	}
	c.data = append(c.data, body...)
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
	<-c.done
	return c.err
}
