// Command sluice-send is the sender's program: it checks, converts, hashes and uploads conversion events.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/client"
	"sluice/cmd/sluice-send/internal/input"
	"sluice/cmd/sluice-send/internal/upload"
	"sluice/internal/version"
)

// revision is the commit; it is set by -ldflags, for builds that do not ask git.
var revision = ""

// The exit codes, the same for every command.
const (
	exitOK          = 0   // everything was accepted, found or fine
	exitRejected    = 1   // some rows were rejected, or a check found something
	exitUsage       = 2   // the command or a file could not be understood
	exitKey         = 3   // the service rejected the key
	exitUnreachable = 4   // no answer from the service, or one that ends the work
	exitInterrupted = 130 // the user asked to stop
)

// exitError carries an exit code. With a nil err everything has been said already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func exit(code int, err error) error { return &exitError{code, err} }

// verdict ends a command that has said what it rejected.
func verdict(rejected int) error {
	if rejected == 0 {
		return nil
	}
	return exit(exitRejected, nil)
}

// program is what the commands share: the world outside, and the flags of all of them.
type program struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	env    func(string) string
	now    func() time.Time

	url       string
	dataset   string
	keyFile   string
	plainHTTP bool
	json      bool

	prompt func() (string, error) // asks for the key; nil: on the terminal
	// key finds the dataset's key: in the environment, in a file, or by asking. It asks once, however often it is called.
	// It is a function and not the key itself, because fmt prints fields.
	key func() (string, error)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	p := &program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.Getenv, now: time.Now}
	code := p.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run is the whole program but for the process around it.
func (p *program) run(ctx context.Context, args []string) int {
	p.key = sync.OnceValues(p.readKey)
	root := p.root()
	root.SetArgs(args)
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitUsage
	if e, ok := errors.AsType[*exitError](err); ok {
		code = e.code
		err = e.err
	}
	if err != nil {
		fmt.Fprintln(p.stderr, "sluice-send:", err)
	}
	return code
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:     "sluice-send",
		Version: version.Number,
		Short:   "Checks, converts, hashes and uploads conversion events",
		Long: `sluice-send is the sender's program: it checks, converts, hashes and uploads conversion events.

The key of the dataset comes from SLUICE_API_KEY, from the file named by --key-file, or from a prompt on a terminal. It
is never a flag: flags are seen by everyone on the machine. Flags of every command can be given as a variable, for
example SLUICE_URL for --url.

Exit codes: 0 all accepted, 1 some rejected, 2 usage or an unreadable file, 3 the key was rejected,
4 the service could not be reached or did not take the events, 130 interrupted.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return p.fromEnvironment(cmd.Root().PersistentFlags())
		},
	}
	root.SetVersionTemplate(version.Text("sluice-send", revision))
	flags := root.PersistentFlags()
	flags.StringVar(&p.url, "url", "", "address of the service, such as https://events.example.com")
	flags.StringVar(&p.dataset, "dataset", "", "data_set_id for rows that have none; rows of another dataset are rejected")
	flags.StringVar(&p.keyFile, "key-file", "", "file that holds the key and nothing else")
	flags.BoolVar(&p.plainHTTP, "plain-http", false, "allow http:// to another machine; the key then travels readable")
	flags.BoolVar(&p.json, "json", false, "answer in JSON")
	root.AddCommand(p.uploadCommand(), p.checkCommand(), p.hashCommand(), p.statusCommand(), p.statsCommand(),
		p.schemaCommand(),
		p.doctorCommand(), p.convertCommand(), p.conformanceCommand(), p.versionCommand())
	return root
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print version, commit and Go version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(p.stdout, version.Text("sluice-send", revision))
			return err
		},
	}
}

// fromEnvironment gives flags of every command that were not set the value of their variable. What one command does is
// said on its command line alone.
func (p *program) fromEnvironment(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		name := "SLUICE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v := p.env(name); v != "" && !f.Changed && err == nil {
			if e := flags.Set(f.Name, v); e != nil {
				err = fmt.Errorf("%s: %w", name, e)
			}
		}
	})
	return err
}

// briefly is the patience of commands that somebody waits for: they store nothing, so nothing is lost by asking again.
var briefly = client.Retry{Total: 10 * time.Second, Attempt: 5 * time.Second}

// open makes the client of a command that talks to the service.
func (p *program) open(o client.Options) (*client.Client, error) {
	if p.url == "" {
		return nil, exit(exitUsage, errors.New("no address: give --url or SLUICE_URL"))
	}
	key, err := p.key()
	if err != nil {
		return nil, exit(exitUsage, err)
	}
	o.DatasetID, o.PlainHTTP, o.UserAgent, o.Now = p.dataset, p.plainHTTP, "sluice-send/1", p.now
	c, err := client.New(p.url, key, o)
	if err != nil {
		return nil, exit(exitUsage, errors.New(strings.TrimPrefix(err.Error(), "client: ")))
	}
	return c, nil
}

// reach makes a client, and learns whether the service is there and takes the key.
func (p *program) reach(ctx context.Context, o client.Options) (*client.Client, *client.Contact, error) {
	c, err := p.open(o)
	if err != nil {
		return nil, nil, err
	}
	contact, err := c.Probe(ctx)
	return c, contact, failure(ctx, err)
}

// clockOf is the service's time, or this machine's where the service does not say it.
func (p *program) clockOf(contact *client.Contact) time.Time {
	if contact.Time.IsZero() {
		return p.now()
	}
	return contact.Time
}

// failure gives an error of the client its exit code.
func failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*exitError](err); ok {
		return err
	}
	if _, ok := errors.AsType[*upload.UsageError](err); ok {
		return exit(exitUsage, err)
	}
	if ctx.Err() != nil {
		if stopped, ok := errors.AsType[*upload.Stopped](err); ok {
			stopped.Err = context.Canceled
			return exit(exitInterrupted, stopped)
		}
		return exit(exitInterrupted, errors.New("interrupted"))
	}
	if e, ok := errors.AsType[*client.Error](err); ok && e.KeyRejected() {
		return exit(exitKey, err)
	}
	if _, ok := errors.AsType[*input.FileError](err); ok {
		return exit(exitUsage, err)
	}
	return exit(exitUnreachable, err)
}

// say writes words to the user.
func (p *program) say(format string, args ...any) { fmt.Fprintf(p.stderr, format+"\n", args...) }

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
