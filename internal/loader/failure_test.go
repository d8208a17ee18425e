package loader

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// One cause that every partition meets every second is a line a minute, and one line says that it is over.
func TestOneCauseIsOneLineAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := &Loader{o: Options{Now: time.Now}}
		parts := make([]*partition, 6)
		for i := range parts {
			parts[i] = &partition{l: l, id: uint8(i), log: slog.New(slog.NewTextHandler(&log, nil))}
		}
		for range 120 {
			for _, p := range parts {
				p.failed(errUnread, true)
			}
			time.Sleep(time.Second)
		}
		for _, p := range parts {
			p.reach(7)
		}
		text := log.String()
		if strings.Count(text, "loading stopped") != 2 || strings.Count(text, "loading again") != 1 || strings.Count(text, "\n") != 3 {
			t.Errorf("got %s, want a line for each minute, and one for the end", text)
		}
		if !strings.Contains(text, "failures=360") { // of the first minute, but for the first
			t.Errorf("got %s, want how many there were", text)
		}
	})
}
