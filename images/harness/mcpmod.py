"""The module `mcp`: `mcp.runtime`, and `mcp.servers.<alias>` for loaded servers."""

from __future__ import annotations

import difflib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Generator
from typing import Any

from .awaits import watched
from .files import Files
from .rpc import Client, MCPError
from .tools import Server, Tool, Tools, docs_query

Rows = list[dict[str, Any]]


class Listing(list):  # type: ignore[type-arg]
    """A list that may be awaited too, so that helpers work with and without await."""

    def __await__(self) -> Generator[Any, None, Listing]:
        return self
        yield  # makes this a generator


class Runtime(types.ModuleType):
    """`mcp.runtime`: what an agent asks about servers and tools."""

    MCPError = MCPError

    def __init__(self, client: Client, tools: Tools, files: Files) -> None:
        super().__init__("mcp.runtime", "Helpers to find and call MCP tools; capability_summary() lists them.")
        self._client, self._tools, self._files, self._awaits = client, tools, files, tools.awaits
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

    @watched
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

    @watched
    async def list_tools(self, server: str) -> Rows:
        """The tools of a server, as it declares them."""
        tools: Rows = (await self._client.call("tools.list", {"server": server}))["tools"]
        return tools

    def list_tools_sync(self, server: str) -> Rows:
        """As list_tools, without await."""
        tools: Rows = self._client.call_sync("tools.list", {"server": server})["tools"]
        return tools

    @watched
    async def query_tool_docs(self, server: str, tool: str | None = None, detail: str = "summary") -> Rows:
        """Docs of one tool or all of a server's; detail="full" adds the JSON schemas."""
        docs: Rows = (await self._client.call("docs.query", docs_query(server, tool, detail)))["docs"]
        return docs

    def query_tool_docs_sync(self, server: str, tool: str | None = None, detail: str = "summary") -> Rows:
        """As query_tool_docs, without await."""
        docs: Rows = self._client.call_sync("docs.query", docs_query(server, tool, detail))["docs"]
        return docs

    @watched
    async def search_tool_docs(self, query: str, limit: int = 5, detail: str = "summary") -> Rows:
        """The tools, of all discovered servers, that fit a query in plain words best."""
        params = {"query": query, "limit": limit, "detail": detail}
        return _found(await self._client.call("docs.search", params))

    def search_tool_docs_sync(self, query: str, limit: int = 5, detail: str = "summary") -> Rows:
        """As search_tool_docs, without await."""
        return _found(self._client.call_sync("docs.search", {"query": query, "limit": limit, "detail": detail}))

    @watched
    async def call_tool(
        self, server: str, tool: str, arguments: dict[str, Any] | None = None, raw: bool = False
    ) -> Any:
        """Calls a tool by its exact name; raw=True returns the whole MCP result."""
        return await self._tools.call(self._tools.server(server), tool, arguments or {}, raw)

    def call_tool_sync(self, server: str, tool: str, arguments: dict[str, Any] | None = None, raw: bool = False) -> Any:
        """As call_tool, without await."""
        return self._tools.call_sync(self._tools.server(server), tool, arguments or {}, raw)

    def publish(self, path: Any, name: str | None = None, mime: str | None = None) -> str:
        """Hands a file to the user: the path of one, or bytes with a name. Returns its address."""
        return self._files.publish(path, name, mime)

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
publish("out.csv") hands a file to the user; publish(data, "out.csv") hands bytes.
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
