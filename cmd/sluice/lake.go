package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/lake"
	"sluice/internal/objectstore"
)

func newLake() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lake",
		Short: "List, check, repair, copy and adopt the stored tables",
		Long: `The stored tables are events, rejections and hours: Iceberg tables of Parquet files.
docs/tables.md says what is in them and how to read them.`,
	}
	cmd.AddCommand(newLakeFiles(), newLakeCheck(), newLakeRepair(), newLakeCopy(), newLakeAdopt())
	return cmd
}

// lakeFlags are the flags that say where the tables are. Every command has them.
func lakeFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.String("lake", "", "where the tables are: file:///path or s3://bucket/prefix; default: the directory lake in --data")
	f.String("s3-endpoint", "", "address of the store of an s3:// lake, such as https://minio.example.com:9000; default: Amazon's of --s3-region")
	f.String("s3-region", "", "region of the bucket; default: $AWS_REGION, else the store is asked")
	f.Bool("s3-path-style", false, "the bucket is part of the path of requests, not of the host name: for stores such as MinIO")
}

// lakePlace is where the tables are: a directory, or a bucket.
type lakePlace struct {
	dir string // "" for a bucket
	s3  objectstore.S3Options
}

func (p lakePlace) String() string {
	if p.dir != "" {
		return p.dir
	}
	return strings.TrimSuffix("s3://"+p.s3.Bucket+"/"+p.s3.Prefix, "/")
}

// placeOfLake is where --lake, or else --data, says that the tables are.
func placeOfLake(cmd *cobra.Command) (lakePlace, error) {
	text := func(name string) string {
		v, _ := cmd.Flags().GetString(name)
		return v
	}
	if text("lake") == "" {
		return lakePlace{dir: filepath.Join(text("data"), "lake")}, nil
	}
	return parsePlace(cmd, "--lake", text("lake"))
}

// parsePlace reads the URL of a place.
func parsePlace(cmd *cobra.Command, flag, place string) (lakePlace, error) {
	text := func(name string) string {
		v, _ := cmd.Flags().GetString(name)
		return v
	}
	u, err := url.Parse(place)
	switch {
	case err != nil:
	case u.Scheme == "file" && u.Host == "" && strings.HasPrefix(u.Path, "/"):
		return lakePlace{dir: filepath.Clean(u.Path)}, nil
	case u.Scheme == "s3" && u.Host != "" && u.RawQuery == "":
		pathStyle, _ := cmd.Flags().GetBool("s3-path-style")
		o := objectstore.S3Options{
			Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"), Endpoint: text("s3-endpoint"),
			Region: cmp.Or(text("s3-region"), os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")), PathStyle: pathStyle,
		}
		if o.Endpoint == "" && o.Region == "" {
			return lakePlace{}, errors.New("a lake in a bucket needs --s3-endpoint, or --s3-region for Amazon S3")
		}
		if o.Endpoint == "" {
			o.Endpoint = "https://s3." + o.Region + ".amazonaws.com"
		}
		return lakePlace{s3: o}, nil
	}
	return lakePlace{}, errors.New(flag + " is a URL such as file:///var/lib/sluice/lake or s3://bucket/prefix")
}

// open opens the place. A directory is made if it is not there.
func (p lakePlace) open(ctx context.Context) (objectstore.Store, error) {
	if p.dir != "" {
		return objectstore.OpenDir(p.dir)
	}
	return objectstore.OpenS3(ctx, p.s3)
}

// openLake opens the tables as they are, without waiting for what is not loaded yet. They must be there: a mistyped
// directory must not look like an empty one.
func openLake(cmd *cobra.Command) (*lake.Lake, error) {
	place, err := placeOfLake(cmd)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(place.dir); place.dir != "" && errors.Is(err, fs.ErrNotExist) {
		return nil, failed(fmt.Errorf("there are no tables in %s: name the server's directory with --data or --lake", place))
	}
	return lakeAt(cmd.Context(), place)
}

// lakeAt opens the tables of a place for a command that does not load.
func lakeAt(ctx context.Context, place lakePlace) (*lake.Lake, error) { return lakeOf(ctx, place, "") }

// lakeOf opens the tables of a place for a command that loads them from a stream.
func lakeOf(ctx context.Context, place lakePlace, streamID string) (*lake.Lake, error) {
	store, err := place.open(ctx)
	if err != nil {
		return nil, failed(err)
	}
	l, err := lake.Open(ctx, lake.Options{Store: store, Now: hooks.now, Step: hooks.step, Stream: streamID})
	return l, failed(err)
}

func newLakeFiles() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "files TABLE",
		Short: "Print the files of a table's newest snapshot, one a line",
		Long: `Prints where the Parquet files lie that hold the rows of a table (events, rejections or hours), one a
line: for programs that read Parquet but not Iceberg. Other files may lie beside them, which hold rows
that these hold, too: do not read a directory, read this list. The files stay for a day after they
were replaced.`,
		Example: `  sluice lake files events
  duckdb -c "SELECT count(*) FROM read_parquet([$(sluice lake files events | sed "s/.*/'&'/" | paste -sd,)])"`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: lake.TableNames(),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		l, err := openLake(cmd)
		if err != nil {
			return err
		}
		files, err := l.Files(cmd.Context(), args[0])
		if errors.Is(err, lake.ErrNotFound) {
			return &failure{exitNotFound, fmt.Errorf("there is no table %q: name one of %s", args[0], strings.Join(lake.TableNames(), ", "))}
		}
		if err != nil {
			return failed(err)
		}
		out := bufio.NewWriter(cmd.OutOrStdout())
		if *asJSON {
			err = json.NewEncoder(out).Encode(append([]string{}, files...))
		}
		for _, name := range files {
			if !*asJSON {
				fmt.Fprintln(out, name)
			}
		}
		return failed(errors.Join(err, out.Flush()))
	}
	return cmd
}

func newLakeCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Read every file of the tables and say what is damaged or wrong",
		Long: `Reads every manifest and every Parquet file that a kept snapshot lists, by name and by position, and
compares null counts and bounds with the values. Prints a line for each problem. The exit code is 1 when
there is one. It changes nothing.`,
		Args: cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		l, err := openLake(cmd)
		if err != nil {
			return err
		}
		lines := json.NewEncoder(cmd.OutOrStdout())
		repairable := 0
		var broken error
		done, err := l.Check(cmd.Context(), func(f lake.Finding) {
			if f.Repairable {
				repairable++
			}
			if *asJSON {
				broken = errors.Join(broken, lines.Encode(f))
				return
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s: %s\n", f.Table, f.File, f.Problem)
		}, progress(cmd, "read"))
		if err := errors.Join(err, broken); err != nil {
			return failed(err)
		}
		words := cmd.ErrOrStderr()
		fmt.Fprintf(words, "%d files with %d rows and %d manifests were read.\n", done.Files, done.Rows, done.Manifests)
		switch {
		case done.Findings == 0:
			fmt.Fprintln(words, "Nothing is wrong.")
			return nil
		case repairable == done.Findings:
			return failed(fmt.Errorf("%d problems; repair them with: sluice lake repair", done.Findings))
		case repairable > 0:
			return failed(fmt.Errorf("%d problems; sluice lake repair repairs %d; damaged files come back from a backup: see docs/operate.md", done.Findings, repairable))
		}
		return failed(fmt.Errorf("%d problems; damaged files come back from a backup: see docs/operate.md", done.Findings))
	}
	return cmd
}

func newLakeRepair() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Write wrong files of the tables anew",
		Long: `Writes every file anew that "sluice lake check" finds wrong, with the same rows, and ends the older
snapshots, which list the wrong files. It can run beside a server, and can be interrupted and run again:
no row is lost or doubled. Files that are damaged stay as they are.`,
		Args: cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		l, err := openLake(cmd)
		if err != nil {
			return err
		}
		done, err := l.Repair(cmd.Context(), progress(cmd, "written anew"))
		noted := noteAlone(cmd, "lake repair", "", map[string]string{"files": strconv.Itoa(done.Files), "rows": strconv.FormatInt(done.Rows, 10)})
		if err := errors.Join(err, noted); err != nil {
			return failed(err)
		}
		if *asJSON {
			err = json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]int64{
				"files": int64(done.Files), "rows": done.Rows, "damaged_files": int64(done.Left),
			})
		} else {
			fmt.Fprintf(cmd.ErrOrStderr(), "%d files with %d rows were written anew.\n", done.Files, done.Rows)
		}
		if err != nil {
			return failed(err)
		}
		if done.Left > 0 {
			return failed(fmt.Errorf("%d files are damaged and stay as they are; they come back from a backup: see docs/operate.md", done.Left))
		}
		return nil
	}
	return cmd
}

func newLakeCopy() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "copy --to URL",
		Short: "Copy the tables to another directory or bucket, to move there",
		Long: `Copies the tables, with all their snapshots, while a server may be running. It can be interrupted and run
again, and a second run brings the copy up to date. To move, run it, stop the server, and start it with
--lake and the new place within the retention of the stream: the loader goes on from where the copy ends,
so each event is in the new tables once. Once a server has used the copy, it is not written over.`,
		Example: `  sluice lake copy --to s3://my-bucket/sluice --s3-region eu-central-1
  sluice serve --lake s3://my-bucket/sluice --s3-region eu-central-1`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&to, "to", "", "where to copy them: file:///path or s3://bucket/prefix")
	_ = cmd.MarkFlagRequired("to")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		place, err := parsePlace(cmd, "--to", to)
		if err != nil {
			return err
		}
		l, err := openLake(cmd)
		if err != nil {
			return err
		}
		target, err := place.open(cmd.Context())
		if err != nil {
			return failed(err)
		}
		err = l.CopyTo(cmd.Context(), target, progress(cmd, "copied"))
		if errors.Is(err, lake.ErrInUse) {
			err = fmt.Errorf("%w: name an empty place", err)
		}
		if err := errors.Join(err, noteAlone(cmd, "lake copy", place.String(), nil)); err != nil {
			return failed(err)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "The tables are copied. To move, stop the server and start it with --lake %s.\n", to)
		return nil
	}
	return cmd
}

// progress says on stderr how far long work is, every two seconds at the most.
func progress(cmd *cobra.Command, did string) func(done, total int) {
	last := time.Now()
	return func(done, total int) {
		if now := time.Now(); now.Sub(last) > 2*time.Second {
			last = now
			fmt.Fprintf(cmd.ErrOrStderr(), "%d of %d files %s\n", done, total, did)
		}
	}
}
