"""Tracebacks show the agent's lines, where they are, and little else."""

from __future__ import annotations

import sys

from driver import Case, Harness

# Code, and the lines of its traceback without those of carets.
TRACEBACKS: dict[str, tuple[str, list[str]]] = {
    "a cause": (
        "def f():\n    try:\n        1/0\n    except Exception as e:\n        raise ValueError('x') from e\nf()",
        [
            "Traceback (most recent call last):",
            '  File "<run N>", line 3, in f',
            "    1/0",
            "ZeroDivisionError: division by zero",
            "",
            "The above exception was the direct cause of the following exception:",
            "",
            "Traceback (most recent call last):",
            '  File "<run N>", line 6, in <module>',
            "    f()",
            '  File "<run N>", line 5, in f',
            "    raise ValueError('x') from e",
            "ValueError: x",
        ],
    ),
    "code given to exec": (
        "exec('x = 1\\n1/0')",
        [
            "Traceback (most recent call last):",
            '  File "<run N>", line 1, in <module>',
            "    exec('x = 1\\n1/0')",
            '  File "<string>", line 2, in <module>',
            "ZeroDivisionError: division by zero",
        ],
    ),
    "a callback from a library": (
        "import functools\ndef f(a, b): return a / b\nfunctools.reduce(f, [1, 0])",
        [
            "Traceback (most recent call last):",
            '  File "<run N>", line 3, in <module>',
            "    functools.reduce(f, [1, 0])",
            '  File "<run N>", line 2, in f',
            "    def f(a, b): return a / b",
            "ZeroDivisionError: division by zero",
        ],
    ),
    "a syntax error": (
        "def f(:\n    pass",
        ['  File "<run N>", line 1', "    def f(:", "SyntaxError: invalid syntax"],
    ),
    "a syntax error that the compiler finds": (
        "x = 1\nreturn x",
        ['  File "<run N>", line 2', "    return x", "SyntaxError: 'return' outside function"],
    ),
    "an import that fails": (
        "import no_such_thing",
        [
            "Traceback (most recent call last):",
            '  File "<run N>", line 1, in <module>',
            "    import no_such_thing",
            "ModuleNotFoundError: No module named 'no_such_thing'",
            "hint: it is not in this sandbox, and there is no network to get it",
        ],
    ),
}

HINTS = {
    "asyncio.run in async code": (
        "import asyncio\nasync def m(): pass\nawait asyncio.sleep(0)\nasyncio.run(m())",
        "`await` the coroutine instead",
    ),
    "run_until_complete in async code": (
        "await asyncio.sleep(0)\nasyncio.get_event_loop().run_until_complete(m())",
        "`await` the coroutine instead",
    ),
    "a loop of one's own in async code": (
        "await asyncio.sleep(0)\nasyncio.new_event_loop().run_until_complete(m())",
        "`await` the coroutine instead",
    ),
    "asyncio.run in asyncio.run": (
        "async def n(): asyncio.run(m())\nasyncio.run(n())",
        "`await` the coroutine instead",
    ),
    "a loop that does not run": ("asyncio.get_running_loop()", "code without a top-level `await` runs with no loop"),
    "a server that is not loaded": ("mcp_github.search()", 'pass servers=["github"]'),
    "no network": (
        "raise OSError(101, 'Network is unreachable')",
        "there is no network here",
    ),
    "no name service": (
        "import socket\nraise socket.gaierror(-3, 'Temporary failure in name resolution')",
        "no network",
    ),
    "a copy of a memory": (
        "raise PermissionError(13, 'Permission denied', '/projects/memory/k.json')",
        "save_memory(key, value) changes a memory",
    ),
    "values in gather": ("import asyncio\nawait asyncio.gather(1, 2)", "runtime.load_memory_async"),
    "a read-only file system": ("raise OSError(30, 'Read-only file system')", "write to /workspace or /tmp"),
}


class Tracebacks(Case):
    shared: Harness

    @classmethod
    def setUpClass(cls) -> None:
        cls.shared = Harness()
        cls.addClassCleanup(cls.shared.close)

    def lines(self, code: str) -> list[str]:
        """The traceback without the lines of carets, which old Pythons have not."""
        text = self.shared.run(code).error["traceback"].replace(f"<run {self.shared.runs}>", "<run N>")
        return [line for line in text.split("\n") if not line or line.strip(" ~^")]

    def test_traceback(self) -> None:
        for name, (code, want) in TRACEBACKS.items():
            with self.subTest(name):
                self.assertEqual(self.lines(code), want)

    def test_of_a_library_the_innermost_frame_is_shown(self) -> None:
        lines = self.lines("import json\njson.loads('{')")
        self.assertEqual(
            lines[1:4], ['  File "<run N>", line 2, in <module>', "    json.loads('{')", "  [2 more in libraries]"]
        )
        self.assertRegex(lines[4], r"json.decoder.py., line \d+, in raw_decode$")
        self.assertEqual(len(lines), 7)

    def test_files_that_the_code_wrote_are_its_own(self) -> None:
        code = (
            "import os, sys\nopen('own_module.py', 'w').write('def f():\\n    1/0\\n')\nsys.path.insert(0, os.getcwd())"
        )
        self.shared.run(code)
        lines = self.lines("import own_module; own_module.f()")
        self.assertRegex("\n".join(lines), r"own_module.py., line 2, in f\n    1/0\nZeroDivisionError")

    def test_carets_are_under_what_they_mean(self) -> None:
        table = {"the last line": "x = 0; 1/x", "a line before it": "x = 0; 1/x\nx", "after two bytes": "é = 0; 1/é"}
        for name, code in table.items():
            with self.subTest(name):
                text = self.shared.run(code).error["traceback"].split("\n")
                if sys.version_info >= (3, 11):
                    self.assertEqual(text[3], "           ~^~")

    def test_a_syntax_error_has_a_caret_at_its_column(self) -> None:
        for code, at in (("x = (1 +* 2)", 8), ("  y = = 2", 4), ("x = 'é' y", 8)):
            text = self.shared.run(code).error["traceback"].split("\n")
            self.assertEqual(text[2].index("^") - 4, at, text)

    def test_deep_recursion_shows_its_start_and_end(self) -> None:
        reply = self.shared.run(
            "import sys\nsys.setrecursionlimit(100_000)\ndef f(n): return f(n - 1) if n else 1/0\ntry: f(5_000)\n"
            "finally: sys.setrecursionlimit(1000)"
        )
        text = reply.error["traceback"]
        self.assertRegex(text, r"line 4, in <module>\n.*f\(5_000\)")
        self.assertRegex(text, r"\[49\d\d more\]")
        self.assertLess(len(text), 1500)

    def test_a_group_shows_each_of_its_exceptions(self) -> None:
        if sys.version_info < (3, 11):
            return
        lines = self.lines(
            "import asyncio\nasync def a(): 1/0\nasync def b(): int('x')\n"
            "async with asyncio.TaskGroup() as g:\n    g.create_task(a()); g.create_task(b())"
        )
        files = [line.strip(" |") for line in lines if "File" in line]
        self.assertEqual(
            files,
            [
                'File "<run N>", line 4, in <module>',
                'File "<run N>", line 2, in a',
                'File "<run N>", line 3, in b',
            ],
        )

    def test_what_fails_elsewhere_shows_the_agents_lines_alone(self) -> None:
        table = {
            "a thread": (
                "import threading\nt = threading.Thread(target=lambda: 1/0)\nt.start(); t.join()",
                "Exception in thread",
            ),
            "a callback": (
                "import asyncio\nasyncio.get_running_loop if 0 else 0\n"
                "asyncio.get_event_loop().call_soon(lambda: 1/0); await asyncio.sleep(0.01)",
                "Exception in callback",
            ),
            "a task": (
                "import asyncio, gc\nasync def b(): 1/0\nt = asyncio.create_task(b()); await asyncio.sleep(0.01)\n"
                "del t; gc.collect();",
                "Task exception was never retrieved",
            ),
            "a finalizer": ("class A:\n    def __del__(s): 1/0\na = A()\ndel a", "Exception ignored in"),
        }
        for name, (code, said) in table.items():
            with self.subTest(name):
                text = self.shared.run(code).text(2)
                files = [line for line in text.split("\n") if line.startswith("  File")]
                self.assertIn(said, text)
                self.assertEqual(len(files), 1, text)
                self.assertIn(f"<run {self.shared.runs}>", files[0])

    def test_an_exception_that_the_code_keeps_has_no_frames_of_ours(self) -> None:
        self.shared.run("class Keep(Exception): pass\nkept = Keep()\nraise kept")
        reply = self.shared.run("import traceback\nprint(''.join(traceback.format_tb(kept.__traceback__)))")
        self.assertEqual(reply.text(1).count("File"), 1)

    def test_hint(self) -> None:
        h = self.harness()
        for name, (code, advice) in HINTS.items():
            with self.subTest(name):
                text = h.run(code).error["traceback"]
                self.assertRegex(text, r"\nhint: [^\n]+$")
                self.assertIn(advice, text.split("\n")[-1])
