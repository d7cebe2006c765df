"""What asks the daemon, written once for code that awaits and for code that blocks.

Such a function is a generator: it yields requests, as what [Client.call] takes,
and is sent their results or thrown their errors; what it returns is the answer.
It may yield something else to await, if its caller awaits it.
"""

from __future__ import annotations

import functools
from collections.abc import Generator
from typing import Any, Callable

from .errors import MCPError
from .rpc import Client

Steps = Generator[Any, Any, Any]  # yields tuples: method, parameters, and whether it is shared


async def drive(client: Client, steps: Steps) -> Any:
    """Takes the steps on whatever loop is running."""
    call = client.call
    try:
        request = next(steps)
        while True:
            try:
                answer = await (call(*request) if type(request) is tuple else request)
            except MCPError as e:
                request = steps.throw(e)
            else:
                request = steps.send(answer)
    except StopIteration as end:
        return end.value


def drive_sync(client: Client, steps: Steps) -> Any:
    """Takes the steps on this thread, which waits."""
    call = client.call_sync
    try:
        request = next(steps)
        while True:
            try:
                if type(request) is not tuple:
                    raise TypeError("the function that was passed is async: this works with await alone")
                answer = call(*request)
            except MCPError as e:
                request = steps.throw(e)
            else:
                request = steps.send(answer)
    except StopIteration as end:
        return end.value


class Type(str):
    """The text of a type as an annotation, which signatures show without quotes."""

    def __repr__(self) -> str:
        return str(self)


def unquote(steps: Callable[..., Steps]) -> Callable[..., Steps]:
    """Has help() show a function's types as they are written, and not that it yields steps."""
    steps.__annotations__ = {name: Type(text) for name, text in steps.__annotations__.items() if name != "return"}
    return steps


def awaited(steps: Callable[..., Steps]) -> Callable[..., Any]:
    """A method to await, of an object with a `_client` and an `_awaits`, for one that yields steps."""

    unquote(steps)

    @functools.wraps(steps)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self._awaits.call(drive(self._client, steps(self, *args, **kwargs)), steps.__name__)

    return call


def blocking(method: Callable[..., Any]) -> Callable[..., Any]:
    """The twin, which needs no await, of a method that awaited made."""
    steps: Callable[..., Steps] = method.__wrapped__  # type: ignore[attr-defined]

    @functools.wraps(steps)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return drive_sync(self._client, steps(self, *args, **kwargs))

    call.__name__, call.__doc__ = f"{steps.__name__}_sync", f"As {steps.__name__}, without await."
    call.__qualname__ = f"{steps.__qualname__}_sync"
    return call
