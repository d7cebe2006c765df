"""Starts the two processes of a sandbox: the first, which outlives, and the worker.

The container's first process only waits: it reaps orphans, and when the
worker ends it sends what the worker had printed and how it ended. Being
process 1, it can't be killed from inside, and nobody inside can look into it.
The worker runs the agent's code.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import select
import signal
import sys
import time
import traceback
from typing import Any

from . import posture, seccomp
from .awaits import Awaits
from .capture import Capture, Pipe, leftovers
from .control import Control
from .files import Files
from .mcpmod import Finder, Runtime
from .rpc import Client
from .run import Runner
from .shared import Shared
from .tools import Server, Servers, Tools
from .wire import MODULES, Frame, Shield, Wire, getpid

PROTOCOL = 1
PEEK = signal.SIGURG  # ignored by whoever does not know it
LOOK = 0.5  # seconds
_exit = os._exit


def start(nonce: str) -> None:
    """Never returns."""
    confined = posture.confine()
    shared, pipes = Shared(), (Pipe(1), Pipe(2))
    kills = posture.oom_kills()
    worker = os.fork()
    if worker == 0:
        try:
            seccomp.close(False)  # code may look into its own process
            Worker(nonce, shared, pipes).serve(confined)
        except BaseException as e:
            shared.broken(e)
            _last_words(e)
        finally:
            _exit(70)
    for p in pipes:
        os.close(p.write_fd)
    status = _wait_for(worker, shared)
    end = end_frame(status, posture.oom_kills() - kills, shared.why)
    try:
        os.write(1, b"\n")  # ends a frame that the worker may have died in
        Wire(1, Shield()).send_all([*leftovers(shared, pipes), end])
    except OSError:
        pass  # the daemon is gone: nobody wants to know
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def _wait_for(worker: int, shared: Shared) -> int:
    """Reaps everything until the worker has ended; SIGTERM ends the worker.

    Now and then it looks whether a frame waits that the worker, in the middle
    of a run, has not taken, and has it take it between two steps of C code.
    """
    signal.signal(signal.SIGTERM, lambda *_: os.kill(worker, signal.SIGKILL))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD,))
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == worker:
            return status
        if not pid and signal.sigtimedwait((signal.SIGCHLD,), LOOK) is None and shared.run and waiting.poll(0):
            os.kill(worker, PEEK)


def end_frame(status: int, oom: int, why: str) -> Frame:
    """Says how the worker ended, and why if the harness itself broke."""
    frame: Frame = {"t": "end", "oom": oom}
    if why:
        frame["why"] = why
    if os.WIFEXITED(status):
        frame["code"] = os.WEXITSTATUS(status)
    else:
        number = os.WTERMSIG(status)
        frame["signal"] = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    return frame


def _last_words(error: BaseException) -> None:
    if MODULES:
        return  # it was ready: the code has broken it, and the daemon is told why
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    os.write(2, f"bridged harness: {text}".encode("utf-8", "replace"))


class Worker:
    """The process that runs code, on its main thread."""

    def __init__(self, nonce: str, shared: Shared, pipes: tuple[Pipe, Pipe]) -> None:
        self._nonce = nonce
        # The daemon's stream moves to private fds before any other code runs.
        stdin, stdout = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        self._private = (stdin, stdout)
        self._shield = Shield()
        self._wire = Wire(stdout, self._shield)
        self._capture = Capture(self._wire, self._shield, shared, pipes)
        self._control = Control(stdin, self._shield, self._take)
        self._config: Frame | None = None
        self._pid = getpid()

    def serve(self, confined: Frame) -> None:
        """Shakes hands, warms up and runs code until stdin ends."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(PEEK, self._control.peek)
        os.register_at_fork(after_in_child=self._close)
        hello: Frame = {"t": "hello", "nonce": self._nonce, "protocol": PROTOCOL}
        hello.update(python=sys.version.split()[0], posture=posture.report(confined))
        self._wire.send(hello)
        self._client = Client(self._wire)
        awaits = Awaits()
        self._tools = Tools(self._client, awaits)
        self._files = Files(self._wire)
        self._runner = Runner(self._capture, self._shield, self._wire.send, awaits)
        awaits.start()
        while self._config is None:
            self._control.take()
        self._configure(self._config)
        imports = self._warm(self._config.get("imports") or [])
        MODULES.update(sys.modules)
        self._wire.send({"t": "ready", "imports": imports})
        self._control.start()
        self._loop()

    def _close(self) -> None:
        """Closes a forked child's copies of the daemon's stream."""
        for fd in self._private:
            try:
                os.close(fd)
            except OSError:
                pass  # the code has closed it

    def _configure(self, config: Frame) -> None:
        sys.path[:] = ["/workspace"] + [p for p in sys.path if p]
        sys.argv = [""]
        sys.stdin = open(os.devnull, encoding="utf-8")
        for path in (os.environ.get("HOME", ""), os.environ.get("MPLCONFIGDIR", "")):
            if path:
                os.makedirs(path, exist_ok=True)
        self._files.configure(config.get("files", ""))
        runtime = Runtime(self._client, self._tools, self._files)
        sys.meta_path.insert(0, Finder(self._tools, runtime))
        self._runner.hooks.install()
        self._runner.extra.update(mcp_servers=Servers(self._tools), publish=self._files.publish)
        posture.limit(config.get("limit_memory", 0), config.get("limit_pids", 0))
        self._capture.start(config.get("output", 1 << 20))
        sys.stdout, sys.stderr = self._capture.stdout, self._capture.stderr
        faulthandler.enable(2, all_threads=False)

    def _warm(self, names: list[str]) -> dict[str, Any]:
        """Imports what sessions will want; returns seconds, or why not, for each.

        What is there then stays for good, so garbage collections need not look
        at it: with pandas each full one would take 50 ms.
        """
        out: dict[str, Any] = {}
        for name in names:
            began = time.perf_counter()
            try:
                __import__(name)
                out[name] = round(time.perf_counter() - began, 4)
            except Exception as e:
                out[name] = f"{type(e).__name__}: {e}"
        gc.collect()
        gc.freeze()
        return out

    def _take(self, frame: Frame) -> None:
        """Handles every frame but run, on whichever thread has read it."""
        kind = frame["t"]
        if kind == "reply":
            self._client.reply(frame)
        elif kind == "interrupt":
            self._runner.interrupts.request(frame.get("run", 0))
        elif kind == "read":
            self._files.read(frame)
        elif kind == "ping":
            self._wire.send({"t": "pong", "id": frame.get("id")})
        elif kind == "config":
            self._config = frame

    def _loop(self) -> None:
        while True:
            frame = self._next()
            self._load(frame.get("servers") or [])
            self._control.arm()
            done = self._runner.run(frame["run"], frame["code"])
            if getpid() != self._pid:
                _exit(0)  # a fork that the code left behind
            self._control.disarm()
            self._wire.send_all(self._capture.finish(done))

    def _next(self) -> Frame:
        """Waits for the next piece of work; background tasks run meanwhile."""
        while True:
            frame = self._control.run()
            if frame is not None:
                return frame
            try:
                self._idle()
            except Exception:
                # A signal handler of the code's has raised, or the code has
                # broken what the loop needs.
                traceback.print_exc(file=self._capture.stderr)
                self._control.take()

    def _idle(self) -> None:
        if not self._runner.tasks():
            self._control.take()
            return
        self._control.arm()
        try:
            self._runner.idle(self._control.notify)
        finally:
            self._control.disarm()

    def _load(self, servers: list[dict[str, str]]) -> None:
        """Gives the code names for the servers that it may use from now on."""
        if not self._tools.load(servers):
            return
        for alias, name in self._tools.servers.items():
            self._runner.extra["mcp_" + alias] = Server(self._tools, name)
