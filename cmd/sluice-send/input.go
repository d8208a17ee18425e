package main

import (
	"github.com/spf13/pflag"

	"sluice/cmd/sluice-send/internal/input"
)

// registerInput adds the flags that say how a file is read. upload and check share them.
func registerInput(o *input.Options, flags *pflag.FlagSet) {
	flags.StringVar(&o.Format, "format", "",
		"ndjson, json, csv or tsv; found from the name and the first bytes if not given")
	flags.StringVar(&o.Delimiter, "delimiter", "", `separator of columns: "," for csv, a tab for tsv`)
	flags.StringArrayVar(&o.Map, "map", nil, "COLUMN=FIELD: the column fills this field of the event")
	flags.StringArrayVar(&o.Hash, "hash", nil,
		"COLUMN=email_sha256 or COLUMN=ip: the column is normalised, hashed here and fills the field")
	flags.StringArrayVar(&o.Set, "set", nil, "FIELD=VALUE: the same value in every row of a csv or tsv file")
}
