package iceberg

import (
	"errors"
	"sync"
)

// uploads are objects of one commit that are being made durable side by side: none of them is read before a version of the
// table names them, and that waits for all. A nil one makes each durable before it goes on.
type uploads struct {
	wg  sync.WaitGroup
	mu  sync.Mutex
	err error
}

// do makes something durable, in the background. Of a nil one it returns the error, else wait does.
func (u *uploads) do(write func() error) error {
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

// wait returns when everything is durable, or an error if something is not.
func (u *uploads) wait() error {
	if u == nil {
		return nil
	}
	u.wg.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}
