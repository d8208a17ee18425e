package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

func (p *program) readKey() (string, error) {
	if k := strings.TrimSpace(p.env("SLUICE_API_KEY")); k != "" {
		return k, nil
	}
	if p.keyFile != "" {
		data, err := os.ReadFile(p.keyFile)
		if err != nil {
			return "", err
		}
		k := strings.TrimSpace(string(data))
		if k == "" {
			return "", fmt.Errorf("%s holds no key", p.keyFile)
		}
		return k, nil
	}
	if p.prompt != nil {
		return p.prompt()
	}
	return prompt()
}

// prompt asks on the terminal, also while standard input carries data.
func prompt() (string, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		tty = os.Stdin // where there is no such device
	} else {
		defer tty.Close()
	}
	if !term.IsTerminal(int(tty.Fd())) {
		return "", errors.New("no key: set SLUICE_API_KEY or give --key-file")
	}
	fmt.Fprint(os.Stderr, "Key of the dataset (not shown): ")
	k, err := term.ReadPassword(int(tty.Fd()))
	fmt.Fprintln(os.Stderr)
	if err != nil {
		return "", fmt.Errorf("read the key: %w", err)
	}
	return strings.TrimSpace(string(k)), nil
}

// onTerminal says whether words go to a person's screen.
func (p *program) onTerminal() bool {
	f, ok := p.stderr.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
