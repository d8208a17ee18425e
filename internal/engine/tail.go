package engine

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sluice/internal/durable"
)

// A stream is a directory of numbered blocks; the engine syncs a block before it begins the next, so only the newest
// can hold bytes that a crash or a failed sync left between cache and disk. Such bytes are of frames that were never
// acknowledged, but after a start they read like any other: an idempotent retry would find its first attempt and answer
// 200 for it. So before a start they are made durable.

// syncTails syncs the newest block of every stream. It is enough after a crash of the process, when the cache is whole.
func syncTails(store string) error {
	return eachTail(store, durable.Sync)
}

// rewriteTails replaces the newest block of every stream with a synced copy. It is needed after a failed sync: the
// operating system then takes the bytes for clean and will not write them again.
func rewriteTails(store string) error {
	return eachTail(store, func(path string) error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// The copy is not made in the stream's own directory: a file left there by a crash could pass for a block.
		return durable.Replace(store, path, data)
	})
}

// eachTail calls do for the newest block of every stream under store, then syncs the directory that lists it.
func eachTail(store string, do func(path string) error) error {
	dirs, err := fs.Glob(os.DirFS(store), "jetstream/*/streams/*/msgs")
	if err != nil {
		return fmt.Errorf("find stream blocks: %w", err)
	}
	for _, name := range dirs {
		dir := filepath.Join(store, filepath.FromSlash(name))
		tail, err := newestBlock(dir)
		if err != nil {
			return fmt.Errorf("find stream blocks: %w", err)
		}
		if tail == "" {
			continue
		}
		if err := do(tail); err != nil {
			return fmt.Errorf("secure the newest block: %w", err)
		}
		if err := durable.Sync(dir); err != nil {
			return fmt.Errorf("secure the newest block: %w", err)
		}
	}
	return nil
}

// newestBlock returns the path of the block with the highest number in dir, or "".
func newestBlock(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	newest, name := -1, ""
	for _, entry := range entries {
		stem, isBlock := strings.CutSuffix(entry.Name(), ".blk")
		if !isBlock {
			continue
		}
		if n, err := strconv.Atoi(stem); err == nil && n > newest {
			newest, name = n, filepath.Join(dir, entry.Name())
		}
	}
	return name, nil
}
