package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/tables"
	"sluice/internal/engine"
	"sluice/internal/memory"
)

// effective is what holds where a setting says "as it is", or leaves the value to the machine.
type effective struct {
	cluster  bool
	unknown  bool                    // the engine does not answer
	recorded engine.PartitionOptions // of the stream that is there; a Count of 0 says that there is none
	record   engine.Record           // of the cluster; zero where there is none
	lake     string
}

// configWait is how long sluice config waits for an engine. Arbitrary.
const configWait = 5 * time.Second

func newEffective(cmd *cobra.Command) *effective {
	o := engineOptions(cmd)
	out := &effective{cluster: o.URL != "", lake: filepath.Join(o.Dir, "lake")}
	out.recorded = engine.PartitionOptions{MaxAge: engine.DefaultStreamRetention}
	if place, err := saidPlace(cmd); err == nil && place != (tables.Location{}) {
		out.lake = place.String()
	}
	return out
}

// askEngine reads what the engine has recorded, where there is one. It makes nothing.
func askEngine(cmd *cobra.Command) *effective {
	o := engineOptions(cmd)
	out := newEffective(cmd)
	if holds, err := engine.HoldsStream(o.Dir); o.URL == "" && (err != nil || !holds) {
		return out
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), configWait)
	defer cancel()
	e, err := engine.Open(ctx, o)
	if err == nil {
		err = out.ask(ctx, cmd, e)
		e.Close()
	}
	if err != nil {
		out.unknown = true
		fmt.Fprintf(cmd.ErrOrStderr(), "The engine does not say what it has recorded: %v\n", err)
	}
	return out
}

// ask reads what an open engine has recorded.
func (x *effective) ask(ctx context.Context, cmd *cobra.Command, e *engine.Engine) (err error) {
	if x.record, err = e.Record(ctx); err != nil && !errors.Is(err, engine.ErrNotFound) {
		return err
	}
	if x.recorded, err = e.Limits(ctx); err != nil {
		return err
	}
	if x.cluster {
		if x.record.Lake != "" {
			x.lake = x.record.Lake
		}
		return nil
	}
	place, err := commandTables(cmd, e)
	if err == nil {
		x.lake = place.String()
	}
	return err
}

// complete replaces a value that stands for another one.
func (x *effective) complete(s *setting) {
	switch s.Flag {
	case "replicas":
		x.fill(s, s.Value == "0", x.record.Replicas != 0, strconv.Itoa(max(1, x.record.Replicas)))
	case "partitions":
		x.fill(s, s.Value == "0", x.recorded.Count != 0, strconv.Itoa(max(1, x.recorded.Count)))
	case "stream-retention":
		age := days(x.recorded.MaxAge)
		x.fill(s, s.Value == "0s", x.recorded.Count != 0, age.String())
	case "table-retention":
		if x.agreed(s, x.record.TableRetention); s.Value == "0s" {
			s.Value = engine.AgeText(-1)
		}
	case "snapshot-retention":
		x.agreed(s, x.record.SnapshotRetention)
	case "lake":
		x.fill(s, s.Value == "", x.recorded.Count != 0, x.lake)
	case "alarm-webhook":
		s.Value = hideWebhook(s.Value)
	case "memory":
		if s.Value == "0" {
			planned := size(memory.Planned(0))
			s.Value = planned.String()
		}
	case "max-backlog-age":
		if s.Value == "0s" {
			s.Value = "any age"
		}
	}
}

// hideWebhook leaves of an address what is no secret: services put their tokens into the path.
func hideWebhook(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return strings.Repeat("*", min(len(address), 3))
	}
	return u.Scheme + "://" + u.Host + "/***"
}

// agreed puts what a cluster has agreed on, if it has, in the place of a retention that is not said.
func (x *effective) agreed(s *setting, retention time.Duration) {
	value := s.Value
	if retention != 0 {
		value = engine.AgeText(retention)
	}
	x.fill(s, s.Source == fromDefault && (retention != 0 || x.cluster), retention != 0, value)
}

// fill puts a value in the place of one that is not said: recorded says that the engine has it.
func (x *effective) fill(s *setting, unsaid, recorded bool, value string) {
	switch {
	case !unsaid:
	case x.unknown:
		s.Value = "unknown"
	case recorded:
		s.Value, s.Source = value, fromEngine
	default:
		s.Value = value
	}
}
