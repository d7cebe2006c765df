package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var shimBinary string // built by TestMain

// TestMain builds the shim as it is released, or is a fake daemon if a shim
// started this binary as one.
func TestMain(m *testing.M) {
	if mode := os.Getenv("FAKE_DAEMON"); mode != "" {
		os.Exit(fakeDaemon(mode))
	}
	dir, err := os.MkdirTemp("", "shim")
	if err != nil {
		panic(err)
	}
	shimBinary = filepath.Join(dir, "bridge-shim")
	if err := buildShim(shimBinary); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// fakeDaemon is `bridged serve`, as far as a shim can see. It listens on
// $BRIDGED_SOCKET unless another does, and notes its pid in $HOME/pids.
func fakeDaemon(mode string) int {
	if len(os.Args) != 2 || os.Args[1] != "serve" {
		fmt.Fprintf(os.Stderr, "unexpected arguments %q\n", os.Args[1:])
		return 9
	}
	if mode == "broken" {
		fmt.Println("line 12: unknown key \"imge\", did you mean \"image\"?")
		return 3
	}
	if mode == "idle" { // never listens
		time.Sleep(time.Minute)
		return 0
	}
	path := os.Getenv("BRIDGED_SOCKET")
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		fmt.Println(err)
		return 4
	}
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return 0 // another was elected
	}
	_ = os.Remove(path)
	ln, err := net.Listen("unix", path)
	if err != nil {
		fmt.Println(err)
		return 5
	}
	pids, err := os.OpenFile(filepath.Join(os.Getenv("HOME"), "pids"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		fmt.Println(err)
		return 6
	}
	_, _ = fmt.Fprintln(pids, os.Getpid())
	if earlier, err := pids.Stat(); mode == "once" && err == nil && earlier.Size() > int64(len(fmt.Sprintln(os.Getpid()))) {
		refuseFake(ln)
		return 0
	}
	serveFake(ln, fmt.Sprintf("session-of-%d", os.Getpid()))
	return 0
}

// serveFake answers on ln until it is closed.
func serveFake(ln net.Listener, session string) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go fakeSession(conn, session)
	}
}

// refuseFake takes no shim.
func refuseFake(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		fmt.Fprintln(conn, `{"bridged":1,"error":"there is no room"}`)
		conn.Close() //nolint:errcheck // the session is over
	}
}

// fakeSession echoes: a request's answer carries the whole line that came and
// the hello. Some methods do other things.
func fakeSession(conn net.Conn, session string) {
	defer conn.Close() //nolint:errcheck // the session is over
	r := bufio.NewReader(conn)
	greeting, err := r.ReadBytes('\n')
	if err != nil {
		return
	}
	fmt.Fprintf(conn, `{"bridged":1,"version":"fake","session":%q,"resumes":%t}`+"\n", session, os.Getenv("FAKE_DAEMON") != "old")
	var all []string
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		m := parse(line)
		all = append(all, strings.TrimSpace(string(line)))
		switch {
		case m.Method == "ask":
			fmt.Fprintln(conn, `{"jsonrpc":"2.0","id":"q-1","method":"elicitation/create"}`)
			fmt.Fprintln(conn, `{"jsonrpc":"2.0","id":"q-2","method":"elicitation/create"}`)
			fmt.Fprintln(conn, `{"jsonrpc":"2.0","id":"q-3","method":"elicitation/create"}`)
			fmt.Fprintln(conn, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q-3"}}`)
		case m.Method == "history":
			echo, _ := json.Marshal(strings.Join(all, "\n"))
			fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%s,"result":{"echo":%s}}`+"\n", m.ID, echo)
		case m.Method == "die":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case m.Method == "half":
			fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%s,"resu`, m.ID)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case m.Method == "dieonce" && !strings.Contains(string(greeting), fmt.Sprintf(`"resent":[{"id":%s,`, m.ID)):
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case m.Method == "twice":
			fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", m.ID)
			fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", m.ID)
		case m.Method == "end":
			fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", m.ID)
			fmt.Fprintln(conn, `{"jsonrpc":"2.0","method":"notifications/bridged/end"}`)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case m.Method == "silent" || !m.isRequest():
		case m.Method == "big":
			fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%s,"result":"%s"}`+"\n", m.ID, strings.Repeat("x", 30<<20))
		default:
			echo, _ := json.Marshal(string(line))
			fmt.Fprintf(conn, "{ \"jsonrpc\":\"2.0\",  \"id\":%s,\"result\":{\"echo\":%s,\"hello\":%s}}\r\n", m.ID, echo, strings.TrimSpace(string(greeting)))
		}
	}
}
