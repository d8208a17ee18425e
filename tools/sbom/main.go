// Command sbom says what is linked into our programs, and under which licenses.
//
//	sbom -notice                 writes NOTICE to standard output: every module that a program links, with its license
//	sbom -version V FILE ...     writes a CycloneDX document about built programs, from what Go has put into them
//
// Run it in the directory of the repository. A license that it does not know is an error.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	notice := flag.Bool("notice", false, "write NOTICE instead of a CycloneDX document")
	version := flag.String("version", "unknown", "of the programs")
	flag.Parse()
	err := error(nil)
	if *notice {
		err = writeNotice(os.Stdout)
	} else {
		err = writeSBOM(os.Stdout, *version, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// part is something of others that is in a program.
type part struct {
	name, version string
	dir           string   // where its license is
	files         []string // of the license, in dir; empty looks for them
	purl          string
	sum           string // as in go.sum
}

// programs are the ones that we give to others, and the systems that they are built for.
var (
	programs = []string{"./cmd/sluice", "./cmd/sluice-send"}
	systems  = []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64"}
)

// embedded are files of others inside of our own; internal/console/vendor.sha256 has their sums.
var embedded = []part{
	{name: "uplot", version: "1.6.32", dir: "internal/console/static", files: []string{"uPlot.LICENSE"}, purl: "pkg:npm/uplot@1.6.32"},
	{name: "@fontsource-variable/inter", version: "5.3.0", dir: "internal/console/static", files: []string{"inter.LICENSE"}, purl: "pkg:npm/%40fontsource-variable/inter@5.3.0"},
}

// standard is the library that comes with Go.
func standard(version string) (part, error) {
	root, err := output(nil, "go", "env", "GOROOT")
	p := part{name: "Go standard library", version: version, dir: strings.TrimSpace(root), files: []string{"LICENSE"}, purl: "pkg:golang/stdlib"}
	if version != "" {
		p.purl += "@" + strings.TrimPrefix(version, "go")
	}
	return p, err
}

// output is what a command writes.
func output(env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, problem.String())
	}
	return string(out), nil
}

// linked are the modules of others whose packages the programs link, on any system.
func linked() ([]part, error) {
	found := map[string]part{}
	for _, system := range systems {
		goos, goarch, _ := strings.Cut(system, "/")
		args := append([]string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}"}, programs...)
		out, err := output([]string{"GOOS=" + goos, "GOARCH=" + goarch, "CGO_ENABLED=0"}, "go", args...)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(out) {
			if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 3 {
				found[f[0]] = part{name: f[0], version: f[1], dir: f[2]}
			}
		}
	}
	var out []part
	for _, p := range found {
		out = append(out, p)
	}
	return sorted(out), nil
}

func sorted(parts []part) []part {
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.name, b.name) })
	return parts
}

// texts are the license, notice and patent files of a part, and the license's short name.
func (p *part) texts() (id string, texts []string, err error) {
	files := p.files
	if len(files) == 0 {
		entries, err := os.ReadDir(p.dir)
		if err != nil {
			return "", nil, err
		}
		for _, e := range entries {
			name := strings.ToUpper(e.Name())
			for _, kind := range []string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "PATENTS", "UNLICENSE"} {
				if strings.HasPrefix(name, kind) && !e.IsDir() {
					files = append(files, e.Name())
				}
			}
		}
	}
	var ids []string
	for _, name := range files {
		b, err := os.ReadFile(filepath.Join(p.dir, name))
		if err != nil {
			return "", nil, err
		}
		texts = append(texts, tidy(string(b)))
		if upper := strings.ToUpper(name); strings.Contains(upper, "LICEN") || strings.HasPrefix(upper, "COPYING") {
			if one := license(string(b)); one != "" && !slices.Contains(ids, one) {
				ids = append(ids, one)
			}
		}
	}
	if len(ids) == 0 {
		return "", nil, fmt.Errorf("the license of %s is not known: look at %s", p.name, p.dir)
	}
	return ids[0], texts, nil
}

// tidy removes what only differs between editors.
func tidy(s string) string {
	var out []string
	for line := range strings.Lines(strings.ReplaceAll(s, "\r\n", "\n")) {
		out = append(out, strings.TrimRight(line, " \t\n\f"))
	}
	return strings.Trim(strings.Join(out, "\n"), "\n")
}

// license is the SPDX name of a license text; "" for one that is not known. The first license of a text counts: some
// carry those of parts behind their own.
func license(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	at := len(text) + 1
	name := ""
	for _, c := range []struct{ id, phrase string }{
		{"Apache-2.0", "Apache License Version 2.0"},
		{"Apache-2.0", "Licensed under the Apache License, Version 2.0"},
		{"MPL-2.0", "Mozilla Public License"},
		{"OFL-1.1", "SIL OPEN FONT LICENSE Version 1.1"},
		{"OFL-1.1", "SIL Open Font License, Version 1.1"},
		{"MIT", "Permission is hereby granted, free of charge"},
		{"ISC", "Permission to use, copy, modify, and/or distribute this software"},
		{"BSD-3-Clause", "Redistribution and use in source and binary forms"},
	} {
		if i := strings.Index(text, c.phrase); i >= 0 && i < at {
			at, name = i, c.id
		}
	}
	if name == "BSD-3-Clause" && !strings.Contains(text, "Neither the name") && !strings.Contains(text, "may be used to endorse") {
		name = "BSD-2-Clause"
	}
	return name
}

func writeNotice(w io.Writer) error {
	parts, err := linked()
	if err != nil {
		return err
	}
	std, err := standard("")
	if err != nil {
		return err
	}
	parts = append(append([]part{std}, embedded...), parts...)
	type text struct {
		content string
		of      []string
	}
	var list strings.Builder
	var texts []*text
	known := map[string]*text{}
	for _, p := range parts {
		id, all, err := p.texts()
		if err != nil {
			return err
		}
		name := strings.TrimSpace(p.name + " " + p.version)
		fmt.Fprintf(&list, "%s: %s\n", name, id)
		for _, content := range all {
			if known[content] == nil {
				known[content] = &text{content: content}
				texts = append(texts, known[content])
			}
			known[content].of = append(known[content].of, name)
		}
	}
	fmt.Fprintf(w, "Sluice\nLicensed under the Apache License, Version 2.0; see LICENSE.\n\nThe programs contain the following software of others. make notice writes this file.\n\n%s", list.String())
	for _, t := range texts {
		fmt.Fprintf(w, "\n%s\nThis text belongs to:\n  %s\n\n%s\n", strings.Repeat("=", 80), strings.Join(t.of, "\n  "), t.content)
	}
	return nil
}

// The members of a CycloneDX 1.6 document that we write.
type (
	document struct {
		Schema       string       `json:"$schema"`
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Component component `json:"component"`
	}
	component struct {
		Type       string      `json:"type"`
		Ref        string      `json:"bom-ref"`
		Name       string      `json:"name"`
		Version    string      `json:"version"`
		PURL       string      `json:"purl,omitempty"`
		Licenses   []choice    `json:"licenses,omitempty"`
		Hashes     []hash      `json:"hashes,omitempty"`
		Properties []property  `json:"properties,omitempty"`
		Components []component `json:"components,omitempty"`
	}
	choice struct {
		License struct {
			ID string `json:"id"`
		} `json:"license"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

func under(id string) []choice {
	var c choice
	c.License.ID = id
	return []choice{c}
}

// writeSBOM describes built programs. The same programs give the same document: it has no time and no chance in it.
func writeSBOM(w io.Writer, version string, files []string) error {
	if len(files) == 0 {
		return errors.New("name the built programs")
	}
	doc := document{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: metadata{component{Type: "application", Ref: "sluice", Name: "sluice", Version: version, Licenses: under("Apache-2.0")}},
	}
	found := map[string]part{}
	uses := map[string][]string{} // purls by program
	for _, file := range files {
		program, err := describe(file, version, found, uses)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		doc.Metadata.Component.Components = append(doc.Metadata.Component.Components, program)
	}
	var parts []part
	for _, p := range found {
		parts = append(parts, p)
	}
	for _, p := range sorted(parts) {
		id, _, err := p.texts()
		if err != nil {
			return err
		}
		c := component{Type: "library", Ref: p.purl, Name: p.name, Version: p.version, PURL: p.purl, Licenses: under(id)}
		if p.sum != "" {
			c.Properties = []property{{"go.sum", p.sum}}
		}
		doc.Components = append(doc.Components, c)
	}
	for _, program := range doc.Metadata.Component.Components {
		slices.Sort(uses[program.Ref])
		doc.Dependencies = append(doc.Dependencies, dependency{program.Ref, uses[program.Ref]})
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // a UUID of version 8
	u := hex.EncodeToString(sum[:16])
	doc.Serial = "urn:uuid:" + u[:8] + "-" + u[8:12] + "-" + u[12:16] + "-" + u[16:20] + "-" + u[20:]
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(doc)
}

// describe reads what Go has put into a program about the modules that it links, and adds them to found.
func describe(file, version string, found map[string]part, uses map[string][]string) (component, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return component{}, err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return component{}, err
	}
	sum := sha256.Sum256(content)
	name := strings.TrimSuffix(filepath.Base(info.Path), ".exe")
	program := component{
		Type: "application", Ref: "sluice/" + filepath.Base(file), Name: name, Version: version, Licenses: under("Apache-2.0"),
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}},
	}
	std, err := standard(info.GoVersion)
	if err != nil {
		return component{}, err
	}
	parts := []part{std}
	if name == "sluice" { // the console is in it
		parts = append(parts, embedded...)
	}
	dirs, err := directories(info)
	if err != nil {
		return component{}, err
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, part{name: m.Path, version: m.Version, dir: dirs[m.Path], sum: m.Sum, purl: "pkg:golang/" + m.Path + "@" + m.Version})
	}
	for _, p := range parts {
		found[p.purl] = p
		uses[program.Ref] = append(uses[program.Ref], p.purl)
	}
	return program, nil
}

// directories says where the modules of a program are.
func directories(info *buildinfo.BuildInfo) (map[string]string, error) {
	args := []string{"list", "-m", "-f", "{{.Path}}\t{{.Version}}\t{{.Dir}}"}
	want := map[string]string{}
	for _, m := range info.Deps {
		args = append(args, m.Path)
		want[m.Path] = m.Version
	}
	out, err := output(nil, "go", args...)
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 3 || want[f[0]] != f[1] {
			return nil, fmt.Errorf("the program has %s %s, the source has another version: build it again", f[0], want[f[0]])
		}
		dirs[f[0]] = f[2]
	}
	return dirs, nil
}
