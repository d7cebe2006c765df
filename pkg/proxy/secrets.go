package proxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
)

const (
	// maxSecret bounds a secret, in bytes. Keys with their certificates fit.
	maxSecret = 64 << 10

	// secretTimeout bounds a command that prints a secret. One that asks a person
	// takes longer, and would hold up whoever lists servers.
	secretTimeout = 10 * time.Second

	// secretLife is how long what a command printed is used, and secretPause how
	// long one that failed is not run again.
	secretLife  = 10 * time.Minute
	secretPause = 10 * time.Second
)

// A Secret says where a value comes from: of Text, File and Command one is set.
type Secret struct {
	Text    string
	File    string   // absolute; without the line end at its end
	Command []string // program, absolute, and arguments: what it prints, likewise
}

// secrets reads secrets, and remembers what commands printed. It is safe for
// concurrent use.
type secrets struct {
	mu   sync.Mutex // guards last
	last map[string]*printed
}

// A printed is what a command printed.
type printed struct {
	mu    sync.Mutex // held while the command runs
	until time.Time
	value string
	err   error
}

// read returns a secret's value. Errors never hold it.
func (s *secrets) read(from Secret) (string, error) {
	switch {
	case from.File != "":
		return readSecret(from.File)
	case len(from.Command) > 0:
		return s.printed(from.Command)
	}
	return from.Text, nil
}

func readSecret(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer does not block
	if err != nil {
		return "", fmt.Errorf("reading its secret: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("reading its secret: %s is no regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("reading its secret: %w", err)
	}
	return secretText(data, path)
}

// secretText checks what was read.
func secretText(data []byte, where string) (string, error) {
	text := strings.TrimRight(string(data), "\r\n")
	switch {
	case len(data) > maxSecret:
		return "", fmt.Errorf("reading its secret: %s gives more than %d bytes", where, maxSecret)
	case text == "":
		return "", fmt.Errorf("reading its secret: %s gives nothing", where)
	case strings.ContainsAny(text, "\x00"):
		return "", fmt.Errorf("reading its secret: %s gives a NUL character", where)
	}
	return text, nil
}

// printed runs a command, or returns what it printed a while ago.
func (s *secrets) printed(argv []string) (string, error) {
	key := strings.Join(argv, "\x00")
	s.mu.Lock()
	if s.last == nil {
		s.last = map[string]*printed{}
	}
	p := s.last[key] // there are as many as the configuration has
	if p == nil {
		p = &printed{}
		s.last[key] = p
	}
	s.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.until) {
		return p.value, p.err
	}
	p.value, p.err = runSecret(argv)
	p.until = time.Now().Add(secretLife)
	if p.err != nil {
		p.until = time.Now().Add(secretPause)
	}
	return p.value, p.err
}

func runSecret(argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), secretTimeout)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout = &limitedWriter{to: &out, left: maxSecret + 1}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	name := filepath.Base(argv[0])
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("reading its secret: %s did not end within %s", name, secretTimeout)
	case err != nil:
		return "", fmt.Errorf("reading its secret: %s: %w", name, err)
	}
	return secretText(out.Bytes(), name)
}

// A limitedWriter keeps so much and passes over the rest.
type limitedWriter struct {
	to   *bytes.Buffer
	left int
}

func (w *limitedWriter) Write(data []byte) (int, error) {
	n := min(len(data), w.left)
	w.left -= n
	w.to.Write(data[:n]) // never fails
	return len(data), nil
}

// addSecrets adds what the operator's configuration has for a server's
// environment and headers. It is stronger than the definition. A project's files
// are written by others, who could give any program a server's name: what they
// define gets nothing.
func (p *Proxy) addSecrets(server *discovery.Server, said Setting) error {
	if len(said.Env)+len(said.Headers) == 0 {
		return nil
	}
	if len(server.Sources) > 0 && server.Sources[0].Scope == discovery.ScopeProject {
		return nil
	}
	var err error
	if server.Transport == discovery.Stdio {
		server.Env, err = p.withSecrets(server.Env, said.Env, "env")
	} else {
		server.Headers, err = p.withSecrets(server.Headers, said.Headers, "headers")
	}
	return err
}

func (p *Proxy) withSecrets(have map[string]string, from map[string]Secret, where string) (map[string]string, error) {
	all := maps.Clone(have)
	if all == nil {
		all = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		value, err := p.secrets.read(from[name])
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", where, name, err)
		}
		all[name] = value
	}
	return all, nil
}

// masker replaces secrets by what they are called. What a server writes to its
// stderr is shown to code in sandboxes, and servers like to repeat the key that
// was wrong, at times as it is written in a URL, in JSON or in base64.
func masker(secrets map[string]string) *strings.Replacer {
	type form struct{ text, name string }
	var forms []form
	for name, value := range secrets {
		if len(value) < minSecret {
			continue
		}
		for _, text := range formsOf(value) {
			forms = append(forms, form{text, name})
		}
	}
	slices.SortFunc(forms, func(a, b form) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.text, b.text), cmp.Compare(a.name, b.name)) // the longest first
	})
	pairs := make([]string, 0, 2*len(forms))
	for _, f := range forms {
		pairs = append(pairs, f.text, "["+f.name+"]")
	}
	return strings.NewReplacer(pairs...)
}

// formsOf are the ways in which a value is often written.
func formsOf(value string) []string {
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		forms = append(forms, encoding.EncodeToString([]byte(value))) // with padding it begins alike
	}
	if quoted, err := json.Marshal(value); err == nil {
		forms = append(forms, string(quoted[1:len(quoted)-1]))
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// masked returns an error of a server's own words as code gets it.
func (b *backend) masked(message string, data json.RawMessage) (string, json.RawMessage) {
	hidden := json.RawMessage(b.mask.Replace(string(data)))
	if !json.Valid(hidden) {
		hidden = nil // a name with a quote in it stands there now
	}
	return b.mask.Replace(message), hidden
}
