package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"
)

// vectors is sdk/vectors.json: what every SDK does alike. The tests of sdk/node and sdk/python read the same file.
type vectors struct {
	Hash struct {
		Vectors  []struct{ Kind, Input, Normal, SHA256 string }
		Rejected []struct{ Kind, Input, Error string }
	}
	Limits struct {
		MaxEvents  int `json:"max_events"`
		MaxBytes   int `json:"max_bytes"`
		FillEvents int `json:"fill_events"`
		FillBytes  int `json:"fill_bytes"`
		GzipOver   int `json:"gzip_over"`
	}
	Split []struct {
		Events, Size int
		Requests     []int
	}
	Retry struct {
		Defaults struct{ Base, Max, Attempt, Total int64 } `json:"defaults_ms"`
		Budget   int
		Answers  []struct {
			Status int
			Code   string `json:"error_code"`
			Body   string
			Again  bool
		}
		After []struct {
			Header  string
			Now     time.Time
			Seconds int
		} `json:"retry_after"`
		Ceilings struct {
			Base  int64   `json:"base_ms"`
			Max   int64   `json:"max_ms"`
			After []int64 `json:"after_try_ms"`
		}
		Rounds struct {
			Budget int
			Rounds []struct {
				Service         string
				Requests, Tries int
			}
		} `json:"budget_rounds"`
	}
}

func readVectors(t *testing.T) *vectors {
	t.Helper()
	data, err := os.ReadFile("../sdk/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	v := new(vectors)
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSharedHashes(t *testing.T) {
	v := readVectors(t)
	hash := map[string]func(string) (string, error){"email": HashEmail, "ip": HashIPv4}
	for _, c := range v.Hash.Vectors {
		if got, err := hash[c.Kind](c.Input); err != nil || got != c.SHA256 {
			t.Errorf("%s %q: got %s, %v, want %s", c.Kind, c.Input, got, err, c.SHA256)
		}
	}
	errs := map[string]error{"NOT_EMAIL": ErrNotEmail, "NOT_IPV4": ErrNotIPv4, "ALREADY_HASHED": ErrAlreadyHashed}
	for _, c := range v.Hash.Rejected {
		if got, err := hash[c.Kind](c.Input); errs[c.Error] == nil || !errors.Is(err, errs[c.Error]) {
			t.Errorf("%s %q: got %s, %v, want %s", c.Kind, c.Input, got, err, c.Error)
		}
	}
	for _, p := range Vectors { // the published pairs are among the shared ones
		if !slices.ContainsFunc(v.Hash.Vectors, func(c struct{ Kind, Input, Normal, SHA256 string }) bool { return Vector(c) == p }) {
			t.Errorf("sdk/vectors.json lacks %s %q", p.Kind, p.Input)
		}
	}
}

func TestSharedLimits(t *testing.T) {
	v := readVectors(t)
	got, want := []int{MaxEvents, MaxBytes, FillEvents, FillBytes, gzipOver}, v.Limits
	if !slices.Equal(got, []int{want.MaxEvents, want.MaxBytes, want.FillEvents, want.FillBytes, want.GzipOver}) {
		t.Errorf("got %v, want %+v", got, want)
	}
	for _, c := range v.Split {
		bodies := make([][]byte, c.Events)
		for i := range bodies {
			bodies[i] = make([]byte, c.Size)
		}
		var requests []int
		for from := 0; from < len(bodies); {
			to := cut(bodies, from, MaxEvents, MaxBytes)
			requests = append(requests, to-from)
			from = to
		}
		if !slices.Equal(requests, c.Requests) {
			t.Errorf("%d events of %d bytes: got requests of %v events, want %v", c.Events, c.Size, requests, c.Requests)
		}
	}
}

func TestSharedRetryRules(t *testing.T) {
	v := readVectors(t)
	for _, c := range v.Retry.Answers {
		s := &service{answer: func(n int, w http.ResponseWriter, _ *http.Request) bool {
			if n == 1 && c.Body != "" {
				w.WriteHeader(c.Status)
				w.Write([]byte(c.Body))
				return true
			}
			return n == 1 && fail(w, c.Status, c.Code)
		}}
		bubble(t, s, Options{}, func(t *testing.T, cl *Client) {
			_, err := cl.Send(t.Context(), purchase())
			if c.Again != (err == nil) || c.Again != (len(s.requests) == 2) {
				t.Errorf("%d %s: got %d tries and error %v, want again %v", c.Status, c.Code, len(s.requests), err, c.Again)
			}
		})
	}
	for _, c := range v.Retry.After {
		want := time.Duration(c.Seconds) * time.Second
		if got := retryAfter(http.Header{"Retry-After": {c.Header}}, c.Now); got != want {
			t.Errorf("Retry-After %q: got %v, want %v", c.Header, got, want)
		}
	}
}

func TestSharedWaits(t *testing.T) {
	v := readVectors(t)
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	d := v.Retry.Defaults
	want := Retry{Base: ms(d.Base), Max: ms(d.Max), Attempt: ms(d.Attempt), Total: ms(d.Total), Budget: v.Retry.Budget}
	if got := (Retry{}).withDefaults(); got != want {
		t.Errorf("got the defaults %+v, want %+v", got, want)
	}
	c := v.Retry.Ceilings
	r := Retry{Base: ms(c.Base), Max: ms(c.Max)}
	for i, ceiling := range c.After {
		var longest time.Duration
		for range 2000 {
			longest = max(longest, r.wait(i+1, 0))
		}
		if longest > ms(ceiling) || longest < ms(ceiling)*95/100 {
			t.Errorf("after try %d: the longest of 2000 waits is %v, want up to %v", i+1, longest, ms(ceiling))
		}
	}
}

func TestSharedBudget(t *testing.T) {
	v := readVectors(t).Retry.Rounds
	broken := true
	s := &service{answer: func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		return broken && fail(w, 500, "INTERNAL_ERROR")
	}}
	bubble(t, s, Options{Retry: Retry{Budget: v.Budget, Total: time.Hour}}, func(t *testing.T, c *Client) {
		for i, round := range v.Rounds {
			broken = round.Service == "broken"
			before := len(s.requests)
			for range round.Requests {
				if _, err := c.Send(t.Context(), purchase()); broken != (err != nil) {
					t.Errorf("round %d: got error %v", i, err)
				}
			}
			if got := len(s.requests) - before; got != round.Tries {
				t.Errorf("round %d: got %d tries, want %d", i, got, round.Tries)
			}
		}
	})
}
