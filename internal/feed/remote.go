package feed

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
	"strconv"
	"time"
)

// Remote is the feed of a server on another machine.
type Remote struct {
	address *url.URL
	token   string
	client  *http.Client
}

// remoteAnswer bounds an answer. The server ends one at 16 MiB and a line.
const remoteAnswer = 64 << 20

// RemoteWait is how long the server may wait for rows.
const RemoteWait = 30 * time.Second

// NewRemote takes the address of a server's operators' listener, and the token of a reader.
func NewRemote(address, token string) (*Remote, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.User != nil, u.RawQuery != "",
		u.Fragment != "":
		return nil, errors.New("want the address of a server's operators' listener, such as https://sluice.example.com:8081")
	case u.Scheme == "http" && u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback():
		return nil, errors.New("plain http would show the token to the network; use https")
	}
	return &Remote{u.JoinPath("/feed/v1/events"), token, &http.Client{
		Timeout: RemoteWait + 90*time.Second, // the server itself gives up on a follower that does not read
		CheckRedirect: func(*http.Request, []*http.Request) error { // the token would go along
			return http.ErrUseLastResponse
		},
	}}, nil
}

// Rows are the lines of an answer, and the cursor behind them.
type Rows struct {
	Lines    []byte `json:"-"`
	Cursor   string `json:"cursor"`
	CaughtUp bool   `json:"caught_up"`
}

// Fault is an error after which the same request may succeed.
type Fault struct {
	cause error
	After time.Duration // the server asks for that long
}

func (f *Fault) Error() string { return f.cause.Error() }

// Ask makes one request. An answer that breaks off is a Fault: nothing of it counts. A cursor that is too old is
// *Expired.
func (r *Remote) Ask(ctx context.Context, query url.Values) (*Rows, error) {
	address := *r.address
	address.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+r.token)
	answer, err := r.client.Do(request)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the address, which is long, and known
		}
		return nil, &Fault{cause: err}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, remoteAnswer))
	if err != nil {
		return nil, &Fault{cause: fmt.Errorf("the answer ended early: %w", err)}
	}
	if answer.StatusCode != http.StatusOK {
		return nil, problemOf(answer, body)
	}
	text, whole := bytes.CutSuffix(body, []byte("\n"))
	last := bytes.LastIndexByte(text, '\n') + 1
	out := &Rows{Lines: body[:last]}
	if err := json.Unmarshal(text[last:], out); err != nil || !whole || out.Cursor == "" {
		return nil, &Fault{cause: errors.New("the answer has no cursor at its end")}
	}
	return out, nil
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
		return &Expired{Snapshot: said.Snapshot, Cursor: said.Cursor}
	}
	err := fmt.Errorf("the server answered %d %s: %s %s", answer.StatusCode, said.Code, said.Message, said.Hint)
	if said.Code == "" {
		err = fmt.Errorf("%s answered %d: this is not the operators' listener of a server", answer.Request.URL.Host,
			answer.StatusCode)
	}
	if answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= 500 {
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return &Fault{err, time.Duration(seconds) * time.Second}
	}
	return err
}
