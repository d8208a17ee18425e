package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// bridge carries the server's warnings and errors into our log. The server's lines name streams, files and causes,
// never what a message holds.
type bridge struct{ e *Engine }

// These three say that the server has stopped taking writes until it is restarted. The log is where it says so first;
// Run also asks for its health, so a changed wording costs seconds, not the recovery.
var fatalSigns = []string{"write error", "DISABLED", "disabling JetStream"}

func (b *bridge) Errorf(format string, v ...any) {
	line := fmt.Sprintf(format, v...)
	b.e.log.Error("engine: " + line)
	if slices.ContainsFunc(fatalSigns, func(sign string) bool { return strings.Contains(line, sign) }) {
		b.e.fail(errors.New("engine: " + line))
	}
}

func (b *bridge) Fatalf(format string, v ...any) {
	line := fmt.Sprintf(format, v...)
	b.e.log.Error("engine: " + line)
	b.e.fail(errors.New("engine: " + line))
}

func (b *bridge) Warnf(format string, v ...any) {
	line := fmt.Sprintf(format, v...)
	if strings.Contains(line, "disabling JetStream") {
		b.e.fail(errors.New("engine: " + line))
	}
	b.e.log.Warn("engine: " + line)
}

func (b *bridge) Noticef(string, ...any) {}
func (b *bridge) Debugf(string, ...any)  {}
func (b *bridge) Tracef(string, ...any)  {}
