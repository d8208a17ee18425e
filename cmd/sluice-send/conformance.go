package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/client"
	"sluice/event"
	"sluice/event/rules"
)

func (p *program) conformanceCommand() *cobra.Command {
	var o conformance
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Replay the rule corpus against a running service and report what differs",
		Long: "conformance sends every example of the rule corpus to the service at --url and compares codes, " +
			`fields, warnings and
stored members with what the contract wants. Examples go to /v1/events/validate, which stores nothing; with --store
they go to /v1/events and /v1/events/batch too, so use a dataset made for the purpose.

Examples that depend on the exact second of receipt are left out: the clock of a service runs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.conformance(cmd.Context(), &o) },
	}
	cmd.Flags().BoolVar(&o.store, "store", false, "also send the examples to the paths that store them")
	cmd.Flags().BoolVar(&o.suppress, "suppress", false,
		"the dataset suppresses people who opted out: replay the examples for that")
	return cmd
}

// conformance is one replay.
type conformance struct {
	store    bool
	suppress bool

	base    string
	dataset string
	now     time.Time // of the service
	http    *http.Client
	// authorize keeps the key where fmt cannot print it.
	authorize func(http.Header)
}

// difference is an example that came out otherwise.
type difference struct {
	Case string   `json:"case"`
	Why  string   `json:"why"`
	Path string   `json:"path"`
	Diff []string `json:"differences"`
}

func (p *program) conformance(ctx context.Context, o *conformance) error {
	if p.dataset == "" {
		return exit(exitUsage, errors.New("the examples need a dataset: give --dataset"))
	}
	_, contact, err := p.reach(ctx, client.Options{Retry: client.Retry{Total: 20 * time.Second}})
	if err != nil {
		return err
	}
	o.now = p.clockOf(contact)
	key, err := p.key()
	if err != nil {
		return exit(exitUsage, err)
	}
	o.authorize = func(h http.Header) { h.Set("Authorization", "Bearer "+key) }
	o.base, o.dataset, o.http = strings.TrimRight(p.url, "/"), p.dataset, &http.Client{Timeout: 30 * time.Second}
	return p.replay(ctx, o)
}

func (p *program) replay(ctx context.Context, o *conformance) error {
	cases, err := rules.Cases()
	if err != nil {
		return err
	}
	run, left := 0, 0
	diffs := []difference{}
	note := func(name, why, path string, diff []string) {
		run++
		if len(diff) > 0 {
			diffs = append(diffs, difference{name, why, path, diff})
		}
	}
	for i := range cases {
		c := &cases[i]
		paths := o.paths(c)
		if len(paths) == 0 {
			left++
		}
		for _, path := range paths {
			diff, err := o.try(ctx, c, path)
			if err != nil {
				return failure(ctx, fmt.Errorf("%s: %w", c.Name, err))
			}
			note(c.Name, c.Why, path, diff)
		}
	}
	for _, m := range requestRules {
		path, diff, err := o.requestRule(ctx, m)
		if err != nil {
			return failure(ctx, fmt.Errorf("%s: %w", m.name, err))
		}
		note(m.name, m.why, path, diff)
	}
	return p.printConformance(run, left, diffs)
}

func (p *program) printConformance(run, left int, diffs []difference) error {
	if p.json {
		err := json.NewEncoder(p.stdout).Encode(map[string]any{
			"run": run, "left_out": left, "different": len(diffs),
			"differences": diffs,
		})
		if err != nil {
			return err
		}
	} else {
		for _, d := range diffs {
			fmt.Fprintf(p.stdout, "DIFFERS %s (%s) at %s\n", d.Case, d.Why, d.Path)
			for _, line := range d.Diff {
				fmt.Fprintln(p.stdout, "  "+line)
			}
		}
		fmt.Fprintf(p.stdout, "%d requests, %d differ; %d examples left out\n", run, len(diffs), left)
	}
	return verdict(len(diffs))
}

// paths says where an example can be sent.
func (o *conformance) paths(c *rules.Case) (paths []string) {
	if c.Exact || c.Suppress != o.suppress {
		return nil
	}
	// The validator takes one event or an array: what is rejected for its shape alone has no meaning there.
	if c.Shape == event.Any || c.Request != event.InvalidType {
		paths = append(paths, "/v1/events/validate")
	}
	if o.store && c.Shape == event.Single {
		paths = append(paths, "/v1/events")
	}
	if o.store && c.Shape == event.Batch {
		paths = append(paths, "/v1/events/batch")
	}
	return paths
}

// reply is what every answer may hold.
type reply struct {
	status int
	header http.Header
	object bool // the body is a JSON object; without it the rest is empty

	Status    string          `json:"status"`
	ErrorCode event.Code      `json:"error_code"`
	Message   string          `json:"message"`
	Errors    []event.Error   `json:"errors"`
	Truncated bool            `json:"errors_truncated"`
	Warnings  []event.Warning `json:"warnings"`
	Events    []shownEvent    `json:"events"`
}

// shownEvent is an event as the service would store it.
type shownEvent struct {
	Index int                        `json:"index"`
	Event map[string]json.RawMessage `json:"event"`
}

func (o *conformance) exchange(
	ctx context.Context, method, path, body string, change func(http.Header),
) (*reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, o.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	o.authorize(req.Header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if change != nil {
		change(req.Header)
	}
	resp, err := o.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 32<<20))
	if err != nil {
		return nil, err
	}
	r := &reply{status: resp.StatusCode, header: resp.Header}
	r.object = json.Unmarshal(data, r) == nil
	return r, nil
}

// try sends one example and lists what is not as it should be.
func (o *conformance) try(ctx context.Context, c *rules.Case, path string) (diff []string, err error) {
	r, err := o.exchange(ctx, http.MethodPost, path, c.Body(o.now, o.dataset), nil)
	if err != nil {
		return nil, err
	}
	if !r.object {
		return []string{fmt.Sprintf("status %d, and the answer is not a JSON object", r.status)}, nil
	}
	if want := wantStatus(c, path); r.status != want {
		diff = append(diff, fmt.Sprintf("status %d, want %d", r.status, want))
	}
	if c.Request != "" {
		if r.ErrorCode != c.Request {
			diff = append(diff, fmt.Sprintf("error_code %q, want %q", r.ErrorCode, c.Request))
		}
		return diff, nil
	}
	var got []rules.Finding
	for _, e := range r.Errors {
		got = append(got, rules.Finding{Index: e.Index, Code: e.Code, Field: e.Field})
	}
	diff = append(diff, compare("errors", got, c.Want, !r.Truncated)...)
	got = nil
	for _, w := range r.Warnings {
		got = append(got, rules.Finding{Index: w.Index, Code: w.Code, Field: w.Field})
	}
	if r.status == http.StatusOK {
		diff = append(diff, compare("warnings", sorted(got), sorted(c.Warnings(path == "/v1/events/validate")), true)...)
	}
	if path == "/v1/events/validate" {
		diff = append(diff, o.compareRows(c, r)...)
	}
	return diff, nil
}

func wantStatus(c *rules.Case, path string) int {
	switch {
	case c.Request == event.DatasetForbidden:
		return http.StatusForbidden
	case c.Request != "":
		return http.StatusBadRequest
	case path == "/v1/events/validate" || len(c.Want) == 0:
		return http.StatusOK
	case path == "/v1/events":
		return http.StatusBadRequest
	}
	// In a batch one valid event is enough; an example that shows stored members has one.
	if len(c.Row) > 0 || len(c.Warn) > 0 {
		return http.StatusOK
	}
	return http.StatusBadRequest
}

func sorted(fs []rules.Finding) []rules.Finding {
	return slices.SortedFunc(slices.Values(fs), func(a, b rules.Finding) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
}

// compare lists what is missing and what is too much; order counts, since both lists have one.
func compare(what string, got, want []rules.Finding, whole bool) (diff []string) {
	if slices.Equal(got, want) {
		return nil
	}
	if !whole && len(got) < len(want) && slices.Equal(got, want[:len(got)]) {
		return nil
	}
	return []string{fmt.Sprintf("%s: got %s, want %s", what, list(got), list(want))}
}

func list(fs []rules.Finding) string {
	words := make([]string, len(fs))
	for i, f := range fs {
		words[i] = strings.TrimSpace(fmt.Sprintf("%d %s %s", f.Index, f.Code, f.Field))
	}
	return "[" + strings.Join(words, ", ") + "]"
}

func (o *conformance) compareRows(c *rules.Case, r *reply) (diff []string) {
	for i := range c.Row {
		m := &c.Row[i]
		at := slices.IndexFunc(r.Events, func(e shownEvent) bool { return e.Index == m.Index })
		if at < 0 {
			diff = append(diff, fmt.Sprintf("event %d is not shown as stored", m.Index))
			continue
		}
		if !sameJSON(r.Events[at].Event[m.Name], []byte(m.JSON(o.now, o.dataset))) {
			diff = append(diff, fmt.Sprintf("event %d: %s is not stored as it should be", m.Index, m.Name))
		}
	}
	return diff
}

// sameJSON compares values; numbers by their literal, so that none is rounded.
func sameJSON(a, b []byte) bool {
	read := func(text []byte) (v any, err error) {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		err = d.Decode(&v)
		return v, err
	}
	x, errX := read(a)
	y, errY := read(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}
