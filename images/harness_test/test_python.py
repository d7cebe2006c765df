"""Code behaves as in a module of its own that lasts: names, sources, loops, questions and exits."""

from __future__ import annotations

import sys
from typing import Any

from driver import Case, Frame, Harness

# Calls of one session, and what the last one's value or output is.
SESSIONS: dict[str, tuple[list[str], str]] = {
    "pickle finds classes and functions of earlier calls": (
        [
            "import pickle, copy, dataclasses, enum, collections\n@dataclasses.dataclass\nclass D:\n    a: int\n"
            "def f(): return 3\nclass E(enum.Enum):\n    X = 1\nP = collections.namedtuple('P', 'x')",
            "def again(v): return pickle.loads(pickle.dumps(v))",
            "[again(v) for v in (D(1), E.X, P(2))], again(f) is f, copy.deepcopy(D(4))",
        ],
        "([D(a=1), <E.X: 1>, P(x=2)], True, D(a=4))",
    ),
    "dataclasses with the annotations of the future": (
        [
            "from __future__ import annotations\nimport dataclasses, typing",
            "@dataclasses.dataclass\nclass D:\n    a: int\n    b: typing.ClassVar[int] = 1\n    c: D | None = None",
            "[(f.name, f.type) for f in dataclasses.fields(D)]",
        ],
        "[('a', 'int'), ('c', 'D | None')]",
    ),
    "annotations are values where the future was not asked for": (
        ["def f(x: int) -> str: pass", "f.__annotations__"],
        "{'x': <class 'int'>, 'return': <class 'str'>}",
    ),
    "type hints of a class that names itself": (
        ["import typing\nclass N:\n    next: 'N'\n    size: int", "typing.get_type_hints(N)"],
        "{'next': <class '__main__.N'>, 'size': <class 'int'>}",
    ),
    "the source of a class without methods": (
        ["class A:\n    x = 1", "class B: pass", "import inspect; inspect.getsource(A)"],
        r"'class A:\n    x = 1\n'",
    ),
    "the source of a class that was defined again": (
        [
            "class A:\n    def f(s): return 1",
            "class A:\n    def f(s): return 2",
            "import inspect; inspect.getsource(A)",
        ],
        r"'class A:\n    def f(s): return 2\n'",
    ),
    "the source of a lambda": (
        ["add = lambda a, b: a + b", "import inspect; inspect.getsource(add).strip()"],
        "'add = lambda a, b: a + b'",
    ),
    "__main__ is the module that code runs in": (
        ["x = 5", "import sys, __main__\n(__main__.x, __name__, sys.modules['__main__'] is __main__)"],
        "(5, '__main__', True)",
    ),
    "a script's main part runs": (["def main(): return 7", "if __name__ == '__main__':\n    r = main()", "r"], "7"),
    "doctest": (
        ["def f():\n    '''\n    >>> f()\n    3\n    '''\n    return 3", "import doctest; doctest.testmod()"],
        "TestResults(failed=0, attempted=1)",
    ),
    "unittest": (
        [
            "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): self.assertTrue(True)",
            "unittest.main(argv=['t'], exit=False).result.wasSuccessful()",
        ],
        "True",
    ),
    "singledispatch": (
        [
            "import functools\n@functools.singledispatch\ndef s(x): return 'any'",
            "@s.register\ndef _(x: int): return 'int'",
            "s(1), s('')",
        ],
        "('int', 'any')",
    ),
    "a star import": (["from math import *", "floor(pi)"], "3"),
    "global and del": (["def f():\n    global g\n    g = 1\nf()", "del g", "'g' in globals()"], "False"),
    "exec and eval define names": (["exec('a = 3'); exec(compile('b = 4', 'x', 'exec'))", "eval('a + b')"], "7"),
    "a walrus": (["(n := 5)", "n"], "5"),
    "context variables, set in plain and in async code": (
        [
            "import asyncio, contextvars\nv = contextvars.ContextVar('v')\nv.set(1);",
            "v.set(v.get() + 1); await asyncio.sleep(0)",
            "await asyncio.sleep(0); v.get()",
        ],
        "2",
    ),
    "asyncio.run, again and again": (
        [
            "import asyncio\nasync def m(): return await asyncio.sleep(0, 20)",
            "asyncio.run(m()) + asyncio.run(m())",
        ],
        "40",
    ),
    "a loop of the code's own": (
        [
            "import asyncio\nasync def m(): return 1\nl = asyncio.new_event_loop()\nasyncio.set_event_loop(l)\n"
            "l.run_until_complete(m()); l.close()",
            "await m()",
        ],
        "1",
    ),
    "the session's loop can be run, and survives being closed": (
        [
            "import asyncio\nasync def m(): return 1",
            "l = asyncio.get_event_loop()\nl.run_until_complete(m())\nl.close()",
            "asyncio.get_event_loop().run_until_complete(m()) + 1",
        ],
        "2",
    ),
    "async for, with and comprehensions at the top": (
        [
            "import contextlib\n@contextlib.asynccontextmanager\nasync def cm(): yield 5",
            "async def g():\n    yield 1\n    yield 2",
            "async with cm() as c: pass\nasync for i in g(): last = i",
            "[c, last, [i async for i in g()], {i: i async for i in g()}]",
        ],
        "[5, 2, [1, 2], {1: 1, 2: 2}]",
    ),
    "a gather as the last value": (
        ["import asyncio\nasync def m(n): return n", "asyncio.gather(m(1), m(2))"],
        "[1, 2]",
    ),
    "an object that can be awaited": (
        ["class A:\n    def __await__(self):\n        yield from ()\n        return 9", "A()"],
        "9",
    ),
    "a task goes on between calls": (
        [
            "import asyncio\nt = asyncio.create_task(asyncio.sleep(0.01, 'done'))",
            "await t",
        ],
        "'done'",
    ),
    "an error of a task does not fail another call": (
        [
            "import asyncio\nasync def bad(): raise ValueError('late')\nb = asyncio.create_task(bad())",
            "await asyncio.sleep(0.01); b.done()",
        ],
        "True",
    ),
    "a thread pool": (
        [
            "from concurrent.futures import ThreadPoolExecutor\ndef f(x): return x * x",
            "list(ThreadPoolExecutor(2).map(f, [2, 3]))",
        ],
        "[4, 9]",
    ),
    "a pool of processes": (
        [
            "import multiprocessing\nfrom concurrent.futures import ProcessPoolExecutor\ndef f(x): return x * x",
            "with ProcessPoolExecutor(2) as p, multiprocessing.Pool(2) as q: r = list(p.map(f, [2])) + q.map(f, [3])",
            "r",
        ],
        "[4, 9]",
    ),
    "a pool that asks for another kind of process": (
        [
            "import multiprocessing\ndef f(x): return x * x\nmultiprocessing.set_start_method('spawn', force=True)",
            "with multiprocessing.get_context('forkserver').Pool(1) as p, multiprocessing.Pool(1) as q:\n"
            "    r = p.map(f, [2]) + q.map(f, [3])",
            "r",
        ],
        "[4, 9]",
    ),
}

QUESTIONS = {
    "input": ("input('name? ')", "input(): nobody can answer here"),
    "getpass": ("import getpass; getpass.getpass()", "getpass(): nobody can answer here"),
    "breakpoint": ("breakpoint()", "no terminal for a debugger"),
    "pdb": ("import pdb\npdb.set_trace()\nx = 1", "hint: no debugger can ask"),
}

EMPTY = {
    "sys.stdin": ("import sys; sys.stdin.read(), list(sys.stdin)", "('', [])"),
    "the descriptor": ("import os; os.read(0, 100)", "b''"),
    "the device": ("open('/dev/stdin').read()", "''"),
    "a child's": ("import subprocess; subprocess.run(['cat'], timeout=50, capture_output=True).stdout", "b''"),
    "sys.stdin after it was closed": ("import sys\nsys.stdin.close()", None),
    "sys.stdin in the next call": ("sys.stdin.read()", "''"),
}

EXITS = {
    "sys.exit with a text": ("import sys; sys.exit('bye')", "error", "SystemExit: bye"),
    "exit": ("exit()", "ok", None),
    "quit with a number": ("quit(3)", "error", "SystemExit: 3"),
    "a raised SystemExit": ("raise SystemExit(0)", "ok", None),
    "in async code": ("import asyncio, sys\nawait asyncio.sleep(0); sys.exit(4)", "error", "SystemExit: 4"),
    "in asyncio.run": ("async def m(): sys.exit(5)\nasyncio.run(m())", "error", "SystemExit: 5"),
    "in a task": ("t = asyncio.create_task(m())\nawait asyncio.sleep(1)", "error", "SystemExit: 5"),
}


class Python(Case):
    def test_session(self) -> None:
        for name, (calls, want) in SESSIONS.items():
            with self.subTest(name):
                h = self.harness()
                for code in calls[:-1]:
                    reply = h.run(code)
                    self.assertEqual(reply.status, "ok", reply.error)
                reply = h.run(calls[-1])
                self.assertEqual(reply.value, want, reply.frames)

    def test_syntax_of_this_version(self) -> None:
        h = self.harness()
        if sys.version_info >= (3, 10):
            self.assertEqual(h.run("match (1, 2):\n    case (a, b): c = a + b\nc").status, "ok")
            self.assertEqual(h.run("c").value, "3")
        if sys.version_info >= (3, 12):
            self.assertEqual(h.run("type P[T] = list[T]\ndef first[T](x: list[T]) -> T: return x[0]").status, "ok")
            self.assertEqual(h.run("first([8])").value, "8")

    def test_questions_fail_at_once_with_advice(self) -> None:
        h = self.harness()
        for name, (code, advice) in QUESTIONS.items():
            with self.subTest(name):
                reply = h.run(code)
                self.assertEqual(reply.status, "error")
                self.assertIn(advice, reply.error["traceback"])
                self.assertEqual(h.run("1+1").value, "2")

    def test_standard_input_is_empty(self) -> None:
        h = self.harness()
        for name, (code, want) in EMPTY.items():
            with self.subTest(name):
                reply = h.run(code)
                self.assertEqual((reply.status, reply.value), ("ok", want), reply.error)

    def test_exit_ends_the_call_and_not_the_session(self) -> None:
        h = self.harness()
        h.run("x = 1")
        for name, (code, status, text) in EXITS.items():
            with self.subTest(name):
                reply = h.run(code)
                self.assertEqual((reply.status, reply.error.get("traceback")), (status, text))
                self.assertIn("its variables are kept", reply.notices)
                self.assertEqual(h.run("x").value, "1")


class Awaits(Case):
    h: Harness

    def setUp(self) -> None:
        self.h = self.harness()
        self.h.answer = lambda f: {"result": self.result(f)}
        self.servers = [{"name": "git hub", "alias": "git_hub"}]

    def result(self, frame: Frame) -> Any:
        if frame["method"] == "docs.query":
            return {"docs": [{"tool": "create_issue", "toolAlias": "create_issue"}]}
        return {"structuredContent": {"n": 1}}

    def test_a_call_that_nobody_awaited_is_told_by_name_and_line(self) -> None:
        table = {
            "dropped": "x = 0\nmcp_git_hub.create_issue(title='x');",
            "dropped in a function": "def f():\n    mcp_git_hub.create_issue(title='x')\nf()",
            "dropped in async code": "import asyncio\nmcp_git_hub.create_issue(title='x'); await asyncio.sleep(0)",
            "kept in a variable": "x = 0\nr = mcp_git_hub.create_issue(title='x')",
            "used as a result": "x = 0\nmcp_git_hub.create_issue(title='x')['n']",
            "kept in a list": "x = 0\nrs = [mcp_git_hub.create_issue(title='x')]",
        }
        for name, code in table.items():
            with self.subTest(name):
                reply = self.h.run(code, self.servers)
                self.assertRegex(
                    reply.notices,
                    rf"^`mcp_git_hub\.create_issue\(\.\.\.\)` \(line [12] of run {self.h.runs}\) .*: add await$",
                )
                self.assertNotIn("RuntimeWarning", reply.text(2))

    def test_what_was_awaited_is_not_told(self) -> None:
        for code in (
            "(await mcp_git_hub.create_issue(title='x'))['n']",
            "mcp_git_hub.create_issue(title='x')",
            "import asyncio; len(await asyncio.gather(*[mcp_git_hub.create_issue(title='x') for _ in range(3)]))",
            "import asyncio; asyncio.run(mcp_git_hub.create_issue(title='x'))['n']",
        ):
            reply = self.h.run(code, self.servers)
            self.assertEqual((reply.status, reply.notices), ("ok", ""), reply.error)

    def test_it_is_told_once(self) -> None:
        self.assertIn("has not been awaited", self.h.run("r = mcp_git_hub.create_issue()", self.servers).notices)
        self.assertEqual(self.h.run("1", self.servers).notices, "")
        self.assertEqual(self.h.run("del r", self.servers).notices, "")

    def test_many_are_told_in_few_lines(self) -> None:
        reply = self.h.run("for i in range(50):\n    mcp_git_hub.create_issue(n=i)", self.servers)
        self.assertRegex(reply.notices, r"^`mcp_git_hub.create_issue\(\.\.\.\)` \(line 2 .*\(50 times\)$")
        code = "\n".join(f"async def f{i}(): pass\nf{i}();" for i in range(9))
        self.assertEqual(len(self.h.run(code).notices.splitlines()), 6)

    def test_coroutines_of_the_code_and_of_helpers_are_told_too(self) -> None:
        self.assertRegex(
            self.h.run("async def f(): pass\nf();").notices, r"^`f\(\.\.\.\)` \(line 2 of run 1\) was never"
        )
        reply = self.h.run("from mcp import runtime\nr = runtime.search_tool_docs('x')")
        self.assertRegex(reply.notices, r"^`search_tool_docs\(\.\.\.\)` \(line 2 of run 2\) has not been awaited")
