//go:build faults

package faults

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
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

// noticed is from which p99 on a sender notices attacks on others: that of a request over the internet. A multiple of the
// p99 alone, some 5 ms, would measure the scheduler: service, attackers and senders share the cores of this machine.
const noticed = 100 * time.Millisecond

// All attacks together, in 256 MiB, beside 500 honest events a second: nothing that was acknowledged is lost, honest
// senders notice little, operators get in, the process lives.
func TestEveryAttackAtOnce(t *testing.T) {
	dir, last := t.TempDir(), attackTime(t)
	s := start(t, dir, launch{group: controlGroup(t, 256<<20), args: []string{"--ops-proxy"}})
	honest := newLedger("shop", provisioned(t, dir, "shop"))
	at := target{API: s.host(), Ops: strings.TrimSuffix(strings.TrimPrefix(s.Ops(), "http://"), "/"), Key: provisioned(t, dir, "stranger")}
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
	at.Token = strings.TrimSpace(token)

	send := func(int) bool { return honest.Send(s, honest.Request(servicetest.Single)).Status == http.StatusOK }
	measure := func(d time.Duration) (ok, offered int, latency []time.Duration) { return steady(500, d, 2000, send) }
	p99 := func(latency []time.Duration) time.Duration { return percentile(latency, 0.99) }
	measure(2 * time.Second) // warm

	// In turns with and without attacks, a minute each at most: a machine that is slow for a while is so for both.
	turns := max(1, int(last/time.Minute))
	var attackers *attack
	operator := make(chan int, 1)
	probes := startProbes(t, at)
	ok, offered := 0, 0
	var alone, during []time.Duration
	for turn := range turns {
		_, _, quiet := measure(last / time.Duration(turns) / 3)
		if turn > 0 {
			attackers.tell(syscall.SIGCONT)
		} else {
			attackers = startAttack(t, at)
		}
		measure(rampUp) // the service learns who delays others
		if turn == 0 {
			go func() { // an operator, in the middle
				pause(last / time.Duration(turns) / 2)
				operator <- seenByOperator(t, at)
			}()
		}
		good, all, latency := measure(last / time.Duration(turns))
		ok, offered = ok+good, offered+all
		if s.Ended() {
			t.Fatalf("the process is gone:\n%s", s.Said())
		}
		t.Logf("turn %d: p99 alone %v, during the attacks %v", turn+1, p99(quiet), p99(latency))
		alone, during = append(alone, quiet...), append(during, latency...)
		if turn < turns-1 {
			attackers.tell(syscall.SIGSTOP)
			measure(rampUp) // what is left of the attacks ends
		}
	}
	asked, failed := probes()
	tally := attackers.end()
	t.Logf("%d of %d probes of /livez and /readyz were answered", asked-failed, asked)
	if failed*20 > asked || asked == 0 { // load balancers ask more than once before they give a node up
		t.Errorf("%d of %d probes of /livez and /readyz were not answered", failed, asked)
	}
	t.Logf("%d of %d honest events acknowledged in %v; p99 alone %v, during the attacks %v; %d MiB at most; answers %v", ok, offered, last, p99(alone), p99(during), s.memory(t)>>20, honest.Statuses())
	for _, attack := range []string{"half a head", "log-in body", "bomb", "validate", "forged id", "log-in flood", "live view", "live view of another site", "streams", "idle"} {
		what := map[string]int{}
		for name, n := range tally {
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
	if p99(during) > noticed {
		t.Errorf("the honest p99 grows from %v to %v, want %v at most", p99(alone), p99(during), noticed)
	}
	if status := <-operator; status != http.StatusOK {
		t.Errorf("an operator with the token: got %d, want 200", status)
	}
	for name := range tally {
		if strings.HasPrefix(name, "forged id ") && name != "forged id 404" && name != "forged id no answer" && name != "forged id 503" && name != "forged id 429" {
			t.Errorf("got %s", name)
		}
	}
	honest.Settle(t, s, 2*time.Minute)
	honest.check(t, dir)
}

// startProbes asks /livez and /readyz once a second, each on a connection of its own, as a load balancer does. The function that it
// returns ends them, and says how many were sent and how many were not answered with 200 within five seconds.
func startProbes(t *testing.T, at target) func() (asked, failed int) {
	ctx, stop := context.WithCancel(t.Context())
	c := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer(250).DialContext}}
	type result struct{ asked, failed int }
	done := make(chan result, 1)
	go func() {
		var r result
		for tick := time.Tick(time.Second); ; {
			select {
			case <-ctx.Done():
				done <- r
				return
			case <-tick:
			}
			for _, path := range []string{"/livez", "/readyz"} {
				r.asked++
				resp, err := c.Get("http://" + at.Ops + path)
				if err != nil {
					r.failed++
					continue
				}
				if resp.Body.Close(); resp.StatusCode != http.StatusOK {
					r.failed++
				}
			}
		}
	}()
	return func() (int, int) { stop(); r := <-done; return r.asked, r.failed }
}

// seenByOperator asks for a page as one who is known, again if the listener is full, and returns the status.
func seenByOperator(t *testing.T, at target) int {
	c := web(200)
	for range 20 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.Ops+"/system", nil)
		if err != nil {
			return 0
		}
		r.Header.Set("Authorization", "Bearer "+at.Token)
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
