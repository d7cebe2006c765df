"""Files that the code hands to the user."""

from __future__ import annotations

import base64
import os
import time
import unittest
from typing import Any

from .driver import Case, Frame, Harness

BASE = "bridged://session/S/files/"


class Files(Case):
    """publish(), and the reads that follow."""

    def setUp(self) -> None:
        self.h = self.harness(files=BASE)

    def published(self, code: str) -> list[Frame]:
        reply = self.h.run(code)
        self.assertEqual(reply.status, "ok", reply.error)
        return reply.of("file")

    def chunk(self, file: int, offset: int = 0, length: int = 1 << 19, number: int = 1) -> Frame:
        self.h.send({"t": "read", "id": number, "file": file, "offset": offset, "length": length})
        return self.next_chunk()

    def next_chunk(self) -> Frame:
        while True:
            frame = self.h.read()
            if frame["t"] == "chunk":
                return frame

    def test_what_can_be_published(self) -> None:
        with open(os.path.join(self.h.dir, "report.csv"), "wb") as f:
            f.write(b"a,b\n1,2\n")
        table, raw, plain, js = b"a,b\n1,2\n", "application/octet-stream", "text/plain", "application/json"
        rows: list[tuple[str, str, str, str, str, bytes]] = [
            ("a path", "publish('report.csv')", "report.csv", "report.csv", "text/csv", table),
            ("a path object", "import pathlib\npublish(pathlib.Path('report.csv'), 'p')", "p", "p", plain, table),
            ("another name", "publish('report.csv', 'x y.txt')", "x y.txt", "x%20y.txt", plain, table),
            ("a type", "publish('report.csv', 'n', mime='text/x-mine')", "n", "n", "text/x-mine", table),
            ("bytes", "publish(b'\\x00\\xff', 'b.bin')", "b.bin", "b.bin", raw, b"\x00\xff"),
            ("no bytes", "publish(b'', 'empty')", "empty", "empty", plain, b""),
            ("a byte array", "publish(bytearray(b'x'), 'a.png')", "a.png", "a.png", "image/png", b"x"),
            ("words", "import array\npublish(memoryview(array.array('H', [1, 2])), 'w')", "w", "w", raw, b"\1\0\2\0"),
            ("lines of text", "publish('é\\n', 'é.md')", "é.md", "%C3%A9.md", "text/markdown", "é\n".encode()),
            ("a file in memory", "import io\npublish(io.StringIO('t'), 's.txt')", "s.txt", "s.txt", plain, b"t"),
            ("by the module", "from mcp import runtime\nruntime.publish(b'1', 'r.json')", "r.json", "r.json", js, b"1"),
            ("a link", "import os\nos.symlink('report.csv', 'link')\npublish('link')", "link", "link", plain, table),
            ("half a letter", "publish(b'x' * 4095 + b'\\xc3\\xa9', 'c')", "c", "c", plain, b"x" * 4095 + b"\xc3\xa9"),
        ]  # fmt: skip
        for what, code, name, quoted, mime, data in rows:
            with self.subTest(what):
                reply = self.h.run(code)
                self.assertEqual(reply.status, "ok", reply.error)
                self.assertEqual(reply.value, repr(BASE + quoted))
                (frame,) = reply.of("file")
                self.assertEqual(frame["run"], self.h.runs)
                self.assertEqual((frame["name"], frame["mime"], frame["size"]), (name, mime, len(data)))
                chunk = self.chunk(frame["file"])
                self.assertEqual(base64.b64decode(chunk["data"]), data)
                self.assertEqual((chunk["id"], chunk["size"]), (1, len(data)))

    def test_names_are_made_harmless(self) -> None:
        rows = {
            "../../etc/passwd": "passwd", "/abs/x.csv": "x.csv", "a\\b.txt": "b.txt", "..": "file", ".": "file",
            ".bashrc": "bashrc", "a\x00b": "a_b", "a\nb\x1b[31m": "a_b_[31m", "nul:*?.txt": "nul___.txt",
            "\u202egnp.exe": "_gnp.exe", "x/": "x", "x. ": "x", "\ud800": "_", "日本.csv": "日本.csv",
            "n" * 300 + ".parquet": "n" * 120 + ".parquet", "é" * 200: "é" * 64, "x." + "y" * 200: "x." + "y" * 126,
        }  # fmt: skip
        for given, want in rows.items():
            with self.subTest(given):
                (frame,) = self.published(f"publish(b'x', {given!r})")
                self.assertEqual(frame["name"], want)
                self.assertLessEqual(len(frame["name"].encode()), 128)

    def test_what_cannot_be_published_says_why(self) -> None:
        os.mkfifo(os.path.join(self.h.dir, "pipe"))
        rows = {
            "publish('missing.csv')": ("FileNotFoundError", "missing.csv"),
            "publish('just a text', 'x.txt')": ("FileNotFoundError", "text.encode()"),
            "publish('.', 'x')": ("ValueError", "shutil.make_archive"),
            "publish('pipe')": ("ValueError", "no regular file"),
            "publish('/dev/null')": ("ValueError", "no regular file"),
            "publish('/proc/self/status')": ("ValueError", "publish(data, name)"),
            "import os\nos.symlink('/proc/self/maps', 'maps')\npublish('maps')": ("ValueError", "no regular file"),
            "publish(b'x')": ("ValueError", "need a name"),
            "publish(b'x', '')": ("ValueError", "need a name"),
            "publish(7, 'x')": ("TypeError", "int"),
            "publish({'a': 1}, 'x.json')": ("TypeError", "save it to a file"),
            "publish(b'x', 'x', mime='html')": ("ValueError", "text/csv"),
            "publish(b'x', 'x', mime='a/b\\n')": ("ValueError", "text/csv"),
            "import os\npid = os.fork()\nif pid == 0:\n  try: publish(b'x', 'f')\n  except RuntimeError as e:\n"
            "    os.write(2, str(e).encode())\n  os._exit(0)\nos.waitpid(pid, 0)\n1/0": ("ZeroDivisionError", "zero"),
        }
        for code, (kind, text) in rows.items():
            with self.subTest(code):
                reply = self.h.run(code)
                self.assertEqual(reply.error.get("type"), kind, reply.error)
                self.assertIn(text, reply.error["message"])
                self.assertEqual(reply.of("file"), [])
                self.assertNotIn("harness", reply.error["traceback"])
        self.assertIn("main process only", reply.text(2))

    def test_a_name_published_again_is_the_same_file(self) -> None:
        (first,) = self.published("publish(b'1', 'a')")
        (second,) = self.published("publish(b'22', 'b')")
        (again,) = self.published("publish(b'333', 'a')")
        self.assertEqual(first["file"], again["file"])
        self.assertNotEqual(first["file"], second["file"])
        self.assertEqual(base64.b64decode(self.chunk(first["file"])["data"]), b"333")

    def test_there_is_a_most(self) -> None:
        reply = self.h.run("for n in range(300): publish(b'', f'f{n}')")
        self.assertEqual(reply.error.get("type"), "ValueError")
        self.assertEqual(len(reply.of("file")), 256)
        self.assertEqual(self.h.run("publish(b'', 'f7')").status, "ok")

    def test_a_file_is_read_in_parts(self) -> None:
        (frame,) = self.published("import os\ndata = os.urandom(1_300_000)\npublish(data, 'big')")
        got, stamps = b"", set()
        while len(got) < frame["size"]:
            chunk = self.chunk(frame["file"], len(got), 1 << 30)
            stamps.add(chunk["stamp"])
            part = base64.b64decode(chunk["data"])
            self.assertLessEqual(len(part), 512 << 10)
            got += part
        self.assertEqual(len(stamps), 1)
        self.h.run("import hashlib")
        import hashlib

        self.assertEqual(self.h.run("hashlib.sha256(data).hexdigest()").value, repr(hashlib.sha256(got).hexdigest()))
        self.assertEqual(self.chunk(frame["file"], frame["size"] + 5)["data"], "")

    def test_reads_are_answered_while_code_runs(self) -> None:
        for name, busy in {
            "a sleep": "time.sleep(0.05)",
            "a loop": "pass",
            "a coroutine": "await asyncio.sleep(0.05)",
        }.items():
            with self.subTest(name):
                self.h.start(
                    f"import asyncio, os, time\npublish(b'now', 'n')\nwhile not os.path.exists('{name}'): {busy}"
                )
                while self.h.read()["t"] != "file":
                    pass
                for i in range(5):
                    self.h.send({"t": "read", "id": i, "file": 1, "offset": 0, "length": 10})
                for i in range(5):
                    chunk = self.next_chunk()
                    self.assertEqual((chunk["id"], chunk["data"]), (i, "bm93"))
                self.h.touch(name)
                self.assertEqual(self.h.finish().status, "ok")

    def test_a_file_that_is_no_more_is_told(self) -> None:
        (frame,) = self.published("open('f', 'w').write('x')\npublish('f')")
        rows: list[tuple[str, str, str, str]] = [
            ("removed", "os.unlink('f')", "FileNotFoundError", "No such file"),
            ("a pipe in its place", "os.mkfifo('f')", "ValueError", "no regular file"),
            ("a folder in its place", "os.unlink('f'); os.mkdir('f')", "ValueError", "folder"),
            ("a link in its place", "os.rmdir('f'); os.symlink('/proc/self/status', 'f')", "OSError", ""),
        ]
        for what, code, kind, text in rows:
            with self.subTest(what):
                self.assertEqual(self.h.run("import os\n" + code).status, "ok")
                chunk = self.chunk(frame["file"])
                self.assertNotIn("data", chunk)
                self.assertEqual(chunk["error"]["type"], kind)
                self.assertIn(text, chunk["error"]["message"])

    def test_bad_reads_hurt_nobody(self) -> None:
        for frame in (
            {"file": 99},
            {},
            {"file": "x", "offset": 0, "length": 1},
            {"file": 1, "offset": -1, "length": 1},
        ):
            self.published("publish(b'x', 'x')")
            self.h.send({"t": "read", "id": 5, **frame})
            chunk = self.next_chunk()
            self.assertEqual(chunk["id"], 5)
            self.assertIn("error", chunk)
        self.assertEqual(self.h.run("1 + 1").value, "2")

    def test_a_full_disk_is_the_codes_to_know(self) -> None:
        reply = self.h.run(
            "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, -1))\npublish(b'x' * 5000, 'big')"
        )
        self.assertEqual(reply.error.get("type"), "OSError")
        self.assertEqual(reply.of("file"), [])

    def test_threads_and_late_tasks_publish_too(self) -> None:
        reply = self.h.run(
            "import os, threading, time\ndef late():\n  while not os.path.exists('over'): time.sleep(0.01)\n"
            "  publish(b'x', 'late')\nthreading.Thread(target=late).start()\n1"
        )
        self.assertEqual(reply.of("file"), [])
        self.h.touch("over")
        frame: dict[str, Any] = {}
        end = time.monotonic() + 60
        while frame.get("t") != "file" and time.monotonic() < end:
            frame = self.h.read()
        self.assertEqual(frame["name"], "late")


class Driver(Case):
    def test_without_a_base_the_address_is_the_name(self) -> None:
        h: Harness = self.harness()
        self.assertEqual(h.run("publish(b'x', 'x')").value, "'x'")


if __name__ == "__main__":
    unittest.main()
