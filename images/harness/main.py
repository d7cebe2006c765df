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
from typing import Any, Callable

from . import posture, seccomp
from .awaits import Awaits
from .blocks import Blocks
from .capture import Capture, Pipe, leftovers
from .control import PEEK, Control
from .copies import Copies
from .door import Door
from .files import Files
from .journal import Journal
from .mcpmod import Finder, Runtime
from .memory import Memories, plain_names
from .proxies import Server, Servers
from .rpc import Client
from .run import Runner
from .saved import Shelf
from .shared import Shared
from .tools import Tools
from .wire import MODULES, Frame, Shield, Wire, getpid

PROTOCOL = 1
LOOK = 0.5  # seconds
TOKENS = 4000  # that a result may cost, if the daemon does not say
_exit = os._exit


def start(nonce: str, *door: str) -> None:
    """Never returns. The door is what a daemon needs that comes later, if one may."""
    confined = posture.confine()
    shared, pipes, entrance = Shared(), (Pipe(1), Pipe(2)), Door(*door) if door else None
    kills = posture.oom_kills()
    worker = os.fork()
    if worker == 0:
        try:
            seccomp.close(False)  # code may look into its own process
            if entrance is not None:
                entrance.enter()
            Worker(nonce, shared, pipes, entrance).serve(confined)
        except BaseException as e:
            shared.broken(e)
            _last_words(e)
        finally:
            _exit(70)
    for p in pipes:
        os.close(p.write_fd)
    if entrance is not None:
        entrance.stay()
    status = Keeper(worker, shared, entrance).wait()
    end = end_frame(status, posture.oom_kills() - kills, shared.why)
    try:
        os.set_blocking(1, True)
        os.write(1, b"\n")  # ends a frame that the worker may have died in
        Wire(1, Shield()).send_all([*leftovers(shared, pipes), end])
    except OSError:
        pass  # the daemon is gone: nobody wants to know
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


class Keeper:
    """The first process's work while the worker lives."""

    def __init__(self, worker: int, shared: Shared, door: Door | None) -> None:
        self._worker, self._shared, self._door = worker, shared, door
        self._stdin = select.poll()
        self._stdin.register(0, select.POLLIN)
        self._silent = 0.0  # seconds for which no daemon was heard
        self._let_in = 0  # daemons, modulo 256

    def wait(self) -> int:
        """Reaps everything until the worker has ended, and returns how; SIGTERM ends the worker.

        Now and then it looks whether a frame waits that the worker, in the
        middle of a run, has not taken, and has it take it between two steps of
        C code. When no daemon was heard for too long, none will come any more.
        """
        woken, wake = os.pipe()
        for fd in (woken, wake):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._end())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        waiting = select.poll()
        waiting.register(woken, select.POLLIN)
        if self._door is not None:
            waiting.register(self._door, select.POLLIN)
        last = time.monotonic()
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == self._worker:
                return status
            if pid:
                continue
            ready = [fd for fd, _ in waiting.poll(LOOK * 1000)]
            if woken in ready:
                os.read(woken, 4096)
            if self._door is not None and self._door.fileno() in ready and self._door.open():
                self._let_in = (self._let_in + 1) % 256
                os.kill(self._worker, PEEK)
            now = time.monotonic()
            if now - last >= LOOK:
                # A container that is paused has no time: it counts as one look.
                self._look(min(now - last, 2 * LOOK))
                last = now

    def _look(self, passed: float) -> None:
        waits = any(event & select.POLLIN for _, event in self._stdin.poll(0))
        if (self._shared.run and waits) or self._let_in != self._shared.taken:
            os.kill(self._worker, PEEK)
        if self._shared.heard():
            self._silent = 0.0
            return
        self._silent += passed
        grace = self._shared.grace
        if grace and self._silent > grace:
            self._end()

    def _end(self) -> None:
        os.kill(self._worker, signal.SIGKILL)


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

    def __init__(self, nonce: str, shared: Shared, pipes: tuple[Pipe, Pipe], door: Door | None) -> None:
        self._nonce, self._shared, self._door = nonce, shared, door
        # The daemon's stream moves to private fds before any other code runs.
        stdin, stdout = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        self._private = (stdin, stdout)
        self._shield = Shield()
        self._wire = Wire(stdout, self._shield)
        self._capture = Capture(self._wire, self._shield, shared, pipes)
        self._control = Control(stdin, self._shield, shared, self._wire, self._take)
        self._config: Frame | None = None
        self._pid = getpid()
        self._hearers: dict[str, Callable[[Any], None]] = {}  # by what the daemon tells of before a run

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
        grace = self._config.get("grace", 0)
        if self._door is not None and grace:
            self._shared.grace = max(1, int(grace))
            self._wire.keep(Journal(), self._door.inside.fileno())
            self._control.watch(self._door.inside, self._arrive)
        self._control.start()
        self._loop()

    def _close(self) -> None:
        """Closes a forked child's copies of the daemon's stream."""
        if self._door is not None:
            self._door.inside.close()
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
        runtime = Runtime(self._client, self._tools, self._files, self._lend)
        sys.meta_path.insert(0, Finder(self._tools, runtime))
        self._runner.hooks.install()
        Blocks.show = self._runner.hooks.display
        self._runner.extra.update(mcp_servers=Servers(self._tools), publish=self._files.publish)
        copies = Copies(os.path.join(config.get("projects", "/projects"), "memory"), self._runner.rich.note)
        self._hearers["memory"] = copies.hear
        memories = Memories(self._client, self._tools.awaits, copies).functions()
        runtime.lend(memories)
        self._runner.extra.update({name: memories[name] for name in plain_names()})
        self._shelf = Shelf(self._client, self._tools, self._runner.extra)
        self._shelf.start(self._lend, self._runner.main.__dict__)
        self._hearers["saved"] = self._shelf.hear
        runtime.lend(self._shelf.functions())
        self._runner.extra.update(self._shelf.functions())
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
            self._wire.beat(frame)
            if "id" in frame:
                self._wire.send({"t": "pong", "id": frame["id"]})
        elif kind == "leave":
            self._wire.leave({"t": "left"})
        elif kind == "config":
            self._config = frame

    def _arrive(self, out: int, nonce: str) -> None:
        """Tells a daemon that has come in all that it must know. The caller holds the wire's lock."""
        adopted: Frame = {"t": "adopted", "nonce": nonce, "files": self._files.told()}
        lines, dropped = self._wire.journal.replay(adopted, self._client.wanted)
        self._wire.move(out, lines)
        self._shared.take_over()
        for number in dropped:
            self._client.over(number)

    def _loop(self) -> None:
        while True:
            frame = self._next()
            self._load(frame.get("servers") or [])
            for what, news in (frame.get("told") or {}).items():
                if what in self._hearers:
                    self._hearers[what](news)
            self._shelf.begin()
            self._control.arm()
            done = self._runner.run(
                frame["run"], frame["code"], frame.get("tokens") or TOKENS, frame.get("data") is True
            )
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
        if self._tools.load(servers):
            self._name()

    def _name(self) -> None:
        for alias, name in self._tools.servers.items():
            self._runner.extra["mcp_" + alias] = Server(self._tools, name)

    def _lend(self) -> None:
        """Gives code that runs the names of servers that it has just loaded."""
        self._name()
        for name, value in self._runner.extra.items():
            self._runner.main.__dict__.setdefault(name, value)
