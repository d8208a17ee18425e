package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"sluice/client"
	"sluice/event"
)

func (p *program) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Find out why events do not arrive",
		Long: "doctor looks, in this order, at the hashes, the address and its TLS, the key, " +
			`the clock against the service's, and
lets the service judge one sample event without storing it. It says what is wrong and how to correct it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.doctor(cmd.Context()) },
	}
}

// finding is one line of the doctor.
type finding struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
	code   int    // exit code when it is not OK
}

func (p *program) doctor(ctx context.Context) error {
	findings := []finding{hashFinding()}
	if c, err := p.open(client.Options{Retry: briefly}); err != nil {
		findings = append(findings, fault("address and key", err.Error(),
			"Give --url, and the key by SLUICE_API_KEY or --key-file.", exitUsage))
	} else {
		findings = append(findings, p.examine(ctx, c)...)
	}
	code := exitOK
	for _, f := range findings {
		if !f.OK {
			code = max(code, f.code)
		}
		if p.json {
			continue
		}
		word := "ok  "
		if !f.OK {
			word = "FAIL"
		}
		fmt.Fprintf(p.stdout, "%s  %-12s %s\n", word, f.Check, f.Detail)
		if f.Remedy != "" {
			fmt.Fprintf(p.stdout, "      %-12s %s\n", "", f.Remedy)
		}
	}
	if p.json {
		if err := json.NewEncoder(p.stdout).Encode(findings); err != nil {
			return err
		}
	}
	if code != exitOK {
		return exit(code, nil)
	}
	return nil
}

func fine(check, detail string) finding { return finding{Check: check, OK: true, Detail: detail} }

func fault(check, detail, remedy string, code int) finding {
	return finding{Check: check, Detail: detail, Remedy: remedy, code: code}
}

func hashFinding() finding {
	for _, v := range client.Vectors {
		hash := client.HashEmail
		if v.Kind == "ip" {
			hash = client.HashIPv4
		}
		if got, err := hash(v.Input); err != nil || got != v.SHA256 {
			return fault("hashes", "this program hashes wrongly", "Install it again.", exitRejected)
		}
	}
	return fine("hashes", fmt.Sprintf("all %d published pairs come out right", len(client.Vectors)))
}

// examine looks at everything that needs a connection. Each step needs the one before.
func (p *program) examine(ctx context.Context, c *client.Client) []finding {
	contact, err := c.Probe(ctx)
	if err != nil {
		return []finding{contactFault(err)}
	}
	secure := "not encrypted (plain http)"
	if contact.TLS != "" {
		secure = contact.TLS + ", certificate valid until " + contact.Expires.UTC().Format(time.DateOnly)
	}
	return []finding{
		fine("service", fmt.Sprintf("answers in %d ms", contact.RoundTrip.Milliseconds())),
		fine("connection", secure),
		fine("key", "accepted"),
		p.clockFinding(contact),
		p.dryFinding(ctx, c, contact),
	}
}

func contactFault(err error) finding {
	remedy := "Check --url, DNS, firewall and, for https, the certificate."
	e, ok := errors.AsType[*client.Error](err)
	switch {
	case ok && e.KeyRejected():
		return fault("key", err.Error(), "Check that the key is the dataset's, whole, and not revoked.", exitKey)
	case ok && e.Code == "":
		remedy = "Something else answers at this address; check --url and any proxy."
	case ok:
		remedy = "The service is there but cannot answer now; try again later."
	}
	return fault("service", err.Error(), remedy, exitUnreachable)
}

// maxSkew is how far ahead of the service a clock may be before its fresh events are rejected: the rule's five
// minutes, less some for the way.
const maxSkew = 4 * time.Minute

func (p *program) clockFinding(contact *client.Contact) finding {
	if contact.Time.IsZero() {
		return fault("clock", "the service's answer has no Date",
			"A proxy may remove it; compare the clock by hand.", exitRejected)
	}
	skew := p.now().Sub(contact.Time).Round(time.Second)
	detail := fmt.Sprintf("%v ahead of the service's", skew)
	if skew < 0 {
		detail = fmt.Sprintf("%v behind the service's", -skew)
	}
	if skew.Abs() > maxSkew {
		return fault("clock", detail, "Set the clock, for example by NTP: events from the future are rejected.",
			exitRejected)
	}
	return fine("clock", detail)
}

func (p *program) dryFinding(ctx context.Context, c *client.Client, contact *client.Contact) finding {
	if p.dataset == "" {
		return fine("sample event", "not tried: give --dataset to have one judged")
	}
	body, _ := json.Marshal(client.Event{ // it can be written
		DatasetID: p.dataset, Time: p.clockOf(contact), EventType: "page_view", Source: "website",
		Identifiers: client.Identifiers{EmailSHA256: client.Vectors[0].SHA256},
	})
	v, err := c.ValidateRemote(ctx, body)
	if e, ok := errors.AsType[*client.Error](err); ok && e.Code == event.DatasetForbidden {
		return fault("sample event", "the key does not open the dataset of --dataset",
			"Use that dataset's key, or the key's dataset.", exitKey)
	}
	if err != nil {
		return fault("sample event", err.Error(), "", exitUnreachable)
	}
	if !v.Valid {
		return fault("sample event", "the service would reject a plain page_view",
			"Its rules differ from this program's; update one of them.", exitRejected)
	}
	return fine("sample event", "would be accepted; nothing was stored")
}
