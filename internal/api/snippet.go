package api

import (
	"embed"
	"strings"
)

// snippets are the examples of the documentation in each language, as whole programs: tests run them. The ending .txt
// keeps the Go ones from being packages of ours.
//
//go:embed snippets
var snippets embed.FS

// language is one that the reader can choose.
type language struct{ ID, Name, file string }

var languages = []language{
	{"curl", "curl", ".sh"},
	{"node", "Node", ".mjs"},
	{"python", "Python", ".py"},
	{"go", "Go", ".go.txt"},
	{"php", "PHP", ".php"},
}

// snippet is an example in a language.
type snippet struct {
	language
	Run, Code string // its name, and the program
}

// Languages are those that the reader can choose, the first of which is chosen at the beginning.
func (g *guide) Languages() []language { return languages }

// Snippets are the example of a name in each language.
func (g *guide) Snippets(name string) (out []snippet, err error) {
	for _, l := range languages {
		code, err := snippets.ReadFile("snippets/" + name + l.file)
		if err != nil {
			return nil, err
		}
		text := strings.Replace(string(code), "EVENT", g.Event, 1)
		out = append(out, snippet{l, name + "-" + l.ID, strings.TrimSuffix(text, "\n")})
	}
	return out, nil
}
