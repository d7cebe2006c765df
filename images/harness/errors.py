"""What calls of MCP servers raise, as code catches it: `mcp.runtime.MCPError` and its kinds."""

from __future__ import annotations

from typing import Any

_SERVERS_OWN = ("tool_error", "upstream")  # codes of errors in the words of the server


class MCPError(Exception):
    """A call that did not work out. server, tool, code and data say more."""

    def __init__(self, message: str, code: str = "", data: Any = None, server: str = "", tool: str = "") -> None:
        super().__init__(message)
        self.message, self.code, self.data, self.server, self.tool = message, code, data, server, tool

    def __str__(self) -> str:
        """The message, with the server and the tool where its words leave open whose they are."""
        where = ".".join(name for name in (self.server, self.tool) if name)
        if not where or (self.code not in _SERVERS_OWN and self.server in self.message):
            return self.message
        return f"{where}: {self.message}"


class InvalidArguments(MCPError, TypeError):
    """Arguments that do not fit the tool; nothing was sent to the server. data["problems"] has them one by one."""


class UnknownTool(MCPError, AttributeError):
    """A tool that the server does not have. The message names the nearest."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.obj = None  # else Python adds a suggestion of its own


_KINDS: dict[str, type[MCPError]] = {"invalid_arguments": InvalidArguments, "unknown_tool": UnknownTool}
for _kind in (MCPError, *_KINDS.values()):
    _kind.__module__ = "mcp.runtime"  # where code finds them


def of(error: dict[str, Any]) -> MCPError:
    """The error that a reply frame holds."""
    data = error.get("data")
    where = data if isinstance(data, dict) else {}
    code = error.get("code", "")
    kind = _KINDS.get(code, MCPError)
    return kind(
        error.get("message", "unknown error"), code, data, str(where.get("server", "")), str(where.get("tool", ""))
    )
