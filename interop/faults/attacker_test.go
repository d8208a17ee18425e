//go:build faults

package faults

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// target is what a stranger attacks, and what it knows: an API key of a dataset of its own, a stolen token of the console.
type target struct{ API, Ops, Key, Token string }

// attacker is a stranger with addresses of its own.
type attacker struct {
	target
	ctx  context.Context
	work sync.WaitGroup

	mu    sync.Mutex
	tally map[string]int // by attack and what came of it
}

// attackVariable makes this program an attacker instead of a test.
const attackVariable = "SLUICE_ATTACK"

// attackFromInput attacks what the first line of the input names until the input ends, and then prints its tally.
func attackFromInput() int {
	in := json.NewDecoder(os.Stdin)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	a := &attacker{ctx: ctx, tally: map[string]int{}}
	if err := in.Decode(&a.target); err != nil {
		return 1
	}
	if err := a.begin(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	a.work.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(a.tally); err != nil {
		return 1
	}
	return 0
}

// attack is every attack, in a process of its own, which gets a processor only when nobody else wants it: strangers do not use
// the processors of the machine that they attack.
type attack struct {
	t         *testing.T
	cmd       *exec.Cmd
	in        io.Closer
	out, said bytes.Buffer
}

func startAttack(t *testing.T, at target) *attack {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := &attack{t: t, cmd: exec.CommandContext(t.Context(), "chrt", "--idle", "0", self)}
	a.cmd.Env = append(os.Environ(), attackVariable+"=1")
	a.cmd.Stdout, a.cmd.Stderr = &a.out, &a.said
	in, err := a.cmd.StdinPipe()
	if err == nil {
		a.in = in
		err = a.cmd.Start()
	}
	if err == nil {
		err = json.NewEncoder(in).Encode(at)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// tell sends the attackers a signal: SIGSTOP and SIGCONT make them pause and go on.
func (a *attack) tell(s syscall.Signal) {
	a.t.Helper()
	if err := a.cmd.Process.Signal(s); err != nil {
		a.t.Fatal(err)
	}
}

// end ends the attacks and returns what came of them.
func (a *attack) end() (tally map[string]int) {
	a.t.Helper()
	_ = a.in.Close()
	if err := a.cmd.Wait(); err != nil {
		a.t.Fatalf("the attacks: %v\n%s", err, a.said.String())
	}
	if err := json.Unmarshal(a.out.Bytes(), &tally); err != nil {
		a.t.Fatal(err)
	}
	return tally
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

// stall opens streams of HTTP/2 and takes no byte of an answer: its windows stay closed. It waits until the server closes the
// connection, or a while, and goes on opening streams as others are reset.
func (a *attacker) stall(attack string, n, streams int) {
	c, err := dialer(n).DialContext(a.ctx, "tcp", a.API)
	if err != nil {
		a.note(attack, "not connected")
		return
	}
	defer context.AfterFunc(a.ctx, func() { _ = c.Close() })()
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	framer := http2.NewFramer(c, c)
	var head bytes.Buffer
	e := hpack.NewEncoder(&head)
	paths, next := []string{"/docs", "/openapi.json", "/v1/events/batch"}, uint32(1)
	open := func() {
		head.Reset()
		for _, h := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "x"}, {":path", paths[next/2%3]}} {
			_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}) // into memory
		}
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: next, BlockFragment: head.Bytes(), EndHeaders: true, EndStream: true})
		next += 2
	}
	_, _ = io.WriteString(c, http2.ClientPreface)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for range streams {
		open()
	}
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			a.note(attack, "closed")
			return
		}
		switch f.(type) {
		case *http2.HeadersFrame:
			a.note(attack, "answered")
		case *http2.RSTStreamFrame:
			a.note(attack, "reset")
			if int(next/2) < 2*streams {
				open()
			}
		}
	}
}

// ask sends a request and counts its status.
func (a *attacker) ask(attack string, c *http.Client, method, url, body string, headers ...string) {
	r, err := http.NewRequestWithContext(a.ctx, method, url, strings.NewReader(body))
	if err != nil {
		a.note(attack, "no request")
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
func bomb(id string) (string, error) {
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
	if err == nil && b.Len() >= 16<<10 {
		err = fmt.Errorf("the bomb has %d bytes", b.Len())
	}
	return b.String(), err
}

// begin starts every attack of the list in docs/internals/guarantees.md.
func (a *attacker) begin() error {
	url, bearer := "http://"+a.API, "Bearer "+a.Key
	now := time.Now().Unix()
	compressed, err := bomb("stranger")
	if err != nil {
		return err
	}

	a.again(2000, time.Second, func(n int) { a.hold("half a head", a.API, n%40, "POST /v1/events HTTP/1.1\r\nHost: ") })
	a.again(120, time.Second, func(n int) {
		a.hold("log-in body", a.Ops, n, "POST /login HTTP/1.1\r\nHost: ops.example\r\nX-Forwarded-For: 198.51.100.7\r\n"+
			"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3000000\r\n\r\npassword=a")
	})

	a.again(60, time.Second, func(n int) { a.stall("streams", n%4, 250) })
	a.again(512, time.Second, func(n int) { a.hold("idle", a.Ops, n%4, "") })

	one := web(1)
	a.again(4, 50*time.Millisecond, func(int) {
		a.ask("bomb", one, http.MethodPost, url+"/v1/events/batch", compressed, "Authorization", bearer, "Content-Encoding", "gzip")
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
		a.ask("validate", two, http.MethodPost, url+"/v1/events/validate", body, "Authorization", bearer)
	})

	three := web(3)
	var made atomic.Int64
	a.again(4, 10*time.Millisecond, func(int) {
		id := fmt.Sprintf("single.%08x-%04x-8%03x-9%03x-%012x", now, made.Add(1)&0xffff, 7, 9, made.Load())
		a.ask("forged id", three, http.MethodGet, url+"/v1/submissions/"+id, "", "Authorization", bearer)
	})

	four := web(4)
	var tries atomic.Int64
	a.again(6, 20*time.Millisecond, func(int) {
		n := tries.Add(1)
		a.ask("log-in flood", four, http.MethodPost, "http://"+a.Ops+"/login", "password=guess", "Content-Type", "application/x-www-form-urlencoded",
			"X-Forwarded-For", fmt.Sprintf("203.0.%d.%d", n>>8&255, n&255))
	})

	a.again(60, time.Second, func(n int) { // with a token that was stolen, and never reading
		a.hold("live view", a.Ops, n, "GET /live/events HTTP/1.1\r\nHost: ops.example\r\nAuthorization: Bearer "+a.Token+"\r\n\r\n")
	})
	five := web(5)
	a.again(2, 50*time.Millisecond, func(int) {
		a.ask("live view of another site", five, http.MethodGet, "http://"+a.Ops+"/live/events", "", "Authorization", "Bearer "+a.Token, "Sec-Fetch-Site", "cross-site")
	})
	return nil
}
