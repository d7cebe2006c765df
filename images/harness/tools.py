"""What is known of the loaded servers and their tools, and how a tool is called.

Names are data here: they are looked up, and never become code.
"""

from __future__ import annotations

import base64
import difflib
import time
from collections.abc import Awaitable, Coroutine
from typing import Any

from .awaits import Awaits
from .blocks import Blocks, Result, error_text, parsed, text_of
from .errors import InvalidArguments, MCPError, UnknownTool
from .params import Spec
from .rpc import Client
from .steps import Steps, drive_sync

_encode, _near, _clock = base64.b64encode, difflib.get_close_matches, time.monotonic
_BINARY = (bytes, bytearray, memoryview)

# Docs older than this are asked for again before a call is refused by them,
# and before help is given from them. Others are good until then.
_FRESH = 1.0  # seconds
_GIVEN_UP = 10.0  # seconds for which a server that works, but can't list its tools, is not asked for them again
_MAX_NAMED = 20  # tools that an error names when none is near


class Docs:
    """What the daemon told of one server's tools, and when."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.born = _clock()
        self.rows = rows
        self.names: dict[str, dict[str, Any]] = {alias(row): row for row in rows}  # by Python's and the tool's own
        self.names.update({row["tool"]: row for row in rows})
        self._specs: dict[str, Spec] = {}  # those that were wanted

    @property
    def fresh(self) -> bool:
        return _clock() - self.born < _FRESH

    def spec(self, name: str) -> Spec | None:
        """The tool of a name or a Python spelling, None if there is none."""
        spec = self._specs.get(name)
        if spec is None and name in self.names:
            spec = self._specs[name] = Spec(self.names[name])
        return spec


def alias(row: dict[str, Any]) -> str:
    """The Python spelling of a tool, from its doc."""
    return str(row.get("toolAlias") or row["tool"])


class Tools:
    """What is known of the loaded servers' tools, and the names code uses for them."""

    def __init__(self, client: Client, awaits: Awaits) -> None:
        self.client, self.awaits = client, awaits
        self.servers: dict[str, str] = {}  # alias -> name
        self._aliases: dict[str, str] = {}  # name -> alias
        self._loaded: list[dict[str, str]] = []
        self._docs: dict[str, Docs] = {}  # by the server's name
        self._alone: dict[str, dict[str, Spec]] = {}  # server, name as code has it -> a tool that was asked for alone
        self._full: dict[str, dict[str, tuple[dict[str, Any], float]]] = {}  # server, tool -> its whole doc, until when
        self._unlisted: dict[str, MCPError] = {}  # why a server's tools could not be listed
        self._given_up: dict[str, float] = {}  # when such a server was seen to work

    def load(self, servers: list[dict[str, str]]) -> bool:
        """Takes the session's loaded servers from the daemon; reports whether they have changed."""
        if servers == self._loaded:
            return False
        self._loaded = servers
        self.servers = {s["alias"]: s["name"] for s in servers}
        self._aliases = {name: alias for alias, name in self.servers.items()}
        return True

    def add(self, servers: list[dict[str, str]]) -> None:
        """Adds servers that were loaded from code."""
        known = [s for s in self._loaded if s["name"] not in {new["name"] for new in servers}]
        self.load([*known, *servers])

    def server(self, name: str) -> str:
        """The real name of a loaded server, for its name or alias as code has it."""
        return self.servers.get(name, name)

    def alias(self, server: str) -> str:
        """What code has after `mcp_` for a server's name."""
        return self._aliases.get(server, server)

    def watch(self, coroutine: Coroutine[Any, Any, Any], name: str) -> Awaitable[Any]:
        """Has it told, by the name that code uses, if a call is never awaited."""
        return self.awaits.call(coroutine, name)

    def known(self, server: str, name: str) -> Spec | None:
        """A tool, for its name or its Python spelling, if it is known by now."""
        docs = self._docs.get(server)
        return docs.spec(name) if docs is not None else self._alone.get(server, {}).get(name)

    def has_answered(self, server: str) -> bool:
        """Reports whether something is known of the server's tools, so that it answers at once."""
        return server in self._docs or server in self._alone

    def docs(self, server: str) -> Steps:
        """Docs of a server's tools that are fresh."""
        docs = self._docs.get(server)
        if docs is None or not docs.fresh:
            answer = yield "docs.query", docs_query(server), True
            docs = self._docs[server] = Docs(answer.get("docs") or [])
            self._full.pop(server, None)
            self._alone.pop(server, None)
        return docs

    def look(self, server: str) -> Docs:
        """As docs, on this thread, which waits."""
        found: Docs = drive_sync(self.client, self.docs(server))
        return found

    def find(self, server: str, name: str) -> Steps:
        """The tool of a name or a Python spelling; None if the server's tools can't be listed. Raises UnknownTool."""
        spec = self.known(server, name)
        if spec is None:
            if server in self._unlisted and _clock() - self._given_up.get(server, -_GIVEN_UP) < _GIVEN_UP:
                return None
            try:
                spec = yield from self.one(server, name)
                if spec is not None:
                    self._unlisted.pop(server, None)
                    return spec
                docs = yield from self.docs(server)
            except MCPError as e:
                self._unlisted[server] = e
                return None  # it may be called all the same, and that says more
            self._unlisted.pop(server, None)
            spec = docs.spec(name)
            if spec is None:
                raise unknown(server, name, docs)
        return spec

    def one(self, server: str, name: str) -> Steps:
        """A tool that is asked for alone, since a server can have a thousand; None if it is not there."""
        spec = self.known(server, name)
        if spec is not None or server in self._docs or not name:
            return spec
        try:
            answer = yield "docs.query", docs_query(server, name), True
        except MCPError as e:
            if e.code == "unknown_tool":
                return None
            raise
        for row in answer.get("docs") or []:
            if name in (row["tool"], alias(row)):
                spec = self._alone.setdefault(server, {})[name] = Spec(row)
        return spec

    def full(self, server: str, tool: str) -> Steps:
        """A tool's doc with its schemas and all of its description; {} if there is none."""
        doc, until = self._full.get(server, {}).get(tool, ({}, 0.0))
        if _clock() < until:
            return doc
        try:
            answer = yield "docs.query", docs_query(server, tool, "full"), True
            rows = answer.get("docs") or [{}]
            doc, until = next((row for row in rows if row.get("tool") == tool), rows[0]), float("inf")
        except MCPError:
            doc, until = {}, _clock() + _GIVEN_UP
        self._full.setdefault(server, {})[tool] = doc, until
        return doc

    def bind(self, server: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Steps:
        """The tool's own name and arguments for a call in Python. Raises UnknownTool and InvalidArguments."""
        spec = yield from self.find(server, name)
        if spec is None:
            if args and not (len(args) == 1 and not kwargs and isinstance(args[0], dict)):
                why = self._unlisted[server]  # so it is not known which parameters they are
                raise MCPError(why.message, why.code, why.data, server, name)
            spec = Spec({"server": server, "tool": name})
        try:
            return spec.tool, spec.bind(args, kwargs)
        except InvalidArguments:
            docs = self._docs.get(server)
            if spec.doc.get("params") is None or (docs is not None and docs.fresh):
                raise
            try:
                docs = yield from self.docs(server)  # the tool may have changed
            except MCPError:
                docs = None
            if docs is None:
                raise
        spec = docs.spec(name)
        if spec is None:
            raise unknown(server, name, docs)
        return spec.tool, spec.bind(args, kwargs)

    def call(self, server: str, tool: str, arguments: dict[str, Any], raw: bool = False) -> Steps:
        """Calls a tool by its own name. isError answers raise MCPError."""
        if any(isinstance(value, _BINARY) for value in arguments.values()):
            arguments = yield from self._with_bytes(server, tool, arguments)
        try:
            answer = yield "tools.call", {"server": server, "tool": tool, "arguments": arguments}
        except MCPError as e:
            e.server, e.tool = e.server or server, e.tool or tool
            if e.code in ("unknown_tool", "invalid_arguments"):
                self._docs.pop(server, None)  # what was known let it pass
                self._alone.pop(server, None)
                self._full.pop(server, None)
            raise
        if server in self._unlisted:
            self._given_up[server] = _clock()
        if raw:
            return Result(answer)
        if not isinstance(answer, dict):
            return answer
        if answer.get("isError"):
            raise MCPError(error_text(answer), "tool_error", answer, server, tool)
        return (yield from self._value(server, tool, answer))

    def _value(self, server: str, tool: str, answer: dict[str, Any]) -> Steps:
        """What a Python caller wants of an answer: data, else text or what it says in JSON, else the blocks."""
        data = answer.get("structuredContent")
        if data is not None:
            if type(data) is dict and len(data) == 1 and "result" in data:
                schema = yield from self._output_schema(server, tool)
                return data["result"] if schema.get("x-fastmcp-wrap-result") is True else data
            return data
        text = text_of(answer)
        if text is None:
            return Blocks(answer.get("content") or [], answer)
        if answer["content"][0].get("mimeType") == "application/json":
            return parsed(text)
        if text.lstrip()[:1] in ("{", "[") and (yield from self._output_schema(server, tool)):
            return parsed(text)
        return text

    def _output_schema(self, server: str, tool: str) -> Steps:
        schema = (yield from self.full(server, tool)).get("outputSchema")
        return schema if isinstance(schema, dict) else {}

    def _with_bytes(self, server: str, tool: str, arguments: dict[str, Any]) -> Steps:
        """Arguments with bytes as base64 where the tool's schema says that it takes that."""
        schema = (yield from self.full(server, tool)).get("inputSchema")
        properties = schema.get("properties") if isinstance(schema, dict) else None
        out = dict(arguments)
        for name, value in arguments.items():
            own = properties.get(name) if isinstance(properties, dict) else None
            if isinstance(value, _BINARY) and isinstance(own, dict) and _is_base64(own):
                out[name] = _encode(value).decode()
        return out


def _is_base64(schema: dict[str, Any]) -> bool:
    return schema.get("contentEncoding") == "base64" or schema.get("format") in ("byte", "base64")


def unknown(server: str, name: str, docs: Docs) -> UnknownTool:
    """Says that there is no such tool, and which are near."""
    near = _near(name, list(docs.names), 3, 0.6)
    spellings = [alias(row) for row in docs.rows]
    if near:
        hint = f"Did you mean {' or '.join(dict.fromkeys(alias(docs.names[n]) for n in near))}?"
    elif not spellings:
        hint = "It has no tools."
    elif len(spellings) <= _MAX_NAMED:
        hint = f"It has {', '.join(spellings)}."
    else:
        hint = "runtime.search_tool_docs and runtime.query_tool_docs find the right one."
    return UnknownTool(f"Server {server} has no tool {name}. {hint}", "unknown_tool", None, server, name)


def docs_query(server: str, tool: str | None = None, detail: str = "summary") -> dict[str, Any]:
    return {"server": server, "tool": tool, "detail": detail}
