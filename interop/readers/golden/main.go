// Command golden makes the golden directory of interop/readers/testdata anew, with the program that make golden has just built:
//
//	data.tar.gz     a data directory, as a killed server left it
//	backup.tar.gz   a backup of that directory
//	sent.ndjson     what was sent to it, a line for each event: where it is now, and the row that must be stored
//	golden.json     keys of the directory, which are of no use elsewhere, and the requests with idempotency keys
//
// The stream holds frames that are loaded and frames that are not, with idempotency keys. The tables hold small files and a
// file that compaction made, and lack an event that was erased. See sent.Provision for the rest.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sluice/internal/servicetest"
	"sluice/interop/readers/sent"
)

// maker makes the directory. Its events are the same each time, their ids and times are not.
type maker struct {
	program servicetest.Program
	dir     string // the data directory
	gen     *sent.Generator
	access  sent.Access
	service *sent.Service
	lines   []sent.Line
}

var datasets = []string{"shop-a", "shop-b"}

func main() {
	program := flag.String("program", "", "the sluice program")
	out := flag.String("out", "", "the directory to write")
	flag.Parse()
	if *program == "" || *out == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := makeGolden(*program, *out); err != nil {
		log.Fatal(err)
	}
}

func makeGolden(program, out string) error {
	// The tables hold the path of the directory. It must not be there: somebody may be making it.
	dir := filepath.Join(os.TempDir(), "sluice-golden")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	m := &maker{program: servicetest.Program{Path: path}, dir: filepath.Join(dir, "data"), gen: sent.New(10)}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	err = m.fill()
	if m.service != nil {
		m.service.Kill()
	}
	if err != nil {
		return err
	}
	if err := pack(m.dir, filepath.Join(out, "data.tar.gz")); err != nil { // before the backup, which loads what is not loaded
		return err
	}
	backup := filepath.Join(dir, "backup")
	if _, err := m.run("backup", backup); err != nil {
		return err
	}
	return errors.Join(pack(backup, filepath.Join(out, "backup.tar.gz")), m.write(out))
}

func (m *maker) run(args ...string) (string, error) {
	return m.program.Run(context.Background(), append(args, "--data", m.dir)...)
}

// fill makes the content of the directory.
func (m *maker) fill() (err error) {
	m.access.Keys = map[string]string{}
	for _, id := range datasets {
		if m.access.Keys[id], err = sent.CreateDataset(m.program.Path, m.dir, id); err != nil {
			return err
		}
	}
	token, err := m.run("reader", "create", "follower", "--allow", "feed")
	if err != nil {
		return err
	}
	m.access.Reader = strings.TrimSpace(token)
	if m.service, err = m.start("--commit-every", "500ms"); err != nil {
		return err
	}
	// After the start, because the id of a deleted dataset is taken for as long as the stream retains.
	m.access.Suppressed, err = sent.Provision(datasets[1], func(args ...string) error {
		_, err := m.run(args...)
		return err
	})
	if err != nil {
		return err
	}
	for round := range 20 {
		switch round {
		case 17:
			err = m.awaitCompaction()
		case 18:
			err = m.erase()
		}
		if err != nil {
			return err
		}
		if err := m.round(round, sent.InTable); err != nil {
			return err
		}
	}
	m.service.Stop()
	if m.service, err = m.start("--loading=false"); err != nil {
		return err
	}
	return m.round(21, sent.InStream)
}

// start starts the program with the flags that every later start needs.
func (m *maker) start(args ...string) (*sent.Service, error) {
	return sent.Start(m.program.Path, m.dir, append(sent.ForEver(), append(args, "--partitions", "2")...)...)
}

// round sends events that one commit carries, some singly, some with an idempotency key and some with a rejected event, and
// waits until they are stored.
func (m *maker) round(round int, in string) error {
	last := ""
	for k, dataset := range datasets {
		events := m.gen.Events(dataset, 2+(round+k)%4, round+k, time.Now())
		for n := 1; len(events) > 0; events = events[n:] {
			if n = 1; round%3 > 0 {
				n = len(events)
			}
			some, key := events[:n:n], ""
			if round%4 == 1 {
				key = fmt.Sprintf("golden-%d-%s-%d", round, dataset, len(events))
			}
			if round%5 == 2 && n > 1 {
				some = append(some, m.gen.Rejected(dataset, time.Now()))
			}
			id, err := m.send(dataset, some, in, key)
			if err != nil {
				return err
			}
			last = id
		}
	}
	if in == sent.InStream {
		return nil
	}
	return m.service.AwaitProcessed(m.access.Keys[datasets[len(datasets)-1]], last)
}

// send sends one request and writes down what has to come of it. It returns the id of the submission.
func (m *maker) send(dataset string, events []sent.Event, in, key string) (string, error) {
	lines, err := m.service.Send(m.access.Keys[dataset], events, key)
	if err != nil {
		return "", err
	}
	for i := range lines {
		lines[i].In = in
	}
	m.lines = append(m.lines, lines...)
	id := lines[0].SubmissionID
	if key != "" {
		path, body, err := sent.Request(events)
		if err != nil {
			return "", err
		}
		m.access.Requests = append(m.access.Requests, sent.Keyed{In: in, Dataset: dataset, Path: path, IdempotencyKey: key, Body: body, SubmissionID: id})
	}
	return id, nil
}

// awaitCompaction waits until a snapshot of the events lists a file in the place of others.
func (m *maker) awaitCompaction() error {
	return servicetest.Await(time.Minute, "compaction", func() error {
		found, err := filepath.Glob(filepath.Join(m.dir, "lake", "events", "metadata", "*.metadata.json"))
		if err != nil {
			return err
		}
		for _, name := range found {
			content, err := os.ReadFile(name)
			if err == nil && strings.Contains(string(content), `"operation":"replace"`) {
				return nil
			}
		}
		return errors.New("no snapshot replaces files")
	})
}

// erase erases the first event that has the hash of an address.
func (m *maker) erase() error {
	for i := range m.lines {
		hash, ok := m.lines[i].Row["email_sha256"].(string)
		if !ok {
			continue
		}
		m.lines[i].In = sent.Erased
		_, err := m.run("erase", "--email-sha256", hash, "--yes")
		return err
	}
	return errors.New("no event has the hash of an address")
}

// write writes what was sent, and what opens the directory.
func (m *maker) write(out string) error {
	var b []byte
	for _, l := range m.lines {
		l.Body = nil // the row says it all
		line, err := json.Marshal(l)
		if err != nil {
			return err
		}
		b = append(append(b, line...), '\n')
	}
	access, err := json.MarshalIndent(m.access, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(out, "sent.ndjson"), b, 0o644), os.WriteFile(filepath.Join(out, "golden.json"), append(access, '\n'), 0o644))
}

// pack makes an archive of a directory.
func pack(dir, to string) error {
	tar := exec.Command("tar", "--sparse", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-C", dir, "-czf", to, ".")
	if out, err := tar.CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w\n%s", err, out)
	}
	return nil
}
