"""MCP servers as the code sees them. The daemon's side is scripted here."""

from __future__ import annotations

from typing import Any

from driver import Case, Frame, Harness, Reply

SERVERS = [{"name": "git hub", "alias": "git_hub"}, {"name": "files", "alias": "files"}]
DOCS = [
    {
        "server": "files",
        "serverAlias": "files",
        "tool": "read-file",
        "toolAlias": "read_file",
        "description": "Reads.",
        "paramAliases": {"from_": "from"},
    }
]
ROWS = [
    {"name": "files", "alias": "files", "description": "d", "loaded": True},
    {"name": "other", "alias": "other", "description": "", "loaded": False},
]


def _content(*texts: str) -> Frame:
    return {"content": [{"type": "text", "text": t} for t in texts]}


def daemon(frame: Frame) -> Frame | None:
    """Answers as the proxy would."""
    params = frame["params"]
    answers: dict[str, Any] = {
        "servers.list": {"servers": ROWS},
        "tools.list": {"tools": [{"name": "read-file", "inputSchema": {}}]},
        "docs.query": {"docs": DOCS},
        "docs.search": {"results": DOCS, "incomplete": [{"server": "other", "reason": "it is down"}]},
    }
    if frame["method"] != "tools.call":
        return {"result": answers[frame["method"]]}
    arguments = params["arguments"]
    if "error" in arguments:
        return {"error": arguments["error"]}
    return {"result": arguments.get("result", _content(f"{params['tool']} {sorted(arguments)}"))}


class Mcp(Case):
    shared: Harness

    @classmethod
    def setUpClass(cls) -> None:
        cls.shared = Harness()
        cls.shared.answer = daemon
        cls.addClassCleanup(cls.shared.close)

    def run_code(self, code: str) -> Any:
        return self.shared.run(code, SERVERS)

    def test_ways_to_call_a_tool(self) -> None:
        for code in (
            "await mcp_files.read_file(path='x')",
            "await mcp_files['read-file']({'path': 'x'})",
            "await mcp_servers['files'].read_file(path='x')",
            "from mcp.servers.files import read_file\nawait read_file(path='x')",
            "from mcp import runtime\nawait runtime.call_tool('files', 'read-file', {'path': 'x'})",
            "from mcp import runtime\nruntime.call_tool_sync('files', 'read-file', {'path': 'x'})",
            "await mcp_files.call_tool('read-file', path='x')",
            "import mcp.runtime, asyncio\nasyncio.run(mcp.runtime.call_tool('files', 'read-file', {'path': 'x'}))",
            "mcp_files.read_file(path='x')",
        ):
            with self.subTest(code):
                reply = self.run_code(code)
                self.assertEqual(reply.value, repr("read-file ['path']"), reply.error)

    def test_arguments_that_python_cannot_spell(self) -> None:
        for code, want in (
            ("await mcp_files.read_file(from_=1)", "read-file ['from']"),
            ("await mcp_files.read_file({'from_': 1})", "read-file ['from_']"),
            ("await mcp_files.read_file(**{'from': 1})", "read-file ['from']"),
        ):
            with self.subTest(code):
                reply = self.run_code(code)
                self.assertEqual(reply.value, repr(want), reply.error)

    def test_what_a_result_becomes(self) -> None:
        blocks = [{"type": "text", "text": "a"}, {"type": "new-kind", "x": 2**63 + 1}]
        table: list[tuple[Any, Any]] = [
            (_content("one"), "one"),
            ({"structuredContent": {"n": 2**60 + 1}, "content": []}, {"n": 2**60 + 1}),
            ({"content": blocks}, blocks),
            ({}, []),
        ]
        for result, want in table:
            reply = self.run_code(f"await mcp_files.call_tool('t', {{'result': {result!r}}})")
            self.assertEqual(reply.value, repr(want), reply.error)

    def test_raw_gives_the_whole_result(self) -> None:
        result = {"content": [], "isError": True, "_meta": {"z": 1, "a": 2}}
        code = f"from mcp import runtime\nawait runtime.call_tool('files', 't', {{'result': {result!r}}}, raw=True)"
        self.assertEqual(self.run_code(code).value, repr(result))

    def test_errors_raise_and_say_what_is_known(self) -> None:
        table: list[tuple[str, str]] = [
            (
                f"await mcp_files.call_tool('t', {{'result': {{'isError': True, **{_content('no such')}}}}})",
                "('no such', 'tool_error', 'files', 't')",
            ),
            (
                "await mcp_files.call_tool('t', {'error': {'code': 'busy', 'message': 'wait'}})",
                "('wait', 'busy', '', '')",
            ),
            ("await mcp_files.no_such_tool()", "'unknown_tool', 'files', 'no_such_tool')"),
            ("await mcp_files.raed_file()", "Did you mean read_file"),
            ("mcp_servers['nope']", 'Pass servers=["nope"] to run_python'),
        ]
        for code, want in table:
            with self.subTest(code):
                reply = self.run_code(
                    f"from mcp.runtime import MCPError\ntry: {code}\n"
                    "except MCPError as e: r = (e.message, e.code, e.server, e.tool)\nr"
                )
                self.assertIn(want, reply.value or "", reply.error)

    def test_server_that_is_not_loaded_cannot_be_imported(self) -> None:
        reply = self.run_code("from mcp.servers.nope import x")
        self.assertEqual(reply.error["type"], "ModuleNotFoundError")
        self.assertIn('Pass servers=["nope"] to run_python', reply.error["message"])

    def test_helpers(self) -> None:
        table = {
            "runtime.discovered_servers()": "['files', 'other']",
            "await runtime.discovered_servers()": "['files', 'other']",
            "runtime.discovered_servers(detailed=True)[1]['alias']": "'other'",
            "await runtime.list_servers()": "['files', 'git hub']",
            "runtime.list_servers_sync()": "['files', 'git hub']",
            "[r['name'] for r in runtime.list_loaded_server_metadata()]": "['files']",
            "runtime.describe_server('other')['loaded']": "False",
            "(await runtime.list_tools('files'))[0]['name']": "'read-file'",
            "runtime.list_tools_sync('files')[0]['name']": "'read-file'",
            "(await runtime.query_tool_docs('files'))[0]['tool']": "'read-file'",
            "runtime.query_tool_docs_sync('files', detail='full')[0]['tool']": "'read-file'",
            "(await runtime.search_tool_docs('x'))[0]['tool']": "'read-file'",
            "runtime.search_tool_docs_sync('x', limit=1)[0]['tool']": "'read-file'",
            "'await' in runtime.capability_summary()": "True",
            "sorted(mcp_servers), 'git_hub' in mcp_servers, len(mcp_servers)": "(['files', 'git hub'], True, 2)",
        }
        for code, want in table.items():
            with self.subTest(code):
                reply = self.run_code("from mcp import runtime\n" + code)
                self.assertEqual(reply.value, want, reply.error)

    def test_search_says_what_it_could_not_search(self) -> None:
        reply = self.run_code("from mcp import runtime\nruntime.search_tool_docs_sync('x');")
        self.assertEqual(reply.text(2), "not searched: other: it is down\n")

    def test_arguments_that_json_cannot_hold_are_refused_with_their_path(self) -> None:
        table = {
            "{'x': float('nan')}": "arguments['x']: nan",
            "{'x': 1, 'y': [0, float('inf')]}": "arguments['y'][1]: inf",
            "{'x': {1, 2}}": "arguments['x']: a value of type set",
            "{'x': b'b'}": "arguments['x']: a value of type bytes",
            "{'x': __import__('datetime').date.today()}": "arguments['x']: a value of type date",
            "{'x': {(1, 2): 3}}": "arguments['x']: a key of type tuple",
            "(lambda d: d.update(d=d) or d)({})": "nested deeper than 200 levels",
        }
        for arguments, want in table.items():
            with self.subTest(arguments):
                reply = self.run_code(f"await mcp_files.call_tool('t', {arguments})")
                self.assertEqual(reply.error["type"], "TypeError")
                self.assertIn(want, reply.error["message"])
                self.assertEqual(reply.of("rpc"), [])
        self.assertEqual(self.run_code("await mcp_files.call_tool('t', x=1)").value, repr("t ['x']"))

    def test_arguments_over_a_frame_are_refused(self) -> None:
        reply = self.run_code("await mcp_files.call_tool('t', x='y' * (33 << 20))")
        self.assertIn("The arguments are too large", reply.error["message"])

    def test_calls_run_side_by_side_and_those_past_the_bound_wait(self) -> None:
        h = self.harness()
        waiting: list[Frame] = []
        most = 0

        def answer(frame: Frame) -> Frame | None:
            nonlocal most
            waiting.append(frame)
            most = max(most, len(waiting))
            if frame["id"] > 1000 or len(waiting) == 1000:
                first = waiting.pop(0)
                h.send({"t": "reply", "id": first["id"], "result": _content(str(first["id"]))})
            if frame["id"] == 1500:
                for f in waiting:
                    h.send({"t": "reply", "id": f["id"], "result": _content(str(f["id"]))})
            return None

        h.answer = answer
        code = (
            "import asyncio\nr = await asyncio.gather(*[mcp_files.call_tool('t') for _ in range(1500)])\n"
            "r == [str(i) for i in range(1, 1501)]"
        )
        self.assertEqual(h.run(code, SERVERS).value, "True")
        self.assertEqual(most, 1000)

    def test_interrupt_cancels_calls(self) -> None:
        for code in ("await mcp_files.call_tool('t')", "from mcp import runtime\nruntime.call_tool_sync('files', 't')"):
            with self.subTest(code):
                h = self.harness()
                h.answer = lambda f: None
                reply = self.interrupted_call(h, code)
                self.assertEqual(reply.status, "interrupted")
                self.assertIn(code.splitlines()[-1], reply.error["traceback"])
                self.assertEqual([f["id"] for f in reply.of("cancel")], [1])
                h.answer = daemon
                self.assertEqual(h.run(code, SERVERS).value, repr("t []"))

    def interrupted_call(self, h: Harness, code: str) -> Reply:
        number = h.start(code, SERVERS)
        return h.finish(lambda f: h.send({"t": "interrupt", "run": number}) if f["t"] == "rpc" else None)

    def test_threads_may_call_between_runs(self) -> None:
        h = self.harness()
        h.run(
            "from mcp import runtime\nimport threading\nbox = []\n"
            "threading.Timer(0.05, lambda: box.append(runtime.call_tool_sync('files', 't'))).start()",
            SERVERS,
        )
        frame = h.read()
        self.assertEqual(frame["method"], "tools.call")
        h.send({"t": "reply", "id": frame["id"], "result": _content("late")})
        self.assertEqual(h.run("import time\nwhile not box: time.sleep(0.01)\nbox", SERVERS).value, "['late']")

    def test_forks_may_not_call(self) -> None:
        code = (
            "import os\nfrom mcp import runtime\nr, w = os.pipe()\npid = os.fork()\n"
            "if pid == 0:\n    try: runtime.call_tool_sync('files', 't')\n"
            "    except Exception as e: os.write(w, str(e).encode())\n"
            "    os._exit(0)\nos.waitpid(pid, 0); os.read(r, 1000).decode()"
        )
        self.assertIn("from a forked process", self.run_code(code).value or "")

    def test_answers_that_this_python_cannot_read_are_errors(self) -> None:
        h = self.harness()
        table = {"nested too deep": b"[" * 200_000 + b"]" * 200_000, "no JSON": b"{"}
        for name, result in table.items():
            with self.subTest(name):

                def answer(frame: Frame, result: bytes = result) -> None:
                    h.write(b'{"t":"reply","id":%d,"result":%s}\n' % (frame["id"], result))

                h.answer = answer
                reply = h.run("await mcp_files.call_tool('t')", SERVERS)
                self.assertEqual(reply.error["type"], "MCPError")
                self.assertIn("cannot be read", reply.error["message"])

    def test_unknown_and_repeated_replies_are_passed_over(self) -> None:
        h = self.harness()
        h.send({"t": "reply", "id": 77, "result": 1})
        h.write(b'junk\n\n[]\n{}\n{"t":5}\n')

        def answer(frame: Frame) -> Frame:
            h.send({"t": "reply", "id": frame["id"], "result": _content("first")})
            return {"result": _content("second")}

        h.answer = answer
        self.assertEqual(h.run("await mcp_files.call_tool('t')", SERVERS).value, "'first'")
        self.assertEqual(h.run("1+1").value, "2")
