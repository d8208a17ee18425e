package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"sluice/cmd/sluice/internal/service"
	"sluice/internal/dataset"
	"sluice/internal/demo"
	"sluice/internal/engine"
)

// demoSeed is arbitrary. The answers in docs/measure.md are those of this one.
const demoSeed = 1

func newDemo() *cobra.Command {
	var listen, ops string
	var length time.Duration
	var rate int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start here: a server, three datasets with two weeks of events, and the addresses to open",
		Long: `Runs the whole service in a directory of its own, sends two weeks of sample events through the API with
the clock set back, and then goes on with it until you press Ctrl-C. One of its three datasets is well, one has most of
its events rejected, and one is silent. With --data the demo keeps what it stored, and makes no history in a directory
that is not empty. Without it, the directory is temporary and the demo deletes it at the end.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8080",
		"address of the senders' API; the demo takes another port if this one is in use")
	cmd.Flags().StringVar(&ops, "ops", "127.0.0.1:8081",
		"address of the operators' listener; the demo takes another port if this one is in use")
	cmd.Flags().DurationVar(&length, "for", 0, "stop this long after the demo is ready; 0 is until Ctrl-C")
	cmd.Flags().IntVar(&rate, "rate", 1, "sample events a second")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if rate < 0 || rate > 10_000 {
			return errors.New("--rate is 0 to 10000")
		}
		dir := flagText(cmd, "data")
		temporary := !cmd.Flags().Changed("data")
		if temporary {
			var err error
			if dir, err = os.MkdirTemp("", "sluice-demo-"); err != nil {
				return failed(err)
			}
		}
		err := runDemo(cmd, demoConfig(cmd, dir, listen, ops), rate, length)
		if temporary {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		if err == nil {
			demo.Farewell(cmd.OutOrStdout(), dir, invocation(), temporary)
		}
		return failed(err)
	}
	return cmd
}

// demoConfig is what serve would do by itself, with only errors logged, for the console shows the rest, and commits
// twice as often.
func demoConfig(cmd *cobra.Command, dir, listen, ops string) service.Config {
	log, _ := newLogger(cmd.ErrOrStderr(), "text", "error")
	return service.Config{
		Engine: engine.Options{Dir: dir}, Listen: free(listen), OpsListen: free(ops),
		Loading: true, CommitEvery: 2 * time.Second, Now: hooks.now, Log: log, Hooks: hooks.Hooks,
	}
}

// runDemo runs two services, one after the other: the first with its clock set back, for the past. So the second one,
// which people look at, has a clock that never jumped.
func runDemo(cmd *cobra.Command, c service.Config, rate int, length time.Duration) error {
	ctx, now := cmd.Context(), time.Now()
	d := &demo.Sender{Story: demo.NewStory(demoSeed, now.Unix()), Keys: map[string]string{}}
	if there, _ := os.ReadDir(c.Engine.Dir); len(there) == 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "Sending %d days of sample events, which takes some seconds.\n", demo.Days)
		if err := demoPast(ctx, c, d, now); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return during(ctx, c, func(ctx context.Context, s *service.Service) error {
		if err := demoKeys(ctx, s, d); err != nil {
			return err
		}
		demo.Introduce(cmd.OutOrStdout(), demo.Place{
			Console: s.OpsURL(), API: s.URL(), Dir: c.Engine.Dir, Key: d.Keys["shop"], Program: invocation(),
		})
		if length > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, length)
			defer cancel()
		}
		d.URL, d.Sent, d.Accepted, d.Rejected = s.URL(), 0, 0, 0
		end := "\n"
		if term.IsTerminal(int(os.Stderr.Fd())) {
			end = "\r" // the next line replaces it
			defer fmt.Fprintln(cmd.ErrOrStderr())
		}
		d.Run(ctx, rate, func() {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s  Events since the start: %d sent, %d accepted, %d rejected.%s",
				time.Now().Format(time.TimeOnly), d.Sent, d.Accepted, d.Rejected, end)
		})
		return nil
	})
}

// demoPast makes the datasets and their history. Its service has the clock of the history, and nobody looks at it.
func demoPast(ctx context.Context, c service.Config, d *demo.Sender, now time.Time) error {
	var clock atomic.Int64
	clock.Store(d.Story.Begin)
	c.Listen, c.OpsListen = "127.0.0.1:0", ""
	c.Now = func() time.Time { return time.Unix(clock.Load(), 0) }
	return during(ctx, c, func(ctx context.Context, s *service.Service) error {
		if err := demoKeys(ctx, s, d); err != nil {
			return err
		}
		d.URL = s.URL()
		d.Past(ctx, now, func(t time.Time) { clock.Store(t.Unix()) })
		err := s.Flush(ctx)
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
}

// during runs a service until work returns, or ends the context of work when the service gives up.
func during(ctx context.Context, c service.Config, work func(context.Context, *service.Service) error) error {
	s, err := service.Open(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- s.Run(ctx)
		stop()
	}()
	err = work(ctx, s)
	stop()
	return errors.Join(err, <-done)
}

// demoKeys makes the datasets, or gives them new keys when the directory has them from before.
func demoKeys(ctx context.Context, s *service.Service, d *demo.Sender) error {
	for _, one := range d.Story.Senders {
		if d.Keys[one.Dataset] != "" {
			continue
		}
		_, keyID, key, err := s.Registry().Create(ctx,
			dataset.Spec{ID: one.Dataset, Name: one.Name, SuppressOptOut: one.Suppress})
		if errors.Is(err, dataset.ErrExists) {
			keyID, key, err = renewKey(ctx, s.Registry(), one.Dataset)
		}
		if err != nil {
			return err
		}
		d.Keys[one.Dataset] = key.Reveal()
		if err := note(ctx, s.Audit(), "dataset.create", one.Dataset,
			map[string]string{"key": keyID, "by": "demo"}); err != nil {
			return err
		}
	}
	return nil
}

// renewKey gives a dataset another key. The one of the last start lives for an hour more, those of starts before end
// now: a dataset has two at most.
func renewKey(ctx context.Context, r *dataset.Registry, id string) (string, dataset.Key, error) {
	d, err := r.Read(ctx, id)
	if err != nil {
		return "", dataset.Key{}, err
	}
	for i := range d.Keys {
		if k := &d.Keys[i]; k.Live(hooks.now()) && !k.Expires.IsZero() {
			if _, err := r.RevokeKey(ctx, k.ID); err != nil {
				return "", dataset.Key{}, err
			}
		}
	}
	return r.RotateKey(ctx, id, time.Hour)
}

// invocation is how this program was called, so that what it asks people to type works when typed.
func invocation() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/sluice"
	}
	return os.Args[0]
}

// free is the address, or the same host with any port when somebody listens there already.
func free(address string) string {
	l, err := net.Listen("tcp", address)
	if err == nil {
		_ = l.Close()
		return address
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return net.JoinHostPort(host, "0")
}
