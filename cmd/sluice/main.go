// Command sluice is the operator's program: it runs the service, provisions datasets and keys, exports and
// erases stored events.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"sluice/internal/version"
)

// Exit codes, documented in docs/flags.md and in `sluice help`.
const (
	exitOK       = 0
	exitFailed   = 1 // it was tried and did not work
	exitUsage    = 2 // the command line is wrong
	exitNotFound = 3 // the dataset, key, reader, table, import or identifier that was named does not exist
	exitVersions = 4 // it was erased from the tables, and the bucket keeps versions of what was deleted
)

// revision is set by -ldflags, for builds that do not ask git.
var revision = ""

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program without its process, so that tests can call it.
func run(ctx context.Context, args []string, in io.Reader, out, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "sluice: %v\n", err)
	if failure, ok := errors.AsType[*failure](err); ok {
		return failure.code
	}
	fmt.Fprintf(stderr, "Usage: %s; more with --help\n", cmd.UseLine())
	return exitUsage
}

// failure is an error of a command that was understood: everything else cobra returns is a usage error.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// failed marks err as a failure of the work, not of the command line. One that has a failure in it has its exit code.
func failed(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*failure](err); ok {
		return err
	}
	return &failure{exitFailed, err}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "Receive conversion events, keep them once, hand them to measurement",
		Long: `Sluice receives conversion events over HTTP, answers once they are on stable storage,
and carries each exactly once into an Iceberg table.

Begin with:  sluice demo
Then:        sluice serve            runs the service in ./sluice-data
             sluice dataset create shop

Flags of serve, and the global ones (--data, --nats, ...), can be set by an environment
variable: --listen is SLUICE_LISTEN.
Exit codes: 0 done · 1 failed, or a check found something · 2 wrong command line ·
3 no such dataset, key, reader, table or suppression entry · 4 deleted from the tables, and the
bucket keeps versions`,
		Version:       version.Number,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			if err := fromEnvironment(cmd, args); err != nil {
				return err
			}
			if err := notEmpty(cmd); err != nil {
				return err
			}
			return usable(cmd)
		},
	}
	root.SetVersionTemplate(version.Text("sluice", revision))
	flags := root.PersistentFlags()
	flags.String("data", "sluice-data", "the data directory")
	flags.String("nats", "", "address of a NATS server or cluster to use instead of the embedded engine")
	flags.String("nats-credentials", "", "credentials file for --nats")
	flags.String("nats-ca", "", "certificate authority file for --nats; read again with each connection")
	flags.String("nats-cert", "", "certificate file by which --nats knows this program; read again with each connection")
	flags.String("nats-key", "", "key file of that certificate")
	root.MarkFlagsRequiredTogether("nats-cert", "nats-key")
	lakeFlags(root)
	root.AddCommand(
		newServe(), newHealth(), newDemo(), newDataset(), newKey(), newReader(), newExport(), newFeed(), newErase(),
		newSuppression(), newLake(), newCluster(), newConfig(), newBackup(), newRestore(), newConsole(), newAudit(),
		newVersion(),
	)
	documentEnvironment(root)
	listsInOneLine(root)
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print version, commit and Go version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), version.Text("sluice", revision))
			return failed(err)
		},
	}
}
