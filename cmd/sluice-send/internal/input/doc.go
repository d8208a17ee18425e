// Package input reads files of events: NDJSON, JSON, CSV and TSV, plain or compressed. It divides a file into rows and
// batches whose limits do not depend on when they are read, and turns the records of a delimited file into events.
package input
