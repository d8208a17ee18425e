package main

import (
	"cmp"
	"os"
	"path/filepath"

	"sluice/cmd/sluice/internal/service"
)

// environmentFile is where deploy/sluice.service has systemd read settings from, passwords and tokens among them. The
// server itself does not read it, and can still see who may.
const environmentFile = "/etc/sluice.env"

// secretFiles are the files with secrets that are not in the data directory: those that the server reads, and
// environmentFile.
func secretFiles(c *service.Config) []string {
	files := []string{c.KeyFile, c.OpsKey, c.Engine.Credentials, c.Engine.ClientKey, environmentFile}
	if c.Tables.Dir == "" { // the S3 client looks there
		home, _ := os.UserHomeDir() // "" names a file that is not there
		files = append(files, cmp.Or(os.Getenv("AWS_SHARED_CREDENTIALS_FILE"), filepath.Join(home, ".aws", "credentials")))
	}
	return files
}
