package backup

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// ErrOtherService says that two backups are of two services.
var ErrOtherService = errors.New("it is a backup of another service")

// CheckErased reads the log of erased events in a backup, and says whether it can be restored.
func CheckErased(dir string) error {
	c, err := openErased(dir)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		if run, err := c.next(); err != nil || len(run) == 0 {
			return err
		}
	}
}

// CheckRegistry reads the registry in a file, and says whether it can be restored.
func CheckRegistry(path string) error {
	_, err := readRegistry(path)
	return err
}

// SameService returns ErrOtherService if the registries in two files are not of one service: its secrets never change,
// and new ones join them.
func SameService(path, other string) error {
	ours, err := secrets(path)
	if err != nil {
		return err
	}
	theirs, err := secrets(other)
	if err != nil {
		return err
	}
	shared := false
	for name, secret := range ours {
		their, there := theirs[name]
		if there && !bytes.Equal(secret, their) {
			return ErrOtherService
		}
		shared = shared || there
	}
	if !shared {
		return ErrOtherService
	}
	return nil
}

// secrets are those of a registry, by name.
func secrets(path string) (map[string][]byte, error) {
	entries, err := readRegistry(path)
	out := map[string][]byte{}
	for _, one := range entries {
		if one.Bucket == "settings" && strings.HasPrefix(one.Key, "secret.") {
			out[one.Key] = one.Value
		}
	}
	return out, err
}

// damaged says of a file of a backup what is wrong with it.
func damaged(path string, err error) error { return fmt.Errorf("%s is damaged: %w", path, err) }
