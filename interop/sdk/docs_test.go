package sdk

import (
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"sluice/client"
	"sluice/interop/service"
)

// docsLanguages are those of /docs, and how a program in each is run.
var docsLanguages = []struct {
	id, file string
	command  []string
}{
	{"curl", "docs.sh", []string{"bash", "-eu"}},
	{"node", "docs.mjs", []string{"node"}},
	{"python", "docs.py", []string{"python3"}},
	{"go", "main.go", []string{"go", "run"}},
	{"php", "docs.php", []string{"php"}},
}

// The examples of /docs work as they stand there, in each language, and try again after a 503 with the same key.
func TestDocsExamples(t *testing.T) {
	s := service.Start(t, program, "shop")
	c, err := client.New(s.URL, s.Key, client.Options{DatasetID: "shop"})
	must(t, err)
	answer, err := http.Get(s.URL + "/docs")
	must(t, err)
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	must(t, err)
	code := map[string]string{}
	for _, found := range regexp.MustCompile(`(?s)data-run="([a-z-]+)"><code>(.*?)</code>`).FindAllStringSubmatch(string(page), -1) {
		code[found[1]] = html.UnescapeString(found[2])
	}
	if want := 3 * len(docsLanguages); len(code) != want {
		t.Fatalf("got %d examples, want %d", len(code), want)
	}
	for _, l := range docsLanguages {
		t.Run(l.id, func(t *testing.T) {
			f := &flaky{}
			server := httptest.NewServer(f)
			defer server.Close()
			runCode(t, l.file, l.command, code["start-"+l.id], "SLUICE_URL="+server.URL, "SLUICE_API_KEY=test-key")
			if len(f.keys) != 3 || f.keys[0] == "" || f.keys[0] != f.keys[1] || f.keys[1] != f.keys[2] {
				t.Errorf("got the keys %q, want one key three times", f.keys)
			}
			env := []string{"SLUICE_URL=" + s.URL, "SLUICE_API_KEY=" + s.Key}
			id := string(submissionID.Find(runCode(t, l.file, l.command, code["start-"+l.id], env...)))
			if found, err := c.Status(t.Context(), id); err != nil || found.Accepted != 1 || found.Rejected != 0 {
				t.Errorf("the service says %+v, %v of %q", found, err, id)
			}
			if got := string(runCode(t, l.file, l.command, code["status-"+l.id], append(env, "SUBMISSION_ID="+id)...)); !strings.Contains(got, id) {
				t.Errorf("the look-up says %s", got)
			}
			hash := strings.TrimSpace(string(runCode(t, l.file, l.command, code["hash-"+l.id])))
			if !strings.Contains(string(page), "<code>"+hash+"</code>") || len(hash) != 64 {
				t.Errorf("the hash is %q, and not what the page says", hash)
			}
		})
	}
}
