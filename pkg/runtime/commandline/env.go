package commandline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker/cli/pkg/kvfile"

	"github.com/bridged/bridged/pkg/runtime"
)

// maxEnvFile bounds a file of variables, in bytes.
const maxEnvFile = 1 << 20

// addEnv sets the variables: those of files first, then the flags' own. A name
// without a value is looked up, and is left out where it has none.
func (f *flags) addEnv(s *runtime.ServerSpec, o Origin) error {
	s.Env = map[string]string{}
	for _, file := range f.envFiles {
		lines, err := readEnvFile(file, o)
		if err != nil {
			return err
		}
		for _, line := range lines {
			if err := addVariable(s.Env, line, o); err != nil {
				return fmt.Errorf("--env-file %s: %w", file, err)
			}
		}
	}
	for _, text := range f.env {
		// Configs that write "-e NAME=value" as one item have a space there.
		if err := addVariable(s.Env, strings.TrimLeft(text, " \t"), o); err != nil {
			return fmt.Errorf("-e/--env: %w", err)
		}
	}
	return nil
}

// addVariable's error does not hold the value.
func addVariable(env map[string]string, text string, o Origin) error {
	name, value, ok := strings.Cut(text, "=")
	if name == "" || strings.ContainsAny(name, " \t\n") {
		return errors.New("a variable has no name, or one with a space in it: write NAME=value")
	}
	if !ok && o.Lookup != nil {
		value, ok = o.Lookup(name)
	}
	if strings.Contains(value, "\x00") {
		return fmt.Errorf("the value of %s contains a NUL character", name)
	}
	if ok {
		env[name] = value
	}
	return nil
}

func readEnvFile(file string, o Origin) ([]string, error) {
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(o.Dir, path)
	}
	text, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("--env-file %s: %w", file, err)
	}
	lines, err := kvfile.ParseFromReader(bytes.NewReader(text), o.Lookup)
	if err != nil { // in words that may hold a value
		return nil, fmt.Errorf("--env-file %s: a line of it is no NAME=value", file)
	}
	return lines, nil
}

// readFile reads a regular file of a bounded size.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case info.Size() > maxEnvFile:
		return nil, fmt.Errorf("it is larger than %d bytes", maxEnvFile)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	return io.ReadAll(io.LimitReader(file, maxEnvFile))
}
