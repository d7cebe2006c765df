//go:build integration

package misbehave

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A server answers the messages of one client.
type server struct {
	config Config
	work   *sync.WaitGroup  // of calls under way
	refuse func(status int) // gives up a call, in a way that is no message; 0 is a sudden end

	mu *sync.Mutex // one message at a time is written, and one logged
}

func newServer(c Config) *server {
	return &server{config: c, work: &sync.WaitGroup{}, mu: &sync.Mutex{}, refuse: func(int) { os.Exit(1) }}
}

// forHTTP is s for one message, with calls of its own.
func (s *server) forHTTP() *server {
	c := s.config
	c.Before, c.Between, c.After, c.Frames, c.ExitAt = "", "", "", nil, ""
	return &server{config: c, work: &sync.WaitGroup{}, mu: s.mu}
}

// A request is a message that a client sent.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name            string          `json:"name"`
		Arguments       json.RawMessage `json:"arguments"`
		Cursor          string          `json:"cursor"`
		ProtocolVersion string          `json:"protocolVersion"`
	} `json:"params"`
}

// serve speaks over stdio until the client hangs up.
func (s *server) serve(in io.Reader, out io.Writer) error {
	if _, err := os.Stderr.WriteString(strings.Repeat("e", s.config.Stderr)); err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	send := func(message string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = w.WriteString(message)
		_ = w.Flush() // a client that is gone hangs up as well
	}
	send(s.config.Before)
	r := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			s.receive(line, func(message string) { send(message + "\n" + s.config.After) })
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// receive deals with one message. Tools work side by side.
func (s *server) receive(line []byte, send func(string)) {
	s.note(line)
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		send(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no JSON"}}`)
		return
	}
	if r.Method == s.config.ExitAt && r.Method != "" {
		os.Exit(s.config.ExitCode)
	}
	if r.Method == "notifications/initialized" {
		for _, frame := range s.config.Frames {
			send(frame)
		}
	}
	if r.ID == nil || r.Method == "" || slices.Contains(s.config.Deaf, r.Method) {
		return
	}
	if r.Method == "tools/call" && r.slow() {
		s.work.Go(func() { s.reply(r, send) })
		return
	}
	s.reply(r, send)
}

// slow reports whether others should not wait for the answer.
func (r request) slow() bool { return r.Params.Name != "echo" && r.Params.Name != "big" }

func (s *server) reply(r request, send func(string)) {
	time.Sleep(time.Duration(s.config.DelayMS) * time.Millisecond)
	text, code := s.result(r)
	switch text {
	case gone:
		s.refuse(code)
		return
	case "":
		return
	}
	if r.Method == "tools/call" && s.config.Between != "" {
		send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"at work"}}` + "\n" + strings.TrimSuffix(s.config.Between, "\n"))
	}
	if code != 0 {
		send(`{"jsonrpc":"2.0","id":` + string(r.ID) + `,"error":{"code":` + strconv.Itoa(code) + `,"message":` + quoted(text) + `}}`)
		return
	}
	send(`{"jsonrpc":"2.0","id":` + string(r.ID) + `,"result":` + text + `}`)
}

// note appends what was received to the log.
func (s *server) note(line []byte) {
	if s.config.Log == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := appendLine(s.config.Log, string(line)); err != nil {
		panic(err)
	}
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}

// gone stands for an answer that never comes, since the server ends or says so.
const gone = "gone"

// result answers a request: a result, or an error's text and code, or "" for
// nothing at all, or gone.
func (s *server) result(r request) (text string, code int) {
	switch r.Method {
	case "initialize":
		return fmt.Sprintf(`{"protocolVersion":%s,"capabilities":{"tools":{}},"serverInfo":{"name":"misbehave","version":"1"}}`,
			quoted(r.Params.ProtocolVersion)), 0
	case "ping":
		return "{}", 0
	case "tools/list":
		return s.list(r.Params.Cursor), 0
	case "tools/call":
		return call(r)
	}
	return "Method not found", -32601
}

// list is a page of the tools.
func (s *server) list(cursor string) string {
	names := append([]string{}, "echo", "big", "blocks", "content", "sleep_echo", "pay", "slow")
	for n := range s.config.Many {
		names = append(names, fmt.Sprintf("tool_%04d", n+1))
	}
	from, _ := strconv.Atoi(cursor) // none is 0
	page := names[min(from, len(names)):]
	next := ""
	if s.config.Page > 0 && len(page) > s.config.Page {
		page = page[:s.config.Page]
		next = `,"nextCursor":"` + strconv.Itoa(from+len(page)) + `"`
	}
	var tools []string
	for _, name := range page {
		tools = append(tools, fmt.Sprintf(`{"name":%q,"description":"%s of the server for tests: it takes some arguments and does what its name says.%s",`+
			`"inputSchema":{"type":"object","properties":{"n":{"type":"integer","description":"how much of it"},"v":{"description":"what to return"}},"additionalProperties":true}}`, name, name, s.config.Words))
	}
	return `{"tools":[` + strings.Join(tools, ",") + `]` + next + `}`
}

func quoted(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // text can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}
