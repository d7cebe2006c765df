"""Tools as Python functions: signatures, arguments, results. The daemon's side is scripted here."""

from __future__ import annotations

import base64
from typing import Any, Callable

from driver import Case, Frame, Harness

SERVERS = [{"name": "my files", "alias": "files"}, {"name": "down", "alias": "down"}]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def _tool(name: str, alias: str, params: list[Frame], **more: Any) -> Frame:
    named = {"server": "my files", "serverAlias": "files", "tool": name, "toolAlias": alias, "params": params}
    shown = ", ".join(p.get("alias", p["name"]) for p in params)
    return {"description": f"About {name}.", "loose": False, "signature": f"{alias}({shown})", **named, **more}


DOCS = [
    _tool(
        "read-file",
        "read_file",
        [
            {
                "name": "path",
                "alias": "path",
                "type": "str",
                "required": True,
                "description": "Where it is.\nAbsolute.",
            },
            {"name": "head", "alias": "head", "type": "int", "required": False},
            {"name": "mode", "type": "str", "required": False, "default": "text", "enum": ["text", "bytes"]},
            {"name": "from", "alias": "from_", "type": "str | None", "required": False},
        ],
        returns="list[{number: int}]",
    ),
    _tool("create", "create", [{"name": "data", "type": "dict", "required": True}, {"name": "n", "type": "int"}]),
    _tool("open", "open", [{"name": "self", "type": "Any"}], loose=True),
    _tool("echo", "echo", [{"name": "x", "type": "Any"}]),
    _tool("wrapped", "wrapped", [], loose=True),
    _tool("list_tools", "list_tools", [{"name": "page", "type": "int"}]),
    _tool("sync", "sync", []),
    _tool("b64", "b64", [{"name": "blob", "type": "str"}, {"name": "text", "type": "str"}]),
]
FULL: dict[str, Frame] = {
    "wrapped": {"outputSchema": {"type": "object", "x-fastmcp-wrap-result": True}},
    "b64": {"inputSchema": {"properties": {"blob": {"type": "string", "contentEncoding": "base64"}}}},
}


def daemon(frame: Frame) -> Frame:
    """Answers as the proxy would; a call is answered with its arguments, or with its argument `result`."""
    method, params = frame["method"], frame["params"]
    if params.get("server") == "down":
        return {"error": {"code": "server_failed", "message": "Server down cannot be started: no such program."}}
    if method == "docs.query" and params["tool"]:
        return _one(params["tool"])
    if method == "docs.query":
        return {"result": {"docs": DOCS}}
    if method == "servers.load":
        if "nope" in params["names"]:
            return {"error": {"code": "not_available", "message": "Server nope is not available."}}
        return {"result": {"loaded": [{"name": n, "alias": n.replace(" ", "_")} for n in params["names"]]}}
    if method != "tools.call":
        return OFFERS.get(method, {"error": {"code": "bad_request", "message": method}})
    arguments = params["arguments"]
    if "result" in arguments:
        return {"result": arguments["result"]}
    return {"result": {"structuredContent": {"tool": params["tool"], "arguments": arguments}}}


def _one(name: str) -> Frame:
    docs = [{**d, **FULL.get(d["tool"], {})} for d in DOCS if name in (d["tool"], d["toolAlias"])]
    return {"result": {"docs": docs}} if docs else {"error": {"code": "unknown_tool", "message": f"No tool {name}."}}


def silent_when_opened(h: Harness) -> Callable[[Frame], Frame | None]:
    """Leaves calls of the tool open unanswered. The code finds a file when as many are under way as may be."""
    opened = 0

    def answer(frame: Frame) -> Frame | None:
        nonlocal opened
        if frame["method"] != "tools.call" or frame["params"]["tool"] != "open":
            return daemon(frame)
        opened += 1
        if opened == 1000:
            h.touch("full")
        return None

    return answer


FULL_BY_NOW = "while not os.path.exists('full'): await asyncio.sleep(0.01)\n"


OFFERS: dict[str, Frame] = {
    "resources.list": {"result": {"resources": [{"uri": "a:b"}], "warning": "too many", "nextCursor": "c"}},
    "resources.templates": {"result": {"resourceTemplates": [{"uriTemplate": "a:{x}"}]}},
    "resources.read": {"result": {"contents": [{"uri": "a:b", "text": "T"}, {"uri": "a:b", "blob": "AAE="}]}},
    "prompts.list": {"result": {"prompts": [{"name": "p"}]}},
    "prompts.get": {"result": {"messages": []}},
    "complete": {"result": {"completion": {"values": ["v1", "v2"], "total": 2}}},
    "server.info": {"result": {"name": "s", "version": "1"}},
}


class Tools(Case):
    shared: Harness

    @classmethod
    def setUpClass(cls) -> None:
        cls.shared = Harness()
        cls.shared.answer = daemon
        cls.addClassCleanup(cls.shared.close)

    def check(self, table: dict[str, Any]) -> None:
        """Runs code and compares the value of its end."""
        for code, want in table.items():
            with self.subTest(code):
                reply = self.shared.run(code, SERVERS)
                self.assertEqual(reply.value, want, reply.error)

    def sent(self, call: str) -> Any:
        """The arguments that a call is sent with; the error if there is one."""
        reply = self.shared.run(f"r = await mcp_files.{call}; r['arguments']", SERVERS)
        return reply.value or reply.error["message"]

    def test_signature_and_help_are_those_of_a_function(self) -> None:
        signature = "(path: str, head: int = None, mode: str = 'text', from_: str | None = None) -> list[{number: int}]"
        self.check(
            {
                "import asyncio, inspect; str(inspect.signature(mcp_files.read_file))": repr(signature),
                "inspect.signature(mcp_files.sync.read_file) == inspect.signature(mcp_files['read-file'])": "True",
                "str(inspect.signature(mcp_files.open))": "'(self: Any = None, **kwargs)'",
                "mcp_files.read_file.__name__": "'read_file'",
                "mcp_files.read_file.__qualname__": "'mcp_files.read_file'",
                "mcp_files['read-file'].__qualname__": "\"mcp_files['read-file']\"",
                "mcp_files.read_file.__module__": "'mcp.servers.files'",
                "[n in dir(mcp_files) for n in ('create', 'read_file', 'call_tool')]": "[True, True, False]",
                "[hasattr(mcp_files, n) for n in ('read_file', 'raed_file', '__len__', '_repr_html_')]": (
                    "[True, False, False, False]"
                ),
                "asyncio.iscoroutinefunction(mcp_files.read_file)": "True",
                "asyncio.iscoroutinefunction(mcp_files.sync.read_file)": "False",
                "mcp_files.read_file == mcp_files['read_file'] != mcp_files.sync.read_file": "True",
                "import copy; copy.copy(mcp_files) is mcp_files": "True",
                "copy.deepcopy([mcp_files, mcp_files.read_file])": (
                    "[<MCP server my files>, <tool read_file of MCP server my files>]"
                ),
                "mcp_files.read_file": "<tool read_file of MCP server my files>",
            }
        )
        text = self.shared.run("help(mcp_files.read_file)", SERVERS).text()
        # Some versions of Python break a long signature into lines.
        self.assertIn(f"read_file{signature}".replace(" ", ""), "".join(text.split()).replace(",)", ")"))
        for want in (
            "About read-file.",
            "path: str\n            Where it is.\n            Absolute.",
            "head: int (optional)",
            "mode: str (default 'text'; one of 'text', 'bytes')",
            "from_: str | None (optional; the tool's own name for it is 'from')",
            "Returns: list[{number: int}]",
        ):
            self.assertIn(want, text)

    def test_help_of_a_server_lists_its_tools(self) -> None:
        for code in ("help(mcp_files)", "import mcp.servers.files\nhelp(mcp.servers.files)"):
            text = self.shared.run(code, SERVERS).text()
            self.assertIn("read_file(path, head, mode, from_)\n", text)
            self.assertIn("About create.", text)
            self.assertIn("read_resource", text)

    def test_help_of_a_server_that_is_down_says_why(self) -> None:
        for code in ("help(mcp_down)", "help(mcp_down.anything)", "print(mcp_down.anything.__doc__)"):
            reply = self.shared.run(code, SERVERS)
            self.assertEqual(reply.status, "ok")
            self.assertIn("cannot be started: no such program", reply.text())
        self.check(
            {
                "import inspect; str(inspect.signature(mcp_down.anything))": "'(*args, **kwargs)'",
                "'call_tool' in dir(mcp_down)": "True",
                "from mcp.servers.down import anything; anything": "<tool anything of MCP server down>",
            }
        )

    def test_arguments_find_their_parameters(self) -> None:
        for call, want in {
            "read_file('p')": {"path": "p"},
            "read_file('p', 3, from_='f')": {"path": "p", "head": 3, "from": "f"},
            "read_file(**{'path': 'p', 'from': 'f'})": {"path": "p", "from": "f"},
            "read_file({'path': 'p', 'from_': 'f'})": {"path": "p", "from": "f"},
            "read_file({'path': 'p'}, 1)": {"path": {"path": "p"}, "head": 1},
            "read_file('p', head=None, mode=None)": {"path": "p"},
            "read_file('p', None)": {"path": "p"},
            "read_file('p', from_=None)": {"path": "p", "from": None},
            "read_file(None)": {"path": None},
            "create({'title': 't'})": {"data": {"title": "t"}},
            "create({'data': {'title': 't'}, 'n': 1})": {"data": {"title": "t"}, "n": 1},
            "create({})": {"data": {}},
            "create({'title': 't'}, n=2)": {"data": {"title": "t"}, "n": 2},
            "open(self=1, tools=2, server=3, args=4)": {"self": 1, "tools": 2, "server": 3, "args": 4},
            "open({'any': 1})": {"any": 1},
        }.items():
            with self.subTest(call):
                self.assertEqual(self.sent(call), repr(want))

    def test_wrong_arguments_are_refused_before_anything_is_sent(self) -> None:
        for call, wants in {
            "read_file(pth='p')": ["no parameter pth (did you mean path?)", "path is missing", "read_file(path, head"],
            "read_file()": ["path is missing"],
            "read_file('p', path='q')": ["path is given twice"],
            "read_file('p', from_='f', **{'from': 'g'})": ["from is given twice"],
            "read_file(1, 2, 3, 4, 5)": ["takes 4 positional arguments and 5 are given"],
            "read_file({'paht': 1})": ["no parameter paht (did you mean path?)"],
            "create({'n': 1}, 2, 3)": ["takes 2 positional arguments and 3 are given"],
            "read_file('p', **{'x y': 1})": ["no parameter x y"],
        }.items():
            with self.subTest(call):
                reply = self.shared.run(f"await mcp_files.{call}", SERVERS)
                self.assertEqual(reply.error["type"], "InvalidArguments")
                for want in wants:
                    self.assertIn(want, reply.error["message"])
                self.assertNotIn("tools.call", [f["method"] for f in reply.of("rpc")])
        self.check(
            {
                "from mcp import runtime\ntry: mcp_files.sync.read_file(pth=1)\nexcept TypeError as e: r = e\n"
                "r.code, r.server, r.tool, [p['path'] for p in r.data['problems']], isinstance(r, runtime.MCPError)": (
                    "('invalid_arguments', 'my files', 'read-file', ['pth', 'path'], True)"
                )
            }
        )

    def test_typos_in_names_of_tools(self) -> None:
        self.shared.run("dir(mcp_files)", SERVERS)
        for code in ("mcp_files.raed_file", "await mcp_files['raed_file']()", "mcp_files.sync.raed_file('p')"):
            with self.subTest(code):
                reply = self.shared.run(code, SERVERS)
                self.assertEqual(reply.error["type"], "UnknownTool")
                self.assertIn("Server my files has no tool raed_file. Did you mean read_file?", reply.error["message"])
                self.assertEqual(reply.error["traceback"].count("Did you mean"), 1)
        reply = self.shared.run("from mcp.servers.files import raed_file", SERVERS)
        self.assertEqual(reply.error["type"], "ImportError")
        self.assertIn("Did you mean read_file?", reply.error["message"])
        first = self.harness()
        first.answer = daemon
        reply = first.run("from mcp.servers.files import raed_file", SERVERS)
        self.assertEqual(reply.error["type"], "ImportError")

    def test_a_tool_that_has_changed_is_asked_for_again(self) -> None:
        h = self.harness()
        docs = list(DOCS)
        h.answer = lambda f: {"result": {"docs": docs}} if f["method"] == "docs.query" else daemon(f)
        self.assertIsNotNone(h.run("await mcp_files.read_file('p')", SERVERS).value)
        docs[0] = _tool("read-file", "read_file", [{"name": "uri", "type": "str", "required": True}])
        docs.append(_tool("new", "new", []))
        old = "import time; time.sleep(1.1)\n"
        self.assertEqual(
            h.run(old + "(await mcp_files.read_file(uri='u'))['arguments']", SERVERS).value, "{'uri': 'u'}"
        )
        del docs[1]
        self.assertEqual(h.run("(await mcp_files.new())['tool']", SERVERS).value, "'new'")
        self.assertIn("no tool create", h.run(old + "mcp_files.sync.create.__doc__", SERVERS).value or "")

    def test_a_tool_is_asked_for_alone(self) -> None:
        h = self.harness()
        h.answer = daemon
        code = "await mcp_files.echo(1); mcp_files.read_file, hasattr(mcp_files, 'create')"
        asked = [f["params"]["tool"] for f in h.run(code, SERVERS).of("rpc") if f["method"] == "docs.query"]
        self.assertEqual(asked, ["echo", "read_file", "create"])
        reply = h.run("hasattr(mcp_files, 'nope'), await mcp_files.echo(2) == await mcp_files['echo'](2)")
        self.assertEqual(reply.value, "(False, True)", reply.error)

    def test_a_server_whose_tools_cannot_be_listed_is_called_all_the_same(self) -> None:
        h = self.harness()
        error = {"error": {"code": "server_failed", "message": "It lists nothing."}}
        h.answer = lambda f: error if f["method"] == "docs.query" else daemon(f)
        code = (
            "[(await mcp_files.any_name(x=1))['arguments'] for _ in range(3)], mcp_files.sync['x-y']({'z': 1})['tool']"
        )
        reply = h.run(code, SERVERS)
        self.assertEqual(reply.value, "([{'x': 1}, {'x': 1}, {'x': 1}], 'x-y')", reply.error)
        self.assertEqual([f["method"] for f in reply.of("rpc")], ["docs.query"] + ["tools.call"] * 4)
        self.assertIn("It lists nothing.", h.run("await mcp_files.any_name('positional')", SERVERS).error["message"])
        down = self.harness()
        down.answer = lambda f: error
        self.assertIn("It lists nothing.", down.run("await mcp_files.read_file()", SERVERS).error["message"])
        down.answer = daemon  # it works by now
        self.assertEqual(down.run("(await mcp_files.read_file('p'))['arguments']", SERVERS).value, "{'path': 'p'}")

    def test_the_daemons_refusals_are_kinds_of_error_too(self) -> None:
        for code, kind in {
            "invalid_arguments": "TypeError",
            "unknown_tool": "AttributeError",
            "denied": "MCPError",
        }.items():
            h = self.harness()
            error = {"code": code, "message": "No.", "data": {"server": "s", "tool": "t", "rule": "r"}}
            h.answer = lambda f, e=error: {"error": e} if f["method"] == "tools.call" else daemon(f)  # type: ignore[misc]
            reply = h.run(
                f"from mcp.runtime import MCPError\ntry: await mcp_files.echo(1)\nexcept {kind} as e: r = e\n"
                "str(r), r.code, r.data['rule'], isinstance(r, MCPError)",
                SERVERS,
            )
            self.assertEqual(reply.value, f"('s.t: No.', '{code}', 'r', True)", reply.error)

    def test_arguments_with_one_obvious_meaning_are_converted(self) -> None:
        setup = (
            "import datetime, decimal, enum, pathlib, uuid, collections, dataclasses, types\n"
            "@dataclasses.dataclass\nclass Point:\n    x: int\n    at: object\n"
            "class Colour(enum.Enum):\n    RED = 'red'\n"
        )
        self.shared.run(setup, SERVERS)
        day = "datetime.date(2024, 5, 1)"
        for value, want in {
            "(1, 2)": [1, 2],
            "{3, 1, 2}": [1, 2, 3],
            "frozenset(['b', 'a'])": ["a", "b"],
            day: "2024-05-01",
            "datetime.datetime(2024, 5, 1, 2, 3, tzinfo=datetime.timezone.utc)": "2024-05-01T02:03:00+00:00",
            "Colour.RED": "red",
            "pathlib.Path('/a/b')": "/a/b",
            "uuid.UUID(int=1)": "00000000-0000-0000-0000-000000000001",
            "decimal.Decimal('1.10')": 1.1,
            "decimal.Decimal('12345678901234567890')": 12345678901234567890,
            f"Point(1, {day})": {"x": 1, "at": "2024-05-01"},
            "[{'deep': ({'a'},)}]": [{"deep": [["a"]]}],
            "range(3)": [0, 1, 2],
            "{'k': 1}.values()": [1],
            "{'k': 1}.keys()": ["k"],
            "collections.deque([1])": [1],
            "collections.OrderedDict(a=1)": {"a": 1},
            "types.MappingProxyType({'a': 1})": {"a": 1},
        }.items():
            with self.subTest(value):
                self.assertEqual(self.sent(f"echo(x={value})"), repr({"x": want}))

    def test_values_of_libraries_are_converted(self) -> None:
        """By the names of their classes, so that they can be made up here."""
        self.shared.run(
            "class generic:\n    def item(self): return 5\n"
            "class dt: kind = 'i'\nclass ndarray:\n    dtype = dt; ndim = 1\n"
            "    def tolist(self): return [1.5, float('nan')][:self.n]\n"
            "class Series: pass\nclass NaTType: pass\n"
            "generic.__module__ = ndarray.__module__ = 'numpy'\n"
            "Series.__module__ = NaTType.__module__ = 'pandas.core'\n"
            "whole, holed = ndarray(), ndarray(); whole.n, holed.n = 1, 2",
            SERVERS,
        )
        self.assertEqual(self.sent("echo(x=[generic(), whole])"), "{'x': [5, [1.5]]}")
        for value, want in {
            "holed": "arguments['x'][1]: nan has no form",
            "Series()": "x.tolist() or x.to_dict()",
            "[NaTType()]": "arguments['x'][0]: a value of type NaTType has no form in JSON: pass None",
            "__import__('decimal').Decimal('0.1234567890123456789')": "pass float(x) or str(x)",
            "__import__('datetime').timedelta(1)": "x.total_seconds()",
            "(i for i in [])": "pass list(x)",
            "b'x'": "base64.b64encode(x).decode()",
        }.items():
            with self.subTest(value):
                self.assertIn(want, self.sent(f"echo(x={value})"))

    def test_bytes_become_base64_where_the_schema_says_so(self) -> None:
        self.assertEqual(self.sent("b64(blob=b'\\x00\\x01')"), "{'blob': 'AAE='}")
        self.assertIn("arguments['text']: a value of type bytes", self.sent("b64(blob=b'', text=b'x')"))

    def result(self, result: Frame, then: str, tool: str = "open") -> Any:
        reply = self.shared.run(f"r = await mcp_files.{tool}(result={result!r})\n{then}", SERVERS)
        self.assertEqual(reply.error, {})
        return reply

    def test_what_a_result_becomes(self) -> None:
        def text(value: str, **more: Any) -> Frame:
            return {"content": [{"type": "text", "text": value, **more}]}

        for tool, result, want in (
            ("open", text("plain"), "plain"),
            ("open", text('{"a": 1}'), '{"a": 1}'),
            ("wrapped", text('{"a": 12345678901234567890}'), {"a": 12345678901234567890}),
            ("wrapped", text("{no json"), "{no json"),
            ("open", text('{"a": 1}', mimeType="application/json"), {"a": 1}),
            ("wrapped", {"structuredContent": {"result": [1]}}, [1]),
            ("wrapped", {"structuredContent": {"result": 1, "more": 2}}, {"result": 1, "more": 2}),
            ("open", {"structuredContent": {"result": [1]}}, {"result": [1]}),
        ):
            with self.subTest((tool, result)):
                self.assertEqual(self.result(result, "r", tool).value, repr(want))

    def test_a_schema_is_asked_for_once(self) -> None:
        h = self.harness()
        h.answer = daemon
        result = {"content": [{"type": "text", "text": "[1]"}]}
        call = f"await runtime.call_tool('my files', 'wrapped', {{'result': {result}}})"
        reply = h.run(f"from mcp import runtime\n[{call} for _ in 'abc']", SERVERS)
        self.assertEqual(reply.value, "[[1], [1], [1]]")
        self.assertEqual([f["method"] for f in reply.of("rpc")].count("docs.query"), 1)

    def test_blocks_have_types(self) -> None:
        encoded = base64.b64encode(PNG).decode()
        blocks = [
            {"type": "text", "text": "hello"},
            {"type": "image", "data": encoded, "mimeType": "image/png"},
            {"type": "audio", "data": "AAE=", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "a:t", "mimeType": "text/plain", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "a:b", "blob": "AAE="}},
            {"type": "resource_link", "uri": "a:l", "name": "link"},
            {"type": "json", "json": {"k": 2**60}},
            "no object",
        ]
        self.result({"content": blocks, "_meta": {"m": 1}}, "")
        self.check(
            {
                "' '.join(type(b).__name__ for b in r[:4])": "'Text Image Audio Resource'",
                "' '.join(type(b).__name__ for b in r[4:])": "'Resource ResourceLink Unknown str'",
                "str(r[0]), r[0].text, r[0]['text'], r[0].type": "('hello', 'hello', 'hello', 'text')",
                f"r[1].data == {PNG!r}, r[1]['data'] == {encoded!r}": "(True, True)",
                "r[1].mime_type, r[1].mimeType": "('image/png', 'image/png')",
                "r[2].data, r[4].data, r[3].data": r"(b'\x00\x01', b'\x00\x01', b'inside')",
                "r[3].uri, r[3].text, r[4].text, r[5].uri, r[6].json, r[6]['json']": (
                    "('a:t', 'inside', None, 'a:l', {'k': 1152921504606846976}, {'k': 1152921504606846976})"
                ),
                "r.raw['_meta'], r.raw['content'] == r": "({'m': 1}, True)",
                "hasattr(r[0], 'data')": "False",
                "import json; json.loads(json.dumps(r)) == r": "True",
                "import copy, pickle; copy.deepcopy(r) == r == pickle.loads(pickle.dumps(r))": "True",
                "(await mcp_files.echo(r[0]))['arguments']": "{'x': {'type': 'text', 'text': 'hello'}}",
            }
        )
        shown = self.shared.run("list(r)", SERVERS).value or ""
        self.assertNotIn(encoded, shown)
        self.assertIn(f"Image(image/png, {len(PNG)} bytes)", shown)

    def test_blocks_as_the_last_value_are_seen(self) -> None:
        image = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
        reply = self.result({"content": [{"type": "text", "text": "look:"}, image]}, "r")
        self.assertEqual([f["mime"] for f in reply.of("rich")], ["image/png"])
        self.assertIn("look:", reply.text())
        self.assertEqual(len(self.shared.run("display(r[1])", SERVERS).of("rich")), 1)

    def test_errors_of_tools_say_whose_they_are(self) -> None:
        result = {"isError": True, "content": [{"type": "text", "text": "no such row"}], "structuredContent": {"n": 1}}
        code = (
            f"from mcp import runtime\ntry: await mcp_files.open(result={result!r})\n"
            "except runtime.MCPError as e: r = e\n"
            "str(r), r.server, r.tool, r.code, r.message, r.data['structuredContent']"
        )
        want = "('my files.open: no such row', 'my files', 'open', 'tool_error', 'no such row', {'n': 1})"
        self.check({code: want})
        silent = {"isError": True, "structuredContent": {"err": "NOT_FOUND"}}
        reply = self.shared.run(f"await mcp_files.open(result={silent!r})", SERVERS)
        self.assertIn("NOT_FOUND", reply.error["message"])

    def test_raw_and_sync(self) -> None:
        self.check(
            {
                "(await mcp_files.read_file.raw('p'))['structuredContent']['tool']": "'read-file'",
                "mcp_files.read_file.sync('p')['tool']": "'read-file'",
                "mcp_files.sync.read_file('p')['tool']": "'read-file'",
                "mcp_files.sync['read-file'].raw('p')['structuredContent']['tool']": "'read-file'",
                "(await mcp_files.call_tool('echo', {'x': 1}, raw=True))['structuredContent']['arguments']": "{'x': 1}",
                "mcp_files.sync.call_tool('echo', x=1)['arguments']": "{'x': 1}",
                "from concurrent.futures import ThreadPoolExecutor as P\n"
                "with P(4) as p: r = list(p.map(mcp_files.sync.echo, range(9)))\n[x['arguments']['x'] for x in r]": (
                    "[0, 1, 2, 3, 4, 5, 6, 7, 8]"
                ),
                "import asyncio\n(await asyncio.to_thread(mcp_files.sync.echo, 7))['arguments']": "{'x': 7}",
            }
        )

    def test_tools_win_over_what_a_server_has_besides(self) -> None:
        self.check(
            {
                "(await mcp_files.list_tools(page=2))['arguments']": "{'page': 2}",
                "(await mcp_files.sync())['tool']": "'sync'",
                "mcp_files.sync.echo(1)['tool']": "'echo'",
            }
        )

    def test_resources_prompts_and_completions(self) -> None:
        table = {
            "await runtime.list_resource_templates('files')": "[{'uriTemplate': 'a:{x}'}]",
            "runtime.read_resource_sync('files', 'a:b')": r"['T', b'\x00\x01']",
            "len((await mcp_files.read_resource('a:b', raw=True))['contents'])": "2",
            "await mcp_files.list_prompts()": "[{'name': 'p'}]",
            "mcp_files.sync.get_prompt('p', n=5, s='t')": "{'messages': []}",
            "await runtime.complete('files', 'p', 'arg', 'v')": "['v1', 'v2']",
            "(await mcp_files.server_info())['name']": "'s'",
        }
        self.check({"from mcp import runtime\n" + code: want for code, want in table.items()})
        sent = {
            "runtime.get_prompt_sync('files', 'p', {'n': 5, 's': 't', 'no': None})": {"n": "5", "s": "t"},
            "runtime.complete_sync('files', 'a:{x}', 'x')": {"type": "ref/resource", "uri": "a:{x}"},
            "runtime.complete_sync('files', 'p', 'x')": {"type": "ref/prompt", "name": "p"},
        }
        for code, want in sent.items():
            (frame,) = self.shared.run(code, SERVERS).of("rpc")
            self.assertIn(want, frame["params"].values())
        reply = self.shared.run("runtime.list_resources_sync('files')", SERVERS)
        self.assertEqual(reply.value, "[{'uri': 'a:b'}]")
        self.assertEqual(reply.text(2), "not all of resources of files: too many; the rest: cursor='c'\n")

    def test_docs_are_short_unless_all_is_asked_for(self) -> None:
        row = "from mcp import runtime; r = runtime.query_tool_docs_sync('files')[0]\n"
        self.check(
            {
                row + "sorted(r)": "['description', 'server', 'serverAlias', 'signature', 'tool', 'toolAlias']",
                row + "r['params'][0]['name'], r.get('returns'), r.get('no', 7)": "('path', 'list[{number: int}]', 7)",
                row
                + "import copy, json, pickle; [f(r)['loose'] for f in (copy.deepcopy, copy.copy)]": "[False, False]",
                row + "pickle.loads(pickle.dumps(r)) == r == json.loads(json.dumps(r))": "True",
                "runtime.query_tool_docs_sync('files', 'echo', detail='full')[0]['params'][0]['name']": "'x'",
                "sorted(n for n in dir(runtime) if n[0] in 'MIU')": "['InvalidArguments', 'MCPError', 'UnknownTool']",
                "help(runtime)": None,
            }
        )
        reply = self.shared.run(row + "r['inputSchema']", SERVERS)
        self.assertIn('detail="full"', reply.error["message"])

    def test_docs_are_shown_by_name_and_first_sentence_then_signature(self) -> None:
        first = "mcp_files.read_file (server 'my files'): About read-file.\n    (path, head, mode, from_)"
        listed = "read-file: About read-file.\n    (path, head, mode, from_)"
        for code, want in {
            "runtime.query_tool_docs_sync('files')[0]": first,
            "runtime.query_tool_docs_sync('files')[:1]": first,
            "print(await runtime.query_tool_docs('files'))": first + "\nmcp_files.create",
            "runtime.list_tools_sync('files')": listed + "\ncreate: About create.\n    (data, n)",
        }.items():
            with self.subTest(code):
                reply = self.shared.run("from mcp import runtime\n" + code, SERVERS)
                shown = reply.value or reply.text()
                self.assertTrue(shown.startswith(want), shown)

    def test_servers_are_loaded_from_code(self) -> None:
        h = self.harness()
        h.answer = daemon
        code = (
            "from mcp import runtime\na, b = await runtime.load_servers('new', 'my files')\n"
            "(await mcp_my_files.echo(1))['tool'], a, 'new' in mcp_servers"
        )
        reply = h.run(code)
        self.assertEqual(reply.value, "('echo', <MCP server new>, True)", reply.error)
        reply = h.run("runtime.load_servers_sync(['x'])\nmcp_x, mcp_new", [{"name": "new", "alias": "new"}])
        self.assertEqual(reply.value, "(<MCP server x>, <MCP server new>)")
        self.assertIn("Server nope is not", h.run("await runtime.load_servers('nope')").error["message"])

    def test_many_calls_at_once(self) -> None:
        code = (
            "import asyncio\n"
            "async def one(i):\n    return await (mcp_files.echo(y=1) if i == 7 else mcp_files.echo(i))\n"
            "r = await asyncio.gather(*[one(i) for i in range(5000)], return_exceptions=True)\n"
            "[i for i, x in enumerate(r) if isinstance(x, Exception) or x['arguments'] != {'x': i}]"
        )
        self.check({code: "[7]"})

    def test_calls_that_wait_have_a_bound_in_bytes(self) -> None:
        h = self.harness()
        h.answer = silent_when_opened(h)
        code = (
            "import asyncio, os\nslow = [asyncio.ensure_future(mcp_files.open()) for _ in range(1000)]\n"
            + FULL_BY_NOW
            + "big = 'x' * (15 << 20)\n"
            "more = [asyncio.ensure_future(mcp_files.echo(big)) for _ in range(6)]\nawait asyncio.wait(more[4:])\n"
            "for t in more + slow: t.cancel()\nr = await asyncio.gather(*more, *slow, return_exceptions=True)\n"
            "[getattr(x, 'code', type(x).__name__) for x in r[:6]]"
        )
        want = ["CancelledError"] * 4 + ["busy"] * 2
        self.assertEqual(h.run(code, SERVERS).value, repr(want))
        self.assertEqual(h.run("(await mcp_files.echo(1))['arguments']", SERVERS).value, "{'x': 1}")

    def test_calls_that_are_canceled_make_room(self) -> None:
        h = self.harness()
        h.answer = silent_when_opened(h)
        code = (
            "import asyncio, os\nslow = [asyncio.ensure_future(mcp_files.open()) for _ in range(1500)]\n"
            + FULL_BY_NOW
            + "for t in slow: t.cancel()\nawait asyncio.gather(*slow, return_exceptions=True)\n"
            "r = await asyncio.gather(*[mcp_files.echo(i) for i in range(1500)])\n"
            "len(r), sum(t.cancelled() for t in slow)"
        )
        reply = h.run(code, SERVERS)
        self.assertEqual(reply.value, "(1500, 1500)", reply.error)
        self.assertGreaterEqual(len(reply.of("cancel")), 1000)
