"""MCP servers and their tools as Python objects: `mcp_<alias>`, `mcp_servers`.

Names are data here: they are looked up, and never become code.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Coroutine, Iterator
from typing import Any

from .awaits import Awaits, watched
from .rpc import Client, MCPError


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

    def __init__(self, client: Client, awaits: Awaits) -> None:
        self._client, self.awaits = client, awaits
        self.servers: dict[str, str] = {}  # alias -> name
        self._loaded: list[dict[str, str]] = []
        self._names: dict[str, dict[str, str]] = {}  # server -> alias or name -> name
        self._params: dict[tuple[str, str], dict[str, str]] = {}  # server, tool -> alias -> name

    def load(self, servers: list[dict[str, str]]) -> bool:
        """Takes the session's loaded servers from the daemon; reports whether they have changed."""
        if servers == self._loaded:
            return False
        self._loaded = servers
        self.servers = {s["alias"]: s["name"] for s in servers}
        return True

    def server(self, name: str) -> str:
        """The real name of a loaded server, for its name or alias as code has it."""
        return self.servers.get(name, name)

    def watch(self, coroutine: Coroutine[Any, Any, Any], server: str, tool: str) -> Awaitable[Any]:
        """Has it told, by the name that code uses, if a call is never awaited."""
        alias = next((a for a, name in self.servers.items() if name == server), server)
        return self.awaits.call(coroutine, f"mcp_{alias}.{tool}")

    async def resolve(self, server: str, tool: str) -> str:
        """The tool's own name, for its name or its Python spelling."""
        names = self._names.get(server)
        if names is None or tool not in names:
            names = self._learn(server, await self._client.call("docs.query", docs_query(server)))
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
        for d in docs:
            self._params[server, d["tool"]] = d.get("paramAliases") or {}
        return names

    def spell(self, server: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Gives arguments that Python can't spell, such as `from_`, their own names."""
        aliases = self._params.get((server, tool)) or {}
        return {aliases.get(k, k): v for k, v in arguments.items()} if aliases else arguments

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


def docs_query(server: str, tool: str | None = None, detail: str = "summary") -> dict[str, Any]:
    return {"server": server, "tool": tool, "detail": detail}


class Tool:
    """One tool as a function: `await mcp_x.tool(arg=1)`."""

    def __init__(self, tools: Tools, server: str, name: str) -> None:
        self._tools, self._server, self.__name__ = tools, server, name

    def __call__(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        if len(args) > 1 or (args and not isinstance(args[0], dict)) or (args and kwargs):
            raise TypeError(f"{self.__name__}() takes keyword arguments, or one dict of arguments")
        return self._tools.watch(self._call(args[0] if args else kwargs, not args), self._server, self.__name__)

    async def _call(self, arguments: dict[str, Any], keywords: bool) -> Any:
        name = await self._tools.resolve(self._server, self.__name__)
        if keywords:
            arguments = self._tools.spell(self._server, name, arguments)
        return await self._tools.call(self._server, name, arguments)

    def __repr__(self) -> str:
        return f"<tool {self.__name__} of MCP server {self._server}>"


class Server:
    """A loaded MCP server: its tools are attributes, or items by their exact name."""

    def __init__(self, tools: Tools, name: str) -> None:
        self._tools, self._name, self._awaits = tools, name, tools.awaits

    def __getattr__(self, tool: str) -> Tool:
        if tool.startswith("__") and tool.endswith("__"):
            raise AttributeError(tool)
        return Tool(self._tools, self._name, tool)

    def __getitem__(self, tool: str) -> Tool:
        return Tool(self._tools, self._name, tool)

    @watched
    async def call_tool(self, tool: str, arguments: dict[str, Any] | None = None, **kwargs: Any) -> Any:
        return await self._tools.call(self._name, tool, {**(arguments or {}), **kwargs})

    @watched
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
