//go:build throughput

package cluster

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sluice/internal/enginetest"
	"sluice/internal/servicetest"
)

// What records of 500 bytes with a key cost three NATS servers: each as a message of its own, as nodes send them; in the atomic batches
// of NATS; and in frames, as a node could send them if it alone had the keys of a partition.
func TestCostOfKeys(t *testing.T) {
	b := &bench{t: t, servers: enginetest.StartCluster(t, 3)}
	var pids []int
	for _, s := range b.servers {
		pids = append(pids, s.PID())
	}
	js := b.servers[0].JetStream()
	servicetest.Eventually(t, 30*time.Second, "a stream", func() error {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: "KEYS", Subjects: []string{"frames", "keys.*"}, Replicas: 3, AllowAtomicPublish: true, Discard: jetstream.DiscardNew,
		})
		return err
	})
	p := &publisher{nc: js.Conn(), record: make([]byte, 500)}
	_, _ = rand.Read(p.record) // never fails
	for _, c := range []struct {
		name   string
		at     int // how many do it at once
		size   int // records that one does
		invoke func(size int) error
	}{
		{"messages of their own, 16 at once", 16, 1, p.alone},
		{"messages of their own, 64 at once", 64, 1, p.alone},
		{"atomic batches of 8, 2 at once", 2, 8, p.batch},
		{"atomic batches of 32, 2 at once", 2, 32, p.batch},
		{"atomic batches of 64, 2 at once", 2, 64, p.batch},
		{"frames of 32, 2 at once", 2, 32, p.frame},
	} {
		before, begun := b.used(pids), time.Now()
		var done atomic.Int64
		var wg sync.WaitGroup
		for range c.at {
			wg.Go(func() {
				for time.Since(begun) < 4*time.Second {
					if err := c.invoke(c.size); err != nil {
						t.Errorf("%s: %v", c.name, err)
						return
					}
					done.Add(int64(c.size))
				}
			})
		}
		wg.Wait()
		n := float64(done.Load())
		t.Logf("%s: %.0f records/s, %.0f s of processor time of the NATS servers a million", c.name, n/time.Since(begun).Seconds(), (b.used(pids)-before)/n*1e6)
	}
}

// publisher sends records to NATS, each with a new key.
type publisher struct {
	nc     *nats.Conn
	record []byte
	keys   atomic.Int64
}

func (p *publisher) message() *nats.Msg {
	return &nats.Msg{
		Subject: fmt.Sprintf("keys.%032d", p.keys.Add(1)), Data: p.record, Header: nats.Header{"Nats-Expected-Last-Subject-Sequence": {"0"}},
	}
}

// alone sends one record.
func (p *publisher) alone(int) error { return p.store(p.message()) }

// batch sends so many records that are stored all or not at all.
func (p *publisher) batch(size int) error {
	id := rand.Text()
	for i := 1; ; i++ {
		m := p.message()
		m.Header["Nats-Batch-Id"] = []string{id}
		m.Header["Nats-Batch-Sequence"] = []string{strconv.Itoa(i)}
		if i == size {
			m.Header["Nats-Batch-Commit"] = []string{"1"}
			return p.store(m)
		}
		if err := p.nc.PublishMsg(m); err != nil {
			return err
		}
	}
}

// frame sends so many records in one message that is compared with nothing.
func (p *publisher) frame(size int) error {
	return p.store(&nats.Msg{Subject: "frames", Data: []byte(strings.Repeat(string(p.record), size))})
}

// store sends a message and waits until it is stored.
func (p *publisher) store(m *nats.Msg) error {
	reply, err := p.nc.RequestMsg(m, 5*time.Second)
	if err == nil && strings.Contains(string(reply.Data), `"error"`) {
		err = errors.New(string(reply.Data))
	}
	return err
}
