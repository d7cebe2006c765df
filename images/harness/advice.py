"""What to do about errors whose own words do not tell, in one line for the agent."""

from __future__ import annotations

import re

_ON_LOOP = "this code runs on an event loop already: `await` the coroutine instead"
_OFFLINE = "there is no network here; MCP servers are the way out"

# Exception class or "", pattern of its message, advice.
_TABLE = tuple(
    (kind, re.compile(pattern), text)
    for kind, pattern, text in (
        ("RuntimeError", r"called from a running event loop|loop is already running|another loop is running", _ON_LOOP),
        (
            "RuntimeError",
            r"^no running event loop$",
            "code without a top-level `await` runs with no loop: do this in an async function and `await` that",
        ),
        ("RuntimeError", r"^can't start new thread$", "the sandbox's limit of processes and threads is reached"),
        ("BlockingIOError", r"Errno 11\b", "the sandbox's limit of processes and threads may be reached"),
        ("BdbQuit", r"", "no debugger can ask anything here: print the values"),
        (
            "ModuleNotFoundError",
            r"^No module named",
            "it is not in this sandbox, and there is no network to get it",
        ),
        ("", r"Network is unreachable|in name resolution|Name or service not known|getaddrinfo failed", _OFFLINE),
        (
            "TypeError",
            r"^An asyncio\.Future, a coroutine or an awaitable is required",
            "some of these have done their work at once; memory functions have twins: runtime.load_memory_async",
        ),
        (
            "PermissionError",
            r"'/projects/memory\b",
            "these are copies to read: save_memory(key, value) changes a memory",
        ),
        ("OSError", r"Read-only file system", "write to /workspace or /tmp"),
    )
)
_SERVER = re.compile(r"^name 'mcp_(\w+)' is not defined")


def advice(kind: str, message: str) -> str:
    """The advice for an exception's class name and message, "" if there is none."""
    if kind == "NameError":
        server = _SERVER.match(message)
        if server is None:
            return ""
        name = server.group(1)
        return f'pass servers=["{name}"] to run_python to load that server, or `await runtime.load_servers("{name}")`'
    message = message[:2000]
    for name, pattern, text in _TABLE:
        if name in ("", kind) and pattern.search(message):
            return text
    return ""
