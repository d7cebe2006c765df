"""Memories: values that outlive their session, under keys. The user has each as a file.

The functions work with await and without: what is done is the same, and who
awaits one lets other tasks run meanwhile.
"""

from __future__ import annotations

import functools
import inspect
import opcode
import sys
import types
from typing import Any, Callable

from .awaits import Awaits
from .copies import Copies
from .errors import MCPError
from .jsonable import jsonable
from .rpc import Client
from .steps import Steps, Type, drive, drive_sync

_AWAIT = opcode.opmap["GET_AWAITABLE"]
_MAX_TRIES = 1000  # updates of one key that got in between

Rows = list[dict[str, Any]]


class Memory(dict):  # type: ignore[type-arg]
    """What is known of a memory. created_at and updated_at are there too, in seconds, for code that is used to them."""

    def __missing__(self, key: str) -> Any:
        if key in ("created_at", "updated_at") and key[:-3] in self:
            from datetime import datetime  # rarely wanted, and takes long to import

            return datetime.fromisoformat(self[key[:-3]].replace("Z", "+00:00")).timestamp()
        raise KeyError(key)

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default


class Listing(list):  # type: ignore[type-arg]
    """Memories, one a line."""

    def __init__(self, rows: Rows, more: int = 0) -> None:
        super().__init__(Memory(row) for row in rows)
        self._more = more

    def __repr__(self) -> str:
        lines = [_line(row) for row in self] or ["(none)"]
        return "\n".join(lines + ([f"... and {self._more} more: give a prefix"] if self._more else []))


def _line(row: dict[str, Any]) -> str:
    """A memory in few words."""
    if "error" in row:
        return f"{row['key']}: {row['error']}"
    facts = [f"version {row['version']}", row["updated"], f"{row['bytes']} bytes"]
    facts += [row["scope"]] if "scope" in row else []
    facts += [f"metadata {row['metadata']}"] if row.get("metadata") else []
    return f"{row['key']} ({', '.join(facts)})" + (f": {row['snippet']}" if row.get("snippet") else "")


class Memories:
    """The functions, and what there is to show of the files."""

    def __init__(self, client: Client, awaits: Awaits, copies: Copies) -> None:
        self._client, self._awaits, self._copies = client, awaits, copies

    def functions(self) -> dict[str, Callable[..., Any]]:
        """All of them, by name; each has a twin that never awaits, and one that must be awaited."""
        out: dict[str, Callable[..., Any]] = {}
        for steps in _FUNCTIONS:
            name = steps.__name__
            out[name] = self._function(steps, name, None)
            out[name + "_sync"] = self._function(steps, name + "_sync", False)
            out[name + "_async"] = self._function(steps, name + "_async", True)
        return out

    def _function(self, steps: Callable[..., Steps], name: str, awaited: bool | None) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            taken = bound(*args, **kwargs)
            if is_awaited(sys._getframe(1)) if awaited is None else awaited:
                return self._awaits.call(drive(self._client, taken), name)
            return drive_sync(self._client, taken)

        bound = functools.partial(steps, self)
        signature = inspect.signature(steps)
        parameters = [p.replace(annotation=Type(p.annotation)) for p in list(signature.parameters.values())[1:]]
        call.__signature__ = signature.replace(parameters=parameters, return_annotation=signature.empty)  # type: ignore[attr-defined]
        call.__name__ = call.__qualname__ = name
        call.__module__, call.__doc__ = "mcp.runtime", steps.__doc__ if awaited is None else _TWINS[awaited](steps)
        return call

    def _show(self, scope: str, answer: dict[str, Any]) -> None:
        """Shows the file that a change has made, or shows it no more."""
        at = f"project/{answer['name']}" if scope == "project" else answer["name"]
        self._copies.put({at: answer["text"]} if "text" in answer else {}, [] if "text" in answer else [at])

    def save_memory(
        self, key: str, value: Any, metadata: Any = None, *, scope: str = "global", version: Any = None
    ) -> Steps:
        """Keeps a value under a key, for all later sessions, in place of the one before.

        The value is what JSON holds; dates become texts, sets lists, dataclasses dicts, small data frames lists of
        rows. metadata is a dict; None leaves it as it is. scope="project" is for sessions in this project alone.
        With version the save is refused unless the memory has that version; 0 is that there is none.
        """
        asked = {"key": _key(key), "value": jsonable(value, "value"), "metadata": _metadata(metadata), "scope": scope}
        answer = yield "memory.save", {**asked, "version": version}
        self._show(scope, answer)
        return f"saved {key!r}, version {answer['version']}"

    def load_memory(self, key: str, default: Any = None, *, scope: str = "global") -> Steps:
        """The value under a key; default if there is none."""
        answer = yield "memory.load", {"key": _key(key), "scope": scope}
        return answer["memory"]["value"] if answer["found"] else default

    def get_memory_info(self, key: str, *, scope: str = "global") -> Steps:
        """The value under a key with its metadata, created, updated and version; None if there is none."""
        answer = yield "memory.load", {"key": _key(key), "scope": scope}
        return Memory(answer["memory"]) if answer["found"] else None

    def memory_exists(self, key: str, *, scope: str = "global") -> Steps:
        """Whether there is a value under a key."""
        answer = yield "memory.load", {"key": _key(key), "scope": scope}
        return bool(answer["found"])

    def update_memory(
        self, key: str, change: Any, metadata: Any = None, *, default: Any = None, scope: str = "global"
    ) -> Steps:
        """Changes the value under a key, and returns the new one; no other session's change is lost.

        change is a function of the old value, or default if there is none, that returns the new one (it is called
        again if another session was faster); or a dict, whose items are put into the dict that is there.
        """
        change = _change(change)
        asked = {"key": _key(key), "metadata": _metadata(metadata), "scope": scope}
        for left in reversed(range(_MAX_TRIES)):
            now = yield "memory.load", {"key": key, "scope": scope}
            value = change(now["memory"]["value"] if now["found"] else default)
            if inspect.isawaitable(value):
                value = yield value
            value = jsonable(value, "the new value")
            try:
                answer = yield "memory.save", {**asked, "value": value, "if": now["if"]}
            except MCPError as e:
                if e.code != "memory_conflict" or not left:
                    raise
                continue
            self._show(scope, answer)
            return value

    def list_memories(self, prefix: str | None = None, *, scope: str | None = None) -> Steps:
        """The memories, or those whose keys begin with a prefix: dicts with key, metadata, created, updated, version.

        Those of this project are among them, with scope "project", unless a scope is given.
        """
        answer = yield "memory.list", {"prefix": prefix or "", "scope": scope or ""}
        return Listing(answer["memories"], answer["more"])

    def search_memories(self, query: str, limit: int = 10, *, scope: str | None = None) -> Steps:
        """The memories that hold the words of a query in key, metadata or value, the best first, with a snippet."""
        answer = yield "memory.search", {"query": _text(query, "query"), "limit": int(limit), "scope": scope or ""}
        return Listing(answer["memories"])

    def delete_memory(self, key: str, *, scope: str = "global") -> Steps:
        """Deletes the value under a key; whether there was one. restore_memory brings it back."""
        answer = yield "memory.delete", {"key": _key(key), "scope": scope}
        if answer["deleted"]:
            self._show(scope, answer)
        return bool(answer["deleted"])

    def memory_history(self, key: str, *, scope: str = "global") -> Steps:
        """The versions of a memory that restore_memory can bring back, the newest first, after the current one."""
        return (yield "memory.history", {"key": _key(key), "scope": scope})["versions"]

    def restore_memory(self, key: str, version: int | None = None, *, scope: str = "global") -> Steps:
        """Brings an earlier version back, the one before if none is given, and returns its value."""
        answer = yield "memory.restore", {"key": _key(key), "version": version, "scope": scope}
        self._show(scope, answer)
        return answer["value"]


_FUNCTIONS = (
    Memories.save_memory,
    Memories.load_memory,
    Memories.update_memory,
    Memories.list_memories,
    Memories.memory_exists,
    Memories.delete_memory,
    Memories.search_memories,
    Memories.memory_history,
    Memories.restore_memory,
    Memories.get_memory_info,
)


def plain_names() -> list[str]:
    """The names of the functions without their twins."""
    return [steps.__name__ for steps in _FUNCTIONS]


_TWINS: dict[bool, Callable[[Any], str]] = {
    False: lambda steps: f"As {steps.__name__}, and never to be awaited.",
    True: lambda steps: f"As {steps.__name__}, and always to be awaited: for asyncio.gather and create_task.",
}


def is_awaited(frame: types.FrameType) -> bool:
    """Reports whether what is called from there is awaited at once."""
    code, at = frame.f_code.co_code, frame.f_lasti + 2
    while at < len(code) and code[at] == 0:  # room that newer Pythons leave behind a call
        at += 2
    return at < len(code) and code[at] == _AWAIT


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}: pass a str, not {type(value).__name__}")
    return value


def _key(key: Any) -> str:
    _text(key, "key")
    try:
        key.encode()
    except UnicodeEncodeError as e:
        raise ValueError(f"key: the character at {e.start} is half of one") from None
    return str(key)


def _metadata(metadata: Any) -> Any:
    if metadata is None:
        return None
    metadata = jsonable(metadata, "metadata")
    if not isinstance(metadata, dict):
        raise TypeError(f"metadata: pass a dict, such as {{'tags': [...]}}, not {type(metadata).__name__}")
    return metadata


def _change(change: Any) -> Callable[[Any], Any]:
    """The function that a change is. A mapping's items go into the dict that is there."""
    if callable(change):
        function: Callable[[Any], Any] = change
        return function
    items = jsonable(change, "the changes")
    if not isinstance(items, dict):
        raise TypeError(f"pass a function of the old value, or a dict of what changes, not {type(change).__name__}")

    def merge(old: Any) -> Any:
        if old is not None and not isinstance(old, dict):
            raise TypeError(f"the memory is no dict but {type(old).__name__}: pass a function of the old value")
        return {**(old or {}), **items}

    return merge
