"""MCP servers and their tools as Python objects: `mcp_<alias>`, `mcp_servers`."""

from __future__ import annotations

import asyncio.coroutines
import inspect
from collections.abc import Iterator
from typing import Any, Callable

from . import offers
from .errors import MCPError
from .params import ANY, Spec
from .steps import Steps, drive, drive_sync, unquote
from .tools import Docs, Tools, alias, unknown

_signature = inspect.signature
_MAX_LISTED = 100  # tools in a server's help


def _call_tool(
    tools: Tools, server: str, tool: str, arguments: Any = None, *, raw: bool = False, **kwargs: Any
) -> Steps:
    """Calls a tool by its exact name; raw=True returns the whole MCP result."""
    return tools.call(server, tool, {**(arguments or {}), **kwargs}, raw)


# What a server has besides its tools. A tool of the same name wins.
_BESIDES: dict[str, Callable[..., Steps]] = {
    "call_tool": _call_tool,
    **{
        steps.__name__: steps
        for steps in (
            offers.list_tools,
            offers.list_resources,
            offers.list_resource_templates,
            offers.read_resource,
            offers.list_prompts,
            offers.get_prompt,
            offers.complete,
            offers.server_info,
        )
    },
}


class Tool:
    """One tool as a function: `await mcp_x.tool(arg=1)`.

    `.raw(...)` gives the whole MCP result, `.sync(...)` needs no await.
    """

    # What tells asyncio and inspect that it is to be awaited.
    _is_coroutine = getattr(asyncio.coroutines, "_is_coroutine", None)
    _is_coroutine_marker = getattr(inspect, "_is_coroutine_mark", None)

    def __init__(self, tools: Tools, server: str, name: str) -> None:
        self._tools, self._server, self.__name__ = tools, server, name
        short = tools.alias(server)
        self.__qualname__ = f"mcp_{short}.{name}" if name.isidentifier() else f"mcp_{short}[{name!r}]"
        self.__module__ = f"mcp.servers.{short}"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._tools.watch(drive(self._tools.client, self._steps(args, kwargs)), self.__qualname__)

    def raw(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls the tool and gives its whole MCP result: content, structuredContent, isError, _meta."""
        return self._tools.watch(drive(self._tools.client, self._steps(args, kwargs, True)), self.__qualname__ + ".raw")

    def sync(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls the tool without await, from plain code and threads."""
        return drive_sync(self._tools.client, self._steps(args, kwargs))

    def _steps(self, args: tuple[Any, ...], kwargs: dict[str, Any], raw: bool = False) -> Steps:
        if self.__name__ in _BESIDES and not (yield from self._is_tool()):
            return (yield from _BESIDES[self.__name__](self._tools, self._server, *args, **kwargs))
        tool, arguments = yield from self._tools.bind(self._server, self.__name__, args, kwargs)
        return (yield from self._tools.call(self._server, tool, arguments, raw))

    def _is_tool(self) -> Steps:
        """Reports whether the server has a tool of this name, which others have too."""
        try:
            return (yield from self._tools.one(self._server, self.__name__)) is not None
        except MCPError:
            return False

    def __get__(self, instance: Any, owner: Any = None) -> Tool:
        """Itself: so help() and inspect see a function, and a class may hold it as one."""
        return self

    def _spec(self) -> Spec | Callable[..., Any]:
        """What is known of the tool by now, asked on this thread. Raises MCPError."""
        besides = _BESIDES.get(self.__name__)
        try:
            docs = self._tools.look(self._server)
        except MCPError:
            if besides is not None:
                return besides
            raise
        row = docs.names.get(self.__name__)
        if row is not None:
            return Spec({**row, **drive_sync(self._tools.client, self._tools.full(self._server, row["tool"]))})
        if besides is not None:
            return besides
        raise unknown(self._server, self.__name__, docs)

    @property
    def __signature__(self) -> inspect.Signature:
        try:
            spec = self._spec()
        except MCPError:
            return ANY
        if isinstance(spec, Spec):
            return spec.signature()
        whole = _signature(unquote(spec))
        return whole.replace(parameters=list(whole.parameters.values())[2:])  # without tools and server

    def _help(self) -> str:
        try:
            spec = self._spec()
        except MCPError as e:
            return f"What this tool does is not known now: {e}"
        return spec.help() if isinstance(spec, Spec) else spec.__doc__ or ""

    __doc__ = property(_help)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((self._server, self.__name__))

    def __deepcopy__(self, memo: Any) -> Tool:
        return self  # as a function is copied

    def __repr__(self) -> str:
        return f"<tool {self.__name__} of MCP server {self._server}>"


class SyncTool(Tool):
    """One tool as a function that needs no await."""

    _is_coroutine = _is_coroutine_marker = None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return drive_sync(self._tools.client, self._steps(args, kwargs))

    def raw(self, /, *args: Any, **kwargs: Any) -> Any:
        return drive_sync(self._tools.client, self._steps(args, kwargs, True))

    __doc__ = property(Tool._help)


class Server:
    """A loaded MCP server: its tools are attributes, or items by their exact name."""

    _kind: type[Tool] = Tool

    def __init__(self, tools: Tools, name: str) -> None:
        self._tools, self._name = tools, name
        self._made: dict[str, Tool] = {}  # those that there are

    def __getattr__(self, tool: str) -> Any:
        if tool.startswith("__") and tool.endswith("__"):
            raise AttributeError(tool)
        made = self._made.get(tool)
        if made is not None:
            return made
        if tool == "sync":
            return SyncServer(self._tools, self._name)
        made = self._kind(self._tools, self._name, tool)
        if self._tools.known(self._name, tool) is not None:
            self._made[tool] = made
        elif tool not in _BESIDES:
            self._check(tool)
        return made

    def _check(self, tool: str) -> None:
        """Raises UnknownTool if it is known that there is no such tool, for those who use hasattr().

        A server that was not asked yet is asked when the tool is called, since
        its start takes time; but for a name that only tools for display look for.
        """
        if self._tools.has_answered(self._name) or tool.startswith("_"):
            drive_sync(self._tools.client, self._tools.find(self._name, tool))

    def __getitem__(self, tool: str) -> Tool:
        return self._kind(self._tools, self._name, tool)

    def __dir__(self) -> list[str]:
        try:
            return [alias(row) for row in self._tools.look(self._name).rows]
        except MCPError:
            return list(_BESIDES)

    def _help(self) -> str:
        short = self._tools.alias(self._name)
        try:
            listed = _listing(self._tools.look(self._name))
        except MCPError as e:
            listed = f"Its tools are not known now: {e}"
        return (
            f"MCP server {self._name}: `await mcp_{short}.<tool>(...)`; without await `mcp_{short}.sync.<tool>(...)`."
            f"\n\n{listed}\n\nBesides: {', '.join(_BESIDES)}."
        )

    __doc__ = property(_help)

    def __copy__(self) -> Server:
        return self

    def __deepcopy__(self, memo: Any) -> Server:
        return self

    def __repr__(self) -> str:
        return f"<MCP server {self._name}>"


def _listing(docs: Docs) -> str:
    """The tools, a line or two each."""
    lines = ["Tools:" if docs.rows else "It has no tools."]
    for row in docs.rows[:_MAX_LISTED]:
        words = str(row.get("description") or row.get("title") or "").strip()
        lines.append(f"  {row.get('signature') or alias(row)}")
        lines += [f"      {words.splitlines()[0][:120]}"] if words else []
    more = len(docs.rows) - _MAX_LISTED
    lines += [f"  ... {more} more: runtime.search_tool_docs(...) finds the right one"] if more > 0 else []
    return "\n".join(lines)


class SyncServer(Server):
    """A server whose tools need no await. Called, it is the server's tool named sync."""

    _kind = SyncTool

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return Tool(self._tools, self._name, "sync")(*args, **kwargs)

    __doc__ = property(Server._help)


def not_loaded(name: str) -> str:
    """What to do when code names a server that is not loaded."""
    return (
        f'Server {name} is not available. Pass servers=["{name}"] to run_python to load it, '
        f'or `await runtime.load_servers("{name}")`.'
    )


class Servers:
    """`mcp_servers["name"]`: the loaded servers by name or alias."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    def __getitem__(self, name: str) -> Server:
        known = self._tools.servers
        if name not in known and name not in known.values():
            raise MCPError(not_loaded(name), "not_available", None, name)
        return Server(self._tools, self._tools.server(name))

    def __contains__(self, name: object) -> bool:
        return name in self._tools.servers or name in self._tools.servers.values()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._tools.servers.values()))

    def __len__(self) -> int:
        return len(self._tools.servers)

    def __repr__(self) -> str:
        return f"<loaded MCP servers: {', '.join(self) or 'none'}>"
