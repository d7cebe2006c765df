"""Stops the threads of an interrupted run, as far as Python can."""

from __future__ import annotations

import sys
import threading
import types

from .source import CALL

_frames, _all = sys._current_frames, threading.enumerate


def stop(run: int) -> list[str]:
    """Raises SystemExit in each thread that a run started and that runs code of the agent's.

    A thread in a blocking call has it raised when that returns. An idle
    worker of a pool is left alone: the pool counts on it. Returns names.
    """
    try:
        import ctypes
    except ImportError:  # a Python without it
        return []
    frames = _frames()
    names = []
    for thread in _all():
        ident = thread.ident
        if ident is None or thread is threading.main_thread() or getattr(thread, "_bridged_run", 0) != run:
            continue
        if _is_busy(frames.get(ident)):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(SystemExit))
            names.append(thread.name)
    return names


def _is_busy(frame: types.FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(CALL):
            return True
        frame = frame.f_back
    return False
