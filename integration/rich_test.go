//go:build integration

package integration

import (
	"bytes"
	"context"
	"fmt"
	"image"
	_ "image/gif"  // for image.DecodeConfig
	_ "image/jpeg" // likewise
	_ "image/png"  // likewise
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/bridged/bridged/integration/engines"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/sandbox"
)

// fullPool keeps a warm sandbox of the image that agents get.
func fullPool(t *testing.T, r *engines.Running) *sandbox.Pool {
	t.Helper()
	ref, err := r.FullImage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := sandboxOptions(t, r)
	o.Spec.Image, o.Imports = ref, []string{"numpy", "pandas"}
	labels := o.Spec.Labels
	pool := sandbox.NewPool(func(ctx context.Context) (*sandbox.Sandbox, error) {
		return sandbox.Launch(ctx, r.Engine, o)
	}, sandbox.PoolOptions{Warm: 1})
	t.Cleanup(func() {
		pool.Close()
		noContainers(t, r, labels)
	})
	return pool
}

// runIn runs code in a session, and what it prints on stderr fails the test.
func runIn(t *testing.T, s *sandbox.Session, code string) sandbox.Result {
	t.Helper()
	res, err := s.Run(t.Context(), sandbox.Request{Code: code, Timeout: waitTime}, nil)
	if err != nil {
		t.Fatalf("%s: %v", code, err)
	}
	if res.Status != sandbox.StatusOK {
		t.Errorf("%s: %s: %+v %s", code, res.Status, res.Error, res.StateLost)
	}
	if text := printed(res, sandbox.Stderr); text != "" {
		t.Errorf("%s: warns: %s", code, text)
	}
	return res
}

func printed(res sandbox.Result, stream int) string {
	var b strings.Builder
	for _, o := range res.Output {
		if o.Stream == stream {
			b.WriteString(o.Text)
		}
	}
	return b.String()
}

// shown describes pictures as "png 640x480" and sounds as their type.
func shown(t *testing.T, rich []sandbox.Rich) string {
	t.Helper()
	var list []string
	for _, r := range rich {
		if !strings.HasPrefix(r.MIME, "image/") {
			list = append(list, r.MIME)
			continue
		}
		c, format, err := image.DecodeConfig(bytes.NewReader(r.Data))
		if err != nil {
			t.Errorf("%s of %d bytes: %v", r.MIME, len(r.Data), err)
		}
		if len(r.Data) > 1<<20 {
			t.Errorf("%s has %d bytes, want at most 1 MiB", r.MIME, len(r.Data))
		}
		list = append(list, fmt.Sprintf("%s %dx%d", format, c.Width, c.Height))
	}
	return strings.Join(list, ", ")
}

// riches are values of real libraries, run in this order in one session.
var riches = []struct {
	name, code string
	value      string // pattern of the whole value; "" for none
	shown      string // pattern of what is shown besides
	notice     string // part of the notices
}{
	{name: "a small frame", code: "import numpy as np, pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})",
		value: ` +a +b\n0 +1 +x\n1 +2 +y\n\[2 rows x 2 columns; int64: a; (object|str): b\]`},
	{name: "ten million rows", code: "pd.DataFrame({'a': np.arange(10_000_000, dtype='int32')})",
		value: `(?s) +a\n0 +0\n.*\n4 +4\n\.\.\. +\.\.\.\n.*9999999 +9999999\n\[10000000 rows x 1 columns; int32: a\]`},
	{name: "300 columns", code: "pd.DataFrame(np.zeros((100, 300)))",
		value: `(?s) +0 +1 .* \.\.\. .* 299\n.*\n\[100 rows x 300 columns; 300 float64\]`},
	{name: "long cells", code: "pd.DataFrame({'s': ['lorem ipsum ' * 1000] * 500})",
		value: `(?s) +s\n0 +lorem[a-z ]*\.\.\.\n.*\n\[500 rows x 1 columns; (object|str): s\]`},
	{name: "cells whose repr takes its time",
		code:  "import time\nclass Slow:\n    def __repr__(s): time.sleep(.01); return 'slow'\npd.DataFrame({'s': [Slow()] * 100_000})",
		value: `(?s) +s\n0 +slow\n.*\n\[100000 rows x 1 columns; object: s\]`},
	{name: "as many rows as the code asks for", code: "pd.set_option('display.max_rows', 200)\ndf = pd.DataFrame({'a': range(150)})\ndf",
		value: `(?s) +a\n0 +0\n1 +1\n.*75 +75\n.*149 +149\n\[150 rows x 1 columns; int64: a\]`},
	{name: "never ten thousand", code: "pd.set_option('display.max_rows', None)\nx = len(repr(display(pd.DataFrame({'a': range(10_000_000)}))))\npd.reset_option('display.max_rows')"},
	{name: "an empty frame", code: "pd.DataFrame()", value: `Empty DataFrame\n.*\n.*\n\[0 rows x 0 columns\]`},
	{name: "a Series", code: "df.a", value: `(?s)0 +0\n.*\n149 +149\nName: a, Length: 150, dtype: int64`},
	{name: "an index", code: "df.set_index('a').index[:3]", value: `Index\(\[0, 1, 2\], dtype='int64', name='a'\)`},
	{name: "groups", code: "df.groupby(df.a % 3)", value: `DataFrameGroupBy: 3 groups, with this many rows:\na\n0 +50\n1 +50\n2 +50\ndtype: int64`},
	{name: "a large array", code: "np.zeros((1000, 1000))", value: `(?s)array\(\[\[0\., .*\.\.\..*\[shape \(1000, 1000\), dtype float64\]`},
	{name: "a small array", code: "np.arange(3)", value: `array\(\[0, 1, 2\]\)`},
	{name: "an array in eight dimensions", code: "np.zeros((9,) * 8, dtype='int8')", value: `(?s)array\(.*\[shape \(9, 9, 9, 9, 9, 9, 9, 9\), dtype int8\]`},
	{name: "wide frames print all their columns", code: "print(pd.DataFrame(np.zeros((1, 15))).to_string() == str(pd.DataFrame(np.zeros((1, 15)))))"},
	{name: "an estimator", code: "import sklearn.linear_model\nsklearn.linear_model.LinearRegression()", value: `LinearRegression\(\)`},

	{name: "a figure left open", code: "import matplotlib.pyplot as plt\nplt.plot([1, 2]);", shown: `png [56]\d\dx4\d\d`},
	{name: "a figure that is the value too", code: "fig, ax = plt.subplots()\nax.plot([1, 2])\nfig", shown: `png [56]\d\dx4\d\d`},
	{name: "figures that are shown in between", code: "plt.plot([1]); plt.show(); plt.plot([2]); plt.show();", shown: `png \w+, png \w+`},
	{name: "a figure that changed after it was shown", code: "f, ax = plt.subplots(); display(f); display(f); ax.set_title('t');", shown: `png \w+, png \w+, png \w+`},
	{name: "a figure saved and shown", code: "plt.plot([1]); plt.savefig('a.png')\nimport os\nos.path.getsize('a.png') > 1000", value: "True", shown: `png \w+`},
	{name: "a figure's own show", code: "f, ax = plt.subplots(); ax.plot([1]); f.show()", shown: `png \w+`},
	{name: "a film by steps", code: "for i in range(9): plt.plot([i]); plt.pause(.001)", shown: `png \w+`},
	{name: "a frame's plot", code: "df.plot().get_title()", value: "''", shown: `png \w+`},
	{name: "a large figure", code: "plt.figure(figsize=(40, 20)); plt.plot([1]);", shown: `png 12\d\dx6\d\d`, notice: "of 4000x2000 pixels; savefig() and publish() hand over the full one"},
	{name: "a figure of many square miles", code: "plt.figure(figsize=(1e5, 1e5)); plt.plot([1]);", shown: `png 1\d\d\dx1\d\d\d`, notice: "of 10000000x10000000 pixels"},
	{name: "a noisy figure", code: "plt.figure(figsize=(15, 15)); plt.imshow(np.random.default_rng(1).random((1500, 1500)));", shown: `jpeg 1\d\d\dx1\d\d\d`, notice: "sent as image/jpeg of "},
	{name: "a figure with a word far outside", code: "plt.figure(figsize=(4, 3)); plt.text(1e6, 1e6, 'far');", shown: `png 400x300`},
	{name: "a figure that can't be drawn", code: "plt.title('$\\\\frac{$'); 'kept'", value: "'kept'", notice: "A figure is not shown: ValueError"},
	{name: "an animation", code: "from matplotlib.animation import FuncAnimation\nplt.rcParams['animation.html'] = 'jshtml'\nf, ax = plt.subplots()\nani = FuncAnimation(f, lambda i: ax.plot([i]), frames=10_000)\nani",
		shown: `png \w+`, notice: "One frame of the animation"},
	{name: "an animation that is let go", code: "del ani; import gc; gc.collect();"},
	{name: "an animation as a GIF", code: "ani = FuncAnimation(f, lambda i: ax.plot([i]), frames=2)\nani.save('a.gif', writer='pillow')\nfrom IPython.display import Image as Show\nfrom PIL import Image\nShow('a.gif')", shown: `gif.*`},

	{name: "a long GIF", code: "fs = [Image.fromarray((np.random.rand(300, 300) * 255).astype('uint8')) for _ in range(20)]\nfs[0].save('b.gif', save_all=True, append_images=fs[1:])\nShow('b.gif')",
		shown: "(png|jpeg) 300x300", notice: ", 20 frames"},
	{name: "an image", code: "Image.new('RGB', (100, 50), 'red')", shown: "png 100x50"},
	{name: "a photograph", code: "noise = np.random.default_rng(1).random((1500, 1200, 3)) * 255\nImage.fromarray(noise.astype('uint8')).resize((1568, 1254))",
		shown: `jpeg \d+x\d+`, notice: "of 1568x1254 pixels"},
	{name: "a large image", code: "Image.new('RGBA', (3000, 2000))", shown: "png 1568x1045", notice: "Picture 1: shown at 1568x1045 of 3000x2000 pixels; save() and publish() hand over the full one."},
	{name: "an image's own show", code: "Image.new('L', (5, 6)).show()", shown: "png 5x6"},
	{name: "images of every mode", code: "for m in ['1', 'L', 'P', 'RGBA', 'CMYK', 'YCbCr', 'LAB', 'HSV', 'I', 'F', 'I;16', 'LA', 'RGBX']: display(Image.new(m, (9, 9)))",
		shown: `png 9x9(, png 9x9){12}`},
	{name: "an image without pixels", code: "Image.new('RGB', (0, 5)).size", value: `\(0, 5\)`},
	{name: "a sound", code: "from IPython.display import Audio\nAudio(np.sin(np.arange(8000) / 10), rate=8000)", shown: "audio/wav"},
	{name: "a file that is a picture", code: "import io\nb = io.BytesIO(); Image.new('L', (5000, 4000)).save(b, 'JPEG')\nShow(data=b.getvalue())", shown: "png 1568x1254", notice: "of 5000x4000 pixels"},
	{name: "a bomb", code: "import struct, zlib\ndef chunk(kind, data): return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))\n" +
		"class Bomb:\n    def _repr_png_(s): return b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 65536, 65536, 1, 0, 0, 0, 0)) + chunk(b'IEND', b'')\n" +
		"    def __repr__(s): return 'bomb'\nBomb()",
		value: "bomb", notice: "65536x65536 pixels are too many"},
}

// Values of real libraries are shown as an agent can use them best.
func TestRichResults(t *testing.T) {
	for _, name := range engines.All {
		t.Run(string(name), func(t *testing.T) {
			s := sandbox.NewSession(fullPool(t, engines.ForTest(t, name)), sandbox.SessionOptions{})
			defer s.Close()
			for _, row := range riches {
				t.Run(row.name, func(t *testing.T) {
					res := runIn(t, s, row.code)
					if !regexp.MustCompile(`^(?:`+row.value+`)(?:\n\(out\[\d+] is all of it\))?$`).MatchString(res.Value) || len(res.Value) > 8000 {
						t.Errorf("value %q, want %q", res.Value, row.value)
					}
					if got := shown(t, res.Rich); !regexp.MustCompile(`^(?:` + row.shown + `)$`).MatchString(got) {
						t.Errorf("shown: %q, want %q", got, row.shown)
					}
					if got := strings.Join(res.Notices, "\n"); !strings.Contains(got, row.notice) || row.notice == "" && got != "" {
						t.Errorf("notices %q, want %q", got, row.notice)
					}
				})
			}
		})
	}
}

// A picture comes to an agent through daemon and shim, and so does a sound to
// one whose protocol has sounds. Frames come as tables to one that reads TOON.
func TestPicturesReachAgents(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	ref, err := r.FullImage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := onEngine(t, r, "MCP_BRIDGE_IMAGE="+ref, "MCP_BRIDGE_IMPORTS=numpy,pandas")
	d := h.serve(t)
	a := h.agent(t, h.dir)
	res := a.call(map[string]any{"timeout": 60, "code": `
import io, numpy as np
from PIL import Image
from IPython.display import Audio
print("first")
for i in range(4):
    noise = (np.random.default_rng(i).random((600, 560, 3)) * 255).astype("uint8")
    b = io.BytesIO(); Image.fromarray(noise).save(b, "PNG")
    display({"image/png": b.getvalue()}, raw=True)
Audio(np.zeros(800), rate=8000)`})
	var got []string
	for _, c := range res.Content {
		switch c := c.(type) {
		case mcp.TextContent:
			got = append(got, c.Text)
		case mcp.ImageContent:
			got = append(got, c.MIMEType)
		case mcp.AudioContent:
			got = append(got, c.MIMEType)
		}
	}
	want := []string{"first\n[picture 1]\n[picture 2]\n[picture 3]\n[picture 4]", "image/png", "image/png", "image/png", "image/png", "audio/wav"}
	if diff := cmp.Diff(want, got); res.IsError || diff != "" {
		t.Errorf("isError %v (-want +got):\n%s", res.IsError, diff)
	}
	testFrames(t, h)
	d.stop(t, syscall.SIGINT)
	noContainers(t, r, map[string]string{runtime.LabelManaged: "true"})
}

// ordinary is what libraries do at home, where folders can be written to.
const ordinary = `
import getpass, os, pathlib, pwd, shutil, socket, sqlite3, subprocess, tempfile, zoneinfo
with tempfile.NamedTemporaryFile() as f: f.write(b'1')
assert pathlib.Path.home().is_dir() and os.access(pathlib.Path.home(), os.W_OK)
for d in ('~/.cache/x', '~/.config/x', '~/.local/share/x'): os.makedirs(os.path.expanduser(d), exist_ok=True)
os.makedirs(os.path.join(os.environ['XDG_CACHE_HOME'], 'y'))
open('out.txt', 'w').write('1')
sqlite3.connect('t.db').execute('create table t(a)')
subprocess.run(['sh', '-c', 'echo 1 > ~/f; mktemp >/dev/null'], check=True)
when = __import__('datetime').datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin'))
(os.getcwd(), getpass.getuser(), pwd.getpwuid(os.getuid()).pw_name, socket.gethostname(), when.utcoffset().seconds)`

// numeric is the same for libraries that want caches and threads.
const numeric = `
import matplotlib.pyplot as plt
plt.plot([1]); plt.savefig('a.png'); plt.savefig('a.pdf'); plt.savefig('a.svg'); plt.close()
import numpy as np, pandas as pd, scipy.linalg, sklearn.cluster, concurrent.futures
a = np.random.rand(300, 300)
with concurrent.futures.ThreadPoolExecutor(4) as pool: sums = list(pool.map(lambda n: (a @ a).sum(), range(8)))
scipy.linalg.svd(a)
sklearn.cluster.KMeans(2, n_init=2).fit(a)
pd.DataFrame(a).to_csv('a.csv'); pd.DataFrame(a).to_excel('a.xlsx'); pd.read_excel('a.xlsx').shape`

// A root that is read-only hides from libraries, which neither fail nor warn.
func TestLibrariesFeelAtHome(t *testing.T) {
	for _, name := range engines.All {
		t.Run(string(name), func(t *testing.T) {
			r := engines.ForTest(t, name)
			const want = `('/workspace', 'sandbox', 'nobody', 'sandbox', 7200)`
			slim := sandbox.NewPool(func(ctx context.Context) (*sandbox.Sandbox, error) {
				return sandbox.Launch(ctx, r.Engine, sandboxOptions(t, r))
			}, sandbox.PoolOptions{Warm: 1})
			defer slim.Close()
			for image, pool := range map[string]*sandbox.Pool{"slim": slim, "full": fullPool(t, r)} {
				s := sandbox.NewSession(pool, sandbox.SessionOptions{})
				defer s.Close()
				if got := runIn(t, s, ordinary).Value; got != want {
					t.Errorf("%s: got %s, want %s", image, got, want)
				}
				if image == "full" {
					if got := runIn(t, s, numeric).Value; got != "(300, 301)" {
						t.Errorf("numeric libraries: got %s", got)
					}
				}
			}
		})
	}
}

// What a process draws from chance when it starts or imports is drawn anew in
// every sandbox, although it is warm before anybody wants it.
func TestEverySandboxHasItsOwnChance(t *testing.T) {
	r := engines.ForTest(t, engines.Rootful)
	pool := fullPool(t, r)
	const draw = `import sys
warm = 'numpy' in sys.modules and 'pandas' in sys.modules
import random, time, uuid, tempfile, secrets, numpy as np, pandas as pd
print(warm, time.time(), sep='\n')
print(random.random(), np.random.rand(), np.random.default_rng().random(), hash('x'), tempfile.mktemp(), uuid.uuid4(),
      secrets.token_hex(), pd.Series(range(1000)).sample(3).tolist(), sep='\n')`
	seen := map[string]int{}
	for range 3 {
		s := sandbox.NewSession(pool, sandbox.SessionOptions{})
		lines := strings.Split(strings.TrimSpace(printed(runIn(t, s, draw), sandbox.Stdout)), "\n")
		s.Close()
		if len(lines) != 10 || lines[0] != "True" {
			t.Fatalf("got %q, want that imports are done, and nine more lines", lines)
		}
		now, err := strconv.ParseFloat(lines[1], 64)
		if d := time.Since(time.UnixMilli(int64(now * 1000))); err != nil || d.Abs() > waitTime {
			t.Errorf("the clock is off by %s, %v", d, err)
		}
		for i, line := range lines[2:] {
			seen[fmt.Sprint(i, line)]++
		}
	}
	for what, n := range seen {
		if n > 1 {
			t.Errorf("%d sandboxes have drawn %s", n, what)
		}
	}
}
