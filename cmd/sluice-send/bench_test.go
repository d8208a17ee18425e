package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/client"
)

// The share of the service's throughput that one uploader reaches is BenchmarkUpload over BenchmarkService: the same rows
// to the same kind of server, once from a file through the uploader in a process of its own, once as bodies made before.

const benchRows = 100_000

// BenchmarkService is what the service takes: eight senders that do nothing but send.
func BenchmarkService(b *testing.B) {
	s := startServer(b, "spring")
	c, err := client.New(s.url(), s.key, client.Options{Compression: client.Plain})
	must(b, err)
	body := benchBody(b)
	for b.Loop() {
		var next atomic.Int64
		var senders sync.WaitGroup
		for range 8 {
			senders.Go(func() {
				for next.Add(client.FillEvents) <= benchRows {
					if _, err := c.Submit(b.Context(), client.Request{Batch: true, Body: body, Events: client.FillEvents}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		senders.Wait()
	}
	b.ReportMetric(float64(benchRows*b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkUpload is what one uploader brings there.
func BenchmarkUpload(b *testing.B) {
	for _, form := range []string{"csv", "ndjson"} {
		b.Run(form, func(b *testing.B) {
			s := startServer(b, "spring")
			path := filepath.Join(b.TempDir(), "orders."+form)
			if form == "csv" {
				orders(b, path, benchRows, none)
			} else {
				must(b, os.WriteFile(path, bytes.Repeat(append(benchEvent(0), '\n'), benchRows), 0o600))
			}
			for b.Loop() {
				args := []string{"upload", path, "--dataset", "spring", "--again"}
				if form == "csv" {
					args = append(args, "--hash", "email=email_sha256")
				}
				cmd := exec.Command(filepath.Join(s.bin, "sluice-send"), args...)
				cmd.Env = append(os.Environ(), "SLUICE_API_KEY="+s.key, "SLUICE_URL="+s.url())
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
			}
			b.ReportMetric(float64(benchRows*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func benchEvent(i int) []byte {
	return fmt.Appendf(nil, `{"data_set_id":"spring","timestamp":%d,"event_type":"purchase","value":%d.50,"currency_code":"EUR","identifiers":{"email_sha256":"%s"},"custom_data":{"order":"%d"}}`,
		time.Now().Unix()-int64(i), i, client.Vectors[0].SHA256, i)
}

func benchBody(b *testing.B) []byte {
	b.Helper()
	body := []byte("[")
	for i := range client.FillEvents {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, benchEvent(i)...)
	}
	return append(body, ']')
}
