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
    {"name": "files", "alias": "files", "description": "d", "loaded": True, "tools": 1, "source": "/a (b)"},
    {"name": "other", "alias": "other", "description": "", "loaded": False, "tools": None, "problem": "it is down"},
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
            ("await mcp_files.read_file({'from_': 1})", "read-file ['from']"),
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
            ({"content": None}, []),
            ({}, []),
        ]
        for result, want in table:
            reply = self.run_code(f"r = await mcp_files.call_tool('t', {{'result': {result!r}}})\nr == {want!r}")
            self.assertEqual(reply.value, "True", reply.error)

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
                "('wait', 'busy', 'files', 't')",
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
            "(await runtime.list_tools('files', detail='full'))[0]['inputSchema']": "{}",
            "await runtime.discovered_servers(detailed=True)": "files (1 tool; loaded): d\nother (problem: it is down)",
            "dict(runtime.discovered_servers(detailed=True)[1])": "{'name': 'other', 'problem': 'it is down'}",
            "runtime.discovered_servers(detailed=True)[0]['source']": "'/a (b)'",
            "(await runtime.list_loaded_server_metadata())[:0]": "(none)",
            "(await runtime.query_tool_docs('files'))[0]['tool']": "'read-file'",
            "runtime.query_tool_docs_sync('files', detail='full')[0]['tool']": "'read-file'",
            "(await runtime.search_tool_docs('x'))[0]['tool']": "'read-file'",
            "runtime.search_tool_docs_sync('x', limit=1)[0]['tool']": "'read-file'",
            "runtime.search_tool_docs_sync('x', explain=True)[0]['tool']": "'read-file'",
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

    def test_search_tells_of_many_gaps_in_few_words(self) -> None:
        h = self.harness()
        gaps = [{"server": f"s{i}", "reason": "no " * 999} for i in range(40)]
        h.answer = lambda _: {"result": {"results": [], "incomplete": gaps}}
        reply = h.run("from mcp import runtime\nruntime.search_tool_docs_sync('x')")
        self.assertEqual(reply.value, "(none)")
        self.assertLess(len(reply.text(2)), 900)
        self.assertIn("s22 and 17 more", reply.text(2))

    def test_why_the_tools_of_a_server_are_stale_is_told_once(self) -> None:
        h = self.harness()
        rows = [{**DOCS[0], "tool": tool, "toolAlias": tool, "stale": "it is gone, since May"} for tool in ("a", "b")]
        answers: dict[str, Any] = {"docs.query": {"docs": rows}, "docs.search": {"results": [*rows, DOCS[0]]}}
        h.answer = lambda frame: {"result": answers[frame["method"]]}
        for code in ("query_tool_docs_sync('files')", "list_tools_sync('files')", "search_tool_docs_sync('x')"):
            with self.subTest(code):
                text = h.run("from mcp import runtime\nruntime." + code, SERVERS).value or ""
                self.assertEqual(text.count("stale: it is gone, since May"), 1, text)
                self.assertEqual(text.count("stale: likewise"), 1, text)
        second = h.run("runtime.list_tools_sync('files')[1]['stale']", SERVERS)
        self.assertEqual(second.value, "'it is gone, since May'")
        self.assertIn("does not answer: it is gone", h.run("mcp_files.a.__doc__", SERVERS).value or "")

    def test_arguments_that_json_cannot_hold_are_refused_with_their_path(self) -> None:
        table = {
            "{'x': float('nan')}": "arguments['x']: nan",
            "{'x': 1, 'y': [0, float('inf')]}": "arguments['y'][1]: inf",
            "{'x': [object()]}": "arguments['x'][0]: a value of type object",
            "{'x': b'b'}": "arguments['x']: a value of type bytes",
            "{'x': {3: map(str, [])}}": "arguments['x'][3]: a value of type map",
            "{'x': {(1, 2): 3}}": "arguments['x']: a key of type tuple",
            "(lambda d: d.update(d=d) or d)({})": "nested deeper than 200 levels",
        }
        for arguments, want in table.items():
            with self.subTest(arguments):
                reply = self.run_code(f"await mcp_files.call_tool('t', {arguments})")
                self.assertEqual(reply.error["type"], "TypeError")
                self.assertIn(want, reply.error["message"])
                self.assertNotIn("tools.call", [f["method"] for f in reply.of("rpc")])
        self.assertEqual(self.run_code("await mcp_files.call_tool('t', x=1)").value, repr("t ['x']"))

    def test_arguments_over_a_frame_are_refused(self) -> None:
        reply = self.run_code("await mcp_files.call_tool('t', x='y' * (33 << 20))")
        self.assertIn("The arguments are too large", reply.error["message"])

    def test_calls_run_side_by_side_and_those_past_the_bound_wait(self) -> None:
        h = self.harness()
        waiting: list[Frame] = []
        most = made = 0

        def answer(frame: Frame) -> Frame | None:
            nonlocal most, made
            if frame["method"] != "tools.call":
                return daemon(frame)
            made += 1
            waiting.append({"t": "reply", "id": frame["id"], "result": _content(str(made))})
            most = max(most, len(waiting))
            if made >= 1000:
                h.send(waiting.pop(0))
            while made == 1500 and waiting:
                h.send(waiting.pop(0))
            return None

        h.answer = answer
        code = (
            "import asyncio\nr = await asyncio.gather(*[mcp_files.call_tool('t') for _ in range(1500)])\n"
            "r == [str(i) for i in range(1, 1501)]"
        )
        reply = h.run(code, SERVERS)
        self.assertEqual(reply.value, "True", reply.error)
        self.assertEqual(most, 1000)
        self.assertLess([f["method"] for f in reply.of("rpc")].count("docs.query"), 150)  # many wait for one answer

    def test_interrupt_cancels_calls(self) -> None:
        for code in (
            "from mcp import runtime\nawait runtime.call_tool('files', 't')",
            "from mcp import runtime\nruntime.call_tool_sync('files', 't')",
        ):
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
            "from mcp import runtime\nimport os, threading, time\nbox = []\n"
            "def late():\n    while not os.path.exists('over'): time.sleep(0.01)\n"
            "    box.append(runtime.call_tool_sync('files', 't'))\nthreading.Thread(target=late).start()",
            SERVERS,
        )
        h.touch("over")
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
