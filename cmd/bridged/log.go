package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/rs/zerolog"
	"github.com/rs/zerolog/journald"
	"golang.org/x/term"
)

func logLevel(name string) (zerolog.Level, error) {
	switch name {
	case "debug", "info", "warn", "error":
		return zerolog.ParseLevel(name)
	}
	return zerolog.NoLevel, fmt.Errorf("log.level %q: use debug, info, warn or error", name)
}

// newLogger writes to stderr: text for a person, fields for the journal, JSON for
// everything else.
func newLogger(c *config) (zerolog.Logger, error) {
	level, err := logLevel(string(c.Log.Level))
	if err != nil {
		return zerolog.Nop(), err
	}
	var out io.Writer = os.Stderr
	switch {
	case c.Log.Format == "text" || (c.Log.Format == "auto" && isTerminal(os.Stderr)):
		out = zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != ""}
	case c.Log.Format == "auto" && isJournal():
		out = journald.NewJournalDWriter()
	}
	return zerolog.New(out).Level(level).With().Timestamp().Logger(), nil
}

// isJournal reports whether systemd has connected stderr to its journal, which
// then gets levels and fields as such.
func isJournal() bool {
	is, err := journal.StderrIsJournalStream()
	return err == nil && is
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
