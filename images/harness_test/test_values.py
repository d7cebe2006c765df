"""What a call's value is, and how it is shown."""

from __future__ import annotations

import re

from driver import Case, Harness


def bare(value: str | None) -> str | None:
    """The text of a value without the hint how to have it again."""
    return value and re.sub(r"\n\(out\[\d+] is all of it\)$", "", value)


VALUES = {
    "an expression": ("5", "5"),
    "a semicolon hides it": ("5;", None),
    "an assignment has none": ("x = 5", None),
    "None is not shown": ("None", None),
    "the last of two": ("print(1)\n2", "2"),
    "a semicolon in a comment hides nothing": ("x = 4\nx  # a;b", "4"),
    "a block has none": ("if True:\n    7", None),
    "an empty string and a semicolon": ("'';", None),
    "a semicolon after a character of two bytes": ("'é';", None),
    "a top-level await": ("import asyncio\nawait asyncio.sleep(0, 'late')", "'late'"),
    "a coroutine is awaited": ("async def f(): return 20\nf()", "20"),
    "no code": ("", None),
    "only a comment": ("# nothing", None),
    "a lone surrogate": (r"'\ud83d'", r"'\ud83d'"),
    "what JSON cannot hold": (
        "{'n': float('nan'), 1: {2}, (1, 2): b'x', 'self': None}",
        "{'n': nan, 1: {2}, (1, 2): b'x', 'self': None}",
    ),
    "a list in itself": ("l = []; l.append(l)\nl", "[[...]]"),
    "a large integer": ("2**200", str(2**200)),
    "an integer that Python won't write": ("10**5000", "<int of about 5001 digits>"),
    "such an integer in a list": ("[1, 10**5000]", "[1, <int of about 5001 digits>]\n(list of 2 items, abridged)"),
    "lists 5000 deep": (
        "l = []\nfor _ in range(5000): l = [l]\nl",
        "[[[[[[[... 1 item ...]]]]]]]\n(list of 1 item, abridged)",
    ),
    "a generator": ("(i for i in 'a').gi_running", "False"),
    "a dict subclass whose items raise": ("class D(dict):\n    def items(s): 1/0\nD(a=1)", "{'a': 1}"),
    "a class that lies about itself": (
        "class C:\n    @property\n    def __class__(s): 1/0\n    def __repr__(s): return 'C'\nC()",
        "C",
    ),
    "a class whose name and module raise": (
        "class M(type):\n    @property\n    def __name__(c): 1/0\n    @property\n    def __module__(c): 1/0\n"
        "class C(metaclass=M):\n    def __repr__(s): return 'C'\nC()",
        "C",
    ),
    "a mock": (
        "import unittest.mock\nm = unittest.mock.MagicMock()\nm.__repr__ = lambda s: 'mock'\nm",
        "mock",
    ),
    "a module": ("import types\ntypes.ModuleType('m')", "<module 'm'>"),
    "an exception": ("ValueError('v')", "ValueError('v')"),
    "a text of a class with methods of its own": (
        "class S(str):\n    def __len__(s): 1/0\n    def __repr__(s): return S('s')\nS()",
        "s",
    ),
    "a list of a thousand": ("list(range(1000))", str(list(range(1000)))),
    "a tuple of one": ("(1,)", "(1,)"),
    "a class": ("int", "<class 'int'>"),
    "Windows line ends": ("x = 1\r\nx + 1\r\n", "2"),
    "a byte order mark": ("\ufeff1 + 1", "2"),
    "an even indent": ("\n    y = 3\n    y * 2\n", "6"),
    "a fence": ("```python\nz = 2\nz + 1\n```\n", "3"),
    "a fence without a language": ("```\n4\n```", "4"),
}

# Values that are wanted as data: the code, and the JSON, None if there is none.
DATA = {
    "records": ("[{'id': 1, 'n': 'é'}, {'id': 2, 'n': None}]", '[{"id":1,"n":"é"},{"id":2,"n":null}]'),
    "a text": ("'a\\n\\x1b'", r'"a\n\u001b"'),
    "a number": ("5.5", "5.5"),
    "a truth": ("1 == 1", "true"),
    "a large integer": ("2**200", str(2**200)),
    "one that Python won't write": ("10**5000", None),
    "tuples, sets and keys that are numbers": ("{1: (2, {3}), 'x': frozenset('a')}", '{"1":[2,[3]],"x":["a"]}'),
    "a key twice": ("{1: 2, '1': 3}", None),
    "a key that is a truth": ("{True: 1}", None),
    "a key that is a tuple": ("{(1, 2): 3}", None),
    "no number": ("[float('nan')]", None),
    "a lone surrogate": (r"'\ud83d'", None),
    "bytes": ("b'x'", None),
    "a list in itself": ("l = []; l.append(l)\nl", None),
    "a list that doubles a hundred times": ("l = []\nfor _ in range(100): l = [l, l]\nl", None),
    "a long list": ("list(range(20001))", None),
    "a long text": ("'x' * 300_000", None),
    "long texts": ("['x' * 1000] * 300", None),
    "a named tuple": ("import collections\ncollections.namedtuple('P', 'x y')(1, 2)", '{"x":1,"y":2}'),
    "a tuple with a form of its own": ("import os\nos.stat('/')[:0], os.stat('/')", None),
    "a text of a class of its own": ("class S(str): pass\nS('s')", None),
    "counts, queues and defaults": (
        "import collections as c\n[c.Counter('aab'), c.deque([1]), c.defaultdict(int, a=1)]",
        '[{"a":2,"b":1},[1],{"a":1}]',
    ),
    "a dataclass, a date, a choice, a path": (
        "import dataclasses, datetime, enum, pathlib\n"
        "class E(enum.Enum): A = 'a'\n"
        "@dataclasses.dataclass\nclass D:\n    on: datetime.date; e: E; p: pathlib.Path\n"
        "D(datetime.date(2026, 1, 2), E.A, pathlib.Path('/x'))",
        '{"on":"2026-01-02","e":"a","p":"/x"}',
    ),
    "an object": ("object()", None),
    "a class": ("int", None),
    "a function": ("len", None),
    "a class that lies about itself": (
        "class C:\n    @property\n    def __class__(s): 1/0\n    def __repr__(s): return 'C'\nC()",
        None,
    ),
    "None is not shown": ("None", None),
    "a semicolon hides it": ("[1];", None),
    "printed is not the value": ("print([1])", None),
}

FAILING = {
    "repr that raises": ("class R:\n    def __repr__(s): return 1/0\nR()", "ZeroDivisionError", "division by zero"),
    "repr that is no text": ("class R:\n    def __repr__(s): return 5\nR()", "TypeError", "returned non-string"),
    "an exception whose str raises": (
        "class E(Exception):\n    def __str__(s): 1/0\nraise E()",
        "E",
        "whose str() fails",
    ),
    "an exception whose class lies": (
        "class E(Exception):\n    @property\n    def __class__(s): 1/0\nraise E('m')",
        "E",
        "m",
    ),
    "lists nested too deep": ("l = []\nfor _ in range(1_000_000): l = [l]\nprint(repr(l))", "RecursionError", ""),
    "a dict whose items raise": (
        "class D(dict):\n    def items(s): raise ValueError('no')\n    __repr__ = lambda s: str(s.items())\nD()",
        "ValueError",
        "no",
    ),
    "an exception without words": ("raise Exception('')", "Exception", ""),
    "an exit message of many megabytes": ("raise SystemExit('x' * 50_000_000)", "SystemExit", "characters cut"),
    "a class name of many megabytes": ("raise type('x' * 50_000_000, (Exception,), {})", "xxx", ""),
    "asyncio.run in async code": (
        "import asyncio\nasync def f(): pass\nawait asyncio.sleep(0)\nasyncio.run(f())",
        "RuntimeError",
        "cannot be called from a running event loop",
    ),
}

SYNTAX = {
    "a shell command": ("!ls -l", "use subprocess.run"),
    "installing a package": ("!pip install x", "there is no network here"),
    "installing a package by magic": ("x = 1\n%pip install x", "there is no network here"),
    "a magic command": ("%timeit 1", "no %magic commands"),
    "smart quotes": ("print(\u201chi\u201d)", "use straight quotes"),
    "Python 2's print": ("print 'x'", "Missing parentheses"),
    "an open bracket": ("f(1,\n", r"'\(' was never closed|unexpected EOF"),
    "tabs mixed with spaces": ("if 1:\n        a = 1\n\tb = 2", "inconsistent use of tabs"),
    "a backslash at the end": ("x = 1 \\", "unexpected EOF|unexpected end"),
}


# Large values: the code, how the text begins and ends.
ABRIDGED = {
    "a list": ("list(range(10**6))", "[0, 1, 2, ", ", 999999]\n(list of 1000000 items, abridged)"),
    "a tuple": ("tuple(range(10**6))", "(0, 1, 2, ", ", 999999)\n(tuple of 1000000 items, abridged)"),
    "a dict": ("dict.fromkeys(range(10**5))", "{0: None, ", ", 99999: None}\n(dict of 100000 items, abridged)"),
    "a set": ("set(range(10**5))", "{0, 1, ", " more ...}\n(set of 100000 items, abridged)"),
    "keys": ("dict.fromkeys(range(10**5)).keys()", "dict_keys([0, ", "])\n(dict_keys of 100000 items, abridged)"),
    "a text": ("'a' * 10**7 + 'z'", "'aaa", "az'\n(str of 10000001 characters, abridged)"),
    "bytes": ("bytes(10**6)", r"b'\x00", "\n(bytes of 1000000 bytes, abridged)"),
    "records": (
        "[{'id': i, 'body': 'x' * 500} for i in range(3000)]",
        "[{'id': 0, 'body': 'xxx",
        "}]\n(list of 3000 items, abridged)",
    ),
    "the most common first": (
        "import collections\ncollections.Counter({i: i for i in range(5000)})",
        "Counter({4999: 4999, 4998: 4998, ",
        "... 4950 more ...})\n(Counter of 5000 items, abridged)",
    ),
    "a list that doubles a hundred times": (
        "l = []\nfor _ in range(100): l = [l, l]\nl",
        "[[[[[[[... 2 items ...]",
        "\n(list of 2 items, abridged)",
    ),
    "items whose repr takes its time": (
        "import time\nclass R:\n    n = 0\n    def __repr__(s): R.n += 1; time.sleep(.05 * (R.n > 2)); return 'R'\n"
        "[R()] * 100000",
        "[R, R",
        ", R]\n(list of 100000 items, abridged)",
    ),
    "items whose repr raises": (
        "class R:\n    def __repr__(s): 1/0\n[R()] * 100000",
        "[<R whose repr() raised ZeroDivisionError>, ",
        "\n(list of 100000 items, abridged)",
    ),
    "a repr of many megabytes": (
        "class R:\n    def __repr__(s): return 'z' * 10**8\nR()",
        "zzz",
        "zzz",
    ),
}


class Values(Case):
    shared: Harness

    @classmethod
    def setUpClass(cls) -> None:
        cls.shared = Harness()
        cls.addClassCleanup(cls.shared.close)

    def test_value(self) -> None:
        for name, (code, want) in VALUES.items():
            with self.subTest(name):
                reply = self.shared.run(code)
                self.assertEqual((reply.status, bare(reply.value)), ("ok", want), reply.error)

    def test_value_as_data(self) -> None:
        for name, (code, want) in DATA.items():
            with self.subTest(name):
                reply = self.shared.run(code, data=True)
                self.assertEqual((reply.status, reply.done.get("json")), ("ok", want), reply.error)
        self.assertNotIn("json", self.shared.run("[1]").done)

    def test_failure_is_told_and_the_session_goes_on(self) -> None:
        for name, (code, kind, message) in FAILING.items():
            with self.subTest(name):
                reply = self.shared.run(code)
                self.assertEqual(reply.status, "error")
                self.assertTrue(reply.error["type"].startswith(kind), reply.error["type"][:200])
                self.assertIn(message, reply.error["message"])
                self.assertLess(len(str(reply.done)), 100_000)
                self.assertEqual(self.shared.run("1+1").value, "2")

    def test_syntax_error_has_a_place_and_a_hint(self) -> None:
        for name, (code, hint) in SYNTAX.items():
            with self.subTest(name):
                reply = self.shared.run(code)
                self.assertEqual(reply.status, "error")
                self.assertRegex(reply.error["message"], hint)
                self.assertRegex(reply.error["message"], r"line \d")
                self.assertIn('File "<run ', reply.error["traceback"])

    def test_status_is_not_guessed_from_text(self) -> None:
        for code in ("print('Error: all fine')", "print('Traceback (most recent call last):')"):
            self.assertEqual(self.shared.run(code).status, "ok")
        reply = self.shared.run("import warnings\nwarnings.warn('careful')")
        self.assertEqual(reply.status, "ok")
        self.assertIn("UserWarning: careful", reply.text(2))

    def test_each_call_shows_its_own_warnings(self) -> None:
        for _ in range(2):
            self.assertIn("again", self.shared.run("import warnings\nwarnings.warn('again')").text(2))

    def test_large_value_has_head_tail_and_its_true_size(self) -> None:
        for name, (code, head, tail) in ABRIDGED.items():
            with self.subTest(name):
                reply = self.shared.run(code)
                value = bare(reply.value) or ""
                self.assertEqual(reply.status, "ok", reply.error)
                self.assertEqual((value[: len(head)], value[-len(tail) :]), (head, tail))
                self.assertLess(len(value), 300_000 if "megabytes" in name else 9_000)

    def test_any_value_is_exact_or_abridged(self) -> None:
        reply = self.shared.run(
            "import collections, random, sys\nbrief = sys.modules['bridged_harness.brief']\n"
            "numbered = lambda v: dict(enumerate(v))\n"
            "leaves = [int, lambda n: 'é' * n, lambda n: b'x' * n, lambda n: 10 ** (n % 6000), lambda n: n / 3]\n"
            "kinds = [list, tuple, collections.deque, numbered, lambda v: numbered(v).items()]\n"
            "def tree(r, depth):\n"
            "    if depth == 0 or r.random() < .3: return r.choice(leaves)(int(10 ** r.uniform(0, 5)))\n"
            "    return r.choice(kinds)([tree(r, depth - 1) for _ in range(int(10 ** r.uniform(0, 1.5)))])\n"
            "seen = collections.Counter()\n"
            "for seed in range(300):\n"
            "    v = tree(random.Random(seed), 4)\n"
            "    s = brief.text(v)\n"
            "    short = s.endswith(', abridged)') or s.startswith('<int')\n"
            "    assert len(s) < 20_000 and (short or s == repr(v)), (seed, len(s))\n"
            "    seen[short] += 1\nmin(seen.values()) > 50"
        )
        self.assertEqual((reply.value, reply.error), ("True", {}))

    def test_repr_that_hangs_can_be_interrupted(self) -> None:
        h = self.harness()
        reply = h.interrupted("class R:\n    def __repr__(s):\n        print('go')\n        while True: pass\nR()")
        self.assertEqual(reply.status, "interrupted")
        self.assertEqual(h.run("1 + 1").value, "2")

    def test_underscore_is_the_last_value(self) -> None:
        self.shared.run("40")
        self.assertEqual(self.shared.run("_ + 2").value, "42")


class Tracebacks(Case):
    def test_source_of_earlier_calls_is_known(self) -> None:
        h = self.harness()
        h.run("def half(n):\n    return n / 0")
        reply = h.run("import inspect\nprint(inspect.getsource(half))\nold = half\nhalf(3)")
        self.assertEqual(reply.text(1), "def half(n):\n    return n / 0\n\n")
        self.assertIn('File "<run 1>", line 2, in half\n    return n / 0', reply.error["traceback"])
        self.assertNotIn("bridged", reply.error["traceback"])
        h.run("def half(n):\n    return n / 2")
        reply = h.run("print(inspect.getsource(half), inspect.getsource(old))")
        self.assertEqual(reply.text(1), "def half(n):\n    return n / 2\n def half(n):\n    return n / 0\n\n")

    def test_frames_between_the_codes_own_are_left_out(self) -> None:
        reply = self.harness().run("import asyncio\nasync def main():\n    1/0\nasyncio.run(main())")
        frames = [line for line in reply.error["traceback"].splitlines() if line.startswith("  File")]
        self.assertEqual(frames, ['  File "<run 1>", line 4, in <module>', '  File "<run 1>", line 3, in main'])

    def test_deep_recursion_keeps_the_innermost_frames(self) -> None:
        reply = self.harness().run("def f(): return f()\nf()")
        self.assertEqual(reply.error["type"], "RecursionError")
        self.assertLess(len(reply.error["traceback"]), 13_000)
