"""How a harness starts and ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from driver import HANG, Case, modules


class Start(Case):
    def test_hello_proves_the_nonce_and_reports_the_posture(self) -> None:
        hello = self.harness().hello
        self.assertEqual((hello["t"], hello["nonce"], hello["protocol"]), ("hello", "NONCE", 1))
        self.assertEqual(hello["python"], sys.version.split()[0])
        with open("/proc/self/status", encoding="utf-8") as f:
            uid = next(line.split()[1:] for line in f if line.startswith("Uid:"))
        self.assertEqual(hello["posture"]["status"]["Uid"], uid)
        self.assertIn("/proc", [m["target"] for m in hello["posture"]["mounts"]])

    def test_ready_tells_what_was_imported_and_what_could_not_be(self) -> None:
        ready = self.harness(imports=["json", "no_such_module"]).ready["imports"]
        self.assertIsInstance(ready["json"], float)
        self.assertIn("No module named 'no_such_module'", ready["no_such_module"])

    def test_garbage_collections_do_not_look_at_what_was_imported(self) -> None:
        h = self.harness(imports=["json"])
        self.assertGreater(int(h.run("import gc; gc.get_freeze_count()").value or 0), 1000)

    def test_modules_are_packed_by_the_daemon_in_an_order_that_works(self) -> None:
        path = os.path.join(os.path.dirname(__file__), "..", "harness.go")
        with open(path, encoding="utf-8") as f:
            listed = re.search(r"var modules = \[\]string\{(.*?)\}", f.read(), re.S)
        assert listed is not None
        names = re.findall(r'"(\w+)"', listed.group(1))
        self.assertEqual(sorted(names), sorted(modules()))

    def test_stdin_that_ends_before_the_harness_arrived_is_said_on_stderr(self) -> None:
        with open(os.path.join(os.path.dirname(__file__), "..", "harness", "boot.py"), encoding="utf-8") as f:
            boot = f.read()
        done = subprocess.run(
            [sys.executable, "-I", "-c", boot], input=b"bridged-boot N 100\nabc", capture_output=True, timeout=HANG
        )
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(b"stdin ended before the harness arrived", done.stderr)


class End(Case):
    def test_ends_with_stdin_though_threads_and_tasks_go_on(self) -> None:
        h = self.harness()
        reply = h.run(
            "import asyncio, threading, time\n"
            "threading.Thread(target=time.sleep, args=(600,)).start()\n"
            "t = asyncio.create_task(asyncio.sleep(600))"
        )
        self.assertEqual(reply.status, "ok")
        self.assertEqual(h.close(), 0)

    def test_ends_with_stdin_in_the_middle_of_a_run(self) -> None:
        h = self.harness()
        h.start("import time\nprint('go\\n', end='')\ntime.sleep(600)")  # all that it prints, in one piece
        h.read()
        self.assertEqual(h.close(), 0)

    def test_a_process_that_ends_itself_has_its_last_words_and_cause_told(self) -> None:
        table = {
            "exit code": ("import os; print('last words'); os._exit(7)", {"code": 7}),
            "SIGKILL": ("import os; print('last words'); os.kill(os.getpid(), 9)", {"signal": "SIGKILL"}),
            "abort": ("import os; print('last words'); os.abort()", {"signal": "SIGABRT"}),
            "SIGSEGV": ("import ctypes; print('last words'); ctypes.string_at(0)", {"signal": "SIGSEGV"}),
            "text below Python's streams": ("import os; os.write(1, b'last words\\n'); os._exit(7)", {"code": 7}),
        }
        for name, (code, want) in table.items():
            with self.subTest(name):
                h = self.harness()
                reply = h.run(code)
                self.assertTrue(reply.text(1).startswith("last words\n"), reply.frames)
                self.assertEqual({f["run"] for f in reply.of("output")}, {1})
                self.assertEqual({k: reply.end.get(k) for k in want}, want)

    def test_a_crash_in_c_code_shows_where_python_was(self) -> None:
        reply = self.harness().run("import ctypes\nctypes.string_at(0)")
        self.assertIn('File "<run 1>", line 2', reply.text(2))

    def test_the_end_of_a_flood_is_kept_when_the_process_ends_itself(self) -> None:
        for ending in ("os._exit(0)", "os.kill(os.getpid(), 9)"):
            with self.subTest(ending):
                code = f"import sys, os; sys.stdout.write('x'*20_000_000 + 'END'); sys.stdout.flush(); {ending}"
                reply = self.harness().run(code)
                self.assertTrue(reply.text(1).endswith("xEND"))
                self.assertEqual(reply.cut + len(reply.text(1)), 20_000_003)
