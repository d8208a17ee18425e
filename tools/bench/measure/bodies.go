package measure

import (
	"bytes"
	"errors"
	"math/rand/v2"

	"sluice/internal/traffictest"
)

// Dataset is where events are sent: its id, and the key that opens it.
type Dataset struct {
	ID  string
	Key func() string // a function, so that nothing prints it
}

// Bodies are made before the measuring begins, so that making them costs nothing during it. What must differ
// from event to event, or else would compress as no real traffic does, is written into them as they are sent:
// the dataset, the hashes, the device ids and the numbers of orders and clicks.
type Bodies struct {
	batch     int
	datasets  []Dataset
	perSender []senderBodies
	bytes     int // of the mean body
}

// senderBodies are the bodies of one sender. Nobody else touches them.
type senderBodies struct {
	bodies []body
	next   int
	rand   *rand.Rand
}

// body is a request's body and the places in it that change.
type body struct {
	text     []byte
	datasets []int // each the width of a dataset's id
	hashes   []int // 64 hex digits
	devices  []int // a UUID
	numbers  []int // decimal digits, as many as there are
}

// population is from how many persons and addresses events come: some repeat, as in life.
const population = 10_000_000

// NewBodies makes bodies for a number of senders. now is in Unix seconds; the bodies are good for days.
// All datasets must have ids of one length.
func NewBodies(mix traffictest.Mix, batch, senders int, datasets []Dataset, seed uint64, now int64) (*Bodies, error) {
	if len(datasets) == 0 || senders < 1 || batch < 1 {
		return nil, errors.New("a load needs a dataset, a sender and a batch size")
	}
	for _, d := range datasets {
		if len(d.ID) != len(datasets[0].ID) {
			return nil, errors.New("the ids of the datasets must be equally long")
		}
	}
	s := &Bodies{batch: batch, datasets: datasets}
	source := traffictest.New(mix, seed)
	// A few hundred single events, or a few batches: enough that shapes differ from request to request.
	each := max(2, min(64, 2000/batch))
	total := 0
	for i := range senders {
		sh := senderBodies{rand: rand.New(rand.NewPCG(seed, uint64(i)+2))}
		for range each {
			var text []byte
			if batch == 1 {
				text = source.Append(nil, datasets[0].ID, now)
			} else {
				text = source.AppendBatch(nil, datasets[0].ID, now, batch)
			}
			total += len(text)
			sh.bodies = append(sh.bodies, findPlaces(text))
		}
		s.perSender = append(s.perSender, sh)
	}
	s.bytes = total / (senders * each)
	return s, nil
}

// findPlaces marks what changes. Bodies come from traffic, so members look as it writes them.
func findPlaces(text []byte) body {
	b := body{text: text}
	for _, p := range []struct {
		marker string
		width  int // 0: any
		into   *[]int
	}{
		{`"data_set_id":"`, 0, &b.datasets},
		{`"email_sha256":"`, 64, &b.hashes},
		{`"ip":"`, 64, &b.hashes},
		{`"ifa":"`, 36, &b.devices},
		{`/r?id=`, 0, &b.numbers},
		{`"order_id":"o-`, 0, &b.numbers},
		{`"partner_id":"p-`, 0, &b.numbers},
	} {
		for at := 0; ; {
			i := bytes.Index(text[at:], []byte(p.marker))
			if i < 0 {
				break
			}
			at += i + len(p.marker)
			if n := bytes.IndexByte(text[at:], '"'); p.width == 0 || n == p.width {
				*p.into = append(*p.into, at)
			}
		}
	}
	return b
}

// take prepares the sender's next body for a dataset drawn by chance.
func (sh *senderBodies) take(datasets []Dataset) (*body, int) {
	b := &sh.bodies[sh.next]
	if sh.next++; sh.next == len(sh.bodies) {
		sh.next = 0
	}
	d := 0
	if len(datasets) > 1 {
		d = sh.rand.IntN(len(datasets))
		for _, at := range b.datasets {
			copy(b.text[at:], datasets[d].ID)
		}
	}
	for _, at := range b.hashes {
		seed := sh.rand.Uint64N(population)
		for i := range 4 {
			putHex(b.text[at+16*i:], scatter(seed+uint64(i)<<32))
		}
	}
	for _, at := range b.devices {
		var digits [32]byte
		putHex(digits[:], sh.rand.Uint64())
		putHex(digits[16:], sh.rand.Uint64())
		digits[12], digits[16] = '4', 'a' // version and variant
		for _, part := range [...][3]int{{0, 0, 8}, {9, 8, 12}, {14, 12, 16}, {19, 16, 20}, {24, 20, 32}} {
			copy(b.text[at+part[0]:], digits[part[1]:part[2]])
		}
	}
	for _, at := range b.numbers {
		for v := sh.rand.Uint64(); b.text[at] != '"'; at++ {
			b.text[at] = '0' + byte(v%10)
			v /= 10
		}
	}
	return b, d
}

// scatter is splitmix64: neighbouring numbers have nothing in common afterwards.
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

var hexPairs = func() (t [256][2]byte) {
	const digits = "0123456789abcdef"
	for i := range t {
		t[i] = [2]byte{digits[i>>4], digits[i&15]}
	}
	return t
}()

func putHex(dst []byte, v uint64) {
	_ = dst[15]
	for i := range 8 {
		p := hexPairs[byte(v>>(8*i))]
		dst[2*i], dst[2*i+1] = p[0], p[1]
	}
}
