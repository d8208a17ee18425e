package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// follower reads the feed, from one node after the other, and holds its rows against what it was told: none with received_at
// before complete_through follows, and that time never goes back.
type follower struct {
	w       *world
	token   string
	cursor  string
	through time.Time
	rows    int
	oldest  time.Duration // how far complete_through was behind at most
	wrong   []string
}

// follow reads the feed until stop is called, which says what was wrong.
func (w *world) follow(t *testing.T) (stop func()) {
	t.Helper()
	args := []string{"reader", "create", fmt.Sprint("follower-", time.Now().UnixNano()), "--allow", "feed", "--data", w.operator()}
	token, err := w.program.Run(t.Context(), append(args, w.flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{w: w, token: strings.TrimSpace(token), through: time.Unix(0, 0)}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case <-end:
				return
			case <-time.After(300 * time.Millisecond):
			}
			if node := w.node(n); node != nil && !node.Ended() && node.Ops() != "" {
				_ = f.read(node) // the next node may answer
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(end)
		<-ended
		t.Logf("follower: %d rows; complete_through was at most %v behind", f.rows, f.oldest.Round(time.Second))
		if len(f.wrong) > 0 || f.rows == 0 {
			t.Errorf("follower: %d of %d rows were not to come any more: %q", len(f.wrong), f.rows, f.wrong[:min(5, len(f.wrong))])
		}
	})
}

func (f *follower) read(node *servicetest.Server) error {
	address := strings.TrimSuffix(node.Ops(), "/") + "/feed/v1/events?purpose=measurement&limit=10000"
	if f.cursor != "" {
		address += "&cursor=" + url.QueryEscape(f.cursor)
	}
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+f.token)
	a, err := servicetest.Client.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("got %d", a.StatusCode)
	}
	var received []time.Time
	var line struct {
		Received time.Time `json:"received_at"`
		Cursor   string    `json:"cursor"`
		Complete time.Time `json:"complete_through"`
	}
	lines := bufio.NewScanner(a.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && line.Cursor == "" {
		line.Received = time.Time{}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return err
		}
		if !line.Received.IsZero() {
			received = append(received, line.Received)
		}
	}
	if line.Cursor == "" {
		return fmt.Errorf("no cursor: %w", lines.Err())
	}
	for _, at := range received {
		if at.Before(f.through) {
			f.wrong = append(f.wrong, fmt.Sprintf("received %v, complete through %v", at, f.through))
		}
	}
	if line.Complete.Before(f.through) {
		f.wrong = append(f.wrong, fmt.Sprintf("complete through %v after %v", line.Complete, f.through))
	}
	if f.rows > 0 && f.through.Unix() > 0 {
		f.oldest = max(f.oldest, time.Since(line.Complete))
	}
	f.rows += len(received)
	f.cursor, f.through = line.Cursor, line.Complete
	return nil
}
