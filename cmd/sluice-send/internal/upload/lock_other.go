//go:build !unix

package upload

import "os"

// lock does nothing where there is no flock: two uploads of one file at once are then the sender's to avoid. The
// service still stores each batch once.
func lock(*os.File) error { return nil }

// syncDir does nothing where a directory cannot be opened as a file.
func syncDir(string) error { return nil }
