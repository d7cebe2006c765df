"""Drives a harness as the daemon does."""

from __future__ import annotations

import base64
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import zlib
from typing import Any, Callable

HANG = 60  # seconds after which a silent harness has hung
LAST = 20  # seconds after the last interrupt; less than any pause that code is to be interrupted in
Frame = dict[str, Any]

_HERE = os.path.dirname(os.path.abspath(__file__))
_HARNESS = os.path.join(os.path.dirname(_HERE), "harness")


def _read(name: str) -> str:
    with open(os.path.join(_HARNESS, name), encoding="utf-8") as f:
        return f.read()


def modules() -> list[str]:
    """The harness's modules, each after those that it imports."""
    names = sorted(n[:-3] for n in os.listdir(_HARNESS) if n.endswith(".py") and n not in ("boot.py", "relay.py"))
    needs = {n: set(re.findall(r"^from \.(\w+) import", _read(n + ".py"), re.M)) for n in names}
    for n in names:
        for group in re.findall(r"^from \. import (.+)$", _read(n + ".py"), re.M):
            needs[n].update(group.split(", "))
    order = ["__init__"]
    while len(order) < len(names):
        order += [n for n in names if n not in order and needs[n] <= set(order)]
    return order


def payload() -> bytes:
    """What boot.py reads, as images/harness.go packs it."""
    text = json.dumps([[n, _read(n + ".py")] for n in modules()])
    return base64.b64encode(zlib.compress(text.encode()))


class Reply:
    """All frames of one run, and what they say."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.done: Frame = {}
        self.end: Frame = {}

    @property
    def status(self) -> str:
        """ok, error or interrupted; lost if the process ended instead."""
        return str(self.done.get("status", "lost"))

    @property
    def value(self) -> str | None:
        return self.done.get("value")

    @property
    def error(self) -> Frame:
        return self.done.get("error") or {}

    @property
    def kept(self) -> str:
        """Where the whole output is, as the daemon tells if it cuts it."""
        return str(self.done.get("kept", ""))

    @property
    def notices(self) -> str:
        return "\n".join(self.done.get("notices") or [])

    def parts(self, background: bool = False) -> list[list[Any]]:
        """[stream, text] in the order written, neighbours of one stream joined."""
        out: list[list[Any]] = []
        for f in self.frames:
            if f["t"] != "output" or bool(f.get("background")) != background:
                continue
            for stream, text in f["parts"]:
                if out and out[-1][0] == stream:
                    out[-1][1] += text
                else:
                    out.append([stream, text])
        return out

    def text(self, stream: int = 0, background: bool = False) -> str:
        """What was written to one stream, or to both."""
        return "".join(t for n, t in self.parts(background) if stream in (0, n))

    @property
    def cut(self) -> int:
        return sum(f.get("cut", 0) for f in self.frames)

    def of(self, kind: str) -> list[Frame]:
        return [f for f in self.frames if f["t"] == kind]


class Harness:
    """One harness. Close it."""

    def __init__(
        self,
        imports: list[str] | None = None,
        output: int = 1 << 20,
        tmp: str = "",
        files: str = "",
        projects: str = "",
    ) -> None:
        self.dir = tempfile.mkdtemp()
        env = {name: self.dir for name in ("HOME", "MPLCONFIGDIR")}
        env["TMPDIR"] = tmp or self.dir
        env.update(MPLBACKEND="Agg", PATH=os.environ.get("PATH", ""))
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-X", "utf8", "-c", _read("boot.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=self.dir,
        )
        assert self.process.stdin and self.process.stdout
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._buf = b""
        self.junk: list[bytes] = []
        self.runs = 0
        self.answer: Callable[[Frame], Frame | None] = lambda f: {"result": None}
        body = payload()
        self.write(b"foreign bytes\x01\x02bridged-boot NONCE %d\n" % len(body) + body)
        self.hello = self.read()
        config: Frame = {"t": "config", "imports": imports or [], "output": output, "files": files}
        self.send({**config, **({"projects": projects} if projects else {})})
        self.ready = self.read()

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._in, data) :]

    def send(self, frame: Frame) -> None:
        self.write(json.dumps(frame).encode() + b"\n")

    def read(self, wait: float = HANG) -> Frame:
        """The next frame; {} when the stream has ended."""
        deadline = time.monotonic() + wait
        while True:
            line, found, rest = self._buf.partition(b"\n")
            if found:
                self._buf = rest
                if line.startswith(b'{"t":'):
                    frame: Frame = json.loads(line)
                    return frame
                self.junk.append(line)
                continue
            ready, _, _ = select.select([self._out], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the harness said nothing for {wait} s")
            data = os.read(self._out, 1 << 20)
            if not data:
                return {}
            self._buf += data

    def start(self, code: str, servers: list[Frame] | None = None, tokens: int = 0, data: bool = False) -> int:
        self.runs += 1
        frame = {"t": "run", "run": self.runs, "code": code, "servers": servers or [], "tokens": tokens, "data": data}
        self.send(frame)
        return self.runs

    def finish(self, on: Callable[[Frame], object] = lambda f: None) -> Reply:
        """Reads until the run or the process has ended; answers rpc frames."""
        reply = Reply()
        while True:
            frame = self.read()
            if not frame:
                return reply
            reply.frames.append(frame)
            on(frame)
            if frame["t"] == "rpc":
                answer = self.answer(frame)
                if answer is not None:
                    self.send({"t": "reply", "id": frame["id"], **answer})
            if frame["t"] == "cancel":
                canceled = {"code": "canceled", "message": "The call was canceled."}
                self.send({"t": "reply", "id": frame["id"], "error": canceled})
            if frame["t"] == "done":
                reply.done = frame
                return reply
            if frame["t"] == "end":
                reply.end = frame

    def touch(self, name: str) -> None:
        """Makes a file in the folder that code runs in, for code to wait for."""
        with open(os.path.join(self.dir, name), "w"):
            pass

    def run(self, code: str, servers: list[Frame] | None = None, data: bool = False) -> Reply:
        self.start(code, servers, data=data)
        return self.finish()

    def interrupted(self, code: str, again: float = 1.0, rounds: int = 3) -> Reply:
        """Runs code that prints "go", interrupts it there, and again as the daemon does."""
        number = self.start(code)
        reply = Reply()
        asked = 0
        while True:
            try:
                frame = self.read(again if 0 < asked < rounds else LAST if asked else HANG)
            except TimeoutError:
                if asked == rounds:
                    return reply
                asked += 1
                self.send({"t": "interrupt", "run": number})
                continue
            if not frame:
                return reply
            reply.frames.append(frame)
            if frame["t"] == "output" and not asked and "go" in reply.text():
                asked = 1
                self.send({"t": "interrupt", "run": number})
            if frame["t"] == "done":
                reply.done = frame
                return reply

    def close(self) -> int:
        """Ends stdin and waits for the end, which has a limit. Returns the exit code."""
        for f in (self.process.stdin, self.process.stdout):
            if f is not None:
                f.close()
        try:
            return self.process.wait(HANG)
        finally:
            self.process.kill()
            self.process.wait()
            if self.process.stderr is not None:
                self.process.stderr.close()
            shutil.rmtree(self.dir, ignore_errors=True)


class Case(unittest.TestCase):
    """A test with a harness of its own, and one that is shared by the class's tables."""

    maxDiff = None

    def harness(self, **options: Any) -> Harness:
        h = Harness(**options)
        self.addCleanup(h.close)
        return h
