//go:build integration

package escape

import (
	"fmt"
	"slices"
	"time"
)

// list is all the assaults. Those that leave the most behind come last.
func list() []assault {
	return slices.Concat(forgeries(), absurdities, bombs, shares(), floods, ends)
}

// framings are the names of FRAMINGS in tools.py.
var framings = []string{
	"lines", "lines after the end of another", "a length before", "a type and a length before", "a header before",
	"zeroes around", "detach keys before", "escapes before",
}

// forgeries write frames of every kind in every framing wherever code can write.
func forgeries() []assault {
	var rows []assault
	for _, way := range [][2]string{
		{"every descriptor", "every_fd()"}, {"every process's descriptors", "opened_anew()"}, {"process 1's descriptors, taken", "taken()"},
	} {
		for _, f := range framings {
			rows = append(rows, assault{
				name: fmt.Sprintf("forge: %s, %s", way[0], f), code: fmt.Sprintf("forge(%s, %q)", way[1], f), timeout: long,
			})
		}
	}
	return append(rows, []assault{
		{name: "forge: the harness's own way", code: "for m in frames(): raw(m + b'\\n')", timeout: long},
		{name: "forge: and then the end", code: "for m in frames(): raw(m + b'\\n')\nos._exit(0)", timeout: long},
		{name: "forge: from a child", code: "w = wire()\nchildren(1, lambda: [w.write(m + b'\\n') for m in frames()])", timeout: long},
		{name: "forge: calls through the harness's client", timeout: long,
			code: "c = found('Client')\nnames = [n for n in dir(c) if not n.startswith('__')]\n" +
				"for s in ('victim', 'files'):\n  for n in names:\n    try:\n" +
				"      queued = n == '_wait'  # takes what goes on the wire as it is\n" +
				"      args = (10**6, json.dumps(write_call(s)).encode() + b'\\n') if queued else ('tools.call', write_call(s)['params'])\n" +
				"      r = getattr(c, n)(*args)\n" +
				"      if hasattr(r, '__await__'): r = await r\n    except BaseException: pass"},
		{name: "forge: servers said to be loaded", timeout: long,
			code: "from mcp import runtime\nt = found('Tools')\n" +
				"t.load([{'name': s, 'alias': s} for s in ('victim', 'files')])\n" +
				"for s in ('victim', 'files'):\n  try: await runtime.call_tool(s, 'write_file', write_call(s)['params']['arguments'])\n  except Exception: pass"},
		{name: "forge: names of servers that only look alike", timeout: long,
			code: "for i, s in enumerate(['files\\0', 'FILES', ' files', 'fil\\u0435s', '../files', 'files/../victim', '*', '']):\n" +
				"  f = write_call('x'); f['params']['server'] = s; raw(json.dumps(f).encode() + b'\\n')\ntime.sleep(1)"},
		{name: "forge: methods that are nobody's", timeout: long,
			code: "for i, m in enumerate(['servers.load', 'sessions.list', 'run', 'shell', 'tools.call\\0', '__class__', 'x' * 100000, 'tools/call']):\n" +
				"  f = write_call('files'); f['method'] = m; raw(json.dumps(f).encode() + b'\\n')\ntime.sleep(1)"},
	}...)
}

// absurdities are frames that no parser should trust.
var absurdities = []assault{
	{name: "frames: a line that does not end", code: "for _ in range(300): raw(b'x' * (1 << 20))\nraw(b'\\n')", timeout: long},
	{name: "frames: a length that is announced", code: "raw(b'\\xff\\xff\\xff\\xff' * 1000 + b'\\n')\nraw(b'Content-Length: 99999999999\\r\\n\\r\\n')", timeout: long},
	{name: "frames: the largest that may be", code: "for _ in range(6): raw(b'{\"t\":\"output\",\"run\":1,\"parts\":[[1,\"' + b'x' * ((32 << 20) - 100) + b'\"]]}\\n')", timeout: long},
	{name: "frames: the largest call that may be", code: "for i in range(6): raw(b'{\"t\":\"rpc\",\"id\":%d,\"method\":\"servers.list\",\"params\":{\"a\":\"' % i + b'x' * ((32 << 20) - 100) + b'\"}}\\n')", timeout: long},
	{name: "frames: nested", code: "for o, c in ((b'[', b']'), (b'{\"a\":', b'}')):\n  raw(b'{\"t\":\"rpc\",\"id\":1,\"method\":\"servers.list\",\"params\":' + o * 200000 + b'1' + c * 200000 + b'}\\n')\n  raw(o * 200000 + b'\\n')\n  raw(o * 200000 + c * 200000 + b'\\n')", timeout: long},
	{name: "frames: many parts", code: "raw(b'{\"t\":\"output\",\"run\":1,\"parts\":[' + b'[1,\"\"],' * 2000000 + b'[1,\"\"]]}\\n')", timeout: long},
	{name: "frames: many fields", code: "raw(b'{\"t\":\"ready\",\"imports\":{' + b','.join(b'\"m%d\":1' % i for i in range(1000000)) + b'}}\\n')", timeout: long},
	{name: "frames: ids that are none", code: "for i in ('1.5', '{}', '[]', 'null', '\"1\"', '1' + '0' * 400, '-1', '1e999', 'true', 'NaN'):\n" +
		"  for t in ('rpc', 'cancel', 'done', 'rich', 'output', 'pong'):\n    raw(('{\"t\":\"%s\",\"id\":%s,\"run\":%s,\"method\":\"servers.list\"}\\n' % (t, i, i)).encode())", timeout: long},
	{name: "frames: types that are none", code: "for t in ('null', '1', '[]', '{}', '\"\"', '\"__proto__\"', '\"' + 'x' * 100000 + '\"'): raw(('{\"t\":%s}\\n' % t).encode())", timeout: long},
	{name: "frames: no UTF-8", code: "for b in (b'\\xff\\xfe', b'\\xc0\\x80', b'\\xed\\xa0\\x80', b'\\xf8\\x88\\x80\\x80\\x80'): raw(b'{\"t\":\"output\",\"run\":1,\"parts\":[[1,\"' + b + b'\"]]}\\n')", timeout: long},
	{name: "frames: half of one, and the end", code: "raw(b'{\"t\":\"done\",\"run\":1,\"sta')\nos._exit(0)", timeout: long},
	{name: "frames: half of one, and death", code: "raw(b'{\"t\":\"rpc\",\"id\":1,\"method\":\"tools.c')\nos.kill(os.getpid(), 9)", timeout: long},
	{name: "frames: half of a large one, and silence", code: "raw(b'{\"t\":\"output\",\"run\":1,\"parts\":[[1,\"' + b'x' * (20 << 20))\nos.kill(os.getpid(), 19)", timeout: short},
	{name: "frames: a million tiny ones a second", code: "flood(b'{\"t\":\"pong\"}\\n' * 5000, 30)", timeout: short},
	{name: "frames: a million lines that are none", code: "flood(b'\\n' * 60000, 30)", timeout: short},
	{name: "frames: a flood of calls", code: "for i in range(1, 100000): raw(b'{\"t\":\"rpc\",\"id\":%d,\"method\":\"servers.list\",\"params\":{}}\\n' % i)", timeout: short},
	{name: "frames: a flood of calls with one id", code: "flood(b'{\"t\":\"rpc\",\"id\":1,\"method\":\"docs.search\",\"params\":{\"query\":\"x\"}}\\n' * 1000, 30)", timeout: short},
	{name: "frames: a flood of calls that are given up", code: "for i in range(1, 50000): raw(b'{\"t\":\"rpc\",\"id\":%d,\"method\":\"tools.list\",\"params\":{\"server\":\"files\"}}\\n{\"t\":\"cancel\",\"id\":%d}\\n' % (i, i))", timeout: short},
	{name: "frames: a flood of output of other runs", code: "m = b''.join(b'{\"t\":\"output\",\"run\":%d,\"parts\":[[1,\"%s\"]]}\\n' % (i, b'x' * 60000) for i in range(100))\nflood(m, 30)", timeout: short},
	{name: "frames: a flood of pictures", code: "flood(b'{\"t\":\"rich\",\"run\":1,\"mime\":\"image/png\",\"data\":\"' + b'QUJD' * (1 << 20) + b'\"}\\n', 30)", timeout: short},
	{name: "frames: a flood of files", timeout: long, code: "for i in range(20000): raw(json.dumps({'t': 'file', 'run': 1, 'file': i, 'name': f'f{i}' * 10, 'mime': 'x/' + 'y' * 1000, 'size': i}).encode() + b'\\n')"},
	{name: "frames: files with names that lead elsewhere", timeout: long, code: "for i, n in enumerate(['../forged', '/etc/passwd', '..', '', '.', 'a/b', 'a\\\\b', 'x\\0y', '\\x1b[2J', '\\u202eexe.txt', 'x' * 10**6]):\n" +
		"  raw(json.dumps({'t': 'file', 'run': 1, 'file': i + 1, 'name': n, 'mime': n, 'size': -1}).encode() + b'\\n')"},
	{name: "frames: chunks that nobody asked for", timeout: long, code: "for i in range(2000): raw(b'{\"t\":\"chunk\",\"id\":%d,\"size\":99,\"stamp\":\"s\",\"data\":\"' % i + b'QUJD' * 5000 + b'\"}\\n')"},
	{name: "frames: notices without end", code: "raw(b'{\"t\":\"done\",\"run\":1,\"status\":\"ok\",\"notices\":[' + b'\"x\",' * 1000000 + b'\"x\"]}\\n')", timeout: long},
	{name: "frames: an error without end", code: "raw(json.dumps({'t': 'done', 'run': 1, 'status': 'error', 'error': {'type': 'E' * 10**6, 'message': 'm' * 10**7, 'traceback': 't' * 10**7}}).encode() + b'\\n')", timeout: long},
}

// bombs are results that grow when they are opened.
var bombs = []assault{
	{name: "bombs: a picture that is large when it is unpacked", timeout: long,
		code: "import zlib, base64\nw = 60000\nchunk = lambda k, d: struct.pack('>I', len(d)) + k + d + struct.pack('>I', zlib.crc32(k + d))\n" +
			"z = zlib.compressobj(9); row = b'\\0' * (w // 8 + 1)\nbody = b''.join(z.compress(row) for _ in range(w)) + z.flush()\n" +
			"png = b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', w, w, 1, 0, 0, 0, 0)) + chunk(b'IDAT', body) + chunk(b'IEND', b'')\n" +
			"class P:\n  def _repr_png_(self): return png\n" +
			"raw(json.dumps({'t': 'rich', 'run': 1, 'mime': 'image/png', 'data': base64.b64encode(png).decode()}).encode() + b'\\n')\nP()"},
	{name: "bombs: a picture with sizes that are lies", timeout: long,
		code: "import base64\nfor n in (0, 0xffffffff):\n  png = b'\\x89PNG\\r\\n\\x1a\\n' + struct.pack('>I', 13) + b'IHDR' + struct.pack('>IIBBBBB', n, n, 16, 6, 0, 0, 0) + b'0000'\n" +
			"  raw(json.dumps({'t': 'rich', 'run': 1, 'mime': 'image/png', 'data': base64.b64encode(png).decode()}).encode() + b'\\n')"},
	{name: "bombs: a ZIP file in a result", timeout: long,
		code: "import io, zipfile\nb = io.BytesIO()\nwith zipfile.ZipFile(b, 'w', zipfile.ZIP_DEFLATED) as z:\n  z.writestr('../../forged-zip', b'\\0' * (64 << 20))\nb.getvalue()"},
	{name: "bombs: a pickle in a result", timeout: long,
		code: "import pickle\nclass P:\n  def __reduce__(self): return os.system, ('touch ' + FOLDER + '/forged-pickle',)\npickle.dumps(P(), 0)"},
	{name: "bombs: XML in a result", timeout: long,
		code: "x = '<!DOCTYPE l [<!ENTITY a \"x\">' + ''.join('<!ENTITY %s \"%s\">' % (chr(98 + i), ('&%s;' % chr(97 + i)) * 10) for i in range(9)) + ']><svg>&j;</svg>'\n" +
			"class P:\n  def _repr_svg_(self): return x\n  def _repr_html_(self): return x\nP()"},
	{name: "bombs: a text that is large", timeout: long, code: "class P:\n  def __repr__(self): return 'x' * (100 << 20)\nP()"},
	{name: "bombs: a text that is larger than the memory", timeout: long, code: "class P:\n  def __repr__(self): return 'x' * (4 << 30)\nP()"},
	{name: "bombs: a value with no end", timeout: short, code: "class P:\n  def __repr__(self):\n    while True: pass\nP()"},
	{name: "bombs: a value that ends the process", timeout: long, code: "class P:\n  def __repr__(self): os._exit(3)\nP()"},
	{name: "bombs: a nested value", timeout: long, code: "v = []\nfor _ in range(100000): v = [v]\nv"},
	{name: "bombs: 5000 pictures", timeout: long, code: "class P:\n  def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n' + b'x' * 20000\nfor _ in range(5000): display(P())"},
}

// floods use up what a machine has.
var floods = []assault{
	{name: "floods: stdout", timeout: short, code: "while True: print('y' * 1000)"},
	{name: "floods: stdout of a child", timeout: short, code: "os.system('yes')"},
	{name: "floods: stdout and stderr of 32 threads", timeout: short,
		code: "import threading, sys\nfor i in range(32): threading.Thread(target=lambda f=(sys.stdout, sys.stderr)[i % 2]: [f.write('y' * 1000 + '\\n') for _ in iter(int, 1)], daemon=True).start()\ntime.sleep(600)"},
	{name: "floods: the descriptors of stdout and stderr", timeout: short, code: "while True:\n  os.write(1, b'y' * 65536); os.write(2, b'\\xff' * 65536)"},
	{name: "floods: one line of a gigabyte", timeout: short, code: "import sys\nwhile True: sys.stdout.write('y' * 100000)"},
	{name: "floods: progress bars", timeout: short, code: "import sys\nwhile True: sys.stdout.write('\\r' + 'y' * 100)"},
	{name: "floods: stdout of a process that is left running", timeout: long,
		code: "import subprocess\nfor _ in range(4): subprocess.Popen(['yes'], start_new_session=True)"},
	{name: "floods: 100,000 files", timeout: long,
		code: "made = 0\nfor folder in ('/tmp', '/workspace', '/projects', '/dev/shm'):\n  for i in range(25000):\n    try:\n      with open(f'{folder}/f{i}', 'w') as f: f.write('x')\n      made += 1\n    except OSError: break"},
	{name: "floods: 20,000 published files", timeout: long,
		code: "for i in range(20000):\n  try: publish(b'x', f'f{i}')\n  except Exception: break"},
	{name: "floods: full folders", timeout: long,
		code: "for folder in ('/tmp', '/workspace', '/projects', '/dev/shm', '/dev/mqueue'):\n  try:\n    with open(folder + '/fill', 'wb', buffering=0) as f:\n      while True: f.write(b'x' * (1 << 20))\n  except OSError: pass"},
	{name: "floods: folders in folders", timeout: long, code: "os.chdir('/tmp')\ntry:\n  for i in range(20000): os.mkdir('d'); os.chdir('d')\nexcept OSError: pass\nfinally: os.chdir('/workspace')"},
	{name: "floods: descriptors", timeout: long, code: "kept = []\ntry:\n  while True: kept.append(os.open('/dev/null', os.O_RDONLY))\nexcept OSError: pass"},
	{name: "floods: sockets", timeout: long, code: "import socket\nkept = []\ntry:\n  while True: kept += socket.socketpair()\nexcept OSError: pass"},
	{name: "floods: pipes full of bytes", timeout: long, code: "kept = []\ntry:\n  while True:\n    r, w = os.pipe(); kept += [r, w]; os.set_blocking(w, False); os.write(w, b'x' * 65536)\nexcept OSError: pass"},
	{name: "floods: processes", timeout: short, code: "while True:\n  try: os.fork()\n  except OSError: pass"},
	{name: "floods: processes that leave", timeout: short, code: "while True:\n  try:\n    if os.fork() == 0: os.setsid(); time.sleep(600)\n  except OSError: time.sleep(0.01)"},
	{name: "floods: processes that end", timeout: short, code: "while True:\n  try:\n    if os.fork() == 0: os._exit(0)\n  except OSError: pass"},
	{name: "floods: threads", timeout: long, code: "import threading\ntry:\n  while True: threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\nexcept RuntimeError: pass"},
	{name: "floods: memory", timeout: long, code: "b = []\nwhile True: b.append(bytearray(10**7))"},
	{name: "floods: memory of a child", timeout: long, code: "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'b = []\\nwhile True: b.append(bytearray(10**7))']).returncode"},
	{name: "floods: memory of many", timeout: 20 * time.Second, code: "def hog():\n  b = []\n  while True: b.append(bytearray(10**6))\nchildren(20, hog)"},
	{name: "floods: memory that is shared", timeout: long, code: "import mmap\nb = []\ntry:\n  while True:\n    m = mmap.mmap(-1, 1 << 24); m.write(b'x' * (1 << 24)); b.append(m)\nexcept (OSError, MemoryError): pass"},
	{name: "floods: memory that is locked", timeout: long, code: "b = [bytearray(1 << 20) for _ in range(64)]\n_libc.mlockall(3)"},
	{name: "floods: System V memory", timeout: long, code: "for key in range(1, 5000):\n  if _libc.shmget(key, 1 << 20, 0o1666) < 0: break\n  p = _libc.shmget(key, 0, 0)"},
	{name: "floods: recursion", timeout: long, code: "import sys\nsys.setrecursionlimit(10**9)\ndef f(): return f()\nf()"},
	{name: "floods: a computation in C", timeout: short, code: "10 ** 10 ** 8"},
	{name: "floods: the processor, by many", timeout: short, code: "def spin():\n  while True: pass\nchildren(16, spin)"},
	{name: "floods: timers and signals", timeout: short, code: "import signal\nsignal.signal(signal.SIGALRM, lambda *_: None)\nsignal.setitimer(signal.ITIMER_REAL, 1e-6, 1e-6)\nwhile True: pass"},
}

// ends leave a session without its worker, its stream or its limits.
var ends = []assault{
	{name: "ends: every descriptor closed", timeout: short, code: "os.closerange(0, 4096)"},
	{name: "ends: every descriptor another", timeout: short, code: "n = os.open('/dev/null', os.O_RDWR)\nfor fd in range(64):\n  if fd != n:\n    try: os.dup2(n, fd)\n    except OSError: pass"},
	{name: "ends: every process killed", timeout: long, code: "os.kill(-1, 9)\nos.kill(os.getpid(), 9)"},
	{name: "ends: every process stopped", timeout: short, code: "for s in (19, 20): os.kill(-1, s); os.kill(os.getpid(), s)"},
	{name: "ends: process 1 asked to end", timeout: short, code: "for s in range(1, 65):\n  if s not in (15,):\n    try: os.kill(1, s)\n    except OSError: pass"},
	{name: "ends: process 1's limits taken", timeout: short, code: "import resource\nfor n in dir(resource):\n  if n.startswith('RLIMIT_'):\n    try: resource.prlimit(1, getattr(resource, n), (0, 0))\n    except (OSError, ValueError): pass\nos._exit(1)"},
	{name: "ends: another program in its place", timeout: short, code: "os.execvp('sleep', ['sleep', '600'])"},
	{name: "ends: limits of nothing", timeout: short, code: "import resource\nfor n in dir(resource):\n  if n.startswith('RLIMIT_'):\n    try: resource.setrlimit(getattr(resource, n), (0, 0))\n    except (OSError, ValueError): pass\nopen('/tmp/x', 'w')"},
	{name: "ends: the worst priority", timeout: short, code: "os.nice(19)\nopen('/proc/self/oom_score_adj', 'w').write('1000')"},
	{name: "ends: folders that nobody may enter", timeout: short, code: "for d in ('/tmp', '/workspace', '/projects', '/dev/shm'):\n  for n in os.listdir(d):\n    try: os.chmod(d + '/' + n, 0)\n    except OSError: pass"},
	{name: "ends: signals that are ignored", timeout: short, code: "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True:\n  try:\n    while True: time.sleep(1)\n  except BaseException: pass"},
	{name: "ends: a segmentation fault", timeout: long, code: "ctypes.string_at(0)"},
	{name: "ends: an abort", timeout: long, code: "os.abort()"},
}

// shares leave marks of every kind in one sandbox and look for them in another.
func shares() []assault {
	row := func(name, code, ask string) assault {
		return assault{name: "shared: " + name, code: code, timeout: long, ask: ask}
	}
	rows := []assault{
		row("a mask for new files", "os.umask(0o707)", "import os\n[m for m in [os.umask(0o22)] if m == 0o707]"),
		row("limits", "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (4321, 4321))", "import resource\n[v for v in resource.getrlimit(resource.RLIMIT_FSIZE) if v == 4321]"),
		row("a variable of the environment", "os.environ['MARK'] = 'mark'; os.putenv('MARK', 'mark')", "import os\n[k for k in os.environ if k == 'MARK']"),
		row("a folder to work in", "os.makedirs('/tmp/mark'); os.chdir('/tmp/mark')", "import os\n[d for d in [os.getcwd()] if 'mark' in d]"),
		row("a module that was changed", "import json as j\nj.mark = 1", "import json\n[k for k in vars(json) if k == 'mark']"),
		row("System V memory", "_libc.shmget(4321, 4096, 0o1666); _libc.semget(4321, 1, 0o1666); _libc.msgget(4321, 0o1666)",
			"import ctypes\nc = ctypes.CDLL(None)\n[v for v in (c.shmget(4321, 0, 0), c.semget(4321, 0, 0), c.msgget(4321, 0)) if v >= 0]"),
		row("a process", "import subprocess\np = subprocess.Popen(['sleep', '4321'])",
			"import glob\n[p for p in glob.glob('/proc/*/cmdline') if b'4321' in open(p, 'rb').read()]"),
		row("an abstract socket", "import socket\nkept = socket.socket(socket.AF_UNIX); kept.bind('\\0mark'); kept.listen()",
			"import socket\ns = socket.socket(socket.AF_UNIX)\n[n for n in ['mark'] if s.connect_ex('\\0' + n) == 0]"),
		row("a port of the loopback", "import socket\nkept = socket.create_server(('127.0.0.1', 4321))",
			"import socket\ns = socket.socket()\n[n for n in [4321] if s.connect_ex(('127.0.0.1', n)) == 0]"),
		row("a port of IPv6's loopback", "import socket\ntry: kept = socket.create_server(('::1', 4321), family=socket.AF_INET6)\nexcept OSError: pass",
			"import socket\ns = socket.socket(socket.AF_INET6)\n[n for n in [4321] if s.connect_ex(('::1', n)) == 0]"),
	}
	for _, folder := range []string{"/tmp", "/workspace", "/projects", "/dev/shm", "/var/tmp", "/run"} {
		rows = append(rows, row("a file in "+folder,
			fmt.Sprintf("try: open('%s/mark-4321', 'w').close()\nexcept OSError: pass", folder),
			fmt.Sprintf("import os\n[n for n in os.listdir('%s') if 'mark' in n] if os.path.isdir('%s') else []", folder, folder)))
	}
	return rows
}
