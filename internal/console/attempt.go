package console

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The rate of log-ins: of one address or one known browser in a minute, and of all strangers together. All are arbitrary.
// The first leaves a password of MinPassword characters out of reach. The others bound the cost: an attempt takes 30 to 100
// ms of a processor and 19 MiB of memory, which makes the garbage collector run. So a flood may have one each five seconds, and
// not a whole processor for seconds. The burst is more than a few addresses can use up.
const (
	attemptsPerAddr = 5
	attemptsAtOnce  = 40
	attemptEvery    = 5 * time.Second // how long a stranger's attempt takes to come back, once attemptsAtOnce are used up
	rejectedAddrs   = 100             // addresses of a minute that get an audit line of their own
)

// A browser that has logged in once is known by a cookie. It has attempts of its own, so that strangers can use up
// neither those of its address nor those of all.
const (
	deviceName = "__Host-sluice-device"
	deviceAge  = 90 * 24 * time.Hour // arbitrary
)

// attempt is who tries to log in.
type attempt struct {
	addr   string
	device string // "" for a browser that never did
}

// attempts counts those of one minute. It is bounded: strangers have attemptsAtOnce and what comes back in a minute, and a
// device cookie costs a log-in.
type attempts struct {
	minute  int64
	addrs   map[string]int // of strangers
	devices map[string]int

	free time.Time // when strangers have all of attemptsAtOnce again
}

// mayTry counts an attempt and says whether it is within the rate.
func (g *guard) mayTry(who attempt) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := &g.attempts
	now := g.now()
	if m := now.Unix() / 60; m != a.minute || a.addrs == nil {
		*a = attempts{minute: m, addrs: map[string]int{}, devices: map[string]int{}, free: a.free}
	}
	if who.device != "" && a.devices[who.device] < attemptsPerAddr {
		a.devices[who.device]++
		return true
	}
	if a.addrs[who.addr] >= attemptsPerAddr || !a.takeOne(now) {
		return false
	}
	a.addrs[who.addr]++
	return true
}

// takeOne takes one of the attempts that all strangers share. A clock that was set back gives them all again.
func (a *attempts) takeOne(now time.Time) bool {
	const all = attemptsAtOnce * attemptEvery
	if owed := a.free.Sub(now); owed <= 0 || owed > all {
		a.free = now
	}
	if a.free.Add(attemptEvery).Sub(now) > all {
		return false
	}
	a.free = a.free.Add(attemptEvery)
	return true
}

// who says who tries to log in.
func (g *guard) who(r *http.Request) attempt {
	who := attempt{addr: g.addr(r)}
	if cookie, err := r.Cookie(deviceName); err == nil {
		id, mac, _ := strings.Cut(cookie.Value, ".")
		a, err := g.access.read(r.Context())
		if err == nil && a.Password != "" && hmac.Equal([]byte(mac), []byte(deviceMAC(a, id))) {
			who.device = id
		}
	}
	return who
}

// setDevice makes a browser known. The server keeps nothing: the cookie authenticates itself, until the password changes.
func setDevice(w http.ResponseWriter, a access) {
	id := secretText()
	http.SetCookie(w, &http.Cookie{
		Name: deviceName, Value: id + "." + deviceMAC(a, id), Path: "/", Secure: true, HttpOnly: true,
		SameSite: http.SameSiteStrictMode, MaxAge: int(deviceAge / time.Second),
	})
}

// deviceMAC is keyed with the stored hash of the password, which only this server knows.
func deviceMAC(a access, id string) string {
	h := hmac.New(sha256.New, []byte(a.Password))
	h.Write([]byte("device " + id))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// rejected counts the log-ins of one minute that failed. A line of the audit log for each would let strangers write to
// the disk as fast as they can ask.
type rejected struct {
	minute int64
	addrs  map[string]*rejections
}

type rejections struct{ attempts, limited int }

// otherAddrs stands for the addresses over rejectedAddrs.
const otherAddrs = "other addresses"

// reject counts a log-in that failed; limited says that the rate was over, so that the password was not looked at.
func (g *guard) reject(ctx context.Context, addr string, limited bool) {
	g.noteRejected(ctx, false)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rejected.addrs == nil {
		g.rejected = rejected{g.now().Unix() / 60, map[string]*rejections{}}
	}
	n := g.rejected.addrs[addr]
	if n == nil && len(g.rejected.addrs) >= rejectedAddrs {
		addr = otherAddrs
		n = g.rejected.addrs[addr]
	}
	if n == nil {
		n = &rejections{}
		g.rejected.addrs[addr] = n
	}
	n.attempts++
	if limited {
		n.limited++
	}
}

// rejectedWait bounds the writing of these lines: an engine that is away must not stop the console (arbitrary).
const rejectedWait = 5 * time.Second

// noteRejected writes the audit lines of a minute that is over, one for each address; with now, those of the minute that
// is not over as well.
func (g *guard) noteRejected(ctx context.Context, now bool) {
	g.mu.Lock()
	over := g.rejected.addrs
	if len(over) == 0 || !now && g.rejected.minute == g.now().Unix()/60 {
		g.mu.Unlock()
		return
	}
	g.rejected.addrs = nil
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rejectedWait)
	defer cancel()
	for addr, n := range over {
		g.note(ctx, "console.login.rejected", addr, map[string]string{"attempts": strconv.Itoa(n.attempts), "over_the_limit": strconv.Itoa(n.limited)})
	}
}
