"""What is printed, at every level, and how it arrives."""

from __future__ import annotations

from driver import Case, Harness, Reply


class Output(Case):
    shared: Harness

    @classmethod
    def setUpClass(cls) -> None:
        cls.shared = Harness()
        cls.addClassCleanup(cls.shared.close)

    def test_all_levels_are_caught_in_order(self) -> None:
        reply = self.shared.run(
            "import os, subprocess, sys\nprint('p1')\nos.write(1, b'w1\\n'); os.write(2, b'w2\\n')\n"
            "os.system('echo s1; echo s2 >&2')\n"
            "subprocess.check_call([sys.executable, '-c', \"print('c1')\"], stdout=sys.stdout, stderr=sys.stderr)\n"
            "print('p2', file=sys.stderr); print('p3', end='')"
        )
        self.assertEqual((reply.text(1), reply.text(2)), ("p1\nw1\ns1\nc1\np3", "w2\ns2\np2\n"))
        self.assertEqual(self.shared.junk, [])

    def test_partial_lines_of_all_levels_keep_their_order(self) -> None:
        reply = self.shared.run(
            "import ctypes, os, sys\nlibc = ctypes.CDLL(None)\nfor i in range(3):\n"
            "    print('py', end=' '); libc.printf(b'printf %d ', i); os.write(1, b'fd ')\n"
            "    os.system(\"printf 'sh '\"); sys.__stdout__.write('raw ')"
        )
        self.assertEqual(reply.text(), "".join(f"py printf {i} fd sh raw " for i in range(3)))

    def test_both_streams_at_full_speed(self) -> None:
        reply = self.shared.run(
            "import sys, subprocess\n"
            "sys.stderr.write('e'*3_000_000); sys.stdout.write('o'*3_000_000); sys.stderr.write('E')\n"
            'subprocess.run([sys.executable, \'-c\', \'import sys; sys.stderr.write("x"*2_000_000+"X"); '
            'sys.stdout.write("y"*2_000_000+"Y")\'])\n\'done\''
        )
        self.assertEqual(reply.value, "'done'")
        self.assertTrue(reply.text(1).endswith("Y") and reply.text(2).endswith("X"))
        self.assertEqual(len(reply.text()) + reply.cut, 10_000_003)

    def test_short_runs_lose_nothing(self) -> None:
        for _ in range(500):
            self.assertEqual(self.shared.run("print('q')").text(), "q\n")

    def test_characters_are_never_split(self) -> None:
        text = "🚀é漢" * 5000
        reply = self.shared.run("import sys\nfor k in range(8): sys.stdout.write('a'*k + '🚀é漢'*5000 + '\\n');")
        self.assertEqual(reply.text(), "".join("a" * k + text + "\n" for k in range(8)))
        reply = self.shared.run("import os\nfor b in '🚀é漢'.encode() * 200: os.write(1, bytes([b]));")
        self.assertEqual(reply.text(), "🚀é漢" * 200)

    def test_characters_written_in_pieces_are_whole(self) -> None:
        reply = self.shared.run(
            "import sys\nout = sys.stdout.buffer\n"
            "for b in '🚀é漢'.encode() * 200: out.write(bytes([b])); out.flush()\n"
            "print('漢'); out.write(b'\\xf0\\x9f'); sys.stderr.write('é')\n"
            "out.write(b'\\x9a\\x80'); out.write(b'\\xf0\\x9f');"
        )
        self.assertEqual(reply.text(1), "🚀é漢" * 200 + "漢\n🚀\\xf0\\x9f")
        self.assertEqual(reply.text(2), "é")

    def test_bytes_without_any_start_of_a_character_pass(self) -> None:
        for size in (10, 200_000):
            reply = self.shared.run(f"import sys; sys.stdout.buffer.write(b'\\x80' * {size});")
            self.assertEqual(set(reply.text()), set("\\x80"))
            self.assertEqual(len(reply.text()) // 4 + reply.cut, size)

    def test_output_past_the_budget_comes_while_code_runs(self) -> None:
        h = self.harness(output=100)
        number = h.start("import time\nprint('x' * 1000)\nprint('late')\ntime.sleep(600)")
        text = ""
        while not text.endswith("late\n"):
            text += "".join(t for _, t in h.read()["parts"])
        h.send({"t": "interrupt", "run": number})
        self.assertEqual((h.finish().status, len(text)), ("interrupted", 1006))

    def test_tails_begin_where_a_reader_can(self) -> None:
        table: dict[str, tuple[str, str]] = {
            "at a line": ("'line of text\\n' * 10_000", "line of text\n"),
            "at a state of a bar": ("'\\r50%|####' * 10_000", "\r50%|####"),
            "behind a colour": ("'\\x1b[38;5;208mword\\x1b[0m' * 10_000", "word"),
            "anywhere in one long word": ("'0123456789' * 10_000", "0"),
        }
        for name, (text, start) in table.items():
            for shift in range(20):
                h = self.shared
                reply = h.run(f"import sys; sys.stdout.write('-' * {shift} + ({text}) * 20);")
                [tail] = [f for f in reply.of("output") if f.get("cut")][-1:]
                got = tail["parts"][0][1][:40]
                with self.subTest(name, shift=shift, got=got):
                    if start == "word":
                        self.assertRegex(got, "^w?o?r?d?\x1b")
                    elif start == "0":
                        self.assertRegex(got, r"^\d")
                    else:
                        self.assertTrue(got.startswith(start))
                    self.assertEqual(len(reply.text().encode()) + reply.cut, shift + 20 * len(eval(text)))

    def test_nothing_is_lost_when_the_code_ends_the_process(self) -> None:
        for _ in range(10):
            h = self.harness(output=100_000)
            reply = h.run("import os, sys\nsys.stdout.write('x' * 3_000_000 + 'END'); os.write(1, b'low'); os._exit(7)")
            self.assertEqual((reply.end["code"], len(reply.text()) + reply.cut), (7, 3_000_006))
            self.assertTrue(reply.text().endswith("xENDlow"))

    def test_cuts_fall_between_characters(self) -> None:
        for head in range(4):
            h = self.harness(output=1000 + head)
            reply = h.run("print('🚀' * 50_000, end='')")
            self.assertEqual(set(reply.text()), {"🚀"})
            self.assertEqual(len(reply.text().encode()) + reply.cut, 200_000)

    def test_bytes_that_are_no_text_are_escaped(self) -> None:
        reply = self.shared.run("import os\nos.write(1, bytes(range(256)) + b'\\n');")
        self.assertTrue(reply.text().startswith("\x00\x01"))
        self.assertIn("\\x80\\x81", reply.text())
        self.assertEqual(self.shared.run("print('\\ud83d')").text(), "\\ud83d\n")
        self.assertEqual(self.shared.run("print('\\x00\\x1b[2J')").text(), "\x00\x1b[2J\n")

    def test_progress_bars_are_sent_in_few_frames(self) -> None:
        reply = self.shared.run(
            "import sys\nfor i in range(100_000):\n    sys.stdout.write(f'\\r{i}%'); sys.stdout.flush()"
        )
        self.assertTrue(reply.text().endswith("\r99999%"))
        self.assertLess(len(reply.frames), 2000)

    def test_output_comes_while_code_runs(self) -> None:
        number = self.shared.start("import time\nprint('early\\n', end='')\ntime.sleep(600)")  # in one piece
        frame = self.shared.read()
        self.assertEqual((frame["run"], frame["parts"]), (number, [[1, "early\n"]]))
        self.shared.send({"t": "interrupt", "run": number})
        self.assertEqual(self.shared.finish().status, "interrupted")

    def test_end_of_a_run_takes_two_frames(self) -> None:
        self.assertEqual(
            [f["t"] for f in self.shared.run("for i in range(50): print(i)").frames][-2:], ["output", "done"]
        )


class Input(Case):
    def test_stdin_is_empty_everywhere(self) -> None:
        h = self.harness()
        code = (
            "import os, sys, subprocess\n"
            "try: input('name? ')\nexcept EOFError: print('eof')\n"
            "print(repr(sys.stdin.read()), os.read(0, 65536), open('/dev/stdin').read() == '')\n"
            "subprocess.run(['cat'], timeout=30, check=True);"
        )
        number = h.start(code)
        for i in range(100):
            h.send({"t": "ping", "id": i})
        pongs: list[int] = []
        reply = h.finish(lambda f: pongs.append(f["id"]) if f["t"] == "pong" else None)
        self.assertEqual((reply.text(1), number), ("eof\n'' b'' True\n", 1))
        while len(pongs) < 100:
            pongs.append(h.read()["id"])
        self.assertEqual(pongs, list(range(100)))

    def test_exit_leaves_the_session_alive(self) -> None:
        table: dict[str, tuple[str, str]] = {
            "exit()": ("ok", ""),
            "quit()": ("ok", ""),
            "raise SystemExit(0)": ("ok", ""),
            "import sys; sys.exit('bye')": ("error", "bye"),
            "import sys; sys.exit(3)": ("error", "3"),
        }
        h = self.harness()
        h.run("x = 1")
        for code, (status, message) in table.items():
            with self.subTest(code):
                reply: Reply = h.run(code)
                self.assertEqual((reply.status, reply.error.get("message", "")), (status, message))
                self.assertEqual(h.run("import sys; (x, sys.stdin.read())").value, "(1, '')")


DAMAGE = {
    "json": "import json; json.dumps = json.JSONEncoder.encode = json.JSONEncoder.iterencode = json.loads = None",
    "builtins": "import builtins; builtins.print = builtins.len = builtins.compile = builtins.isinstance = None",
    "streams": "import sys; sys.stdout.close(); sys.stderr = None",
    "modules": "import sys; sys.modules.clear()",
    "clocks": "import time; time.time = time.monotonic = time.clock_gettime = lambda *a: 0",
    "surroundings": "import os, sys; os.chdir('/'); os.environ.clear(); sys.path[:] = []; sys.argv = []",
    "hooks": "import sys; sys.excepthook = sys.displayhook = None",
    "event loop policy": "import asyncio; asyncio.set_event_loop_policy(None)",
    "names": "globals().clear()",
    "os": "import os; os.read = os.write = os.getpid = os.fork = None",
    "threading": "import threading; threading.get_ident = threading.current_thread = None",
    "a full file system": "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))",
}


class Damage(Case):
    def test_replies_come_whatever_the_code_has_broken(self) -> None:
        for name, code in DAMAGE.items():
            with self.subTest(name):
                h = self.harness()
                self.assertEqual(h.run(code).status, "ok")
                self.assertEqual(h.run("1+1").value, "2")
                self.assertEqual(h.run("1/0").error["type"], "ZeroDivisionError")
                self.assertEqual(h.interrupted("display('go')\nwhile True: pass").status, "interrupted")
                self.assertEqual(h.run("display('still')").text(1), "still\n")
