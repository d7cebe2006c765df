"""The sandbox's requests to the daemon, and their replies.

Every call is a frame to the daemon, which checks what this session may use.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from typing import Any, Callable

from .wire import Frame, TooLarge, Wire, encode, getpid

# MAX_CALLS bounds the calls that are under way at once. The daemon refuses
# more than maxCalls (pkg/sandbox/calls.go), which is a little higher, since a
# canceled call counts there until it has ended.
MAX_CALLS = 1000


class MCPError(Exception):
    """A call that did not work out. server, tool, code and data say more."""

    def __init__(self, message: str, code: str = "", data: Any = None, server: str = "", tool: str = "") -> None:
        super().__init__(message)
        self.message, self.code, self.data, self.server, self.tool = message, code, data, server, tool


class Client:
    """Sends requests and hands out replies. Safe for use by several threads and loops.

    Calls over MAX_CALLS wait here for their turn.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._ids = itertools.count(1)
        self._waiting: dict[int, Callable[[Frame], None]] = {}
        self._pid = getpid()
        self._lock = threading.Lock()  # guards the fields below
        self._open: set[int] = set()
        self._queue: dict[int, bytes] = {}  # not sent yet, oldest first

    def reply(self, frame: Frame) -> None:
        """Takes one reply frame, on whichever thread has read it. An unknown id is passed over."""
        number = frame.get("id", 0)
        resolve = self._waiting.pop(number, None)
        if resolve is not None:
            resolve(frame)
        self._over(number)

    def _send(self, number: int, method: str, params: Any, resolve: Callable[[Frame], None]) -> None:
        if self._pid != getpid():
            raise MCPError("MCP servers can't be reached from a forked process: call them from the main one.")
        try:
            line = encode({"t": "rpc", "id": number, "method": method, "params": params})
        except (ValueError, TypeError, RecursionError) as e:
            raise _unsendable(params, e) from None
        self._waiting[number] = resolve
        with self._wire.shield, self._lock:
            if len(self._open) >= MAX_CALLS:
                self._queue[number] = line
                return
            self._open.add(number)
        self._wire.write(line)

    def _over(self, number: int) -> None:
        """Lets the next call go once a call is over."""
        with self._wire.shield, self._lock:
            self._open.discard(number)
            if not self._queue or len(self._open) >= MAX_CALLS:
                return
            number = next(iter(self._queue))
            line = self._queue.pop(number)
            self._open.add(number)
        self._wire.write(line)

    def _cancel(self, number: int) -> None:
        """Gives up a call, if it is not over."""
        if self._waiting.pop(number, None) is None:
            return
        with self._wire.shield, self._lock:
            if self._queue.pop(number, None) is not None:
                return
        self._wire.send({"t": "cancel", "id": number})
        self._over(number)

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

        number = next(self._ids)
        try:
            self._send(number, method, params, resolve)
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

        number = next(self._ids)
        try:  # an interrupt may come as early as in _send
            self._send(number, method, params, resolve)
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
