"""The sandbox's requests to the daemon, and their replies.

Every call is a frame to the daemon, which checks what this session may use.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import OrderedDict
from typing import Any, Callable

from . import errors
from .convert import plain, problems
from .errors import MCPError
from .wire import Frame, TooLarge, Wire, encoding, getpid

# MAX_CALLS bounds the calls that are under way at once. The daemon refuses
# more than maxCalls (pkg/sandbox/calls.go), which is a little higher: questions
# about tools go at once where calls wait, up to MAX_OPEN in all.
MAX_CALLS = 1000
MAX_OPEN = 1020

# MAX_QUEUED bounds the bytes of the calls that wait here for their turn.
MAX_QUEUED = 64 << 20

_encode = encoding(plain)
Resolve = Callable[[Frame], None]


class Client:
    """Sends requests and hands out replies. Safe for use by several threads and loops.

    Calls over MAX_CALLS wait here for their turn, in the order in which they were made.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._ids = itertools.count(1)
        self._waiting: dict[int, Resolve] = {}
        self._pid = getpid()
        self._lock = threading.Lock()  # guards the fields below
        self._open: set[int] = set()
        self._queue: OrderedDict[int, bytes] = OrderedDict()  # not sent yet, oldest first
        self._queued = 0  # bytes in it
        self._asked: dict[str, _Crowd] = {}  # questions that several may ask at once

    def reply(self, frame: Frame) -> None:
        """Takes one reply frame, on whichever thread has read it. An unknown id is passed over."""
        number = frame.get("id", 0)
        resolve = self._waiting.pop(number, None)
        if resolve is not None:
            resolve(frame)
        self.over(number)

    def _begin(self, number: int, method: str, params: Any, resolve: Resolve, shared: bool) -> int:
        """Sends a request, or joins those who wait for the same if it is shared. Returns its number."""
        if not shared:
            self._send(number, method, params, resolve)
            return number
        question = f"{method} {params!r}"
        with self._wire.shield, self._lock:
            crowd = self._asked.get(question)
            if crowd is not None:
                crowd.waiting.append(resolve)
                return crowd.number
            crowd = self._asked[question] = _Crowd(self, question, number, resolve)
        try:
            self._send(number, method, params, crowd, MAX_OPEN)
        except BaseException as e:
            crowd({"error": {"code": "canceled", "message": f"The request was not made: {e}"}})
            raise
        return number

    def disperse(self, crowd: _Crowd, leaver: Resolve | None = None) -> list[Resolve]:
        """Takes one out of a crowd, or all, and returns them. One that is empty can't be joined any more."""
        with self._wire.shield, self._lock:
            out = crowd.waiting if leaver is None else [r for r in crowd.waiting if r is leaver]
            crowd.waiting = [] if leaver is None else [r for r in crowd.waiting if r is not leaver]
            if not crowd.waiting and self._asked.get(crowd.question) is crowd:
                del self._asked[crowd.question]
            return out

    def _send(self, number: int, method: str, params: Any, resolve: Resolve, most: int = MAX_CALLS) -> None:
        if self._pid != getpid():
            raise MCPError("MCP servers can't be reached from a forked process: call them from the main one.")
        try:
            line = _encode({"t": "rpc", "id": number, "method": method, "params": params})
        except (ValueError, TypeError, RecursionError) as e:
            raise _unsendable(params, e) from None
        self._waiting[number] = resolve
        with self._wire.shield:  # a call that counts as open is sent
            with self._lock:
                if len(self._open) >= most:
                    self._wait(number, line)
                    return
                self._open.add(number)
            self._wire.call(number, line)

    def _wait(self, number: int, line: bytes) -> None:
        """Queues a call. The lock is held."""
        if self._queued + len(line) > MAX_QUEUED:
            self._waiting.pop(number, None)
            raise MCPError(
                f"{len(self._queue)} calls of {self._queued >> 20} MiB in all wait for their turn: make fewer at once.",
                "busy",
            )
        self._queue[number] = line
        self._queued += len(line)

    def over(self, number: int) -> None:
        """Lets the next call go once a call is over."""
        self._wire.answered(number)
        with self._wire.shield:
            with self._lock:
                self._open.discard(number)
                if not self._queue or len(self._open) >= MAX_CALLS:
                    return
                number, line = self._queue.popitem(last=False)
                self._queued -= len(line)
                self._open.add(number)
            self._wire.call(number, line)

    def wanted(self, number: int) -> bool:
        """Reports whether somebody waits for an answer."""
        return number in self._waiting

    def _cancel(self, number: int, resolve: Resolve) -> None:
        """Gives up a call, if it is not over and nobody else waits for it.

        One that was sent counts until the daemon says that it has ended.
        """
        crowd = self._waiting.get(number)
        if isinstance(crowd, _Crowd):
            self.disperse(crowd, resolve)
            if crowd.waiting:
                return
        if self._waiting.pop(number, None) is None:
            return
        with self._wire.shield, self._lock:
            line = self._queue.pop(number, None)
            if line is not None:
                self._queued -= len(line)
                return
        self._wire.send({"t": "cancel", "id": number})

    async def call(self, method: str, params: Any, shared: bool = False) -> Any:
        """Sends a request and awaits its reply on whatever loop is running.

        One that is shared goes out once for all who ask it at that time.
        """
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
            number = self._begin(number, method, params, resolve, shared)
            return _result(await future)
        finally:
            self._cancel(number, resolve)

    def call_sync(self, method: str, params: Any, shared: bool = False) -> Any:
        """As call, but blocks this thread until the reply is there."""
        done = threading.Event()
        box: list[Frame] = []

        def resolve(frame: Frame) -> None:
            box.append(frame)
            done.set()

        number = next(self._ids)
        try:  # an interrupt may come as early as in _send
            number = self._begin(number, method, params, resolve, shared)
            done.wait()
        finally:
            self._cancel(number, resolve)
        return _result(box[0])


class _Crowd:
    """Those who wait for the answer to one question. The client's lock guards waiting."""

    def __init__(self, client: Client, question: str, number: int, first: Resolve) -> None:
        self._client, self.question, self.number, self.waiting = client, question, number, [first]

    def __call__(self, frame: Frame) -> None:
        for resolve in self._client.disperse(self):
            resolve(frame)


def _result(frame: Frame) -> Any:
    error = frame.get("error")
    if error is None:
        return frame.get("result")
    raise errors.of(error)


def _unsendable(params: Any, error: Exception) -> Exception:
    """Says where in params the value is that JSON cannot hold."""
    if isinstance(error, TooLarge):
        return MCPError(f"The arguments are too large: {error}. Pass less, or in pieces.", "too_large")
    arguments = params.get("arguments", params) if isinstance(params, dict) else params
    for path, problem in problems(arguments, "arguments"):
        return TypeError(f"{path}: {problem}")
    return TypeError(f"arguments: {error}")
