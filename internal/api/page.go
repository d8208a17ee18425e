package api

import (
	"sync"
	"time"

	"sluice/event"
)

// page is a document that holds for an hour.
type page struct {
	mu   sync.Mutex
	hour int64
	body []byte
}

// at returns the document as of now. Nobody writes to it.
func (p *page) at(now time.Time, render func(time.Time) ([]byte, error)) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hour := now.Unix() / 3600
	if p.body != nil && p.hour == hour {
		return p.body, nil
	}
	body, err := render(now)
	if err != nil {
		return nil, err
	}
	p.hour, p.body = hour, body
	return body, nil
}

// codeIndex is a code's place in event.Codes, remedies its general advice.
var codeIndex, remedies = func() (map[event.Code]int, map[event.Code]string) {
	index, remedy := make(map[event.Code]int), make(map[event.Code]string)
	for i, info := range event.Codes() {
		index[info.Code], remedy[info.Code] = i, info.Remedy
	}
	return index, remedy
}()
