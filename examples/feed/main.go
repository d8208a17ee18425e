// Command feed follows the events of a Sluice server and keeps what it needs of them in a file, each once, without
// those that were erased.
//
// It stores the cursor with its effects, in one step: the file holds both, and is replaced as a whole. So it may be
// killed at any time, and goes on where it was. Only the standard library is used.
//
//	SLUICE_TOKEN=… go run ./examples/feed --url http://127.0.0.1:8081 --state totals.json
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// state is what the program has made of the events up to a cursor.
type state struct {
	Cursor string             `json:"cursor"`
	Rows   map[string]row     `json:"rows"`   // by event id
	Events map[string]int     `json:"events"` // of the rows, by event type
	Value  map[string]float64 `json:"value"`  // of the rows, by currency
	IDs    map[string]int     `json:"ids,omitempty"`
	Erased map[string]int     `json:"erased,omitempty"` // lines of erased rows, by event id
}

// row is what the program keeps of an event.
type row struct {
	EventType string   `json:"event_type"`
	Value     *float64 `json:"value,omitempty"`
	Currency  string   `json:"currency_code,omitempty"`
}

// line is a row of the feed, the id of an erased one, or its last line.
type line struct {
	row
	EventID string `json:"event_id"`
	Erased  *struct {
		EventID string `json:"event_id"`
	} `json:"erased"`
	Cursor string `json:"cursor"`
}

func main() {
	server := flag.String("url", "http://127.0.0.1:8081", "address of the operators' listener")
	file := flag.String("state", "totals.json", "where the totals and the cursor are kept")
	purpose := flag.String("purpose", "optimization", "optimization or measurement")
	begin := flag.String("begin", "", "where to begin without a state: a cursor, or earliest; default: from now on")
	limit := flag.Int("limit", 1000, "rows of a request")
	ids := flag.Bool("ids", false, "count the lines of each event id, too")
	flag.Parse()
	s, err := load(*file, *begin, *ids)
	if err != nil {
		log.Fatal(err)
	}
	for {
		q := url.Values{"purpose": {*purpose}, "cursor": {s.Cursor}, "limit": {fmt.Sprint(*limit)}, "wait": {"30s"}}
		if err := s.follow(*server+"/feed/v1/events?"+q.Encode(), os.Getenv("SLUICE_TOKEN")); err != nil {
			log.Print(err)
			time.Sleep(time.Second)
			if s, err = load(*file, *begin, *ids); err != nil { // forget what was kept of a half answer
				log.Fatal(err)
			}
			continue
		}
		if err := s.save(*file); err != nil {
			log.Fatal(err)
		}
	}
}

// web follows no redirect: the token would go along.
var web = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// keep adds a row.
func (s *state) keep(l *line) {
	s.Rows[l.EventID] = l.row
	s.Events[l.EventType]++
	if l.Value != nil {
		s.Value[l.Currency] += *l.Value
	}
	if s.IDs != nil {
		s.IDs[l.EventID]++
	}
}

// erase takes a row out again. The program may never have read it.
func (s *state) erase(id string) {
	r, ok := s.Rows[id]
	if ok {
		s.Events[r.EventType]--
	}
	if ok && r.Value != nil {
		s.Value[r.Currency] -= *r.Value
	}
	delete(s.Rows, id)
	delete(s.IDs, id)
	if s.Erased != nil {
		s.Erased[id]++
	}
}

// follow keeps the rows of one answer. Without the last line there is no cursor, and the rows do not count.
func (s *state) follow(address, token string) error {
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := web.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		// 410 means that the cursor is older than the stream: the body says which snapshot takes the place of everything
		// that was kept, and the cursor to go on with.
		body, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
		return fmt.Errorf("%s: %s", answer.Status, body)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return err
		}
		if l.Cursor != "" {
			s.Cursor = l.Cursor
			return nil
		}
		if l.Erased != nil {
			s.erase(l.Erased.EventID)
			continue
		}
		s.keep(&l)
	}
	return errors.Join(lines.Err(), io.ErrUnexpectedEOF)
}

// load reads the state, or begins a new one. With ids it counts lines.
func load(file, begin string, ids bool) (*state, error) {
	s := &state{Cursor: begin, Rows: map[string]row{}, Events: map[string]int{}, Value: map[string]float64{}}
	if ids {
		s.IDs, s.Erased = map[string]int{}, map[string]int{}
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b, s)
	}
	return s, err
}

// save replaces the file as a whole: effects and cursor change together.
func (s *state) save(file string) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(file), ".state-*")
	if err != nil {
		return err
	}
	_, err = next.Write(b)
	if err = errors.Join(err, next.Sync(), next.Close()); err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return os.Rename(next.Name(), file)
}
