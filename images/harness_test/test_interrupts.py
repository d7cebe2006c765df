"""Interrupts, background work, and what code leaves behind."""

from __future__ import annotations

import os
import time

from driver import HANG, Case, Harness, Reply

# On the line of what is to be interrupted: the interrupt may come before that has begun.
# In one piece: else it may come before the end of the line is written.
GO = "print('go\\n', end=''); "
# A loop, all of it on the line that says so. Python 3.11 knows no line for its end without the assignment.
BUSY = "for n in itertools.count(): x = n or print('go\\n', end='')"

STOPPED = {
    "plain code": ("import time\n" + GO + "time.sleep(600)", "time.sleep(600)"),
    "a busy loop": ("import itertools\n" + BUSY, "itertools.count()"),
    "a top-level await": (
        "import asyncio\n" + GO + "await asyncio.wait_for(asyncio.Event().wait(), 90)",
        "await asyncio.wait_for",
    ),
    "a gather of ten": (
        "import asyncio\n" + GO + "await asyncio.gather(*[asyncio.sleep(600) for _ in range(10)])",
        "await asyncio.gather",
    ),
    "a coroutine that blocks the loop": (
        "import asyncio, time\nasync def f(): " + GO + "time.sleep(600)\nawait asyncio.gather(f(), f())",
        "time.sleep(600)",
    ),
    "asyncio.run": (
        "import asyncio\nasync def f():\n    await asyncio.sleep(600)\n" + GO + "asyncio.run(f())",
        "asyncio.run(f())",
    ),
    "a repr": ("import itertools\nclass R:\n    def __repr__(s):\n        " + BUSY + "\nR()", "itertools.count()"),
    "a waiting thread": (
        "import threading, time\nt = threading.Thread(target=time.sleep, args=(600,), daemon=True)\nt.start()\n"
        + GO
        + "t.join()",
        "t.join()",
    ),
    "a subprocess": ("import subprocess\n" + GO + "subprocess.run(['sleep', '600'])", "subprocess.run"),
    "a task group": (
        "import asyncio\n" + GO + "await asyncio.wait([asyncio.ensure_future(asyncio.sleep(600))])",
        "await asyncio.wait",
    ),
    "a lock": ("import threading\nl = threading.Lock(); l.acquire()\n" + GO + "l.acquire()", "l.acquire()"),
    "a queue": ("import queue\n" + GO + "queue.Queue().get()", "queue.Queue().get()"),
    "select": ("import select\n" + GO + "select.select([], [], [], 600)", "select.select"),
    "a socket": ("import socket\na, b = socket.socketpair()\n" + GO + "a.recv(1)", "a.recv(1)"),
    "a shell's command": (
        "import subprocess\n" + GO + "subprocess.run('sleep 600; true', shell=True)",
        "subprocess.run",
    ),
    "a captured subprocess": (
        "import subprocess\n" + GO + "subprocess.run(['sleep', '600'], capture_output=True)",
        "subprocess.run",
    ),
    "os.system, which ignores SIGINT": ("import os\n" + GO + "os.system('sleep 600')", "os.system"),
    "a subprocess of asyncio": (
        "import asyncio\np = await asyncio.create_subprocess_exec('sleep', '600')\n" + GO + "await p.wait()",
        "await p.wait()",
    ),
    "a pool of processes": (
        "import multiprocessing, time\nwith multiprocessing.Pool(2) as p: " + GO + "p.map(time.sleep, [600] * 4)",
        "p.map",
    ),
    "a pool of threads": (
        "import time\nfrom concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as p: "
        + GO
        + "list(p.map(time.sleep, [30] * 2))",
        "ThreadPoolExecutor",
    ),
    "code that catches it once": (
        "import time\ntry: " + GO + "time.sleep(600)\nexcept BaseException: pass\ntime.sleep(600)",
        "time.sleep(600)",
    ),
    "a coroutine that catches it once": (
        "import asyncio\nasync def f():\n    try: await asyncio.sleep(600)\n    except asyncio.CancelledError: pass\n"
        "    await asyncio.sleep(600)\n" + GO + "await f()",
        "await f()",
    ),
    "a busy loop with SIGINT blocked": (
        "import itertools, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n" + BUSY,
        "itertools.count()",
    ),
    "a sleep after an earlier call blocked SIGINT": ("import time\n" + GO + "time.sleep(600)", "time.sleep(600)"),
    "after the code ignored SIGINT itself": (
        "import signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" + GO + "time.sleep(600)",
        "time.sleep(600)",
    ),
}


class Interrupts(Case):
    shared: Harness

    @classmethod
    def setUpClass(cls) -> None:
        cls.shared = Harness()
        cls.addClassCleanup(cls.shared.close)

    def test_interrupt_stops_code_shows_where_it_was_and_keeps_state(self) -> None:
        for name, (code, where) in STOPPED.items():
            with self.subTest(name):
                self.shared.run("state = 'kept'")
                reply = self.shared.interrupted(code)
                self.assertEqual(reply.status, "interrupted", reply.frames)
                self.assertIn(where, reply.error["traceback"])
                self.assertTrue(reply.error["traceback"].endswith("KeyboardInterrupt"))
                self.assertEqual(self.shared.run("state").value, "'kept'")

    def test_loop_survives_many_interrupts(self) -> None:
        h = self.harness()
        h.run("import asyncio")
        for _ in range(20):
            self.assertEqual(h.interrupted(GO + "await asyncio.sleep(60)").status, "interrupted")
        reply = h.run("await asyncio.create_task(asyncio.sleep(0.05, 'ok'))")
        self.assertEqual((reply.value, reply.text(2)), ("'ok'", ""))
        self.assertEqual(h.run("len(asyncio.all_tasks(asyncio.get_event_loop()))").value, "0")

    def test_late_interrupt_does_not_hit_the_next_run(self) -> None:
        h = self.harness()
        for _ in range(50):
            number = h.start("1")
            h.finish()
            h.send({"t": "interrupt", "run": number})
            self.assertEqual(h.run("import time; time.sleep(0.001); 2").value, "2")

    def test_interrupt_at_any_moment_ends_in_a_reply(self) -> None:
        h = self.harness()
        for i in range(300):
            number = h.start("for _ in range(100): print('x')\n'v'")
            time.sleep(i % 30 * 5e-5)
            h.send({"t": "interrupt", "run": number})
            self.assertIn(h.finish().status, ("ok", "interrupted"))
        self.assertEqual(h.run("1+1").value, "2")

    def test_interrupt_that_comes_with_its_run_stops_it(self) -> None:
        h = self.harness()
        h.runs = 1
        run = b'{"t":"run","run":1,"code":"import time; time.sleep(600)"}\n'
        h.write(run + b'{"t":"interrupt","run":1}\n')
        self.assertEqual(h.finish().status, "interrupted")
        self.assertEqual(h.run("1+1").value, "2")

    def test_c_code_that_looks_for_signals_and_lets_no_thread_in_is_stopped(self) -> None:
        begun = "publish(b'', 'begun'); "  # told at once: what is printed would wait for the thread that sends it
        for code in (f"import re\n{begun}re.match('(a+)+$', 'a' * 60 + 'b')", f"x = 0\n{begun}7 ** 10**8"):
            for wait in (0.05, 0.1, 0.2, 0.3):  # the thread that reads frames is at another place each time
                with self.subTest(code, wait=wait):
                    number = self.shared.start(code)
                    while self.shared.read()["t"] != "file":
                        pass
                    time.sleep(wait)
                    self.shared.send({"t": "interrupt", "run": number})
                    reply = self.shared.finish()
                    self.assertEqual(reply.status, "interrupted")
                    self.assertIn("line 2", reply.error["traceback"])

    def test_cleanup_runs_and_may_take_its_time(self) -> None:
        reply = self.shared.interrupted(
            "import time\nclass C:\n    def __enter__(s): pass\n    def __exit__(s, *a): print('closed')\n"
            "try:\n    with C(): " + GO + "time.sleep(600)\nfinally:\n    time.sleep(0.3); print('cleaned')",
            again=30,  # a second one would hit the cleanup
        )
        self.assertEqual((reply.status, reply.text(1)), ("interrupted", "go\nclosed\ncleaned\n"))

    def test_one_request_is_one_interrupt(self) -> None:
        code = (
            "import time\nn = 0\ntry: " + GO + "time.sleep(600)\nexcept KeyboardInterrupt: n += 1\n"
            "for _ in range(20):\n    try: time.sleep(0.01)\n    except KeyboardInterrupt: n += 1\nn"
        )
        for _ in range(20):
            self.assertEqual(self.shared.interrupted(code, again=30).value, "1")

    def test_tasks_and_threads_of_an_interrupted_run_are_stopped_and_told(self) -> None:
        h = self.harness()
        h.run(
            "import asyncio, threading, time\nn = 0\ncounts = threading.Event()\n"
            "def count():\n    global n\n    while True: n += 1; counts.set(); time.sleep(0.01)\n"
            "async def tick():\n    while True: await asyncio.sleep(0.01)\n"
            "old = asyncio.create_task(tick())"
        )
        reply = h.interrupted(
            "t = threading.Thread(target=count); t.start(); counts.wait()\nk = asyncio.create_task(tick())\n"
            + GO
            + "await asyncio.sleep(600)"
        )
        self.assertRegex(reply.notices, r"Tasks .* were canceled: 1 \(tick\)")
        self.assertRegex(reply.notices, r"Threads .* were told to stop .*: 1 \(Thread")
        reply = h.run("t.join(50); await asyncio.sleep(0)\nt.is_alive(), k.cancelled(), old.done()")
        self.assertEqual((reply.value, reply.text()), ("(False, True, False)", ""))

    def test_alarms_of_the_code_are_its_own(self) -> None:
        h = self.harness()
        alarm = (
            "import signal, time\ndef late(*_): raise TimeoutError('mine')\nsignal.signal(signal.SIGALRM, late)\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
        )
        self.assertEqual(h.run(alarm + "time.sleep(60)").error["message"], "mine")
        self.assertEqual(h.run(alarm + "import asyncio\nawait asyncio.sleep(60)").error["message"], "mine")
        self.assertEqual(h.run("len(asyncio.all_tasks(asyncio.get_event_loop()))").value, "0")

    def test_code_that_swallows_interrupts_goes_on(self) -> None:
        h = self.harness()
        code = (
            "import time\nn = 0\nwhile n < 2:\n    try: " + GO + "time.sleep(600)\n    except BaseException: n += 1\nn"
        )
        number = h.start(code)
        reply = h.finish(lambda f: h.send({"t": "interrupt", "run": number}) if f["t"] == "output" else None)
        self.assertEqual(reply.value, "2")

    def test_interrupt_spares_tasks_of_earlier_runs(self) -> None:
        h = self.harness()
        h.run(
            "import asyncio, time\n"
            "async def tick():\n    while True:\n        time.sleep(0.02)\n        await asyncio.sleep(0)\n"
            "t = asyncio.create_task(tick())"
        )
        self.assertEqual(h.interrupted(GO + "await asyncio.sleep(600)").status, "interrupted")
        self.assertEqual(h.run("t.done()").value, "False")

    def test_code_may_raise_what_an_interrupt_raises(self) -> None:
        reply = self.shared.run("raise KeyboardInterrupt('mine')")
        self.assertEqual((reply.status, reply.error["message"]), ("interrupted", "mine"))


DETACHED = {
    "a child": "subprocess.Popen(['sleep', '612'])",
    "a child in a session of its own": "subprocess.Popen(['sleep', '612'], start_new_session=True)",
    "a shell's job": "subprocess.Popen('sleep 612 & sleep 612', shell=True)",
}


class Children(Case):
    def alive(self, h: Harness) -> set[str]:
        """The pids of sleeps that descend from h's processes."""
        found = set()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    line = f.read()
                with open(f"/proc/{pid}/environ", "rb") as f:
                    ours = h.dir.encode() in f.read()
            except OSError:
                continue
            if ours and line == b"sleep\x00612\x00":
                found.add(pid)
        return found

    def await_alive(self, h: Harness, want: bool) -> None:
        """Waits until there are such sleeps, or none."""
        deadline = time.monotonic() + HANG
        while bool(self.alive(h)) != want and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(bool(self.alive(h)), want)

    def test_processes_of_an_interrupted_run_end_and_are_named(self) -> None:
        for name, code in DETACHED.items():
            with self.subTest(name):
                h = self.harness()
                number = h.start("import subprocess, time\n" + code + "\ntime.sleep(600)")
                self.await_alive(h, True)
                h.send({"t": "interrupt", "run": number})
                reply = h.finish()
                self.assertEqual(reply.status, "interrupted")
                self.assertRegex(reply.notices, r"were ended: \d \(.*sleep")
                self.await_alive(h, False)

    def test_processes_of_earlier_runs_live_on(self) -> None:
        h = self.harness()
        h.run("import subprocess, time\np = subprocess.Popen(['sleep', '612'])\ntime.sleep(0.1)")
        self.assertEqual(h.interrupted(GO + "time.sleep(600)").notices, "")
        self.assertEqual(h.run("p.poll() is None").value, "True")
        h.run("p.kill(); p.wait()")

    def test_fork_that_runs_on_ends_with_its_run_and_sends_nothing(self) -> None:
        h = self.harness()
        reply = h.run(
            "import os\npid = os.fork()\nprint('parent\\n' if pid else 'child\\n', end='')\nif pid: os.waitpid(pid, 0);"
        )
        self.assertEqual(sorted(reply.text(1).split()), ["child", "parent"])
        self.assertEqual([f["t"] for f in reply.frames if f["t"] != "output"], ["done"])
        self.assertEqual(h.run("1+1").value, "2")

    def test_pool_of_processes_works(self) -> None:
        code = (
            "import multiprocessing\ndef f(x): return x * x\n"
            "with multiprocessing.get_context('fork').Pool(2) as p: r = p.map(f, range(4))\nr"
        )
        self.assertEqual(self.harness().run(code).value, "[0, 1, 4, 9]")


class Background(Case):
    def test_tasks_run_on_between_calls_and_late_errors_fail_no_call(self) -> None:
        h = self.harness()
        h.run(
            "import asyncio\nn = 0\n"
            "async def tick():\n    global n\n    while True:\n        n += 1\n        await asyncio.sleep(0.02)\n"
            "t = asyncio.create_task(tick())\n"
            "async def bad(): raise ValueError('late')\nb = asyncio.create_task(bad())"
        )
        deadline = time.monotonic() + HANG
        while h.run("n > 4").value != "True" and time.monotonic() < deadline:
            time.sleep(0.1)
        reply = h.run("(n > 4, t.done(), b.done())")
        self.assertEqual((reply.status, reply.value), ("ok", "(True, False, True)"))
        self.assertEqual(h.run("t.cancel()").value, "True")

    def test_task_that_exits_between_calls_ends_nothing_else(self) -> None:
        h = self.harness()
        for error in ("SystemExit(3)", "KeyboardInterrupt()"):
            h.run(
                f"import asyncio\nasync def f():\n    await asyncio.sleep(0.05)\n    raise {error}\n"
                "t = asyncio.create_task(f())"
            )
            time.sleep(0.3)
            self.assertEqual(h.run("1+1").value, "2")

    def test_signal_handler_that_raises_between_calls_ends_nothing(self) -> None:
        h = self.harness()
        h.run(
            "import signal\ndef f(*a): raise RuntimeError('alarm')\nsignal.signal(signal.SIGALRM, f)\n"
            "signal.setitimer(signal.ITIMER_REAL, 1);"  # after the end of this call
        )
        late = Reply()
        while "RuntimeError: alarm" not in late.text(2, background=True):
            late.frames.append(h.read())
        self.assertEqual(h.run("1+1").value, "2")

    def test_asyncio_run_works_in_plain_code(self) -> None:
        h = self.harness()
        reply = h.run(
            "import asyncio\nasync def main():\n    await asyncio.sleep(0.01)\n    return 20\n"
            "print(asyncio.run(main()) + 1)\n"
            "loop = asyncio.new_event_loop(); print(loop.run_until_complete(main())); loop.close()"
        )
        self.assertEqual(reply.text(1), "21\n20\n")
        self.assertEqual(h.run("await main()").value, "20")
        self.assertEqual(h.run("x = await main(); x + 2").value, "22")

    def test_output_of_threads_is_credited_to_the_run_that_started_them(self) -> None:
        h = self.harness()
        h.run(
            "import threading\ngo = threading.Event(); over = threading.Event()\n"
            "def w():\n    go.wait(); print('bg'); over.set()\n"
            "threading.Thread(target=w).start()"
        )
        reply = h.run("go.set(); over.wait(); print('two')")
        self.assertEqual((reply.text(1), reply.text(1, background=True)), ("two\n", "bg\n"))

    def test_output_between_calls_is_background(self) -> None:
        h = self.harness()
        h.run(
            "import os, threading, time\ndef late():\n    while not os.path.exists('over'): time.sleep(0.01)\n"
            "    print('late\\n', end='')\n"  # in one piece, so in one frame
            "threading.Thread(target=late).start()"
        )
        h.touch("over")
        frame = h.read()
        self.assertEqual(frame, {"t": "output", "run": 0, "parts": [[1, "late\n"]], "background": True})
        self.assertEqual(h.run("print('three')").parts(), [[1, "three\n"]])
