package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/tables"
	"sluice/internal/engine"
	"sluice/internal/lake"
	"sluice/internal/objectstore"
)

func newLake() *cobra.Command {
	return group(&cobra.Command{
		Use: "lake", Short: "List, check, reload, copy, move, adopt and clear the stored tables",
		Long: `The stored tables are events, rejections, hours and days: Iceberg tables of Parquet files.
docs/tables.md says what is in them and how to read them.`,
	}, newLakeFiles(), newLakeViews(), newLakeCheck(), newLakeCopy(), newLakeUse(), newLakeAdopt(), newLakeRetain(),
		newLakeReload())
}

// lakeFlags are the flags that say where the tables are. Every command has them.
func lakeFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.String("lake", "", "where the tables are: file:///path or s3://bucket/prefix; default: where they are, at first "+
		"the directory lake in --data")
	f.String("s3-endpoint", "",
		"address of the store of an s3:// lake, such as https://minio.example.com:9000; default: Amazon's of --s3-region")
	f.String("s3-region", "", "region of the bucket; default: $AWS_REGION, else the store is asked")
	f.Bool("s3-path-style", false,
		"the bucket is part of the path of requests, not of the host name: for stores such as MinIO")
}

// saidPlace is where --lake says that the tables are; zero where it says nothing.
func saidPlace(cmd *cobra.Command) (tables.Location, error) {
	text := flagText(cmd, "lake")
	if text == "" {
		return tables.Location{}, nil
	}
	return parsePlace(cmd, "--lake", text)
}

// s3Flags says which store a bucket is in.
func s3Flags(cmd *cobra.Command) objectstore.S3Options {
	pathStyle, _ := cmd.Flags().GetBool("s3-path-style")
	return objectstore.S3Options{
		Endpoint:  flagText(cmd, "s3-endpoint"),
		Region:    cmp.Or(flagText(cmd, "s3-region"), os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
		PathStyle: pathStyle,
	}
}

// parsePlace reads the URL of a place.
func parsePlace(cmd *cobra.Command, flag, place string) (tables.Location, error) {
	return tables.Parse(flag, place, s3Flags(cmd))
}

// placeOfLake is where the tables are that a command works on: as --lake says, else as the engine has recorded, else in
// --data. It is for commands that open no engine.
func placeOfLake(cmd *cobra.Command) (tables.Location, error) {
	said, err := saidPlace(cmd)
	if err != nil || said != (tables.Location{}) {
		return said, err
	}
	o := engineOptions(cmd)
	holds, err := engine.HoldsStream(o.Dir)
	if err != nil || !holds && o.URL == "" {
		return tables.Location{Dir: filepath.Join(o.Dir, "lake")}, failed(err)
	}
	e, err := openEngine(cmd)
	if err != nil {
		return tables.Location{}, failed(err)
	}
	defer e.Close()
	place, err := commandTables(cmd, e)
	return place, failed(err)
}

// commandTables is tables.Of for a command.
func commandTables(cmd *cobra.Command, e *engine.Engine) (tables.Location, error) {
	said, err := saidPlace(cmd)
	if err != nil {
		return tables.Location{}, err
	}
	return tables.Of(cmd.Context(), e, engineOptions(cmd).Dir, said, s3Flags(cmd))
}

// lakeOpener is lakeToRead or lakeOf.
type lakeOpener func(ctx context.Context, place tables.Location, streamID string) (*lake.Lake, error)

// openLake opens the tables as they are, without waiting for what is not loaded yet. They must be there: a mistyped
// directory must not look like an empty one.
func openLake(cmd *cobra.Command, open lakeOpener) (*lake.Lake, error) {
	place, err := placeOfLake(cmd)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(place.Dir); place.Dir != "" && errors.Is(err, fs.ErrNotExist) {
		return nil, failed(fmt.Errorf("there are no tables in %s: name the server's directory with --data or --lake", place))
	}
	l, err := open(cmd.Context(), place, "")
	return l, failed(err)
}

// lakeToRead opens the tables of a place, which must be there, to read them. streamID may be "".
func lakeToRead(ctx context.Context, place tables.Location, streamID string) (*lake.Lake, error) {
	store, err := place.OpenToRead()
	if err != nil {
		return nil, err
	}
	return lake.Open(ctx, lake.Options{Store: store, Now: hooks.now, Step: hooks.Step, Stream: streamID})
}

// lakeOf opens the tables of a place, or makes them, for a command that writes. streamID is "" if it does not load.
func lakeOf(ctx context.Context, place tables.Location, streamID string) (*lake.Lake, error) {
	store, err := place.Open(ctx)
	if err != nil {
		return nil, err
	}
	return lake.Open(ctx, lake.Options{
		Store: store, Now: hooks.now, Step: hooks.Step, Stream: streamID,
		SnapshotRetention: math.MaxInt64, // only the server knows when snapshots end
	})
}

func newLakeFiles() *cobra.Command {
	cmd := &cobra.Command{
		Use: "files TABLE", Short: "Print the files of a table's newest snapshot, one a line", Args: cobra.ExactArgs(1),
		Long: `Prints where the Parquet files lie that hold the rows of a table (events, rejections, hours or days), one a
line: for programs that read Parquet but not Iceberg. Other files may lie beside them, which hold rows
that these hold, too: do not read a directory, read this list. The files stay for a day after they
were replaced.`,
		Example: `  sluice lake files events
  duckdb -c "SELECT count(*) FROM ` +
			`read_parquet([$(sluice lake files events | sed "s/.*/'&'/" | paste -sd,)], union_by_name = true)"`,
		ValidArgs: lake.TableNames(),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		l, err := openLake(cmd, lakeToRead)
		if err != nil {
			return err
		}
		files, err := l.Files(cmd.Context(), args[0])
		if errors.Is(err, lake.ErrNotFound) {
			return &failure{exitNotFound, fmt.Errorf("there is no table %q: name one of %s", args[0],
				strings.Join(lake.TableNames(), ", "))}
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
		Use: "check", Short: "Read every file of the tables and say what is damaged", Args: cobra.NoArgs,
		Long: `Reads every manifest, and every page of every Parquet file, that a kept snapshot lists; compares checksums,
and counts rows. Prints a line for each problem. The exit code is 1 when there is one. It changes nothing.`,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		l, err := openLake(cmd, lakeToRead)
		if err != nil {
			return err
		}
		lines := json.NewEncoder(cmd.OutOrStdout())
		var broken error
		done, err := l.Check(cmd.Context(), func(f lake.Finding) {
			if *asJSON {
				broken = errors.Join(broken, lines.Encode(f))
				return
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s: %s\n", f.Table, f.File, f.Problem)
		}, progress(cmd, "read"))
		if err := errors.Join(err, broken); err != nil {
			return failed(err)
		}
		stderr := cmd.ErrOrStderr()
		fmt.Fprintf(stderr, "%d files with %d rows and %d manifests were read.\n", done.Files, done.Rows, done.Manifests)
		if done.Findings == 0 {
			fmt.Fprintln(stderr, "Nothing is wrong.")
			return nil
		}
		return failed(fmt.Errorf("%d problems; sluice lake reload loads again what the stream holds of damaged files, "+
			"and older events come from a backup: see docs/operate.md", done.Findings))
	}
	return cmd
}

func newLakeCopy() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "copy --to URL", Short: "Copy the tables to another directory or bucket, to move there", Args: cobra.NoArgs,
		Long: `Copies the tables, with all their snapshots, while a server may be running. It can be interrupted and run
again, and a second run brings the copy up to date. To move, run it, stop the server, name the new place
with "sluice lake use", and start the server within the retention of the stream: the loader goes on from
where the copy ends, so each event is in the new tables once. Once a server has used the copy, it is not
written over.`,
		Example: `  sluice lake copy --to s3://my-bucket/sluice --s3-region eu-central-1
  sluice lake use s3://my-bucket/sluice --s3-region eu-central-1`,
	}
	cmd.Flags().StringVar(&to, "to", "", "where to copy them: file:///path or s3://bucket/prefix")
	_ = cmd.MarkFlagRequired("to")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		place, err := parsePlace(cmd, "--to", to)
		if err != nil {
			return err
		}
		l, err := openLake(cmd, lakeToRead)
		if err != nil {
			return err
		}
		target, err := place.Open(cmd.Context())
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
		move := "stop the server, run sluice lake use " + to + ", and start it again"
		if engineOptions(cmd).URL != "" {
			move = "run sluice cluster set --tables " + to
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "The tables are copied. To move, %s.\n", move)
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
