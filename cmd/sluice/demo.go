package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/dataset"
	"sluice/internal/engine"
	"sluice/internal/traffic"
)

// demoDataset is the dataset of the README and of the examples in the documentation.
const demoDataset = "shop"

func newDemo() *cobra.Command {
	var listen, ops string
	var length time.Duration
	var rate int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start here: a server, a dataset, its key, sample events, and the addresses to open",
		Long: `Runs the whole service in a directory of its own, creates the dataset "shop" with a key, and sends
sample events through the API until you press Ctrl-C. With --data it keeps what it stored. Without it,
the directory is temporary and the demo removes it at the end.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "address of the senders' API; the demo takes another port if this one is in use")
	cmd.Flags().StringVar(&ops, "ops", "127.0.0.1:8081", "address of the operators' listener; the demo takes another port if this one is in use")
	cmd.Flags().DurationVar(&length, "for", 0, "stop after this long; 0 is until Ctrl-C")
	cmd.Flags().IntVar(&rate, "rate", 20, "sample events a second")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if rate < 0 || rate > 10_000 {
			return errors.New("--rate is 0 to 10000")
		}
		ctx := cmd.Context()
		if length > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, length)
			defer cancel()
		}
		dir, _ := cmd.Flags().GetString("data")
		if !cmd.Flags().Changed("data") {
			temporary, err := os.MkdirTemp("", "sluice-demo-")
			if err != nil {
				return failed(err)
			}
			defer os.RemoveAll(temporary)
			dir = temporary
		}
		return failed(runDemo(ctx, cmd, demoConfig(cmd, dir, listen, ops), rate))
	}
	return cmd
}

// demoConfig is what serve would do by itself, with only warnings logged and commits twice as often.
func demoConfig(cmd *cobra.Command, dir, listen, ops string) config {
	log, _ := newLogger(cmd.ErrOrStderr(), "text", "warn")
	return config{
		engineOptions: engine.Options{Dir: dir}, listen: free(listen), opsListen: free(ops),
		loading: true, commit: 2 * time.Second, log: log,
	}
}

func runDemo(ctx context.Context, cmd *cobra.Command, c config, rate int) error {
	s, err := openService(ctx, c)
	if err != nil {
		return err
	}
	defer s.close()
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()
	key, err := demoKey(ctx, s)
	if err != nil {
		return err
	}
	introduce(cmd.OutOrStdout(), s, key)
	d := traffic.Sender{
		URL: s.url(), Key: key, Dataset: demoDataset, Source: traffic.New(traffic.Lively, uint64(time.Now().UnixNano())),
	}
	d.Run(ctx, cmd.ErrOrStderr(), rate)
	fmt.Fprintln(cmd.ErrOrStderr(), "\nStopping.")
	return <-done
}

// demoKey makes the demo dataset, or gives it a new key when the directory has one from before.
func demoKey(ctx context.Context, s *service) (string, error) {
	_, keyID, key, err := s.registry.Create(ctx, dataset.Spec{ID: demoDataset, Name: "Demo shop"})
	if errors.Is(err, dataset.ErrExists) {
		keyID, key, err = s.registry.RotateKey(ctx, demoDataset, time.Hour)
	}
	if err != nil {
		return "", err
	}
	return key.Reveal(), note(ctx, s.audit, "dataset.create", demoDataset, map[string]string{"key": keyID, "by": "demo"})
}

func introduce(w io.Writer, s *service, key string) {
	fmt.Fprintf(w, `
  Sluice is running.

  Senders' API    %[1]s
  Documentation   %[1]s/docs
  Console         http://%[2]s/
  Data            %[3]s

  To send events yourself, paste these two lines into another terminal:

    export SLUICE_URL=%[1]s
    export SLUICE_API_KEY=%[4]s

  Then send one. The examples of the README and of the documentation use the same dataset, %[5]s:

    curl -s $SLUICE_URL/v1/events \
      -H "Authorization: Bearer $SLUICE_API_KEY" \
      -H 'Content-Type: application/json' \
      -d '{"data_set_id":"%[5]s","timestamp":'$(date +%%s)',"event_type":"sign_up",
           "identifiers":{"email_sha256":"'$(printf %%s you@example.com | sha256sum | cut -c1-64)'"}}'

  A few seconds later, read what is stored:

    %[6]s export --data %[3]s

  The demo sends sample events. Press Ctrl-C to stop it.

`, s.url(), s.ops.Addr(), s.engineOptions.Dir, key, demoDataset, invocation())
}

// invocation is how this program was called, so that what it asks people to type works when typed.
func invocation() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/sluice"
	}
	return os.Args[0]
}
