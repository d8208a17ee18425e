package servicetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Launch says how a server is started.
type Launch struct {
	Program Program
	Data    string        // the data directory
	Listen  string        // of the senders' API; "" is any free port of loopback
	Args    []string      // more of serve
	Env     []string      // added to that of the program
	Group   string        // directory of a control group to run in
	Within  time.Duration // to be ready; 0 means 20 s
	Unready bool          // it need not become ready
}

// Server is a sluice process that serves.
type Server struct {
	Started time.Duration // from the start of the process to the first ready

	cmd  *exec.Cmd
	done chan struct{} // its output has ended
	once sync.Once

	mu       sync.Mutex
	url, ops string
	words    strings.Builder // everything it said
}

var served = regexp.MustCompile(`msg=serving api=(\S+) .*ops=(\S+)`)

// Begin starts serve and waits for nothing. Stop must be called on the Server.
func (l Launch) Begin() (*Server, error) {
	if l.Listen == "" {
		l.Listen = "127.0.0.1:0"
	}
	s := &Server{done: make(chan struct{})}
	s.cmd = l.Program.command(context.Background(),
		append([]string{"serve", "--data", l.Data, "--listen", l.Listen, "--ops", "127.0.0.1:0"}, l.Args...)...)
	s.cmd.Env = append(s.cmd.Env, l.Env...)
	if l.Group != "" { // joined before the program starts: what it reads first is its group's limit
		s.cmd.Args = append([]string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, l.Group + "/cgroup.procs"}, s.cmd.Args...)
		s.cmd.Path = "/bin/sh"
	}
	pipe, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go s.listen(pipe)
	return s, nil
}

// Start is Begin that returns once the server is ready. After an error there is no process.
func (l Launch) Start() (*Server, error) {
	begun := time.Now()
	s, err := l.Begin()
	if err != nil {
		return nil, err
	}
	if l.Within == 0 {
		l.Within = 20 * time.Second
	}
	var ended error
	err = Await(l.Within, "serving", func() error {
		if s.Ended() {
			ended = errors.New("serve ended")
			return nil
		}
		if s.URL() == "" {
			return errors.New("it does not say where it listens")
		}
		if l.Unready {
			return nil
		}
		return s.Ready()
	})
	if err = errors.Join(err, ended); err != nil {
		s.Stop(syscall.SIGKILL)
		return nil, fmt.Errorf("%w; it said:\n%s", err, s.Said())
	}
	s.Started = time.Since(begun)
	return s, nil
}

func (s *Server) listen(pipe io.Reader) {
	defer close(s.done)
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		s.mu.Lock()
		s.words.WriteString(lines.Text() + "\n")
		if found := served.FindStringSubmatch(lines.Text()); found != nil {
			s.url, s.ops = found[1], strings.TrimSuffix(found[2], "/")
		}
		s.mu.Unlock()
	}
}

// URL is where the senders' API listens, "" while that is not known.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url
}

// Ops is where the operators' listener is, without a slash at its end.
func (s *Server) Ops() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ops
}

// Said is everything that it wrote to stderr.
func (s *Server) Said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.words.String()
}

// Done is closed when the process has closed its output.
func (s *Server) Done() <-chan struct{} { return s.done }

// Ended says whether the process has closed its output.
func (s *Server) Ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// PID is the number of the process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// State is how the process ended, after Stop.
func (s *Server) State() *os.ProcessState { return s.cmd.ProcessState }

// Ready is nil when the server accepts events.
func (s *Server) Ready() error {
	r, err := Client.Get(s.Ops() + "/readyz")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(r.Body)
		return fmt.Errorf("readyz: %d %s", r.StatusCode, why)
	}
	return nil
}

// Stop sends the signal and waits for the end of the process. It returns its exit code. Calls after the first only do
// that.
func (s *Server) Stop(signal syscall.Signal) int {
	s.once.Do(func() {
		_ = s.cmd.Process.Signal(signal) // it may have ended
		<-s.done
		_ = s.cmd.Wait() // State says how it ended
	})
	return s.cmd.ProcessState.ExitCode()
}

// Answer is what came back for a request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Client has a time limit, and keeps as many connections as a load needs.
var Client = http.Client{
	Timeout:   20 * time.Second,
	Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxIdleConns: 1024},
}

// Call sends a body as a sender would; headers are names and values. An error means that there was no answer.
func (s *Server) Call(method, key, path, body string, headers ...string) (Answer, error) {
	r, err := http.NewRequest(method, s.URL()+path, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	a, err := Client.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer a.Body.Close()
	content, err := io.ReadAll(a.Body)
	return Answer{a.StatusCode, a.Header, content}, err
}
