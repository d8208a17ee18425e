package sluice

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Pages for users have no commit hash and no name of a Go test, and lead to no page for developers, which the archive of a
// release does not have.
func TestPagesAreForUsers(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("got %d pages, %v: the test shows nothing", len(pages), err)
	}
	wrong := map[string]*regexp.Regexp{
		"a commit hash":         regexp.MustCompile(`(^|[\s([*/` + "`" + `])([0-9]+[a-f]|[a-f]+[0-9])[0-9a-f]{5,38}($|[\s)\],.:;*` + "`" + `])`),
		"a Go test":             regexp.MustCompile(`\b(Test|Benchmark|Fuzz)[A-Z][A-Za-z0-9_]+\b`),
		"a page for developers": regexp.MustCompile(`\]\((\.\./ARCHITECTURE|\.\./CONTRIBUTING|decisions|internals)`),
	}
	for _, page := range append(pages, "README.md", "SECURITY.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for what, pattern := range wrong {
			if what == "a page for developers" && filepath.Base(page) == "README.md" {
				continue // these two have a part for developers
			}
			for _, found := range pattern.FindAll(text, -1) {
				t.Errorf("%s names %s: %s", page, what, found)
			}
		}
	}
}

// Who reads these pages first meets no word of the glossary without its meaning: where a page first uses one, the word
// leads to its entry, or is in italics, which is how a page marks a word that it explains there. The words that users
// do not meet, those of ARCHITECTURE.md, are not on these pages at all.
func TestWordsAreExplained(t *testing.T) {
	users, developers := glossary(t, "docs/glossary.md"), glossary(t, "ARCHITECTURE.md")
	if len(users) < 25 || len(developers) < 10 {
		t.Fatalf("got %d and %d words: the test shows nothing", len(users), len(developers))
	}
	var all []string
	for _, words := range []map[string]string{users, developers} {
		for word := range words {
			all = append(all, strings.ReplaceAll(word, " ", "[ -]"))
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	known := regexp.MustCompile(`(?i)\b(` + strings.Join(all, "|") + `)(?:s|es|ed|ing)?\b`)
	for _, page := range []string{"README.md", "docs/evaluate.md", "docs/how-it-works.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		prose := prose(string(text), known)
		met := map[string]bool{}
		for _, at := range known.FindAllStringSubmatchIndex(prose, -1) {
			word := strings.ReplaceAll(strings.ToLower(prose[at[2]:at[3]]), "-", " ")
			entry, ok := users[word]
			if !ok {
				t.Errorf("%s uses %q, a word for developers", page, word)
			} else if !met[entry] && !explained(prose, at[0], at[1], entry) {
				t.Errorf("%s uses %q, and neither leads to glossary.md#%s nor explains it: …%s…", page, word, entry,
					prose[max(0, at[0]-40):min(len(prose), at[1]+40)])
			}
			met[entry] = true
		}
	}
}

// glossary is the words in the table of a page, each with the anchor of its entry.
func glossary(t *testing.T, page string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "# Glossary\n")
	words := map[string]string{}
	row := regexp.MustCompile(`(?m)^\| (?:<a id="(.+)"></a>)?([a-z, ]+) \|`)
	for _, found := range row.FindAllStringSubmatch(table, -1) {
		for word := range strings.SplitSeq(found[2], ", ") {
			words[word] = found[1]
		}
	}
	delete(words, "word") // the head of the table
	return words
}

// prose is a page with blanks for what is not read as words: headings, and code that is not just a known word.
func prose(page string, known *regexp.Regexp) string {
	blank := func(s string) string { return strings.Repeat(" ", len(s)) }
	page = regexp.MustCompile("(?sm)^```.*?^```|^#[^\n]*").ReplaceAllStringFunc(page, blank)
	return regexp.MustCompile("`[^`\n]+`").ReplaceAllStringFunc(page, func(code string) string {
		if word := strings.Trim(code, "`/"); known.FindString(word) == word {
			return code
		}
		return blank(code)
	})
}

// explained says whether the word at a place of a page is in a link to an entry of the glossary, or in italics.
func explained(page string, from, to int, entry string) bool {
	link := regexp.MustCompile(`\[[^\]]+\]\([^)]*glossary\.md#` + entry + `\)`)
	italics := regexp.MustCompile(`\B\*\b[^*\n]+\b\*\B`)
	for _, span := range append(link.FindAllStringIndex(page, -1), italics.FindAllStringIndex(page, -1)...) {
		if span[0] < from && to < span[1] && page[max(0, span[0]-1)] != '*' {
			return true
		}
	}
	return false
}
