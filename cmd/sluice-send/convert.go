package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/event"
)

func (p *program) convertCommand() *cobra.Command {
	var from string
	var hashPlain, table bool
	names := make([]string, len(platforms))
	for i, pl := range platforms {
		names[i] = pl.name
	}
	cmd := &cobra.Command{
		Use:   "convert --from " + strings.Join(names, "|") + " FILE…",
		Short: "Turn other platforms' server events into ours",
		Long: `convert reads the bodies of server events as they were made for another platform, whole requests or single events, JSON
or NDJSON, and prints ours as NDJSON, ready for upload. Plain identifiers are refused, unless --hash-plain lets this
program normalise and hash them. Refused events are listed on standard error by line, without values, and so are members
that have no place in our events. --table prints what maps to what.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && !table {
				return errors.New("convert which file? - is standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			pl := platformOf(from)
			if pl == nil {
				return exit(exitUsage, fmt.Errorf("--from must be one of %s", strings.Join(names, ", ")))
			}
			if table {
				_, err := fmt.Fprint(p.stdout, pl.table())
				return err
			}
			return p.convert(cmd.Context(), &converter{platform: pl, dataset: p.dataset, hashPlain: hashPlain, now: p.now, dropped: map[string]int{}}, args)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "whose events: "+strings.Join(names, ", "))
	cmd.Flags().BoolVar(&hashPlain, "hash-plain", false, "hash plain e-mail and IPv4 addresses instead of refusing the event")
	cmd.Flags().BoolVar(&table, "table", false, "print what maps to what")
	return cmd
}

func platformOf(name string) *platform {
	for i := range platforms {
		if platforms[i].name == name {
			return &platforms[i]
		}
	}
	return nil
}

// table is the platform's mapping in Markdown; docs/sending.md holds the same.
func (pl *platform) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | ours | how |\n|---|---|---|\n", pl.title)
	for _, m := range pl.moves {
		from, to := m.from, m.to
		if outer, ok := strings.CutPrefix(from, "^"); ok {
			from = outer + " (of the request)"
		}
		if to == "" {
			to = "–"
		} else {
			to = "`" + to + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", from, to, hows[m.how])
	}
	for _, r := range pl.rest {
		fmt.Fprintf(&b, "| other members of %s | `custom_data` | as they are |\n", r)
	}
	b.WriteString("| anything else | – | left out, and said |\n")
	if len(pl.types) > 0 {
		b.WriteString("\n| event | `event_type` |\n|---|---|\n")
		for _, name := range sortedKeys(pl.types) {
			fmt.Fprintf(&b, "| %s | `%s` |\n", name, pl.types[name])
		}
	}
	return b.String()
}

func (p *program) convert(ctx context.Context, c *converter, files []string) error {
	out := bufio.NewWriter(p.stdout)
	converted, refused := 0, 0
	for _, file := range files {
		good, bad, err := p.convertFile(ctx, c, file, out)
		converted, refused = converted+good, refused+bad
		if err != nil {
			_ = out.Flush() // the error before is the one to tell
			return failure(ctx, fmt.Errorf("%s: %w", file, err))
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, name := range sortedKeys(c.dropped) {
		p.say("left out: %s (%d times)", name, c.dropped[name])
	}
	p.say("%d events converted, %d refused", converted, refused)
	if refused > 0 {
		return exit(exitRejected, nil)
	}
	return nil
}

func (p *program) convertFile(ctx context.Context, c *converter, file string, out *bufio.Writer) (good, bad int, err error) {
	s, err := openSource(file, p.stdin, "")
	if err != nil {
		return 0, 0, exit(exitUsage, err)
	}
	defer s.Close()
	if s.format != formatNDJSON {
		s.format = formatJSON
	}
	rs, err := s.rows(0)
	if err != nil {
		return 0, 0, err
	}
	for ctx.Err() == nil {
		r, err := rs.next()
		if ended(err) {
			return good, bad, nil
		}
		if err != nil {
			return good, bad, err
		}
		if r.fault != "" {
			bad++
			p.say("%s:%d: %s", file, r.line, r.fault)
			continue
		}
		for i, o := range c.body(r.data) {
			if o.fault != nil {
				bad++
				p.say("%s:%d: event %d: %s at %s: %s %s", file, r.line, i, o.fault.Code, o.fault.Field, o.fault.Message, o.fault.Hint)
				continue
			}
			good++
			out.Write(o.event)
			out.WriteByte('\n')
		}
	}
	return good, bad, ctx.Err()
}

// converter turns the events of one platform into ours.
type converter struct {
	*platform
	dataset   string
	hashPlain bool
	dropped   map[string]int // members without a place, and how often they were met
	now       func() time.Time
	decoder   event.Decoder
}

// outcome is one converted event, or why it was not.
type outcome struct {
	event []byte
	fault *problem
}

// body converts a request body, which may hold many events, or one event.
func (c *converter) body(data []byte) []outcome {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // a number keeps its literal
	var request map[string]any
	if err := d.Decode(&request); err != nil {
		return []outcome{{fault: &problem{Code: event.MalformedJSON, Message: "This is no JSON object.", Hint: "Give whole request bodies or events."}}}
	}
	list, ok := request[c.list].([]any)
	if !ok {
		return []outcome{c.one(request, request)}
	}
	out := make([]outcome, len(list))
	for i, e := range list {
		if one, ok := e.(map[string]any); ok {
			out[i] = c.one(request, one)
		} else {
			out[i] = outcome{fault: &problem{Code: event.InvalidType, Message: "The event is no object."}}
		}
	}
	return out
}

func (c *converter) one(request, source map[string]any) outcome {
	t := &translation{c: c, source: source, out: map[string]any{}, used: map[string]bool{}}
	for _, m := range c.moves {
		from, path := source, m.from
		if outer, ok := strings.CutPrefix(m.from, "^"); ok {
			from, path = request, outer
		}
		v, found := dig(from, path)
		if !found || v == nil || v == "" {
			continue
		}
		if fault := t.move(m, v); fault != nil {
			return outcome{fault: fault}
		}
	}
	t.takeRest()
	if _, has := t.out["data_set_id"]; !has && c.dataset != "" {
		t.out["data_set_id"] = c.dataset
	}
	body, err := json.Marshal(t.out)
	if err != nil {
		return outcome{fault: &problem{Code: event.InvalidType, Message: "The event cannot be written."}}
	}
	return c.verify(body)
}

// verify holds a converted event against the rules, at its own time: whether it is too old is for the day of its upload.
func (c *converter) verify(body []byte) outcome {
	var e struct {
		Timestamp int64 `json:"timestamp"`
	}
	now := c.now()
	if json.Unmarshal(body, &e) == nil && e.Timestamp > 0 {
		now = time.Unix(e.Timestamp, 0)
	}
	r, refusal := c.decoder.Decode(string(body), event.Single, event.Policy{}, now)
	if refusal != nil {
		return outcome{fault: new(problemOf(*refusal))}
	}
	for _, p := range r.Errors {
		if p.Code == event.MissingField && p.Field == "/data_set_id" {
			continue // upload --dataset can give it
		}
		return outcome{fault: new(problemOf(p))}
	}
	return outcome{event: body}
}

// dig follows a path of member names.
func dig(from map[string]any, path string) (any, bool) {
	first, rest, deeper := strings.Cut(path, ".")
	v, ok := from[first]
	if !ok || !deeper {
		return v, ok
	}
	inner, ok := v.(map[string]any)
	if !ok {
		return nil, false
	}
	return dig(inner, rest)
}
