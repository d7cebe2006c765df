"""Starts the two processes of a sandbox: the first, which outlives, and the worker.

The container's first process only waits: it reaps orphans, and when the
worker ends it sends what the worker had printed and how it ended. Being
process 1, it can't be killed from inside. The worker runs the agent's code.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any, Callable

from . import posture
from .capture import FLUSH_MS, Capture, Pipe, Shared, leftovers
from .mcpmod import Finder, Runtime
from .rpc import Client
from .run import Runner
from .tools import Server, Servers, Tools
from .wire import Frame, Shield, Wire

PROTOCOL = 1


def start(nonce: str) -> None:
    """Never returns."""
    shared, pipes = Shared(), (Pipe(1), Pipe(2))
    kills = posture.oom_kills()
    worker = os.fork()
    if worker == 0:
        try:
            Worker(nonce, shared, pipes).serve()
        except BaseException as e:
            _last_words(e)
        finally:
            os._exit(70)
    os.close(0)
    for p in pipes:
        os.close(p.write_fd)
    status = _wait_for(worker)
    out = Wire(-1, 1, Shield())
    os.write(1, b"\n")  # ends a frame that the worker may have died in
    for frame in leftovers(shared, pipes):
        out.send(frame)
    out.send(end_frame(status, posture.oom_kills() - kills))
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def _wait_for(worker: int) -> int:
    """Reaps everything until the worker has ended; SIGTERM ends the worker."""
    signal.signal(signal.SIGTERM, lambda *_: os.kill(worker, signal.SIGKILL))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        pid, status = os.wait()
        if pid == worker:
            return status


def end_frame(status: int, oom: int) -> Frame:
    """Says how the worker ended."""
    frame: Frame = {"t": "end", "oom": oom}
    if os.WIFEXITED(status):
        frame["code"] = os.WEXITSTATUS(status)
    else:
        number = os.WTERMSIG(status)
        frame["signal"] = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    return frame


def _last_words(error: BaseException) -> None:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    os.write(2, f"bridged harness: {text}".encode("utf-8", "replace"))


class Worker:
    """The process that runs code: frames come in on its control thread."""

    def __init__(self, nonce: str, shared: Shared, pipes: tuple[Pipe, Pipe]) -> None:
        self._nonce = nonce
        # The daemon's stream moves to private fds before any other code runs.
        self._in, self._out = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        self._shield = Shield()
        self._wire = Wire(self._in, self._out, self._shield)
        self._capture = Capture(self._wire, self._shield, shared, pipes)
        self._work: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._wake: Callable[[], object] = lambda: None
        self._pid = os.getpid()
        self._config: queue.SimpleQueue[Frame] = queue.SimpleQueue()

    def serve(self) -> None:
        """Shakes hands, warms up and runs code until stdin ends."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.register_at_fork(after_in_child=self._wire.close)
        hello: Frame = {"t": "hello", "nonce": self._nonce, "protocol": PROTOCOL}
        hello.update(python=sys.version.split()[0], posture=posture.report())
        self._wire.send(hello)
        self._client = Client(self._wire)
        self._tools = Tools(self._client)
        self._runner = Runner(self._capture, self._shield, self._wire.send)
        threading.Thread(target=self._control, name="bridged-control", daemon=True).start()
        config = self._config.get()
        self._configure(config)
        self._wire.send({"t": "ready", "imports": self._warm(config.get("imports") or [])})
        self._loop()

    def _configure(self, config: Frame) -> None:
        sys.path[:] = ["/workspace"] + [p for p in sys.path if p]
        sys.argv = [""]
        sys.stdin = open(os.devnull, encoding="utf-8")
        for path in (os.environ.get("HOME", ""), os.environ.get("MPLCONFIGDIR", "")):
            if path:
                os.makedirs(path, exist_ok=True)
        runtime = Runtime(self._client, self._tools)
        sys.meta_path.insert(0, Finder(self._tools, runtime))
        self._runner.extra["mcp_servers"] = Servers(self._tools)
        posture.limit(config.get("limit_memory", 0), config.get("limit_pids", 0))
        self._capture.start(config.get("output", 1 << 20))
        sys.stdout, sys.stderr = self._capture.stdout, self._capture.stderr

    def _warm(self, names: list[str]) -> dict[str, Any]:
        """Imports what sessions will want; returns seconds, or why not, for each."""
        out: dict[str, Any] = {}
        for name in names:
            began = time.perf_counter()
            try:
                __import__(name)
                out[name] = round(time.perf_counter() - began, 4)
            except Exception as e:
                out[name] = f"{type(e).__name__}: {e}"
        return out

    def _control(self) -> None:
        """Takes frames until stdin ends, never behind running code. Then the sandbox ends."""
        for frame in self._frames():
            kind = frame["t"]
            if kind == "run":
                self._work.put(frame)
                self._wake()
            elif kind == "reply":
                self._client.reply(frame)
            elif kind == "interrupt":
                self._runner.interrupts.request(frame.get("run", 0))
            elif kind == "ping":
                self._wire.send({"t": "pong", "id": frame.get("id")})
            elif kind == "config":
                self._config.put(frame)
        os._exit(0)

    def _frames(self) -> Iterator[Frame]:
        """As Wire.frames, and tells the capture when a run takes longer than a moment."""
        poll = select.poll()
        poll.register(self._in, select.POLLIN)

        def pause() -> None:
            if not poll.poll(FLUSH_MS):
                self._capture.hurry()

        return self._wire.frames(pause)

    def _loop(self) -> None:
        while True:
            frame = self._runner.idle(self._work.get, self._set_wake)
            self._tools.load(frame.get("servers") or [])
            for alias, name in self._tools.servers.items():
                self._runner.extra["mcp_" + alias] = Server(self._tools, name)
            done = self._runner.run(frame["run"], frame["code"])
            if os.getpid() != self._pid:
                os._exit(0)  # a fork that the code left behind
            for f in self._capture.finish():
                self._wire.send(f)
            self._wire.send(done)

    def _set_wake(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        if not self._work.empty():
            wake()
