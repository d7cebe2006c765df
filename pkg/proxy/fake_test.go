package proxy

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bridged/bridged/pkg/discovery"
)

// fakeVar holds the fakeConfig of a test binary that is to be a server.
const fakeVar = "FAKE_SERVER"

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(fakeVar); ok {
		var c fakeConfig
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			panic(err)
		}
		(&fake{fakeConfig: c, out: os.Stdout}).run()
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "reap" {
		Reap(os.Stdin, os.Args[2])
		return
	}
	if text, ok := os.LookupEnv(daemonVar); ok {
		beDaemon(text)
	}
	os.Exit(m.Run())
}

// daemonVar holds the definition that a test binary is to call as a daemon.
const daemonVar = "FAKE_DAEMON"

// beDaemon calls a server once, says so and waits to be killed.
func beDaemon(text string) {
	var server discovery.Server
	if err := json.Unmarshal([]byte(text), &server); err != nil {
		panic(err)
	}
	o := Options{Reaper: []string{os.Args[0], "reap"}}
	s := New(o).NewSession(SessionOptions{Servers: func() []discovery.Server { return []discovery.Server{server} }})
	if _, err := s.Load([]string{server.Name}); err != nil {
		panic(err)
	}
	if _, err := s.Call(context.Background(), "tools.call", json.RawMessage(`{"server":"fake","tool":"echo"}`)); err != nil {
		panic(err)
	}
	fmt.Println("called")
	time.Sleep(time.Hour)
}

// A fakeConfig says how a fake server misbehaves. The zero value behaves.
type fakeConfig struct {
	Log    string // file that gets each line received
	Starts string // file that gets a line for each start

	Before      string // raw bytes on stdout before the first answer
	Flood       int    // bytes of lines on stdout instead of any answer
	StderrStart int    // bytes on stderr, without a newline, before the first answer
	StderrCall  int    // the same before each answer to a call
	Complaint   string // a line on stderr at the start
	CRLF        bool   // end lines with it

	InitDelay  int    // milliseconds
	Gate       string // file without which it does not answer initialize
	NoInit     bool   // never answer initialize
	Version    string // protocol version to answer with; "none" leaves it out
	Refuse     string // protocol version to refuse
	PingFirst  bool   // ping before answering initialize
	ExitAt     string // "start", "initialized", "call" or "answered"
	ExitCode   int
	DeafTo     string // "eof", or "term" for both
	Sleepers   int    // processes started that outlive it if they can
	SleeperSid bool   // in sessions of their own
	NoRead     bool   // stop reading after the handshake
	Ping       string // what it does with pings: "" answers, "refuse", "ignore"

	Tools  []json.RawMessage // instead of the usual ones
	Pages  [][]string        // names of tools by page, instead of Tools
	Cursor string            // of every page when set
	FailAt int               // page that is refused, from 1
	NoList bool              // never answer tools/list

	Capabilities string   // JSON, instead of those of a server with tools
	Listed       []string // raw results of the lists but that of tools, a page each

	Modern  string // it knows no initialize: "named" refuses it with its version, "unknown" without, "other" has another version
	TaskEnd string // the status that a task comes to; it goes on when empty

	Asks   string // a request of its own, made when it is initialized
	Report string // file that gets the answer to it

	Release string // file that holds its version and adds a tool of that name, when it is there
	FailIf  string // file that keeps it from starting, when it is there

	IDs string // of answers to calls: "string", "zero", "double", "null"
}

// A fake is a server under a fakeConfig.
type fake struct {
	fakeConfig
	out io.Writer

	mu      sync.Mutex // guards the fields below, and writing
	lists   int
	secret  bool
	polls   int // of a task
	replies chan json.RawMessage
	told    chan struct{} // something for each call that is canceled
}

func (f *fake) run() {
	f.replies, f.told = make(chan json.RawMessage, 100), make(chan struct{}, 100)
	f.note(f.Starts, fmt.Sprint(os.Getpid()))
	f.misbehave()
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		f.note(f.Log, strings.TrimSpace(string(line)))
		f.receive(line)
	}
	if f.DeafTo != "" {
		f.note(f.Log, "EOF")
		time.Sleep(time.Hour)
	}
}

func (f *fake) misbehave() {
	if f.Complaint != "" {
		fmt.Fprintln(os.Stderr, f.Complaint)
	}
	complain("x", f.StderrStart)
	if _, err := os.Stat(f.FailIf); err == nil {
		os.Exit(9)
	}
	if f.ExitAt == "start" {
		os.Exit(f.ExitCode)
	}
	if f.DeafTo == "term" {
		signal.Ignore(syscall.SIGTERM)
	}
	for range f.Sleepers {
		cmd := exec.Command("sh", "-c", "trap '' TERM; sleep 300 & sleep 300; sleep 300")
		cmd.Stdout = os.Stdout // holds the pipe open
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: f.SleeperSid}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
	}
	f.raw(f.Before)
	for n := 0; n < f.Flood; {
		f.raw(flood)
		n += len(flood)
	}
}

func (f *fake) note(file, line string) {
	if file == "" {
		return
	}
	w, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer w.Close() //nolint:errcheck // a line that is missing fails the test
	fmt.Fprintln(w, line)
}

const flood = "flood flood flood flood flood flood flood flood flood flood flood\n"

// complain writes n bytes to stderr.
func complain(text string, n int) {
	if _, err := os.Stderr.WriteString(strings.Repeat(text, n)); err != nil {
		os.Exit(98)
	}
}

// raw writes text to stdout as it is. A server whose reader is gone ends.
func (f *fake) raw(text string) {
	if _, err := io.WriteString(f.out, text); err != nil {
		os.Exit(99)
	}
}

// write writes one line.
func (f *fake) write(text string) {
	end := "\n"
	if f.CRLF {
		end = "\r\n"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.raw(text + end)
}

func (f *fake) answer(id json.RawMessage, result string) {
	f.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

func (f *fake) refuse(id json.RawMessage, code int, message, data string) {
	f.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q,"data":%s}}`, id, code, message, data))
}

type fakeRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name            string          `json:"name"`
		Cursor          string          `json:"cursor"`
		ProtocolVersion string          `json:"protocolVersion"`
		Arguments       json.RawMessage `json:"arguments"`
		Meta            struct {
			ProgressToken json.RawMessage `json:"progressToken"`
			Traceparent   string          `json:"traceparent"`
			Tracestate    string          `json:"tracestate"`
		} `json:"_meta"`
	} `json:"params"`
}

func (f *fake) receive(line []byte) {
	var r fakeRequest
	if err := json.Unmarshal(line, &r); err != nil {
		f.note(f.Log, "BROKEN "+err.Error())
		return
	}
	switch {
	case f.Modern != "" && f.modern(line):
		return
	case r.Params.Name == "slow_task", strings.HasPrefix(r.Method, "tasks/"):
		f.task(r, line)
		return
	}
	switch r.Method {
	case "initialize":
		f.initialize(r)
	case "notifications/initialized":
		if f.Asks != "" {
			f.write(`{"jsonrpc":"2.0","id":"mine","method":"` + f.Asks + `"}`)
		}
		if f.ExitAt == "initialized" {
			os.Exit(f.ExitCode)
		}
		for f.NoRead {
			time.Sleep(time.Hour)
		}
	case "notifications/cancelled":
		select {
		case f.told <- struct{}{}:
		default: // nobody waits for so many
		}
	case "tools/list":
		f.list(r)
	case "tools/call":
		go f.call(r)
	case "ping":
		f.pong(r)
	case "resources/list", "resources/templates/list", "prompts/list":
		f.listed(r)
	case "resources/read", "prompts/get", "completion/complete":
		f.offer(r, line)
	case "":
		if string(r.ID) == `"mine"` {
			f.note(f.Report, strings.TrimSpace(string(line)))
			return
		}
		if string(r.ID) != `"early"` {
			f.replies <- bytes.Clone(line)
		}
	}
}

func (f *fake) initialize(r fakeRequest) {
	time.Sleep(time.Duration(f.InitDelay) * time.Millisecond)
	for f.Gate != "" {
		if _, err := os.Stat(f.Gate); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if f.PingFirst {
		f.write(`{"jsonrpc":"2.0","id":"early","method":"ping"}`)
	}
	version := r.Params.ProtocolVersion
	if f.Version != "" {
		version = f.Version
	}
	switch {
	case f.NoInit || f.Flood > 0:
	case f.Refuse == version:
		f.refuse(r.ID, -32602, "Unsupported protocol version", `{"supported":["2024-11-05","2025-03-26"]}`)
	case version == "none":
		f.answer(r.ID, `{"capabilities":{}}`)
	default:
		f.answer(r.ID, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"fake","version":%q},"instructions":"be kind"}`,
			version, cmp.Or(f.Capabilities, `{"tools":{}}`), cmp.Or(f.release(), "1")))
	}
}

func (f *fake) pong(r fakeRequest) {
	switch f.Ping {
	case "":
		f.answer(r.ID, "{}")
	case "refuse":
		f.refuse(r.ID, -32601, "Method not found", "null")
	}
}

// fakeTools are the names of the usual tools.
var fakeTools = []string{"echo", "big", "sleep_echo", "refuse", "exit", "shut", "noisy", "ask", "send", "raw", "pay", "unlock", "env", "hang", "late"}

func (f *fake) list(r fakeRequest) {
	f.mu.Lock()
	f.lists++
	secret := f.secret
	f.mu.Unlock()
	if f.NoList {
		return
	}
	if f.Pages != nil {
		f.page(r)
		return
	}
	tools := f.Tools
	if tools == nil {
		names := fakeTools
		if secret {
			names = append(names[:len(names):len(names)], "secret")
		}
		if release := f.release(); release != "" {
			names = append(names[:len(names):len(names)], release)
		}
		tools = fakeList(names)
	}
	text, err := json.Marshal(map[string]any{"tools": tools})
	if err != nil {
		panic(err)
	}
	f.answer(r.ID, string(text))
}

// release is what the file Release holds.
func (f *fake) release() string {
	text, _ := os.ReadFile(f.Release) // it need not be there
	return strings.TrimSpace(string(text))
}

func fakeList(names []string) []json.RawMessage {
	list := []json.RawMessage{}
	for _, name := range names {
		list = append(list, json.RawMessage(fmt.Sprintf(`{"name":%q,"description":"the fake's %s","inputSchema":{"type":"object"}}`, name, name)))
	}
	return list
}

func (f *fake) page(r fakeRequest) {
	page := 0
	if at := strings.LastIndex(r.Params.Cursor, "="); at >= 0 && f.Cursor == "" {
		if _, err := fmt.Sscan(r.Params.Cursor[at+1:], &page); err != nil {
			panic(err)
		}
	}
	if f.FailAt == page+1 {
		f.refuse(r.ID, -32603, "no such page", "null")
		return
	}
	result := map[string]any{"tools": fakeList(f.Pages[page])}
	if page+1 < len(f.Pages) {
		result["nextCursor"] = fmt.Sprintf("a b=%d", page+1)
	}
	if f.Cursor != "" {
		result["nextCursor"] = f.Cursor
	}
	text, err := json.Marshal(result)
	if err != nil {
		panic(err)
	}
	f.answer(r.ID, string(text))
}

func textResult(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, quoted)
}

func (f *fake) call(r fakeRequest) {
	complain("y", f.StderrCall)
	if f.ExitAt == "call" {
		os.Exit(f.ExitCode)
	}
	var a struct {
		N, MS, Code int
		V           json.RawMessage
		Raw, File   string
		Once        bool
	}
	if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
		f.refuse(r.ID, -32602, "bad arguments: "+err.Error(), "null")
		return
	}
	switch r.Params.Name {
	case "big":
		f.answer(r.ID, textResult(strings.Repeat("b", a.N)))
	case "sleep_echo":
		time.Sleep(time.Duration(a.MS) * time.Millisecond)
		f.answer(r.ID, textResult(string(a.V)))
	case "late":
		<-f.told
		f.answer(r.ID, textResult(string(a.V)))
	case "refuse":
		f.refuse(r.ID, -32001, "not today", `{"big":12345678901234567890,"z":1,"a":2}`)
	case "exit":
		fmt.Fprintln(os.Stderr, "about to exit")
		os.Exit(a.Code)
	case "trace":
		f.answer(r.ID, textResult(r.Params.Meta.Traceparent+" "+r.Params.Meta.Tracestate))
	case "shut":
		_ = os.Stdout.Close() // it was open
		time.Sleep(time.Hour)
	case "noisy":
		f.write(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		f.write("took 3 ms")
		f.answer(r.ID, textResult("ok"))
	case "ask":
		f.ask(r)
	case "send":
		f.send(r, a.Raw)
	case "raw":
		f.write(strings.ReplaceAll(a.Raw, "ID", string(r.ID)))
	case "pay":
		if _, err := os.Stat(a.File); a.Once && err == nil {
			a.Code = 0 // it has failed before
		}
		f.note(a.File, "paid")
		f.settle(r, a.MS, a.Code)
	case "unlock":
		f.unlock(r, a.N)
	case "env":
		text, err := json.Marshal(os.Environ())
		if err != nil {
			panic(err)
		}
		f.answer(r.ID, `{"content":[],"structuredContent":{"env":`+string(text)+`}}`)
	case "hang":
	default:
		f.echo(r)
	}
}

// settle answers late, or exits instead.
func (f *fake) settle(r fakeRequest, ms, code int) {
	time.Sleep(time.Duration(ms) * time.Millisecond)
	if code != 0 {
		os.Exit(code)
	}
	f.answer(r.ID, textResult("paid"))
}

func (f *fake) echo(r fakeRequest) {
	id := r.ID
	switch f.IDs {
	case "string":
		id = json.RawMessage(`"` + string(r.ID) + `"`)
	case "zero":
		id = json.RawMessage("0")
	case "null":
		f.refuse(json.RawMessage("null"), -32700, "parse error", "null")
		return
	case "double":
		f.answer(id, textResult("first"))
		f.answer(id, textResult("second"))
		return
	}
	f.answer(id, `{"content":[],"structuredContent":`+string(r.Params.Arguments)+`}`)
	if f.ExitAt == "answered" {
		os.Exit(f.ExitCode)
	}
}

// ask answers only when all its own requests have been answered.
func (f *fake) ask(r fakeRequest) {
	for i, method := range []string{"ping", "roots/list", "sampling/createMessage", "elicitation/create", "x/unknown"} {
		id := fmt.Sprint(1000 + i)
		if i == 4 {
			id = `"a"`
		}
		f.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{}}`, id, method))
	}
	var got []string
	for range 5 {
		got = append(got, string(<-f.replies))
	}
	f.answer(r.ID, textResult(strings.Join(got, "")))
}

// unlock says n times that the tools have changed.
func (f *fake) unlock(r fakeRequest, n int) {
	f.mu.Lock()
	f.secret = true
	f.mu.Unlock()
	for range n {
		f.write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	}
	f.answer(r.ID, textResult("unlocked"))
}
