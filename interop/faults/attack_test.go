//go:build faults

package faults

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/servicetest"
)

// attackTime is how long the attacks last: ATTACK_TIME, or half a minute.
func attackTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("ATTACK_TIME")
	if text == "" {
		return 30 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 10*time.Second {
		t.Fatalf("ATTACK_TIME=%s: not a duration of at least 10s", text)
	}
	return d
}

// attacker is a stranger with addresses of its own, and an API key of a dataset of its own.
type attacker struct {
	t    *testing.T
	s    *server
	key  string
	ops  string // host of the operators' listener
	tok  string // of the console
	ctx  context.Context
	work sync.WaitGroup

	mu    sync.Mutex
	tally map[string]int // by attack and what came of it
}

// dialer connects from one of the attacker's addresses; all of 127.0.0.0/8 is this machine.
func dialer(n int) *net.Dialer {
	return &net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 66, byte(n>>8), byte(n))}}
}

// web is a client with one of the attacker's addresses.
func web(n int) *http.Client {
	return &http.Client{
		Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: dialer(n).DialContext, MaxIdleConnsPerHost: 64},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (a *attacker) note(attack, what string) {
	a.mu.Lock()
	a.tally[attack+" "+what]++
	a.mu.Unlock()
}

// again runs an attack in so many places at a time until the end, with a pause between two tries. The places begin one
// after the other within rampUp: else the test's own work to begin them is what the honest senders notice.
func (a *attacker) again(places int, rest time.Duration, attack func(place int)) {
	for place := range places {
		a.work.Go(func() {
			for wait := rampUp * time.Duration(place) / time.Duration(places); ; wait = rest {
				select {
				case <-time.After(wait):
					attack(place)
				case <-a.ctx.Done():
					return
				}
			}
		})
	}
}

// rampUp is as long as the server waits for the rest of a head, so that the connections end one after the other, too.
const rampUp = 10 * time.Second

// hold opens a connection, writes a part of a request and waits until the server closes it.
func (a *attacker) hold(attack, host string, n int, text string) {
	c, err := dialer(n).DialContext(a.ctx, "tcp", host)
	if err != nil {
		a.note(attack, "not connected")
		return
	}
	defer context.AfterFunc(a.ctx, func() { _ = c.Close() })()
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	begun := time.Now()
	_, _ = io.WriteString(c, text)
	_, _ = io.Copy(io.Discard, c)
	if time.Since(begun) < time.Second {
		a.note(attack, "closed at once")
	} else {
		a.note(attack, "held")
	}
}

// ask sends a request and counts its status.
func (a *attacker) ask(attack string, c *http.Client, method, url, body string, headers ...string) {
	r, err := http.NewRequestWithContext(a.ctx, method, url, strings.NewReader(body))
	if err != nil {
		a.t.Error(err)
		return
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		a.note(attack, "no answer")
		return
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	a.note(attack, fmt.Sprint(resp.StatusCode))
}

// restrictions is a GPP string whose publisher restrictions name vendors in wide, unsorted, overlapping ranges.
func restrictions(lists, each int) string {
	field := func(v, width int) string { return fmt.Sprintf("%0*b", width, v) }
	bits := field(2, 6) + field(0, 72) + field(10, 12) + field(1, 12) + field(1, 6) + field(0, 12) + field(100, 12) + field(4, 6) +
		"10" + strings.Repeat("1", 60) + "0" + field(0, 12) + field(0, 17) + field(0, 17) + field(lists, 12)
	for range lists {
		bits += field(1, 6) + "00" + field(each, 12)
		for i := each; i > 0; i-- {
			bits += "1" + field(i, 16) + field(65535-i, 16)
		}
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	out := "DBABMA~"
	for bits += strings.Repeat("0", (6-len(bits)%6)%6); bits != ""; bits = bits[6:] {
		v := 0
		for _, c := range bits[:6] {
			v = v<<1 | int(c-'0')
		}
		out += string(alphabet[v])
	}
	return out
}

// bomb is a compressed batch: less than 16 KiB on the wire, and nearly the largest body when it is decoded.
func bomb(t *testing.T, id string) string {
	t.Helper()
	event := fmt.Sprintf(`{"data_set_id":%q,"timestamp":%d,"event_type":"purchase","identifiers":{"ifa":"97987bca-ae59-4c7d-94ba-ee4f19ab8c21"},"custom_data":{"x":%q}},`,
		id, time.Now().Unix(), strings.Repeat("x", 4<<10))
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = io.WriteString(w, "["+strings.TrimSuffix(strings.Repeat(event, 1000), ",")+"]")
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil || b.Len() >= 16<<10 {
		t.Fatalf("%d bytes, %v", b.Len(), err)
	}
	return b.String()
}

// begin starts every attack of the list in docs/laboratory.md.
func (a *attacker) begin() {
	api, bearer := a.s.host(), "Bearer "+a.key
	now := time.Now().Unix()

	a.again(2000, time.Second, func(n int) { a.hold("half a head", api, n%40, "POST /v1/events HTTP/1.1\r\nHost: ") })
	a.again(120, time.Second, func(n int) {
		a.hold("log-in body", a.ops, n, "POST /login HTTP/1.1\r\nHost: ops.example\r\nX-Forwarded-For: 198.51.100.7\r\n"+
			"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3000000\r\n\r\npassword=a")
	})

	compressed, one := bomb(a.t, "stranger"), web(1)
	a.again(4, 50*time.Millisecond, func(int) {
		a.ask("bomb", one, http.MethodPost, a.s.URL()+"/v1/events/batch", compressed, "Authorization", bearer, "Content-Encoding", "gzip")
	})

	ranges := fmt.Sprintf(`{"data_set_id":"stranger","timestamp":%d,"event_type":"purchase","identifiers":{"ifa":"97987bca-ae59-4c7d-94ba-ee4f19ab8c21"},`+
		`"privacy":{"gpp_string":%q,"gpp_sid":[2]}}`, now, restrictions(40, 60))
	invalid := "[" + strings.Repeat("{},", 999) + "{}]"
	two := web(2)
	a.again(3, 50*time.Millisecond, func(n int) {
		body := ranges
		if n == 0 {
			body = invalid
		}
		a.ask("validate", two, http.MethodPost, a.s.URL()+"/v1/events/validate", body, "Authorization", bearer)
	})

	three := web(3)
	var made atomic.Int64
	a.again(4, 10*time.Millisecond, func(int) {
		id := fmt.Sprintf("single.%08x-%04x-8%03x-9%03x-%012x", now, made.Add(1)&0xffff, 7, 9, made.Load())
		a.ask("forged id", three, http.MethodGet, a.s.URL()+"/v1/submissions/"+id, "", "Authorization", bearer)
	})

	four := web(4)
	var tries atomic.Int64
	a.again(6, 20*time.Millisecond, func(int) {
		n := tries.Add(1)
		a.ask("log-in flood", four, http.MethodPost, "http://"+a.ops+"/login", "password=guess", "Content-Type", "application/x-www-form-urlencoded",
			"X-Forwarded-For", fmt.Sprintf("203.0.%d.%d", n>>8&255, n&255))
	})

	a.again(60, time.Second, func(n int) { // with a token that was stolen, and never reading
		a.hold("live view", a.ops, n, "GET /live/events HTTP/1.1\r\nHost: ops.example\r\nAuthorization: Bearer "+a.tok+"\r\n\r\n")
	})
	five := web(5)
	a.again(2, 50*time.Millisecond, func(int) {
		a.ask("live view of another site", five, http.MethodGet, "http://"+a.ops+"/live/events", "", "Authorization", "Bearer "+a.tok, "Sec-Fetch-Site", "cross-site")
	})
}

// All attacks together, in 256 MiB, beside 500 honest events a second: nothing that was acknowledged is lost, honest
// senders notice little, operators get in, the process lives.
func TestEveryAttackAtOnce(t *testing.T) {
	dir, last := t.TempDir(), attackTime(t)
	s := start(t, dir, launch{group: controlGroup(t, 256<<20), args: []string{"--ops-proxy"}})
	honest := newLedger("shop", provisioned(t, dir, "shop"))
	a := &attacker{t: t, s: s, key: provisioned(t, dir, "stranger"), ops: strings.TrimSuffix(strings.TrimPrefix(s.Ops(), "http://"), "/"), tally: map[string]int{}}
	const password = "correct horse battery staple"
	set := exec.Command(program.Path, "console", "password", "--data", dir)
	set.Stdin = strings.NewReader(password + "\n")
	if out, err := set.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	token, err := sluice(t, nil, "console", "token", "--data", dir)
	if err != nil {
		t.Fatal(err)
	}
	a.tok = strings.TrimSpace(token)

	send := func(int) bool { return honest.Send(s, honest.Request(servicetest.Single)).Status == http.StatusOK }
	measure := func(d time.Duration) (ok, offered int, p99 time.Duration) {
		ok, offered, latency := steady(500, d, 2000, send)
		return ok, offered, percentile(latency, 0.99)
	}
	measure(2 * time.Second) // warm
	_, _, before := measure(last / 3)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	a.ctx = ctx
	a.begin()
	measure(rampUp)
	operator := make(chan int, 1)
	go func() { // an operator, in the middle
		pause(last / 2)
		operator <- a.operator()
	}()
	ok, offered, during := measure(last)
	if s.Ended() {
		t.Fatalf("the process is gone:\n%s", s.Said())
	}
	stop()
	a.work.Wait()
	_, _, after := measure(last / 3)
	alone := max(before, after)
	t.Logf("%d of %d honest events acknowledged in %v; p99 alone %v and %v, during the attacks %v; %d MiB at most; answers %v", ok, offered, last, before, after, during, s.memory(t)>>20, honest.Statuses())
	for _, attack := range []string{"half a head", "log-in body", "bomb", "validate", "forged id", "log-in flood", "live view", "live view of another site"} {
		what := map[string]int{}
		for name, n := range a.tally {
			if rest, found := strings.CutPrefix(name, attack+" "); found && !strings.HasPrefix(rest, "of another") {
				what[rest] = n
			}
		}
		t.Logf("%s: %v", attack, what)
		if len(what) == 0 {
			t.Errorf("%s was not tried", attack)
		}
	}
	if ok < offered*9/10 { // the rest is answered 503, and would be sent again
		t.Errorf("%d of %d honest events were acknowledged at the first try, want nine of ten", ok, offered)
	}
	if limit := 3 * max(alone, 10*time.Millisecond); during > limit {
		t.Errorf("the honest p99 grows from %v to %v, want %v at most", alone, during, limit)
	}
	if status := <-operator; status != http.StatusOK {
		t.Errorf("an operator with the token: got %d, want 200", status)
	}
	for name := range a.tally {
		if strings.HasPrefix(name, "forged id ") && name != "forged id 404" && name != "forged id no answer" && name != "forged id 503" && name != "forged id 429" {
			t.Errorf("got %s", name)
		}
	}
	honest.Settle(t, s, 2*time.Minute)
	honest.check(t, dir)
}

// operator asks for a page as one who is known, again if the listener is full, and returns the status.
func (a *attacker) operator() int {
	c := web(200)
	for range 20 {
		r, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, "http://"+a.ops+"/system", nil)
		if err != nil {
			return 0
		}
		r.Header.Set("Authorization", "Bearer "+a.tok)
		r.Header.Set("X-Forwarded-For", "192.0.2.1")
		resp, err := c.Do(r)
		if err == nil {
			resp.Body.Close()
			return resp.StatusCode
		}
		pause(500 * time.Millisecond)
	}
	return 0
}
