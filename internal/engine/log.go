package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	b.say(slog.LevelError, fmt.Sprintf(format, v...), fatalSigns...)
}

func (b *bridge) Fatalf(format string, v ...any) {
	b.say(slog.LevelError, fmt.Sprintf(format, v...), "") // whatever it says
}

func (b *bridge) Warnf(format string, v ...any) {
	b.say(slog.LevelWarn, fmt.Sprintf(format, v...), "disabling JetStream")
}

// say logs a line. One with a fatal sign in it is why the engine has to be restarted.
func (b *bridge) say(level slog.Level, line string, fatal ...string) {
	b.e.log.Log(context.Background(), level, "engine: "+line)
	if slices.ContainsFunc(fatal, func(sign string) bool { return strings.Contains(line, sign) }) {
		b.e.fail(errors.New("engine: " + line))
	}
}

func (b *bridge) Noticef(string, ...any) {}
func (b *bridge) Debugf(string, ...any)  {}
func (b *bridge) Tracef(string, ...any)  {}
