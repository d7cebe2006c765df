//go:build integration

package integration

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/proxy/oauthtest"
)

// loopbackOnly makes a node program listen on 127.0.0.1, whatever it asks for.
const loopbackOnly = `const net = require("node:net");
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  return typeof port === "object" ? listen.call(this, port, ...rest) : listen.call(this, Number(port), "127.0.0.1", ...rest);
};
`

// A remoteServer is the reference server, reached by HTTP on this machine.
type remoteServer struct {
	home *home
	mode string
	port int
	cmd  *exec.Cmd
	log  *lockedBuffer
}

// remote starts the reference server in a mode: streamableHttp or sse.
func (h *home) remote(t *testing.T, mode string) *remoteServer {
	t.Helper()
	h.file(t, "loopback.js", loopbackOnly)
	s := &remoteServer{home: h, mode: mode, port: engines.Port(t)}
	s.start(t)
	t.Cleanup(func() { s.kill(t) })
	return s
}

func (s *remoteServer) start(t *testing.T) {
	t.Helper()
	s.cmd, s.log = s.home.command("sh", "-c", "exec mcp-server-everything "+s.mode), &lockedBuffer{}
	s.cmd.Env = append(s.cmd.Env[:len(s.cmd.Env):len(s.cmd.Env)], fmt.Sprint("PORT=", s.port), "NODE_OPTIONS=--require="+s.home.dir+"/loopback.js")
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(waitTime); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("tcp", s.address())
		if err == nil {
			_ = conn.Close() // it listens
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not listen: %s", s.log)
		}
	}
}

func (s *remoteServer) address() string { return fmt.Sprint("127.0.0.1:", s.port) }

func (s *remoteServer) kill(t *testing.T) {
	t.Helper()
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // it may have ended by itself
	_ = s.cmd.Wait()                                      // it was killed
}

// TestRemoteServers calls the reference server over both transports, and one
// that wants a login, from code, through shim and daemon.
func TestRemoteServers(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	h := onEngine(t, r)
	web, old := h.remote(t, "streamableHttp"), h.remote(t, "sse")
	guard := oauthtest.Start()
	t.Cleanup(guard.Close)
	h.servers(t, map[string]any{
		"web":    map[string]any{"type": "http", "url": "http://" + web.address() + "/mcp", "headers": map[string]string{"X-Who": "${HOME}"}},
		"old":    map[string]any{"type": "sse", "url": "http://" + old.address() + "/sse"},
		"either": map[string]any{"url": "http://" + old.address() + "/sse"},
		"guard":  map[string]any{"url": guard.URL()},
	})
	d := h.serve(t)
	d.ready(t)
	a := h.agent(t, h.dir)
	a.run("from mcp import runtime\nimport asyncio", "web", "old", "either", "guard")
	for _, name := range []string{"web", "old", "either"} {
		t.Run(name, func(t *testing.T) {
			sub := &agent{t: t, Client: a.Client, stderr: a.stderr}
			code := fmt.Sprintf("s = %q\ntexts = await asyncio.gather(*(runtime.call_tool(s, 'echo', {'message': f'no. {i}'}) for i in range(20)))\n"+
				"[str(x) for x in texts] == [f'Echo: no. {i}' for i in range(20)], len(await runtime.query_tool_docs(s)) > 5, str(await runtime.call_tool(s, 'get-sum', {'a': 2, 'b': 40}))", name)
			if got, want := sub.run(code), "(True, True, 'The sum of 2 and 40 is 42.')"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	t.Run("a server that was restarted", func(t *testing.T) {
		web.kill(t)
		sub := &agent{t: t, Client: a.Client, stderr: a.stderr}
		if got := sub.run("try:\n    await mcp_web.echo(message='x')\nexcept Exception as e:\n    print(e)"); !strings.Contains(got, "was not made") {
			t.Errorf("while it is down: got %s", got)
		}
		web.start(t)
		for deadline := time.Now().Add(waitTime); ; time.Sleep(100 * time.Millisecond) {
			res := a.call(map[string]any{"code": "str(await mcp_web.echo(message='again'))"})
			if !res.IsError && text(res) == "'Echo: again'" {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("it is not reached again: %s", text(res))
			}
		}
	})
	t.Run("a server that wants a login", func(t *testing.T) { testLogin(t, h, a, guard) })
}

// testLogin logs in while daemon and agent run.
func testLogin(t *testing.T, h *home, a *agent, guard *oauthtest.Server) {
	sub := &agent{t: t, Client: a.Client, stderr: a.stderr}
	if got := sub.run("try:\n    await mcp_guard.whoami()\nexcept Exception as e:\n    print(e)"); !strings.Contains(got, "bridged login guard") {
		t.Fatalf("before the login: got %s", got)
	}
	cmd := h.command(bridged, "login", "guard", "--no-browser")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := ""
	for buf := make([]byte, 4096); !strings.Contains(said, "\n\n  http") || !strings.HasSuffix(said, "\n\n"); {
		n, err := out.Read(buf)
		said += string(buf[:n])
		if err != nil {
			break
		}
	}
	_, rest, _ := strings.Cut(said, "\n\n  ")
	if err := guard.Approve(strings.TrimSpace(rest)); err != nil {
		t.Errorf("approving %q: %v", said, err)
	}
	_, _ = io.Copy(io.Discard, out) // until it ends
	if err := cmd.Wait(); err != nil {
		t.Fatalf("bridged login: %v", err)
	}
	if got := sub.run("str(await mcp_guard.whoami())"); got != "'somebody with a token'" {
		t.Errorf("after the login: got %s", got)
	}
	guard.Expire()
	if got := sub.run("str(await mcp_guard.whoami())"); got != "'somebody with a token'" || guard.Refreshes() != 1 {
		t.Errorf("when the token has expired: got %s, %d refreshes", got, guard.Refreshes())
	}
}
