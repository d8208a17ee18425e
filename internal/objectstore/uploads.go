package objectstore

import (
	"errors"
	"sync"
)

// Uploads are objects that are being made durable side by side: none of them is read before something names them, and
// that waits for all. A nil one makes each durable before it goes on.
type Uploads struct {
	wg  sync.WaitGroup
	mu  sync.Mutex
	err error
}

// Do makes something durable, in the background. Of a nil one it returns the error, else Wait does.
func (u *Uploads) Do(write func() error) error {
	if u == nil {
		return write()
	}
	u.wg.Go(func() {
		if err := write(); err != nil {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.err = errors.Join(u.err, err)
		}
	})
	return nil
}

// Wait returns when everything is durable, or an error if something is not.
func (u *Uploads) Wait() error {
	if u == nil {
		return nil
	}
	u.wg.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}
