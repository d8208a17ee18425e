package service

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/cmd/sluice/internal/tables"
	"sluice/internal/dataset"
	"sluice/internal/engine"
	"sluice/internal/hours"
	"sluice/internal/lake"
	"sluice/internal/objectstore"
	"sluice/internal/servicetest"
)

// TestMany is a service with many datasets and days of numbers, and prints what they cost: MANY datasets, MANY_DAYS days.
// MANY_S3 is the address of an S3 server with a bucket "tables", for tables there; the AWS_* environment has its keys.
// The goals, but for the start, are in processor time, which other work of the machine does not change much, without what the service
// takes while nobody asks.
func TestMany(t *testing.T) {
	m := &many{t: t, datasets: sizeOf(t, "MANY", 200), days: sizeOf(t, "MANY_DAYS", 10), most: 300 * time.Millisecond}
	m.open()
	m.create()
	m.fill()
	m.start("start without a saved index", false)
	m.start("start with a saved index", true)
	m.serve()
	m.pages()
	m.manage()
	m.stats()
	m.send()
	m.memory()
}

// sizeOf is a number of the environment.
func sizeOf(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: not a number", name, text)
	}
	return n
}

// many is a service with many datasets. One goroutine uses it.
type many struct {
	*Service
	t              *testing.T
	datasets, days int
	most           time.Duration // that a page may take
	keys           []string
	url, opsURL    string
	idle           float64 // processor time that the service takes while nobody asks, for each second
}

func (m *many) open() {
	dir := m.t.TempDir()
	place := tables.Location{Dir: filepath.Join(dir, "lake")}
	if at := os.Getenv("MANY_S3"); at != "" {
		place = tables.Location{S3: objectstore.S3Options{Bucket: "tables", Endpoint: at, Region: "us-east-1", PathStyle: true}}
		m.most = time.Second
	}
	m.t.Setenv("GOGC", "100") // else the service would set the collector of all tests
	var err error
	m.Service, err = Open(m.t.Context(), Config{
		Engine: engine.Options{Dir: dir}, Listen: "127.0.0.1:0", OpsListen: "127.0.0.1:0", Tables: place,
		StreamRetention: time.Hour, TableRetention: 500 * 24 * time.Hour, SnapshotRetention: time.Hour, Loading: true, CommitEvery: 200 * time.Millisecond, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Hooks: Hooks{
			Unsynced: true, Settle: 200 * time.Millisecond,
			Maintain: func(ctx context.Context, _ *lake.Lake) error { <-ctx.Done(); return nil }, // fill does it
		},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.url, m.opsURL = "http://"+m.senders.Addr().String(), "http://"+m.ops.Addr().String()
}

// cost says what something took.
func (m *many) cost(what string, do func()) (processor time.Duration) {
	m.t.Helper()
	began, before := time.Now(), processorTime(m.t)
	do()
	processor = max(0, processorTime(m.t)-before-time.Duration(m.idle*float64(time.Since(began))))
	m.t.Logf("| %s | %.1f ms | %.1f ms |", what, processor.Seconds()*1000, time.Since(began).Seconds()*1000)
	return processor
}

func (m *many) within(what string, took, goal time.Duration) {
	m.t.Helper()
	if took > goal {
		m.t.Errorf("%s took %v of processor time, want %v at the most", what, took, goal)
	}
}

func (m *many) create() {
	m.t.Logf("| with %d datasets and %d days | processor | clock |", m.datasets, m.days)
	m.cost("create all datasets", func() {
		for i := range m.datasets {
			_, _, key, err := m.registry.Create(m.t.Context(), dataset.Spec{ID: fmt.Sprintf("campaign-%05d", i)})
			if err != nil {
				m.t.Fatal(err)
			}
			m.keys = append(m.keys, key.Reveal())
		}
	})
}

// manage does what operators do with datasets and keys.
func (m *many) manage() {
	m.cost("list all datasets", func() {
		if all, err := m.registry.List(m.t.Context()); err != nil || len(all) != m.datasets {
			m.t.Fatalf("got %d datasets, %v", len(all), err)
		}
	})
	m.cost("rotate the keys of 100 datasets", func() {
		for i := range min(100, m.datasets) {
			_, key, err := m.registry.RotateKey(m.t.Context(), fmt.Sprintf("campaign-%05d", i), time.Hour)
			if err != nil {
				m.t.Fatal(err)
			}
			m.keys[i] = key.Reveal()
		}
	})
}

// fill puts numbers into the tables, as of a partition that there is not: 12 numbers in 4 hours of each of the last 8 days, and in an
// hour of each day before.
func (m *many) fill() {
	today, rows := time.Now().UTC().Truncate(24*time.Hour), 0
	m.cost("fill the tables", func() {
		for day := range m.days {
			var hour []lake.Hour
			at := today.AddDate(0, 0, day+1-m.days)
			for h := range 4 {
				if hour := at.Add(time.Duration(5*h) * time.Hour); h > 0 && day < m.days-8 || hour.After(time.Now()) {
					break
				}
				for d := range m.datasets {
					hour = appendNumbers(hour, at.Add(time.Duration(5*h)*time.Hour).Unix(), d)
				}
			}
			from := lake.Watermarks{Events: uint64(day), Rejections: uint64(day), Hours: uint64(day)}
			if err := m.lake.Commit(m.t.Context(), lake.Batch{Spans: []lake.Span{{Partition: 200, From: from, To: uint64(day) + 1}}, Hours: hour}, 0); err != nil {
				m.t.Fatal(err)
			}
			rows += len(hour)
		}
	})
	m.all("sum the days", m.lake.SumDay)
	m.all("compact", m.lake.Compact)
	m.t.Logf("| rows of hours | %d | |", rows)
}

// all does a piece of work until nothing is left of it.
func (m *many) all(what string, do func(context.Context) (bool, error)) {
	m.cost(what, func() {
		for more, err := true, error(nil); more; {
			if more, err = do(m.t.Context()); err != nil {
				m.t.Fatal(err)
			}
		}
	})
}

func appendNumbers(rows []lake.Hour, at int64, d int) []lake.Hour {
	put := func(kind, name, field string, count int) {
		rows = append(rows, lake.Hour{Hour: at, DatasetID: fmt.Sprintf("campaign-%05d", d), Kind: kind, Name: name, Field: field, Count: int64(count)})
	}
	for i, name := range []string{"page_view", "purchase", "search"} {
		put(hours.KindEvents, name, hours.FieldAccepted, 20+d%50+i)
	}
	put(hours.KindEvents, "purchase", hours.FieldRestricted, 2)
	for _, name := range []string{"email", "ifa", "any", "strong"} {
		put(hours.KindIdentifiers, name, "", 15+d%9)
	}
	put(hours.KindPrivacy, "unrestricted", "", 60)
	put(hours.KindAge, "0s", "", 60)
	put(hours.KindSubmissions, "single", "", 60)
	put(hours.KindValue, "EUR", hours.TypePurchase, 20)
	return rows
}

// start reads the numbers as a process does that starts.
func (m *many) start(what string, saved bool) {
	x := hours.NewIndex(m.lake)
	if saved {
		if err := m.hours.Save(m.t.Context()); err != nil {
			m.t.Fatal(err)
		}
	} else {
		x = m.hours
	}
	began := time.Now()
	m.cost(what, func() {
		for !x.Complete() {
			if err := x.Read(m.t.Context(), time.Now()); err != nil {
				m.t.Fatal(err)
			}
		}
	})
	if took := time.Since(began); took > 5*time.Second { // it uses every processor, and somebody waits
		m.t.Errorf("%s took %v, want 5 s at the most", what, took)
	}
}

// serve runs the service until the test ends.
func (m *many) serve() {
	ctx, stop := context.WithCancel(context.WithoutCancel(m.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	m.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			m.t.Error(err)
		}
		m.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	servicetest.Eventually(m.t, 60*time.Second, "a service", func() error { return m.api.Ready() })
	m.ask(http.MethodGet, m.opsURL+"/", "", "")
	const look = 3 * time.Second
	began, before := time.Now(), processorTime(m.t)
	<-time.After(look)
	m.idle = (processorTime(m.t) - before).Seconds() / time.Since(began).Seconds()
	m.t.Logf("| nobody asks, share of a core | %.1f %% | |", 100*m.idle)
}

// ask asks and reads the answer whole.
func (m *many) ask(method, url, key, body string) string {
	m.t.Helper()
	r, err := http.NewRequestWithContext(m.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", key)
		r.Header.Set("Content-Type", "application/json")
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		m.t.Fatal(err)
	}
	defer a.Body.Close()
	out, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK {
		m.t.Fatalf("%s: got %d %v", url, a.StatusCode, err)
	}
	return string(out)
}

func (m *many) pages() {
	last := fmt.Sprintf("campaign-%05d", m.datasets-1)
	for _, path := range []string{
		"/", "/?page=7", "/?q=" + last, "/?window=year", "/datasets", "/datasets?by=worst&page=3", "/datasets?window=week", "/dataset?id=" + last, "/dataset?window=year&id=campaign-00000",
		"/diagnosis", "/live", "/try", "/system", "/metrics",
	} {
		page := ""
		took := m.cost(path, func() { page = m.ask(http.MethodGet, m.opsURL+path, "", "") })
		m.within(path, took, m.most)
		if lines := strings.Count(page, "\n"); path == "/metrics" && lines > 6000 {
			m.t.Errorf("got %d lines of metrics", lines)
		}
	}
}

// stats has datasets ask for their numbers, and says what all of them would take that ask each minute.
func (m *many) stats() {
	for _, window := range []string{"24h", "7d", "30d"} {
		n := min(m.datasets, 1000)
		if window != "24h" { // they read files
			n = min(n, 20)
		}
		took := m.cost(fmt.Sprintf("/v1/stats?window=%s of %d", window, n), func() {
			for i := range n {
				m.ask(http.MethodGet, m.url+"/v1/stats?window="+window, m.keys[i*(m.datasets/n)], "")
			}
		})
		m.t.Logf("| all %d each minute, share of a core | %.1f %% | |", m.datasets, 100*took.Seconds()/float64(n)*float64(m.datasets)/60)
	}
}

// send has each dataset send an event.
func (m *many) send() {
	m.cost("each dataset sends an event", func() {
		for i, key := range m.keys {
			m.ask(http.MethodPost, m.url+"/v1/events", key, fmt.Sprintf(
				`{"data_set_id":"campaign-%05d","timestamp":%d,"event_type":"purchase","identifiers":{"email_sha256":"%064x"}}`,
				i, time.Now().Unix(), 4))
		}
	})
	m.cost("until they are in the tables", func() {
		if err := m.loader.Flush(); err != nil {
			m.t.Fatal(err)
		}
	})
	m.cost("/ then", func() { m.ask(http.MethodGet, m.opsURL+"/", "", "") })
}

func (m *many) memory() {
	bytes, datasets := m.hours.Bytes()
	if datasets != m.datasets || bytes > datasets*2048 {
		m.t.Errorf("got %d datasets in %d bytes, want %d of 2 KiB at the most", datasets, bytes, m.datasets)
	}
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		m.t.Fatal(err)
	}
	m.t.Logf("| memory of numbers | %.1f MiB, %d bytes each | |", float64(bytes)/(1<<20), bytes/datasets)
	m.t.Logf("| heap of the process | %.1f MiB | most resident %d MiB |", float64(s.HeapAlloc)/(1<<20), u.Maxrss>>10)
}
