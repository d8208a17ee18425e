package access

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The rate of log-ins: of one address or one known browser in a minute, and of all strangers together. All are
// arbitrary. The first leaves a password of MinPassword characters out of reach. The others bound the cost: an attempt
// takes 30 to 100 ms of a processor and 19 MiB of memory, which makes the garbage collector run. So a flood may have
// one each five seconds, and not a whole processor for seconds. The burst is more than a few addresses can use up.
const (
	attemptsPerAddr = 5
	attemptsAtOnce  = 40
	attemptEvery    = 5 * time.Second // how long a stranger's attempt takes to come back, once attemptsAtOnce are used up
	rejectedAddrs   = 100             // addresses that an audit line counts apart
	rejectedNamed   = 10              // addresses that it names
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

// attempts counts those of one minute. It is bounded: strangers have attemptsAtOnce and what comes back in a minute,
// and a device cookie costs a log-in.
type attempts struct {
	minute  int64
	addrs   map[string]int // of strangers
	devices map[string]int

	free time.Time // when strangers have all of attemptsAtOnce again
}

// mayTry counts an attempt and says whether it is within the rate.
func (g *Guard) mayTry(who attempt) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := &g.attempts
	now := g.o.Now()
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
func (g *Guard) who(r *http.Request) attempt {
	who := attempt{addr: g.Addr(r)}
	if cookie, err := r.Cookie(deviceName); err == nil {
		id, mac, _ := strings.Cut(cookie.Value, ".")
		a, err := g.o.Credentials.read(r.Context())
		if err == nil && a.Password != "" && hmac.Equal([]byte(mac), []byte(deviceMAC(a, id))) {
			who.device = id
		}
	}
	return who
}

// setDevice makes a browser known. The server keeps nothing: the cookie authenticates itself, until the password
// changes.
func setDevice(w http.ResponseWriter, a hashes) {
	id := secretText()
	http.SetCookie(w, &http.Cookie{
		Name: deviceName, Value: id + "." + deviceMAC(a, id), Path: "/", Secure: true, HttpOnly: true,
		SameSite: http.SameSiteStrictMode, MaxAge: int(deviceAge / time.Second),
	})
}

// deviceMAC is keyed with the stored hash of the password, which only this server knows.
func deviceMAC(a hashes, id string) string {
	h := hmac.New(sha256.New, []byte(a.Password))
	h.Write([]byte("device " + id))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// rejected counts the log-ins that failed since the last audit line about them. A line for each would let strangers
// write to the disk as fast as they can ask, and a line a minute would push what operators did out of the log within
// months. So the first line comes after a minute, and while it goes on each one spans twice the time of the one before,
// up to an hour: some 70 lines a day at most.
type rejected struct {
	span  time.Duration
	due   time.Time // when the line is written
	addrs map[string]*rejections
}

const (
	rejectedFirst   = time.Minute
	rejectedLongest = time.Hour // so long without any, and it begins with a minute again
)

type rejections struct{ attempts, limited int }

// otherAddrs stands for the addresses over rejectedAddrs.
const otherAddrs = "others"

// reject counts a log-in that failed; limited says that the rate was over, so that the password was not looked at.
func (g *Guard) reject(ctx context.Context, addr string, limited bool) {
	g.NoteRejected(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rejected.addrs == nil {
		now, span := g.o.Now(), rejectedFirst
		if now.Sub(g.rejected.due) < rejectedLongest {
			span = min(2*g.rejected.span, rejectedLongest)
		}
		g.rejected = rejected{span, now.Add(span), map[string]*rejections{}}
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

// NoteRejected writes the audit line about log-ins that failed, if it is due. Call it about once a second.
func (g *Guard) NoteRejected(ctx context.Context) { g.noteRejected(ctx, false) }

// Close writes the audit line about log-ins that failed, also if it is not due.
func (g *Guard) Close(ctx context.Context) { g.noteRejected(ctx, true) }

func (g *Guard) noteRejected(ctx context.Context, early bool) {
	g.mu.Lock()
	over := g.rejected
	left := over.due.Sub(g.o.Now())
	waits := left > 0 && left <= over.span // more is left only on a clock that was set back
	if len(over.addrs) == 0 || waits && !early {
		g.mu.Unlock()
		return
	}
	g.rejected.addrs = nil
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rejectedWait)
	defer cancel()
	who, detail := over.line()
	g.note(ctx, "console.login.rejected", who, detail)
}

// line is who failed, and how often, the most frequent first.
func (r *rejected) line() (who string, detail map[string]string) {
	addrs := slices.SortedFunc(maps.Keys(r.addrs), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.addrs[b].attempts, r.addrs[a].attempts), cmp.Compare(a, b))
	})
	var all rejections
	var named []string
	for i, addr := range addrs {
		n := r.addrs[addr]
		all.attempts += n.attempts
		all.limited += n.limited
		if i < rejectedNamed {
			named = append(named, fmt.Sprintf("%s: %d", cmp.Or(addr, "unknown"), n.attempts))
		}
	}
	detail = map[string]string{
		"attempts": strconv.Itoa(all.attempts), "over_the_limit": strconv.Itoa(all.limited),
		"since": r.due.Add(-r.span).UTC().Format(time.RFC3339),
	}
	if len(addrs) == 1 {
		return addrs[0], detail
	}
	if rest := len(addrs) - len(named); rest > 0 {
		named = append(named, fmt.Sprintf("and %d more", rest))
	}
	detail["addresses"] = strings.Join(named, ", ")
	return "several addresses", detail
}
