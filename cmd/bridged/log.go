package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
)

func logLevel(name string) (zerolog.Level, error) {
	switch name {
	case "debug", "info", "warn", "error":
		return zerolog.ParseLevel(name)
	}
	return zerolog.NoLevel, fmt.Errorf("log.level %q: use debug, info, warn or error", name)
}

// newLogger writes to stderr: text for a person, JSON for everything else.
func newLogger(c *config) (zerolog.Logger, error) {
	level, err := logLevel(string(c.Log.Level))
	if err != nil {
		return zerolog.Nop(), err
	}
	var out io.Writer = os.Stderr
	if c.Log.Format == "text" || (c.Log.Format == "auto" && isTerminal(os.Stderr)) {
		out = zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != ""}
	}
	return zerolog.New(out).Level(level).With().Timestamp().Logger(), nil
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
