//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/sandbox"
)

// TestStatusShowsWhatHoldsSandboxes reads the postures of a warm sandbox and of
// one in use, as a person or a monitor would.
func TestStatusShowsWhatHoldsSandboxes(t *testing.T) {
	for _, name := range engines.All {
		t.Run(string(name), func(t *testing.T) {
			h := onEngine(t, engines.ForTest(t, name), "MCP_BRIDGE_POOL_WARM=1")
			d := h.serve(t)
			h.agent(t, h.dir).run("1")
			d.until(t, "another is warm", func() bool { s := d.status(t); return s.Ready && s.Pool.Warm == 1 })
			out, err := h.command(bridged, "status", "--json").Output()
			var s ops.Status
			if err == nil {
				err = json.Unmarshal(out, &s)
			}
			if err != nil {
				t.Fatalf("bridged status --json: %v: %s", err, out)
			}
			var states []string
			for _, v := range s.Sandboxes {
				states = append(states, v.State)
				checkPosture(t, v, name == engines.Rootless)
			}
			slices.Sort(states)
			if want := []string{"leased", "warm"}; !slices.Equal(states, want) {
				t.Errorf("states %v, want %v", states, want)
			}
			plain, err := h.command(bridged, "status").Output()
			if want := "uid 65534, capabilities none, seccomp filter x2"; err != nil || strings.Count(string(plain), want) != 2 {
				t.Errorf("bridged status: %v: %s\nwant two lines with %q", err, plain, want)
			}
		})
	}
}

func checkPosture(t *testing.T, v ops.Sandbox, weak bool) {
	t.Helper()
	p := v.Posture
	if p.UID != "65534" || p.GID != "65534" || p.Capabilities != "none" || !p.NoNewPrivs || p.Seccomp != "filter" || p.SeccompFilters < 2 ||
		!p.OwnFilter || !p.ProcessHidden || !slices.Equal(p.Interfaces, []string{"lo"}) || p.CoreBytes != 0 || p.OpenFiles != 4096 {
		t.Errorf("posture %+v", p)
	}
	if !slices.ContainsFunc(p.Mounts, func(m ops.Mount) bool { return m.Target == "/tmp" && m.Type == "tmpfs" && m.Bytes > 0 }) {
		t.Errorf("/tmp is not among the mounts: %+v", p.Mounts)
	}
	// This machine has cgroups of version 1, which rootless Podman can't use.
	if limited := p.MemoryBytes != nil && *p.MemoryBytes == 512<<20 && p.PIDs != nil && *p.PIDs == 128; limited == weak {
		t.Errorf("memory %v, pids %v; want limits: %v", p.MemoryBytes, p.PIDs, !weak)
	}
	if degraded := len(v.Degraded) > 0; degraded != weak {
		t.Errorf("degraded %v, want something: %v", v.Degraded, weak)
	}
}

// atWork is what people do with Python, and what it must say.
var atWork = []struct{ name, code, want string }{
	{"pandas", "import pandas as pd\nint(pd.DataFrame({'a': [1, 2]}).a.sum())", "3"},
	{"matplotlib", "import io, matplotlib.pyplot as plt\nb = io.BytesIO()\nplt.plot([1, 2]); plt.savefig(b); plt.close('all')\nb.getvalue()[1:4]", "b'PNG'"},
	{"numpy in threads", "import numpy as np\nfrom concurrent.futures import ThreadPoolExecutor as T\nwith T(4) as t: r = list(t.map(lambda n: float((np.eye(200) @ np.eye(200)).trace()), range(8)))\nr == [200.0] * 8", "True"},
	{"scikit-learn", "from sklearn.linear_model import LinearRegression\nround(float(LinearRegression().fit([[0], [1]], [0, 2]).coef_[0]), 3)", "2.0"},
	{"subprocess", "import subprocess\nsubprocess.run('echo $((6*7)) | cat', shell=True, capture_output=True, text=True).stdout", "'42\\n'"},
	{"multiprocessing, forked", "import multiprocessing as m\nwith m.get_context('fork').Pool(2) as p: r = p.map(abs, [-1, -2])\nr", "[1, 2]"},
	{"multiprocessing, spawned", "import multiprocessing as m\nwith m.get_context('spawn').Pool(2) as p: r = p.map(abs, [-1, -2])\nr", "[1, 2]"},
	{"asyncio, its subprocesses and sockets", "import asyncio\np = await asyncio.create_subprocess_exec('echo', 'hi', stdout=-1)\nout, _ = await p.communicate()\n" +
		"async def serve(r, w): w.write(await r.readline()); w.close()\ns = await asyncio.start_server(serve, '127.0.0.1', 0)\n" +
		"r, w = await asyncio.open_connection(*s.sockets[0].getsockname())\nw.write(b'x\\n'); got = await r.read(); s.close()\nout, got", `(b'hi\n', b'x\n')`},
	{"names", "import getpass, socket, uuid\nsocket.gethostbyname('localhost'), len(str(uuid.uuid4())), getpass.getuser()", "('127.0.0.1', 36, 'sandbox')"},
	{"databases", "import sqlite3\nc = sqlite3.connect('/tmp/t.db'); c.execute('create table t(a)'); c.execute('select count(*) from t').fetchone()", "(0,)"},
	{"time zones", "import zoneinfo, datetime\nstr(datetime.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin')).utcoffset())", "'2:00:00'"},
	{"its own process", "import os\nos.readlink('/proc/self/exe').startswith('/usr'), len(os.listdir('/proc/self/fd')) > 3, open('/proc/self/environ').read() != ''", "(True, True, True)"},
}

// TestFilterLeavesPeopleAlone does ordinary work under the filter.
func TestFilterLeavesPeopleAlone(t *testing.T) {
	for _, name := range engines.All {
		t.Run(string(name), func(t *testing.T) {
			r := engines.ForTest(t, name)
			image, err := r.FullImage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			o := sandboxOptions(t, r)
			o.Spec.Image, o.Spec.MemoryBytes = image, runtime.DefaultSpec("").MemoryBytes*2
			pool := sandbox.NewPool(func(ctx context.Context) (*sandbox.Sandbox, error) { return sandbox.Launch(ctx, r.Engine, o) }, sandbox.PoolOptions{})
			defer pool.Close()
			s := sandbox.NewSession(pool, sandbox.SessionOptions{})
			defer s.Close()
			for _, row := range atWork {
				res, err := s.Run(t.Context(), sandbox.Request{Code: row.code, Timeout: waitTime}, nil)
				if err != nil || res.Value != row.want {
					t.Errorf("%s: got %q, %v, %+v, want %s", row.name, res.Value, err, res.Error, row.want)
				}
			}
		})
	}
}
