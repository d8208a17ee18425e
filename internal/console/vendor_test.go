package console

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// Files of others are as they were published, and each has its licence beside it.
func TestVendoredFiles(t *testing.T) {
	f, err := os.Open("vendor.sha256")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	listed := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if strings.HasPrefix(sum, "#") || !ok {
			continue
		}
		listed++
		b, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := sha256.Sum256(b); hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s: got SHA-256 %x, want %s", name, got, sum)
		}
	}
	if listed != 7 {
		t.Errorf("got %d files listed, want 7", listed)
	}
}
