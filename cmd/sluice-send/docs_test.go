package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sluice/client"
	"sluice/cmd/sluice-send/internal/convert"
)

const sendingPage = "../../docs/sending.md"

func page(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(sendingPage)
	must(t, err)
	return string(data)
}

// The page's tables are those that the program prints and works by.
func TestSendingPageTables(t *testing.T) {
	text := page(t)
	for _, name := range convert.Names() {
		if !strings.Contains(text, convert.New(name, convert.Options{}).Table()) {
			t.Errorf("the table of %s is not the program's; print it by: sluice-send convert --from %[1]s --table", name)
		}
	}
	for _, v := range client.Vectors {
		input := strings.NewReplacer("\t", `\t`, "\n", `\n`).Replace(v.Input)
		if row := fmt.Sprintf("| %s | `%s` | `%s` | `%s` |\n", v.Kind, input, v.Normal, v.SHA256); !strings.Contains(text, row) {
			t.Errorf("the page lacks the pair %s", row)
		}
	}
}

func newTestClient(t testing.TB, s *server) *client.Client {
	t.Helper()
	c, err := client.New(s.url(), s.key, client.Options{DatasetID: "spring"})
	must(t, err)
	return c
}
