"""The sandbox's way to MCP servers: `mcp.runtime`, `mcp_<alias>`, `mcp.servers`.

Every call is a frame to the daemon, which checks what this session may use.
"""

from __future__ import annotations

import asyncio
import difflib
import importlib.abc
import importlib.machinery
import itertools
import os
import sys
import threading
import types
from collections.abc import Awaitable, Generator, Iterator
from typing import Any, Callable

from .wire import Frame, TooLarge, Wire

Rows = list[dict[str, Any]]


class MCPError(Exception):
    """A call that did not work out. server, tool, code and data say more."""

    def __init__(self, message: str, code: str = "", data: Any = None, server: str = "", tool: str = "") -> None:
        super().__init__(message)
        self.message, self.code, self.data, self.server, self.tool = message, code, data, server, tool


class Client:
    """Sends requests and hands out replies. Safe for use by several threads and loops."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._ids = itertools.count(1)
        self._waiting: dict[int, Callable[[Frame], None]] = {}
        self._pid = os.getpid()

    def reply(self, frame: Frame) -> None:
        """Takes one reply frame, on the control thread. An unknown id is passed over."""
        resolve = self._waiting.pop(frame.get("id", 0), None)
        if resolve is not None:
            resolve(frame)

    def _send(self, method: str, params: Any, resolve: Callable[[Frame], None]) -> int:
        if self._pid != os.getpid():
            raise MCPError("MCP servers can't be reached from a forked process: call them from the main one.")
        number = next(self._ids)
        self._waiting[number] = resolve
        try:
            self._wire.send({"t": "rpc", "id": number, "method": method, "params": params})
        except (ValueError, TypeError, RecursionError) as e:
            self._waiting.pop(number, None)
            raise _unsendable(params, e) from None
        return number

    def _cancel(self, number: int) -> None:
        if self._waiting.pop(number, None) is not None:
            self._wire.send({"t": "cancel", "id": number})

    async def call(self, method: str, params: Any) -> Any:
        """Sends a request and awaits its reply on whatever loop is running."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Frame] = loop.create_future()

        def settle(frame: Frame) -> None:
            if not future.done():
                future.set_result(frame)

        def resolve(frame: Frame) -> None:
            try:
                loop.call_soon_threadsafe(settle, frame)
            except RuntimeError:
                pass  # that loop is closed: nobody waits any more

        number = self._send(method, params, resolve)
        try:
            return _result(await future)
        finally:
            self._cancel(number)

    def call_sync(self, method: str, params: Any) -> Any:
        """Sends a request and blocks this thread until the reply is there."""
        done = threading.Event()
        box: list[Frame] = []

        def resolve(frame: Frame) -> None:
            box.append(frame)
            done.set()

        number = self._send(method, params, resolve)
        try:
            done.wait()
        finally:
            self._cancel(number)
        return _result(box[0])


def _result(frame: Frame) -> Any:
    error = frame.get("error")
    if error is None:
        return frame.get("result")
    data = error.get("data")
    where = data if isinstance(data, dict) else {}
    raise MCPError(
        error.get("message", "unknown error"),
        error.get("code", ""),
        data,
        where.get("server", ""),
        where.get("tool", ""),
    )


def _unsendable(params: Any, error: Exception) -> Exception:
    """Says where in params the value is that JSON cannot hold."""
    if isinstance(error, TooLarge):
        return MCPError(f"The arguments are too large: {error}. Pass less, or in pieces.", "too_large")
    for path, problem in _problems(
        params.get("arguments", params) if isinstance(params, dict) else params, "arguments", 0
    ):
        return TypeError(f"{path}: {problem}")
    return TypeError(f"arguments: {error}")


def _problems(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yields what JSON cannot hold in value, with its path."""
    if depth > 200:
        yield path, "nested deeper than 200 levels, or contains itself"
    elif isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        yield path, f"{value!r} has no form in JSON; pass None or a string"
    elif isinstance(value, dict):
        for k, v in value.items():
            if not isinstance(k, (str, int, float, bool, type(None))):
                yield path, f"a key of type {type(k).__name__} has no form in JSON; use str keys"
            yield from _problems(v, f"{path}[{k!r}]", depth + 1)
    elif isinstance(value, (list, tuple)):
        for i, v in enumerate(value):
            yield from _problems(v, f"{path}[{i}]", depth + 1)
    elif not isinstance(value, (str, int, float, bool, type(None))):
        yield path, f"a value of type {type(value).__name__} has no form in JSON; convert it first"


class Result(dict):  # type: ignore[type-arg]
    """A tool's whole answer: content blocks, structuredContent, _meta, as sent."""


def plain(answer: Any) -> Any:
    """What a Python caller wants of a tool's answer: data, else text, else the blocks."""
    if not isinstance(answer, dict):
        return answer
    if answer.get("structuredContent") is not None:
        return answer["structuredContent"]
    content = answer.get("content") or []
    if len(content) == 1 and isinstance(content[0], dict) and content[0].get("type") == "text":
        return content[0].get("text", "")
    return content


def _error_text(answer: dict[str, Any]) -> str:
    blocks = answer.get("content") or []
    lines = [b.get("text", "") for b in blocks if isinstance(b, dict) and b.get("type") == "text"]
    return "\n".join(t for t in lines if t) or "the tool reported an error without a text"


class Tools:
    """What is known of the loaded servers' tools, and the names code uses for them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.servers: dict[str, str] = {}  # alias -> name
        self._names: dict[str, dict[str, str]] = {}  # server -> alias or name -> name

    def load(self, servers: list[dict[str, str]]) -> None:
        """Takes the session's loaded servers from the daemon."""
        self.servers = {s["alias"]: s["name"] for s in servers}

    def server(self, name: str) -> str:
        """The real name of a loaded server, for its name or alias as code has it."""
        return self.servers.get(name, name)

    def forget(self, server: str) -> None:
        self._names.pop(server, None)

    async def resolve(self, server: str, tool: str) -> str:
        """The tool's own name, for its name or its Python spelling."""
        names = self._names.get(server)
        if names is None or tool not in names:
            names = self._learn(server, await self._client.call("docs.query", _query(server)))
        if tool in names:
            return names[tool]
        near = difflib.get_close_matches(tool, names, 3, 0.5)
        hint = f" Did you mean {', '.join(near)}?" if near else ""
        raise MCPError(f"Server {server} has no tool {tool}.{hint}", "unknown_tool", None, server, tool)

    def _learn(self, server: str, answer: dict[str, Any]) -> dict[str, str]:
        docs = answer.get("docs") or []
        names = {d.get("toolAlias", ""): d["tool"] for d in docs}
        names.update({d["tool"]: d["tool"] for d in docs})
        self._names[server] = names
        return names

    async def call(self, server: str, tool: str, arguments: dict[str, Any], raw: bool = False) -> Any:
        """Calls a tool by its own name. isError answers raise MCPError."""
        params = {"server": server, "tool": tool, "arguments": arguments}
        return self._answer(server, tool, await self._client.call("tools.call", params), raw)

    def call_sync(self, server: str, tool: str, arguments: dict[str, Any], raw: bool = False) -> Any:
        params = {"server": server, "tool": tool, "arguments": arguments}
        return self._answer(server, tool, self._client.call_sync("tools.call", params), raw)

    def _answer(self, server: str, tool: str, answer: Any, raw: bool) -> Any:
        if raw:
            return Result(answer)
        if isinstance(answer, dict) and answer.get("isError"):
            raise MCPError(_error_text(answer), "tool_error", answer, server, tool)
        return plain(answer)


def _query(server: str, tool: str | None = None, detail: str = "summary") -> dict[str, Any]:
    return {"server": server, "tool": tool, "detail": detail}


class Tool:
    """One tool as a function: `await mcp_x.tool(arg=1)`."""

    def __init__(self, tools: Tools, server: str, name: str) -> None:
        self._tools, self._server, self.__name__ = tools, server, name

    def __call__(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        if len(args) > 1 or (args and not isinstance(args[0], dict)) or (args and kwargs):
            raise TypeError(f"{self.__name__}() takes keyword arguments, or one dict of arguments")
        return self._call(args[0] if args else kwargs)

    async def _call(self, arguments: dict[str, Any]) -> Any:
        name = await self._tools.resolve(self._server, self.__name__)
        return await self._tools.call(self._server, name, arguments)

    def __repr__(self) -> str:
        return f"<tool {self.__name__} of MCP server {self._server}>"


class Server:
    """A loaded MCP server: its tools are attributes, or items by their exact name."""

    def __init__(self, tools: Tools, name: str) -> None:
        self._tools, self._name = tools, name

    def __getattr__(self, tool: str) -> Tool:
        if tool.startswith("__") and tool.endswith("__"):
            raise AttributeError(tool)
        return Tool(self._tools, self._name, tool)

    def __getitem__(self, tool: str) -> Tool:
        return Tool(self._tools, self._name, tool)

    async def call_tool(self, tool: str, arguments: dict[str, Any] | None = None, **kwargs: Any) -> Any:
        return await self._tools.call(self._name, tool, {**(arguments or {}), **kwargs})

    async def list_tools(self) -> Any:
        return (await self._tools._client.call("tools.list", {"server": self._name}))["tools"]

    def __repr__(self) -> str:
        return f"<MCP server {self._name}>"


class Servers:
    """`mcp_servers["name"]`: the loaded servers by name or alias."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    def __getitem__(self, name: str) -> Server:
        known = self._tools.servers
        if name not in known and name not in known.values():
            raise MCPError(
                f'Server {name} is not available. Pass servers=["{name}"] to run_python to load it.', "not_available"
            )
        return Server(self._tools, self._tools.server(name))

    def __contains__(self, name: object) -> bool:
        return name in self._tools.servers or name in self._tools.servers.values()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._tools.servers.values()))

    def __len__(self) -> int:
        return len(self._tools.servers)

    def __repr__(self) -> str:
        return f"<loaded MCP servers: {', '.join(self) or 'none'}>"


class Listing(list):  # type: ignore[type-arg]
    """A list that may be awaited too, so that helpers work with and without await."""

    def __await__(self) -> Generator[Any, None, Listing]:
        return self
        yield  # makes this a generator


class Runtime(types.ModuleType):
    """`mcp.runtime`: what an agent asks about servers and tools."""

    MCPError = MCPError

    def __init__(self, client: Client, tools: Tools) -> None:
        super().__init__("mcp.runtime", "Helpers to find and call MCP tools; capability_summary() lists them.")
        self._client, self._tools = client, tools
        self.__all__ = [n for n in dir(type(self)) if not n.startswith("_")]

    def _rows(self) -> Rows:
        rows: Rows = self._client.call_sync("servers.list", {})["servers"]
        return rows

    def discovered_servers(self, detailed: bool = False) -> Any:
        """The names of all servers that could be loaded; with detailed=True a dict each."""
        rows = self._rows()
        return Listing(rows if detailed else [r["name"] for r in rows])

    def list_servers_sync(self) -> list[str]:
        """The names of the servers that are loaded in this session."""
        return sorted(self._tools.servers.values())

    async def list_servers(self) -> list[str]:
        """As list_servers_sync."""
        return self.list_servers_sync()

    def list_loaded_server_metadata(self) -> Listing:
        """Name, alias, description and state of each loaded server."""
        return Listing([r for r in self._rows() if r.get("loaded")])

    def describe_server(self, name: str) -> dict[str, Any]:
        """What is known of one discovered server."""
        rows = self._rows()
        for r in rows:
            if name in (r["name"], r["alias"]):
                return r
        near = difflib.get_close_matches(name, [r["name"] for r in rows], 3, 0.5)
        hint = f" Did you mean {', '.join(near)}?" if near else " discovered_servers() lists them."
        raise MCPError(f"Server {name} is not available.{hint}", "not_available", None, name)

    async def list_tools(self, server: str) -> Rows:
        """The tools of a server, as it declares them."""
        tools: Rows = (await self._client.call("tools.list", {"server": server}))["tools"]
        return tools

    def list_tools_sync(self, server: str) -> Rows:
        """As list_tools, without await."""
        tools: Rows = self._client.call_sync("tools.list", {"server": server})["tools"]
        return tools

    async def query_tool_docs(self, server: str, tool: str | None = None, detail: str = "summary") -> Rows:
        """Docs of one tool or all of a server's; detail="full" adds the JSON schemas."""
        docs: Rows = (await self._client.call("docs.query", _query(server, tool, detail)))["docs"]
        return docs

    def query_tool_docs_sync(self, server: str, tool: str | None = None, detail: str = "summary") -> Rows:
        """As query_tool_docs, without await."""
        docs: Rows = self._client.call_sync("docs.query", _query(server, tool, detail))["docs"]
        return docs

    async def search_tool_docs(self, query: str, limit: int = 5, detail: str = "summary") -> Rows:
        """The tools, of all discovered servers, that fit a query in plain words best."""
        params = {"query": query, "limit": limit, "detail": detail}
        return _found(await self._client.call("docs.search", params))

    def search_tool_docs_sync(self, query: str, limit: int = 5, detail: str = "summary") -> Rows:
        """As search_tool_docs, without await."""
        return _found(self._client.call_sync("docs.search", {"query": query, "limit": limit, "detail": detail}))

    async def call_tool(
        self, server: str, tool: str, arguments: dict[str, Any] | None = None, raw: bool = False
    ) -> Any:
        """Calls a tool by its exact name; raw=True returns the whole MCP result."""
        return await self._tools.call(self._tools.server(server), tool, arguments or {}, raw)

    def call_tool_sync(self, server: str, tool: str, arguments: dict[str, Any] | None = None, raw: bool = False) -> Any:
        """As call_tool, without await."""
        return self._tools.call_sync(self._tools.server(server), tool, arguments or {}, raw)

    def capability_summary(self) -> str:
        """How to use all this, in a few lines."""
        return SUMMARY


SUMMARY = """\
Python session: variables, imports and functions stay between calls; top-level await works.
from mcp import runtime
  runtime.discovered_servers(detailed=False)             servers that can be loaded
  await runtime.search_tool_docs("what you need", limit=5)   tools of all servers, best first
  await runtime.query_tool_docs(server, tool=None, detail="full")   signatures and schemas
  await runtime.list_tools(server); runtime.describe_server(server); runtime.list_servers_sync()
  ..._sync variants need no await: search_tool_docs_sync, query_tool_docs_sync, list_tools_sync, call_tool_sync
Load servers with run_python(servers=["name"]); they stay loaded. Then call tools:
  await mcp_<alias>.<tool>(arg=1)        or  await mcp_servers["name"]["exact-tool-name"](arg=1)
  await runtime.call_tool(server, tool, {"arg": 1}, raw=False)
  from mcp.servers.<alias> import <tool>
A result is the structured data if there is any, else text, else a list of content blocks.
Errors raise runtime.MCPError (message, code, server, tool, data). asyncio.gather runs calls side by side.
display(obj) shows pictures; open matplotlib figures are shown at the end of a call."""


def _found(answer: dict[str, Any]) -> Rows:
    """Search results, with a word on stderr about servers that could not be searched."""
    for row in answer.get("incomplete") or []:
        print(f"not searched: {row.get('server')}: {row.get('reason')}", file=sys.stderr)
    results: Rows = answer["results"]
    return results


class _ServerModule(types.ModuleType):
    """`mcp.servers.<alias>`: its attributes are the server's tools."""

    def __getattr__(self, tool: str) -> Tool:
        if tool.startswith("__") and tool.endswith("__"):
            raise AttributeError(tool)
        server: Server = self.__dict__["_server"]
        return server[tool]


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes `import mcp.servers.<alias>` work for the servers that are loaded."""

    def __init__(self, tools: Tools, runtime: Runtime) -> None:
        self._tools, self._runtime = tools, runtime

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in ("mcp", "mcp.runtime", "mcp.servers") and not name.startswith("mcp.servers."):
            return None
        alias = name[len("mcp.servers.") :]
        if alias and alias not in self._tools.servers:
            raise ModuleNotFoundError(
                f'Server {alias} is not available. Pass servers=["{alias}"] to run_python to load it.', name=name
            )
        package = name in ("mcp", "mcp.servers")
        return importlib.machinery.ModuleSpec(name, self, is_package=package)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        if spec.name == "mcp.runtime":
            return self._runtime
        module = _ServerModule(spec.name) if spec.name.startswith("mcp.servers.") else types.ModuleType(spec.name)
        if isinstance(module, _ServerModule):
            module.__dict__["_server"] = Server(self._tools, self._tools.servers[spec.name[len("mcp.servers.") :]])
        if spec.name == "mcp":
            module.__dict__.update(runtime=self._runtime, MCPError=MCPError)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run: create_module made it whole."""
