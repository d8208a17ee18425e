package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sluice/internal/durable"
	"sluice/internal/engine"
)

// A copied partition is two files: what it is, and its messages as the engine writes them.
func partitionFiles(dir string, p int) (description, messages string) {
	return filepath.Join(dir, fmt.Sprintf("%d.json", p)), filepath.Join(dir, fmt.Sprintf("%d.messages", p))
}

// saveStream copies every partition into a new directory, and says how many there are.
func saveStream(cmd *cobra.Command, dir string) (int, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, err
	}
	e, err := openEngine(cmd)
	if err != nil {
		return 0, err
	}
	defer e.Close()
	n, err := e.CountPartitions(cmd.Context())
	if err != nil {
		return 0, err
	}
	for p := range n {
		if err := savePartition(cmd, e, dir, p); err != nil {
			return 0, err
		}
	}
	return n, nil
}

func savePartition(cmd *cobra.Command, e *engine.Engine, dir string, p int) error {
	description, messages := partitionFiles(dir, p)
	f, err := os.OpenFile(messages, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 1<<20)
	made, err := e.CopyPartition(cmd.Context(), uint8(p), out)
	if err := errors.Join(err, out.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	b, err := json.Marshal(made)
	if err != nil {
		return err
	}
	return durable.WriteFile(description, b)
}

// loadStream makes n partitions from their copies. Nothing may have opened the stream before.
func loadStream(cmd *cobra.Command, dir string, n int) error {
	if n == 0 {
		return nil
	}
	e, err := openEngine(cmd)
	if err != nil {
		return err
	}
	defer e.Close()
	for p := range n {
		if err := loadPartition(cmd, e, dir, p); err != nil {
			return err
		}
	}
	return nil
}

func loadPartition(cmd *cobra.Command, e *engine.Engine, dir string, p int) error {
	description, messages := partitionFiles(dir, p)
	b, err := os.ReadFile(description)
	if err != nil {
		return err
	}
	var from engine.PartitionCopy
	if err := json.Unmarshal(b, &from); err != nil {
		return fmt.Errorf("%s: %w", description, err)
	}
	f, err := os.Open(messages)
	if err != nil {
		return err
	}
	defer f.Close()
	return e.RestorePartition(cmd.Context(), uint8(p), from, bufio.NewReaderSize(f, 1<<20))
}
