"""The module `mcp`: `mcp.runtime`, and `mcp.servers.<alias>` for loaded servers."""

from __future__ import annotations

import difflib
import importlib.machinery
import opcode
import sys
import types
from collections.abc import Generator
from typing import Any, Callable

from . import errors, offers, terse
from .errors import MCPError
from .files import Files
from .proxies import Server, not_loaded
from .rpc import Client
from .steps import Steps, awaited, blocking
from .tools import Tools, docs_query

Rows = list[dict[str, Any]]


class Listing(list):  # type: ignore[type-arg]
    """A list that may be awaited too, so that helpers work with and without await."""

    def __await__(self) -> Generator[Any, None, Listing]:
        return self
        yield  # makes this a generator


class Abouts(terse.Rows, Listing):
    """What is known of servers; may be awaited too."""


class Runtime(types.ModuleType):
    """`mcp.runtime`: what an agent asks about servers and tools."""

    MCPError = MCPError
    InvalidArguments = errors.InvalidArguments
    UnknownTool = errors.UnknownTool

    def __init__(self, client: Client, tools: Tools, files: Files, loaded: Callable[[], None]) -> None:
        """loaded gives the running code the names of servers that were just loaded."""
        super().__init__("mcp.runtime", "Helpers to find and call MCP tools; capability_summary() lists them.")
        self._client, self._tools, self._files, self._awaits = client, tools, files, tools.awaits
        self._names_loaded = loaded
        self._lent: dict[str, Callable[..., Any]] = {}
        inherit = ("InvalidArguments", "UnknownTool")  # help() would mostly be about their bases
        self.__all__ = [n for n in dir(self) if n not in inherit]

    def __dir__(self) -> list[str]:
        return [n for n in (*dir(type(self)), *self._lent) if not n.startswith("_") and n != "lend"]

    def lend(self, functions: dict[str, Callable[..., Any]]) -> None:
        """Adds functions that others have made. It is for the harness."""
        self._lent.update(functions)
        self.__dict__.update(functions)
        self.__all__ = [*self.__all__, *functions]

    def _rows(self) -> Rows:
        rows: Rows = self._client.call_sync("servers.list", {})["servers"]
        return rows

    def discovered_servers(self, detailed: bool = False) -> Any:
        """The names of all servers that could be loaded; with detailed=True a dict each."""
        rows = self._rows()
        return Abouts(terse.servers(rows)) if detailed else Listing([r["name"] for r in rows])

    @awaited
    def load_servers(self, *names: str) -> Steps:
        """Loads servers for this session, as servers=[...] of run_python does: mcp_<alias> is there at once.

        Returns them in that order.
        """
        wanted = list(names[0] if len(names) == 1 and isinstance(names[0], (list, tuple, set)) else names)
        answer = yield "servers.load", {"names": wanted}
        loaded = answer.get("loaded") or []
        self._tools.add(loaded)
        self._names_loaded()
        return [Server(self._tools, s["name"]) for s in loaded]

    load_servers_sync = blocking(load_servers)

    @awaited
    def list_servers(self) -> Steps:
        """The names of the servers that are loaded in this session."""
        return sorted(self._tools.servers.values())
        yield  # makes this a generator

    list_servers_sync = blocking(list_servers)

    def list_loaded_server_metadata(self) -> Abouts:
        """Name, alias, description and state of each loaded server."""
        return Abouts(terse.servers([r for r in self._rows() if r.get("loaded")]))

    def describe_server(self, name: str) -> dict[str, Any]:
        """What is known of one discovered server."""
        rows = self._rows()
        for r in rows:
            if name in (r["name"], r["alias"]):
                return r
        near = difflib.get_close_matches(name, [r["name"] for r in rows], 3, 0.5)
        hint = f" Did you mean {', '.join(near)}?" if near else " discovered_servers() lists them."
        raise MCPError(f"Server {name} is not available.{hint}", "not_available", None, name)

    list_tools = awaited(offers.list_tools)
    list_tools_sync = blocking(list_tools)

    @awaited
    def query_tool_docs(self, server: str, tool: str | None = None, detail: str = "summary") -> Steps:
        """Docs of one tool or all of a server's; detail="full" adds parameters and JSON schemas."""
        return terse.docs((yield "docs.query", docs_query(server, tool, detail))["docs"], detail)

    query_tool_docs_sync = blocking(query_tool_docs)

    @awaited
    def search_tool_docs(self, query: str, limit: int = 5, detail: str = "summary", explain: bool = False) -> Steps:
        """The tools, of all discovered servers, that fit a query in plain words best; explain=True adds why."""
        asked = {"query": query, "limit": limit, "detail": detail, **({"explain": True} if explain else {})}
        answer = yield "docs.search", asked
        terse.tell_gaps(answer.get("incomplete") or [])
        return terse.docs(answer["results"], detail)

    search_tool_docs_sync = blocking(search_tool_docs)

    @awaited
    def call_tool(self, server: str, tool: str, arguments: dict[str, Any] | None = None, raw: bool = False) -> Steps:
        """Calls a tool by its exact name; raw=True returns the whole MCP result."""
        return self._tools.call(self._tools.server(server), tool, arguments or {}, raw)

    call_tool_sync = blocking(call_tool)

    list_resources = awaited(offers.list_resources)
    list_resources_sync = blocking(list_resources)
    list_resource_templates = awaited(offers.list_resource_templates)
    list_resource_templates_sync = blocking(list_resource_templates)
    read_resource = awaited(offers.read_resource)
    read_resource_sync = blocking(read_resource)
    list_prompts = awaited(offers.list_prompts)
    list_prompts_sync = blocking(list_prompts)
    get_prompt = awaited(offers.get_prompt)
    get_prompt_sync = blocking(get_prompt)
    complete = awaited(offers.complete)
    complete_sync = blocking(complete)
    server_info = awaited(offers.server_info)
    server_info_sync = blocking(server_info)

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
  Each has a twin with _sync that needs no await: search_tool_docs_sync, call_tool_sync, ...
Load servers with run_python(servers=["name"]) or await runtime.load_servers("name"); they stay loaded. Then:
  await mcp_<alias>.<tool>(arg=1)        or  await mcp_servers["name"]["exact-tool-name"](arg=1)
  mcp_<alias>.sync.<tool>(arg=1)         without await, from threads too
  await runtime.call_tool(server, tool, {"arg": 1}, raw=False)
  from mcp.servers.<alias> import <tool>
  dir(mcp_<alias>), help(mcp_<alias>.<tool>)   its tools; parameters and types
  await mcp_<alias>.list_resources(), .read_resource(uri), .list_prompts(), .get_prompt(name, {...})
A result is the structured data if there is any, else text, else a list of content blocks (.text, .data, .mime_type).
Errors raise runtime.MCPError (message, code, server, tool, data). asyncio.gather runs calls side by side.
save_memory(key, value, metadata=None), load_memory(key, default=None), update_memory(key, lambda old: new),
  list_memories(prefix=None), search_memories("words"), delete_memory(key): JSON values that later sessions have too;
  scope="project" for this project's alone; with or without await. /projects/memory/*.json shows them.
save_tool(func) keeps a function: later sessions have it by name. list_tools_saved(), tool_source(name), delete_tool().
publish("out.csv") hands a file to the user; publish(data, "out.csv") hands bytes.
display(obj) shows pictures; open matplotlib figures are shown at the end of a call."""


_IMPORT_FROM = opcode.opmap["IMPORT_FROM"]


def _imports(frame: types.FrameType) -> bool:
    """Reports whether it is in the middle of `from module import name`."""
    return frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM


class _ServerModule(types.ModuleType):
    """`mcp.servers.<alias>`: its attributes are the server's tools."""

    def __getattr__(self, tool: str) -> Any:
        server: Server = self.__dict__["_server"]
        if tool == "__all__":
            return dir(server)
        if not _imports(sys._getframe(1)):
            return getattr(server, tool)
        try:
            dir(server)  # a server that was not asked for its tools yet is asked now
            return getattr(server, tool)
        except errors.UnknownTool as e:  # Python would put words of its own in the place of these
            raise ImportError(e.message, name=self.__name__) from None

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["_server"])

    __doc__ = property(lambda self: self.__dict__["_server"].__doc__)


class Finder:
    """Makes `import mcp.servers.<alias>` work for the servers that are loaded."""

    def __init__(self, tools: Tools, runtime: Runtime) -> None:
        self._tools, self._runtime = tools, runtime

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in ("mcp", "mcp.runtime", "mcp.servers") and not name.startswith("mcp.servers."):
            return None
        alias = name[len("mcp.servers.") :]
        if alias and alias not in self._tools.servers:
            raise ModuleNotFoundError(not_loaded(alias), name=name)
        package = name in ("mcp", "mcp.servers")
        loader: Any = self  # it has what one needs; importlib.abc takes long to import
        return importlib.machinery.ModuleSpec(name, loader, is_package=package)

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
