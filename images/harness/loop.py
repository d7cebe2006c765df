"""The session's event loop."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from .capture import RUN


class SessionLoop(asyncio.SelectorEventLoop):
    """Lives as long as the session, and knows which run began each of its tasks."""

    def __init__(self) -> None:
        super().__init__()
        self._born: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()

    def close(self) -> None:
        """Does nothing: scripts close the loop that they were given, and the session needs it."""

    def create_task(self, *args: Any, **kw: Any) -> asyncio.Task[Any]:
        task = super().create_task(*args, **kw)
        self._born[task] = RUN.get()
        return task

    def of(self, run: int) -> list[asyncio.Task[Any]]:
        """The tasks of a run that are not done."""
        return [task for task, born in list(self._born.items()) if born == run and not task.done()]
