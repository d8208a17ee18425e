package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/enginetest"
)

// The users of three machines, whose names the page has.
var machineUsers = map[string]int{"nats": 990, "sluice": 991}

// machine is a container in which a NATS server and a node run.
type machine struct {
	*container
	node *container // the same root, with the settings of the unit
}

// install runs a block of the page that installs files, with the root of a machine before each path.
func (m machine) install(dir, block string) {
	t := m.site.t
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(m.root, "etc"), 0o755))
	block = strings.ReplaceAll(block, " /etc/", " "+m.root+"/etc/")
	for name, id := range machineUsers {
		owner := fmt.Sprint(" -o ", id)
		if os.Getuid() != 0 {
			owner = ""
		}
		block = strings.ReplaceAll(block, " -o "+name, owner)
	}
	shell(t, dir, strings.ReplaceAll(block, "nats-1", m.name), map[string]func(call) (string, error){
		"systemctl": func(c call) (string, error) { return "", nil },
	})
}

// unit gives the node what the systemd unit says.
func (m machine) unit() {
	t := m.site.t
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "deploy/sluice.service"))
	must(t, err)
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "Environment":
			m.node.env = append(m.node.env, value)
		case "ExecStart":
			m.node.args = strings.Fields(value)
		case "EnvironmentFile":
			settings, err := os.ReadFile(filepath.Join(m.root, strings.TrimPrefix(value, "-")))
			must(t, err)
			m.node.env = append(m.node.env, strings.Split(strings.TrimSpace(string(settings)), "\n")...)
		}
	}
	m.node.env = append(m.node.env, "SLUICE_LOG_FORMAT=text", "SLUICE_OPS=127.0.0.1:8081")
}

// The commands of docs/cluster.md make a cluster of three machines that takes events, and that strangers cannot use.
func TestMachines(t *testing.T) {
	dir := copied(t)
	names := []string{"nats-1", "nats-2", "nats-3"}
	s := newSite(t, append([]string{"bucket"}, names...)...)
	page := blocks(t, "cluster.md", "## Set up three machines")
	shell(t, dir, with(t, page, "certificates.sh"), nil)
	settings := strings.NewReplacer("AWS_ACCESS_KEY_ID=…", "AWS_ACCESS_KEY_ID="+bucketKey, "AWS_SECRET_ACCESS_KEY=…", "AWS_SECRET_ACCESS_KEY="+bucketSecret).
		Replace(with(t, page, "SLUICE_NATS=")) + strings.Join(s.bucket("my-bucket"), "\n")
	program, err := sluiceOnce()
	must(t, err)
	start := strings.Fields(with(t, page, "SERVER_NAME="))
	machines := map[string]machine{}
	for _, name := range names {
		m := machine{container: s.container(name, machineUsers["nats"], enginetest.Build(t), append([]string{"/" + start[1]}, start[2:]...)...)}
		m.env = []string{strings.ReplaceAll(start[0], "nats-1", name)}
		m.volume("/data")
		must(t, os.WriteFile(filepath.Join(dir, "sluice.env"), []byte(s.local(name, settings)), 0o600))
		m.install(dir, with(t, page, "/etc/nats/tls.key"))
		m.install(dir, with(t, page, "systemctl"))
		conf, err := os.ReadFile(filepath.Join(m.root, "etc/nats/nats.conf"))
		must(t, err)
		m.file("/etc/nats/nats.conf", string(conf), 0o644, 0)
		m.node = s.process(name, name+"-node", machineUsers["sluice"])
		m.program(program, "/usr/local/bin/sluice")
		m.unit()
		m.node.volume("/var/lib/sluice")
		m.start()
		m.node.start()
		machines[name] = m
	}
	commands := with(t, page, "cluster check") + with(t, page, "dataset create")
	key := ""
	for _, name := range names {
		m := machines[name]
		must(t, m.node.soon("/usr/local/bin/sluice", "health"))
		must(t, m.node.soon("/usr/local/bin/sluice", "cluster", "status"))
		sluice := func(c call) (string, error) {
			return m.node.run(c.env, append([]string{"/usr/local/bin/sluice"}, c.args...)...)
		}
		script := strings.ReplaceAll(commands, " /etc/", " "+m.root+"/etc/")
		commands, _, _ = strings.Cut(commands, "sluice dataset create") // on one of them
		out := shell(t, dir, script, map[string]func(call) (string, error){"sluice": sluice})
		if !strings.Contains(out, "sync_interval is always: true") || strings.Contains(out, "failed ") {
			t.Errorf("cluster check on %s: got\n%s", name, out)
		}
		if key == "" {
			lines := strings.Split(strings.TrimSpace(out), "\n")
			key = lines[len(lines)-1]
		}
		s.takesEvents(name, key)
	}
	machines["nats-1"].node.strangers("nats-1", filepath.Join(dir, "certs"))
	s.strangerAmongServers("nats-1", filepath.Join(dir, "certs"))
}
