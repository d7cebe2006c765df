"""Ends what an interrupted run had started outside this process.

The rule: processes that a run started end with it when it is interrupted,
detached ones too. Those of a run that ended by itself live on.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

from .wire import getpid

_TICKS = os.sysconf("SC_CLK_TCK")
_ROUNDS = 5  # a process may start others while it is being ended
_clock, _listdir, _kill, _getppid = time.clock_gettime, os.listdir, os.kill, os.getppid
_BOOT = time.CLOCK_BOOTTIME


def now() -> int:
    """The time in the unit of a process's start time, ticks since boot."""
    return int(_clock(_BOOT) * _TICKS)


def end(since: int, killed: dict[int, str]) -> None:
    """Kills what descends from the sandbox's first process and started at `since` or later.

    Notes pid and name of each in killed, before it dies. This process is left alone.
    """
    for _ in range(_ROUNDS):
        found = {pid: name for pid, name, began in _descendants(_getppid()) if began >= since}
        if found.keys() <= killed.keys():
            break
        killed.update(found)
        for pid in found:
            try:
                _kill(pid, signal.SIGKILL)
            except OSError:
                pass  # it has ended by itself


def _descendants(first: int) -> Iterator[tuple[int, str, int]]:
    """Yields pid, name and start of every process below first but this one and zombies."""
    rows = {pid: row for pid in _pids() if (row := _stat(pid)) is not None}
    for pid, (name, state, _, began) in rows.items():
        if pid != getpid() and state != "Z" and _below(rows, pid, first):
            yield pid, name, began


def _below(rows: dict[int, tuple[str, str, int, int]], pid: int, first: int) -> bool:
    for _ in rows:
        row = rows.get(pid)
        if row is None:
            return False
        pid = row[2]
        if pid == first:
            return True
    return False


def _pids() -> list[int]:
    return [int(name) for name in _listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> tuple[str, str, int, int] | None:
    """Name, state, parent and start of a process, None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            head, _, tail = f.read().rpartition(")")
    except OSError:
        return None
    fields = tail.split()
    return head.partition("(")[2], fields[0], int(fields[1]), int(fields[19])
