"""Functions that are saved in one session and used in another."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from .driver import Case, Frame, Harness

PATH = "~/MCPs/user_tools/%s.py"


class Store:
    """The daemon's side of saved tools, as far as a session sees it."""

    def __init__(self) -> None:
        self.versions: dict[str, list[str]] = {}
        self.files: dict[str, str] = {}
        self.asked: list[str] = []
        self.loadable: list[str] = []

    def answer(self, frame: Frame) -> Frame:
        self.asked.append(frame["method"])
        try:
            return {"result": getattr(self, frame["method"].replace(".", "_"))(frame["params"])}
        except LookupError as e:
            return {"error": {"code": "not_found", "message": f"no saved tool {e}"}}

    def servers_load(self, p: Frame) -> Frame:
        if p["names"][0] not in self.loadable:
            raise LookupError(p["names"][0])
        return {"loaded": [{"name": n, "alias": n} for n in p["names"]]}

    def tools_call(self, p: Frame) -> Frame:
        return {"content": [{"type": "text", "text": p["server"] + "." + p["tool"]}]}

    def docs_query(self, p: Frame) -> Frame:
        row = {"server": p["server"], "serverAlias": p["server"], "tool": "do", "toolAlias": "do", "params": []}
        return {"docs": [{**row, "description": "", "signature": "do()", "returns": "str", "loose": True}]}

    def saved_save(self, p: Frame) -> Frame:
        had = self.versions.setdefault(p["name"], [])
        had.append(p["source"])
        self.files[p["name"]] = p["source"]
        return {"version": len(had), "path": PATH % p["name"], "replaced": len(had) - 1}

    def saved_read(self, p: Frame) -> Frame:
        name = p["name"]
        text = self.versions[name][p["version"] - 1] if "version" in p else self.files[name]
        digest = hashlib.sha256(text.encode()).hexdigest()
        if digest == p.get("digest"):
            return {"same": True}
        return {"source": text, "digest": digest, "path": PATH % name, "version": len(self.versions.get(name, []))}

    def saved_restore(self, p: Frame) -> Frame:
        return self.saved_save({"name": p["name"], "source": self.versions[p["name"]][p.get("version", 0) - 1]})

    def saved_delete(self, p: Frame) -> Frame:
        del self.files[p["name"]]
        return {"version": len(self.versions[p["name"]])}

    def saved_list(self, p: Frame) -> Frame:
        return {"tools": [{"name": n, "version": len(self.versions.get(n, []))} for n in self.files]}


class Saving(Case):
    """Two sessions and a store."""

    def setUp(self) -> None:
        self.store = Store()
        self.first, self.second = self.harness(), self.harness()
        self.first.answer = self.second.answer = self.store.answer

    def run_in(self, h: Harness, code: str) -> Any:
        h.runs += 1
        h.send({"t": "run", "run": h.runs, "code": code, "servers": [], "told": {"saved": sorted(self.store.files)}})
        return h.finish()

    def ok(self, h: Harness, code: str) -> Any:
        reply = self.run_in(h, code)
        self.assertEqual(reply.status, "ok", reply.error.get("traceback"))
        return reply.value

    def refused(self, h: Harness, code: str, *words: str) -> None:
        reply = self.run_in(h, code)
        self.assertEqual(reply.status, "error", reply.value)
        for word in words:
            self.assertIn(word, reply.error["message"])


# What a session defines, the expression that saves, one that later sessions use, and its value.
SAVED = (
    ("a plain function", "def plain(a, b=2): return a + b", "plain", "plain(1), plain(1, b=3)", "(3, 4)"),
    (
        "imports, helpers and constants",
        (
            "import json, re as regex\n"
            "from math import pi\n"
            "from collections import *\n"
            "LIMIT = 3  # of words\n"
            "WORD = regex.compile(r'\\w+')\n"
            "def words(t): return WORD.findall(t)[:LIMIT]\n"
            "def helped(t): return json.dumps([words(t), round(pi, 2), OrderedDict(a=1)])"
        ),
        "helped",
        "helped('a b c d')",
        '\'[["a", "b", "c"], 3.14, {"a": 1}]\'',
    ),
    (
        "a closure is lifted with its values",
        (
            "def made(n, names):\n"
            "    def add(x):\n"
            "        '''Adds.\n"
            "          Twice.'''\n"
            "        return x + n, names  # of x\n"
            "    return add\n"
            "lifted_add = made(5, ['a', None, 1.5, float('inf')])"
        ),
        "lifted_add",
        "import inspect; add(1), inspect.getdoc(add), '# of x' in inspect.getsource(add)",
        "((6, ['a', None, 1.5, inf]), 'Adds.\\nTwice.', True)",
    ),
    (
        "a closure over a function and itself",
        (
            "def outer():\n"
            "    def helper(x): return x * 2\n"
            "    def fact(n): return 1 if n < 2 else helper(n) * fact(n - 1)\n"
            "    return fact"
        ),
        "outer()",
        "fact(3)",
        "24",
    ),
    (
        "decorators, with functools.wraps and without",
        (
            "import functools\n"
            "def loud(f):\n"
            "    @functools.wraps(f)\n"
            "    def w(*a): return str(f(*a)) + '!'\n"
            "    return w\n"
            "def times(n):\n"
            "    def deco(f):\n"
            "        def wrapper(*a): return f(*a) * n\n"
            "        return wrapper\n"
            "    return deco\n"
            "@times(2)\n"
            "@loud\n"
            "@functools.lru_cache(maxsize=None)\n"
            "def decorated(x): return x"
        ),
        "decorated",
        "decorated(4)",
        "'4!4!'",
    ),
    ("save_tool as a decorator", "", "@save_tool\ndef asdeco(x): return x - 1", "asdeco(1)", "0"),
    (
        "an async function and an async generator",
        (
            "import asyncio\n"
            "async def slow(x):\n"
            "    await asyncio.sleep(0)\n"
            "    return x\n"
            "async def aio(x): return [await slow(x), [i async for i in each(2)]]\n"
            "async def each(n):\n"
            "    for i in range(n): yield i"
        ),
        "aio",
        "await aio(7), asyncio.iscoroutinefunction(aio)",
        "([7, [0, 1]], True)",
    ),
    (
        "classes, instances, enums and dataclasses",
        (
            "import dataclasses, enum\n"
            "class Kind(enum.Enum):\n"
            "    A = 1\n"
            "@dataclasses.dataclass\n"
            "class Point:\n"
            "    x: int\n"
            "    kind: Kind = Kind.A\n"
            "ORIGIN = Point(0)\n"
            "Point.origin = None\n"
            "def pointed(n): return Point(n).x, Point(n).kind.name, ORIGIN.x"
        ),
        "pointed",
        "pointed(3)",
        "(3, 'A', 0)",
    ),
    (
        "defaults have the values that they had",
        (
            "n = 4\n"
            "SENTINEL = object()\n"
            "fs = []\n"
            "for i in range(3):\n"
            "    def dflt(a, i=i, *, né='é', m=n + 1, s=SENTINEL): return a, i, né, m, s is SENTINEL\n"
            "    fs.append(dflt)\n"
            "n = 9"
        ),
        "fs[1]",
        "dflt(0)",
        "(0, 1, 'é', 5, True)",
    ),
    (
        "a global that the function changes",
        ("count = 10\ndef counted():\n    global count\n    count += 1\n    return count"),
        "counted",
        "counted(), counted()",
        "(11, 12)",
    ),
    (
        "names that hide Python's own",
        "def sorted(x): return 'mine'\ndef hiding(): return sorted([])",
        "hiding",
        "hiding()",
        "'mine'",
    ),
    (
        "modules of a package, by its name",
        (
            "import xml.etree.ElementTree\n"
            "import os.path as p\n"
            "def packed(): return xml.etree.ElementTree.fromstring('<a/>').tag, p.join('a', 'b')"
        ),
        "packed",
        "packed()",
        "('a', 'a/b')",
    ),
    (
        "one saved tool in another",
        ("def inner_tool(x): return x + 1\nsave_tool(inner_tool)\ndel inner_tool"),
        "def outer_tool(x): return inner_tool(x) * 2\nsave_tool(outer_tool)",
        "outer_tool(1)",
        "4",
    ),
    (
        "a function that calls a server",
        "",
        "async def asks(): return await mcp_some.do()\nsave_tool(asks)",
        "await asks()",
        "'some.do'",
    ),
    ("attributes of a function", "def attr(): return attr.n\nattr.n = {'a': 1}", "attr", "attr()", "{'a': 1}"),
    (
        "text of several lines in a nested function",
        ("if True:\n    def texted():\n        return '''a\n  b'''"),
        "texted",
        "texted()",
        "'a\\n  b'",
    ),
    ("a generator", "def gens(n):\n    yield from range(n)", "gens", "list(gens(2))", "[0, 1]"),
    (
        "types of a parameter",
        "from typing import Optional\ndef typed(a: 'Unknown', b: Optional[int] = None) -> int: return 1",
        "typed",
        "typed(1)",
        "1",
    ),
)

# What a session defines, what is saved, and words of the reason why it can't be.
REFUSED = (
    ("a lambda", "f1 = lambda x: x", "f1", ["def name"]),
    ("a class", "class C1: pass", "C1", ["class", "function"]),
    ("a method", "class C2:\n    def m(self): pass", "C2().m", ["method", "def"]),
    ("a method of a class", "class C3:\n    def m(self): pass", "C3.m", ["method of the class C3"]),
    ("a function of a library", "import json", "json.dumps", ["save_tool takes", "library"]),
    ("something that is no function", "", "3", ["save_tool takes", "int"]),
    ("a partial", "import functools", "functools.partial(print, 1)", ["partial", "def"]),
    ("code from exec", "exec('def ex(): pass')", "ex", ["source of ex is not known"]),
    (
        "data of the session",
        ("import io\nbuf = io.BytesIO()\ndef f2(): return buf"),
        "f2",
        ["f2 uses buf", "BytesIO", "parameter"],
    ),
    (
        "much data",
        "big = list(range(9000))\ndef f3(): return big",
        "f3",
        ["f3 uses big", "characters", "save_memory('big', big)"],
    ),
    (
        "nonlocal",
        ("def mk():\n    c = 0\n    def f4():\n        nonlocal c\n        c += 1\n    return f4"),
        "mk()",
        ["nonlocal", "global"],
    ),
    ("an unknown name", "def f5(): return missing_name", "f5", ["f5 uses missing_name"]),
    (
        "what the result of an await is",
        ("import asyncio\nasync def g6(): return object()\nv6 = await g6()\ndef f6(): return v6"),
        "f6",
        ["f6 uses v6", "parameter"],
    ),
    (
        "a helper's need names the helper",
        ("k7 = object\nh7v = iter([])\ndef h7(): return h7v\ndef f7(): return h7()"),
        "f7",
        ["h7 uses h7v"],
    ),
    (
        "two things of one name",
        ("def mk8():\n    x8 = 1\n    def f8(): return x8, g8()\n    return f8\nx8 = 2\ndef g8(): return x8"),
        "mk8()",
        ["two different things are called x8"],
    ),
    ("Python's own names", "def print(*a): pass", "print", ["Python's own print", "rename"]),
    (
        "the sandbox's names",
        ("def publish2(): pass\ndef list_tools_saved2(): pass\ndisplay_ = display\ndef display(): pass"),
        "display",
        ["helper display", "rename"],
    ),
    ("the names of servers", "def mcp_x(): pass", "mcp_x", ["MCP servers", "rename"]),
    ("names that are no file's", "def _hidden(): pass\ndef größe(): pass", "größe", ["letters, digits"]),
    (
        "a wrapper by hand",
        ("import functools\ndef f9(): pass\nf9 = functools.lru_cache(f9)"),
        "f9",
        ["wrapped after its def", "@decorator"],
    ),
    ("the last value", "def f10(): return _\n5", "f10", ["last value"]),
    (
        "an odd default of a nested function",
        ("def mk11():\n    o = object()\n    def f11(a=o): pass\n    return f11"),
        "mk11()",
        ["parameter a", "None"],
    ),
    (
        "a nested class",
        ("def mk12():\n    class L: pass\n    def f12(): return L\n    return f12"),
        "mk12()",
        ["class L", "outside"],
    ),
    (
        "what does not load on its own",
        (
            "flag = []\n"
            "class M(type):\n"
            "    pass\n"
            "def deco13(f):\n"
            "    return {1: f}[len(flag)]\n"
            "flag.append(1)\n"
            "@deco13\n"
            "def f13(): pass\n"
            "flag.clear()"
        ),
        "f13",
        ["does not load on its own", "KeyError"],
    ),
)


class TestSave(Saving):
    def test_what_is_saved_works_in_later_sessions(self) -> None:
        self.store.loadable.append("some")
        for title, code, what, use, want in SAVED:
            with self.subTest(title):
                self.ok(self.first, code)
                self.ok(self.first, what if "save_tool" in what else f"save_tool({what})")
                self.assertEqual(self.ok(self.second, "import asyncio\n" + use), want, self.store.versions)

    def test_what_cannot_be_saved_says_what_to_change(self) -> None:
        for title, code, what, words in REFUSED:
            with self.subTest(title):
                h = self.harness() if title.startswith(("Python", "the sandbox")) else self.first
                h.answer = self.store.answer
                self.ok(h, code)
                self.refused(h, f"save_tool({what})", *words)
        self.assertEqual(self.store.files, {})

    def test_a_file_that_the_session_wrote_is_no_import_for_later_ones(self) -> None:
        with open(os.path.join(self.first.dir, "own.py"), "w") as f:
            f.write("N = 2\ndef twice(x): return x * N\n")
        self.ok(self.first, f"import sys; sys.path.insert(0, {self.first.dir!r})")
        self.ok(self.first, "import own\nfrom own import twice\nN = 3")
        self.ok(self.first, "def uses(x): return twice(x)\nsave_tool(uses)")
        self.assertEqual(self.ok(self.second, "uses(4)"), "8")
        self.refused(self.first, "def mod(x): return own.twice(x)\nsave_tool(mod)", "the module own", "own.py")

    def test_the_text_reads_as_a_person_would_write_it(self) -> None:
        self.ok(
            self.first,
            (
                "from __future__ import annotations\n"
                "import json\n"
                "SEP = '-'  # between words\n"
                "\n"
                "def h(x):\n"
                "    # why\n"
                "    return x"
            ),
        )
        self.ok(
            self.first,
            (
                "def readable(a: json.JSONDecoder, b: str = SEP) -> Later:\n"
                "    '''Doc.'''\n"
                "    return h(a)\n"
                "save_tool(readable)"
            ),
        )
        want = (
            "from __future__ import annotations\n\nimport json\n\nSEP = '-'\n\n\n"
            "def h(x):\n    # why\n    return x\n\n\n"
            "def readable(a: json.JSONDecoder, b: str = SEP) -> Later:\n    '''Doc.'''\n    return h(a)\n"
        )
        self.assertEqual(self.store.files["readable"], want)


class TestUse(Saving):
    def save(self, name: str, text: str) -> None:
        self.store.saved_save({"name": name, "source": text})

    def test_nothing_is_asked_until_a_tool_is_used(self) -> None:
        self.save("t1", "def t1(): return 1\n")
        self.ok(self.first, "x = [1 for v in globals().values() if callable(v)]; 'saved' in repr(t1)")
        self.assertEqual(self.store.asked, [])
        self.ok(self.first, "t1(); t1()")
        self.ok(self.first, "t1()")
        self.assertEqual(self.store.asked, ["saved.read", "saved.read"])

    def test_a_tool_is_a_function(self) -> None:
        self.save("t2", "def t2(a: int, *, b='x') -> str:\n    '''Doc of it.'''\n    return b * a\n")
        self.assertEqual(
            self.ok(self.first, "import inspect; str(inspect.signature(t2)), t2.__doc__, inspect.getsource(t2)[:6]"),
            "(\"(a: int, *, b='x') -> str\", 'Doc of it.', 'def t2')",
        )
        self.assertEqual(self.ok(self.first, "import pickle; pickle.loads(pickle.dumps(t2))(2)"), "'xx'")
        self.assertEqual(
            self.ok(
                self.first,
                "import user_tools\nfrom user_tools import t2 as other\nuser_tools.t2(1), other(1), dir(user_tools)",
            ),
            "('x', 'x', ['t2'])",
        )
        self.assertIn("t2(a: int", self.run_in(self.first, "help(t2)").text())

    def test_a_file_that_was_edited_counts_in_the_next_call(self) -> None:
        self.save("t3", "def t3(): return 1\n")
        self.assertEqual(self.ok(self.first, "t3()"), "1")
        self.store.files["t3"] = "def t3(): return 2\n"
        self.assertEqual(self.ok(self.first, "t3()"), "2")

    def test_a_broken_tool_is_told_of_when_it_is_used_and_breaks_nothing_else(self) -> None:
        self.save("t4", "def t4(): return 1\n\ndef x(:\n")
        self.save("t5", "import nothing_like_it\ndef t5(): return 1\n")
        self.save("t6", "def other(): return 1\n")
        self.save("t7", "def t7():\n    return 1 / 0\n")
        self.save("t8", "def t8(): return 8\n")
        self.assertEqual(self.ok(self.first, "t8()"), "8")
        self.refused(self.first, "t4()", "~/MCPs/user_tools/t4.py, line 3: SyntaxError", "restore_tool('t4')")
        self.refused(self.first, "t5()", "~/MCPs/user_tools/t5.py, line 1: ModuleNotFoundError", "nothing_like_it")
        self.refused(self.first, "t6()", "t6.py defines no t6")
        reply = self.run_in(self.first, "t7()")
        self.assertIn('File "~/MCPs/user_tools/t7.py", line 2, in t7\n    return 1 / 0', reply.error["traceback"])
        self.assertEqual(
            self.ok(self.first, "repr(t4), hasattr(t4, '__wrapped__'), 'line 3' in t4.__doc__"),
            "('<saved tool t4>', False, True)",
        )
        self.store.files["t4"] = "def t4(): return 4\n"
        self.assertEqual(self.ok(self.first, "t4()"), "4")

    def test_the_sessions_own_names_win(self) -> None:
        self.save("t9", "def t9(): return 'saved'\n")
        self.save("publish", "def publish(): return 'saved'\n")
        self.save("len", "def len(x): return 'saved'\n")
        self.assertEqual(
            self.ok(self.first, "def t9(): return 'own'\nt9(), len([]), 'Files' in repr(publish)"), "('own', 0, True)"
        )
        self.assertEqual(
            self.ok(self.first, "[r['name'] for r in list_tools_saved() if 'rename' in r.get('problem', '')]"),
            "['publish', 'len']",
        )

    def test_a_tool_that_is_deleted_is_gone_and_can_be_brought_back(self) -> None:
        self.ok(self.first, "def t10(): return 1\nsave_tool(t10)")
        self.ok(self.second, "t10()")
        self.assertEqual(
            self.ok(self.first, "def t10(): return 2\nrepr(await save_tool(t10))"),
            "'<saved tool t10: version 2, ~/MCPs/user_tools/t10.py; version 1 is kept>'",
        )
        self.assertEqual(self.ok(self.second, "t10()"), "2")
        self.assertEqual(self.ok(self.second, "tool_source('t10', 1)"), "'def t10(): return 1\\n'")
        self.assertIn("brings version 2 back", self.ok(self.second, "delete_tool(t10)"))
        self.assertEqual(self.run_in(self.second, "t10").error["type"], "NameError")
        self.ok(self.second, "restore_tool('t10', 1)")
        self.assertEqual(self.ok(self.second, "t10()"), "1")

    def test_a_file_of_many_tools(self) -> None:
        self.store.files["user_tools"] = "LIMIT = 3\n\ndef many_a(): return LIMIT\n\nclass ManyB:\n    v = 1\n"
        run = {"t": "run", "run": 1, "servers": [], "told": {"saved": ["user_tools.many_a", "user_tools.ManyB"]}}
        self.first.send(
            {
                **run,
                "code": (
                    "import user_tools\n"
                    "class Sub(ManyB): pass\n"
                    "many_a(), user_tools.LIMIT, ManyB().v, isinstance(Sub(), ManyB)"
                ),
            }
        )
        reply = self.first.finish()
        self.assertEqual(reply.value, "(3, 3, 1, True)", reply.error.get("traceback"))
        self.assertEqual(self.store.asked.count("saved.read"), 1)

    def test_what_is_broken_in_a_file_of_many_tools_hides_no_other(self) -> None:
        self.store.files["user_tools"] = (
            "import math\n\n@staticmethod\ndef m_a(: return 1\n\n\ndef m_b():\n    return math.pi > 3\n"
        )
        saved = ["user_tools.m_a", "user_tools.m_b"]
        self.first.send({"t": "run", "run": 1, "servers": [], "told": {"saved": saved}, "code": "m_b()"})
        self.assertEqual(self.first.finish().value, "True")
        self.first.send({"t": "run", "run": 2, "servers": [], "code": "m_a()"})
        message = self.first.finish().error["message"]
        self.assertIn("~/MCPs/user_tools/user_tools.py, line 4: SyntaxError", message)
        self.assertNotIn("restore_tool", message)

    def test_what_is_asked_of_tools_works_with_await_and_without(self) -> None:
        self.ok(self.first, "def t14(): return 1\nsave_tool(t14)")
        both = "print(await tool_source('t14') == tool_source('t14'), len(await list_tools_saved()))"
        self.assertEqual(self.run_in(self.first, both).text(), "True 1\n")
        self.assertIn("version 1", self.ok(self.first, "await list_tools_saved()"))
        self.ok(self.first, "await delete_tool('t14')")
        self.ok(self.first, "from mcp import runtime\nruntime.restore_tool('t14', 1)")

    def test_a_server_that_a_tool_uses_is_loaded(self) -> None:
        self.store.loadable.append("known")
        self.save("t11", "from mcp.servers.known import do\ndef t11(): return do\n")
        self.save("t12", "def t12(): return mcp_absent.do()\n")
        self.assertIn("known", self.ok(self.first, "repr(t11()), mcp_known"))
        reply = self.run_in(self.first, "t12()")
        self.assertIn('servers=["absent"]', reply.error["traceback"])

    def test_children_use_what_is_loaded(self) -> None:
        self.save("t13", "def t13(x): return x * 2\n")
        code = "import multiprocessing as m\nt13(1)\nwith m.Pool(1) as p: out = p.map(t13, [1, 2])\nout"
        self.assertEqual(self.ok(self.first, code), "[2, 4]")
