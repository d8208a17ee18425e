package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/feed"
)

// Of an answer of the feed. The server ends one at 16 MiB and a line.
const (
	remoteAnswer = 64 << 20
	remoteWait   = 30 * time.Second
	remoteLeast  = time.Second      // between two tries after a fault, doubled up to
	remoteMost   = 30 * time.Second // both arbitrary
)

// remote follows the feed of a server on another machine.
type remote struct {
	address *url.URL
	token   string
	purpose string
	client  *http.Client
}

// openRemote checks the address and reads the token, which is never an argument: other users of the machine see those.
func openRemote(address, tokenFile, purpose string) (*remote, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("--url is the address of a server's operators' listener, such as https://sluice.example.com:8081")
	}
	if u.Scheme == "http" && u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback() {
		return nil, errors.New("--url: plain http would show the token to the network; use https")
	}
	r := &remote{address: u.JoinPath("/feed/v1/events"), token: os.Getenv("SLUICE_TOKEN"), purpose: purpose}
	if tokenFile != "" {
		b, err := os.ReadFile(tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		r.token = strings.TrimSpace(string(b))
	}
	if r.token == "" {
		return nil, errors.New("--url needs the token of a reader, in the variable SLUICE_TOKEN or in --token-file; make one on the server with: sluice reader create NAME --allow feed")
	}
	r.client = &http.Client{
		Timeout: remoteWait + 90*time.Second, // the server itself gives up on a follower that does not read
		CheckRedirect: func(*http.Request, []*http.Request) error { // the token would go along
			return http.ErrUseLastResponse
		},
	}
	return r, nil
}

// follow prints rows until ctx ends, or with once until there are no more. The rows of an answer are printed when all of it has
// come, with its cursor: an answer that breaks off is asked for again, and nothing is printed twice.
func (r *remote) follow(cmd *cobra.Command, cursor string, p printing) error {
	ctx, out, wait := cmd.Context(), cmd.OutOrStdout(), remoteLeast
	for {
		a, err := r.ask(ctx, cursor, p)
		if ctx.Err() != nil {
			return nil // the rows before the interruption stand
		}
		if fault, ok := errors.AsType[*remoteFault](err); ok {
			fmt.Fprintf(cmd.ErrOrStderr(), "%v; trying again\n", err)
			pause(ctx, max(wait, fault.after))
			wait = min(2*wait, remoteMost)
			continue
		}
		if err != nil {
			return err
		}
		wait = remoteLeast
		if _, err := out.Write(a.rows); err != nil {
			return err
		}
		cursor = a.Cursor
		if err := p.save(cursor); err != nil {
			return err
		}
		if a.CaughtUp && p.once {
			return nil
		}
	}
}

// remoteRows is the last line of an answer, and the rows before it.
type remoteRows struct {
	Cursor   string `json:"cursor"`
	CaughtUp bool   `json:"caught_up"`
	rows     []byte
}

// remoteFault is an error after which the same request may succeed.
type remoteFault struct {
	cause error
	after time.Duration
}

func (f *remoteFault) Error() string { return f.cause.Error() }

// ask makes one request.
func (r *remote) ask(ctx context.Context, cursor string, p printing) (*remoteRows, error) {
	q := url.Values{"purpose": {r.purpose}, "limit": {strconv.Itoa(10 * feedPage)}}
	for name, value := range map[string]string{"dataset": p.Dataset, "cursor": cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if !p.once {
		q.Set("wait", remoteWait.String())
	}
	address := *r.address
	address.RawQuery = q.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+r.token)
	answer, err := r.client.Do(request)
	if err != nil {
		return nil, &remoteFault{cause: withoutQuery(err)}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, remoteAnswer))
	if err != nil {
		return nil, &remoteFault{cause: fmt.Errorf("the answer ended early: %w", err)}
	}
	if answer.StatusCode != http.StatusOK {
		return nil, problemOf(answer, body)
	}
	text, whole := bytes.CutSuffix(body, []byte("\n"))
	last := bytes.LastIndexByte(text, '\n') + 1
	out := &remoteRows{rows: body[:last]}
	if err := json.Unmarshal(text[last:], out); err != nil || !whole || out.Cursor == "" {
		return nil, &remoteFault{cause: errors.New("the answer has no cursor at its end")}
	}
	return out, nil
}

// withoutQuery leaves the address out of an error of the client: it is long, and known.
func withoutQuery(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// problemOf is what an answer other than 200 means.
func problemOf(answer *http.Response, body []byte) error {
	var said struct {
		Code     string `json:"error_code"`
		Message  string `json:"message"`
		Hint     string `json:"hint"`
		Snapshot int64  `json:"snapshot_id"`
		Cursor   string `json:"cursor"`
	}
	_ = json.Unmarshal(body, &said) // what is not the server's own has no members
	if said.Code == "CURSOR_EXPIRED" {
		return explainCursor(&feed.Expired{Snapshot: said.Snapshot, Cursor: said.Cursor})
	}
	err := fmt.Errorf("the server answered %d %s: %s %s", answer.StatusCode, said.Code, said.Message, said.Hint)
	if said.Code == "" {
		err = fmt.Errorf("%s answered %d: this is not the operators' listener of a server", answer.Request.URL.Host, answer.StatusCode)
	}
	if answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= 500 {
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return &remoteFault{err, time.Duration(seconds) * time.Second}
	}
	return err
}
