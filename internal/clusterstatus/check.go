package clusterstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/internal/engine"
)

// leastVersion of the NATS servers: earlier ones lost synced writes when they compacted a file.
var leastVersion = [3]int{2, 15, 1}

// Finding is the result of one check.
type Finding struct {
	Check  string `json:"check"`
	Result string `json:"result"` // ok, failed or unknown
	Detail string `json:"detail"`
}

// findings collects the results of checks.
type findings []Finding

func (f *findings) add(check string, ok bool, format string, args ...any) {
	result := "ok"
	if !ok {
		result = "failed"
	}
	*f = append(*f, Finding{check, result, fmt.Sprintf(format, args...)})
}

func (f *findings) unknown(check, why string) { *f = append(*f, Finding{check, "unknown", why}) }

// Check looks at everything that can be seen. monitors are the addresses of the monitoring ports of all NATS servers.
func Check(ctx context.Context, e *engine.Engine, monitors []string) ([]Finding, error) {
	var f findings
	facts, err := e.Facts(ctx)
	if err != nil {
		return nil, err
	}
	f.add("version", recentEnough(facts.Version), "the connected server is %s, needed is %d.%d.%d or later", facts.Version,
		leastVersion[0], leastVersion[1], leastVersion[2])
	f.add("message size", facts.MaxPayload >= engine.LeastPayload, "max_payload is %d, needed is %d", facts.MaxPayload,
		engine.LeastPayload)
	if e.Mode() != engine.External {
		f.add("sync", true, "the embedded engine syncs every write")
		f.unknown("replicas", "an embedded engine has one copy, on this machine's disk")
		return f, nil
	}
	f.protection(e.Protection())
	if err := f.replicas(ctx, e); err != nil {
		return nil, err
	}
	f.storage(facts)
	if facts.Cluster == "" {
		f.add("cluster", false, "the server is alone: everything is on one disk")
	} else {
		f.add("cluster", facts.Servers >= 3, "the cluster %s names %d servers to clients, needed are 3", facts.Cluster,
			facts.Servers)
	}
	f.monitors(ctx, monitors)
	f.unknown("not seen", "whether the disks keep what they report as written, whether servers share a disk or machine, "+
		"rot of files at rest, whether the servers encrypt what they send each other")
	return f, nil
}

// protection says what keeps strangers away from the servers.
func (f *findings) protection(p engine.Protection) {
	problems := p.Problems()
	for _, problem := range problems {
		f.add("protection", false, "%s", problem)
	}
	if len(problems) == 0 {
		f.add("protection", true, "the connected server asks for credentials; TLS: %v, loopback: %v", p.TLS, p.Loopback)
	}
}

func (f *findings) replicas(ctx context.Context, e *engine.Engine) error {
	r, err := e.Record(ctx)
	if errors.Is(err, engine.ErrNotFound) {
		f.unknown("replicas", "no node has been started yet")
		return nil
	}
	if err != nil {
		return err
	}
	f.add("replicas", r.Replicas >= 3, "the cluster's configuration says %d, needed are 3 to survive the loss of a server",
		r.Replicas)
	streams, err := e.Streams(ctx)
	if err != nil {
		return err
	}
	for _, s := range streams {
		switch {
		case s.Err != nil:
			f.add("replicas of "+s.Name, false, "it does not answer: %v", s.Err)
		case s.Replicas < r.Replicas || s.InStep < s.Replicas:
			f.add("replicas of "+s.Name, false, "%d of %d are in step, the configuration says %d", s.InStep, s.Replicas,
				r.Replicas)
		}
		if len(s.Drift) > 0 {
			f.add("settings of "+s.Name, false, "changed: %s", strings.Join(s.Drift, ", "))
		}
	}
	return nil
}

func (f *findings) storage(facts engine.Facts) {
	if facts.Limit == 0 {
		f.unknown("storage", "the account has no limit of its own; the servers' max_file_store and disks decide")
		return
	}
	f.add("storage", facts.Used < facts.Limit*9/10, "%d of %d bytes of the account are used", facts.Used, facts.Limit)
}

// monitors asks the monitoring port of each server whether it syncs every write.
func (f *findings) monitors(ctx context.Context, addresses []string) {
	if len(addresses) == 0 {
		f.unknown("sync",
			"sync_interval must be always on every server; a client cannot see it: name the monitoring ports with --monitor")
	}
	client := &http.Client{Timeout: 5 * time.Second}
	for _, address := range addresses {
		var varz struct {
			Name       string `json:"server_name"`
			Version    string `json:"version"`
			MaxPayload int64  `json:"max_payload"`
			JetStream  struct {
				Config *struct {
					SyncAlways bool `json:"sync_always"`
				} `json:"config"`
			} `json:"jetstream"`
		}
		if err := getJSON(ctx, client, strings.TrimSuffix(address, "/")+"/varz", &varz); err != nil {
			f.add("server "+address, false, "its monitoring port does not answer: %v", err)
			continue
		}
		name := "server " + varz.Name
		config := varz.JetStream.Config
		f.add(name, recentEnough(varz.Version), "version %s", varz.Version)
		f.add(name, varz.MaxPayload >= engine.LeastPayload, "max_payload %d", varz.MaxPayload)
		f.add(name, config != nil && config.SyncAlways, "sync_interval is always: %v", config != nil && config.SyncAlways)
	}
}

func getJSON(ctx context.Context, client *http.Client, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// recentEnough says whether a server's version is leastVersion or later.
func recentEnough(version string) bool {
	var v [3]int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2]); err != nil {
		return false
	}
	return slices.Compare(v[:], leastVersion[:]) >= 0
}
