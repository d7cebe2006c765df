"""The file that keeps a run's whole output."""

from __future__ import annotations

import ctypes
import os
import re
import tempfile

from driver import Case, Harness, Reply

PATH = re.compile(r"/\S*/run-\d+\.txt")

# What the code does to the file while it prints, and what is told of it then.
TROUBLE = {
    "a full file system": (
        "import resource; old = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, old[1]))\n"
        "for i in range(100): print('x' * 9999)\nresource.setrlimit(resource.RLIMIT_FSIZE, old)\n'end'",
        "The first 300000 of 1000000 bytes .*File too large",
    ),
    "a removed folder": (
        "import shutil, tempfile, os\nprint('x' * 200_000)\nshutil.rmtree(os.environ['TMPDIR'] + '/bridged')\n"
        "print('y' * 200_000)\n'end'",
        "printed 400002 bytes; no file keeps them .*No such file",
    ),
    "a file in the folder's place": (
        "open(os.environ['TMPDIR'] + '/bridged', 'w').close()\nprint('x' * 200_000)\n'end'",
        "printed 200001 bytes; no file keeps them .*Not a directory",
    ),
    "a pipe in the file's place": (
        "import glob, os\nos.remove(os.environ['TMPDIR'] + '/bridged'); print('x' * 200_000)\n"
        "[p] = glob.glob(os.environ['TMPDIR'] + '/bridged/*')[-1:]\nos.remove(p); os.mkfifo(p)\n"
        "print('y' * 200_000)\n'end'",
        "The first 20000[01] of 400002 bytes .*No such device",
    ),
}


def path_of(reply: Reply) -> str:
    """The file that a reply names."""
    found = PATH.search(reply.kept)
    return found.group() if found else ""


class Kept(Case):
    def test_whole_output_is_kept_for_the_code_to_read(self) -> None:
        h = self.harness(output=1000)
        reply = h.run(
            "import os\nfor i in range(300): print(f'line {i} é')\nos.system('echo from below; echo err >&2')\n"
            "print('x' * 500_000, end='');"
        )
        self.assertGreater(reply.cut, 400_000)
        path = path_of(reply)
        self.assertIn(f"All {os.path.getsize(path)} bytes", reply.kept)
        h.run(f"text = open({path!r}, encoding='utf-8').read()")
        lines = "".join(f"line {i} é\n" for i in range(300))
        code = f"text.startswith({lines!r}), 'from below\\n' in text, 'err\\n' in text, text.endswith('x' * 500_000)"
        self.assertEqual(h.run(code).value, "(True, True, True, True)")

    def test_run_within_its_budget_makes_no_file(self) -> None:
        h = self.harness(output=1000)
        reply = h.run("print('x' * 999)")
        self.assertEqual((reply.kept, os.path.exists(os.path.join(h.dir, "bridged"))), ("", False))

    def test_old_files_are_removed(self) -> None:
        h = self.harness(output=100)
        paths = [path_of(h.run("print('x' * 1000)")) for _ in range(6)]
        self.assertEqual(len(set(paths)), 6)
        self.assertEqual([os.path.exists(p) for p in paths], [False] * 2 + [True] * 4)

    def test_interrupted_run_keeps_its_output(self) -> None:
        h = self.harness(output=100)
        # Printed in one piece: an interrupt comes when some of it is seen.
        reply = h.interrupted("import time; print('go ' + 'x' * 1000 + '\\n', end=''); time.sleep(600)")
        self.assertEqual(reply.status, "interrupted")
        self.assertEqual(os.path.getsize(path_of(reply)), 1004)

    def test_trouble_with_the_file_is_told_and_harms_nothing(self) -> None:
        h = self.harness(output=1000)
        h.run("import os")
        for name in ("a full file system", "a removed folder", "a file in the folder's place"):
            self._trouble(h, name)
        self._trouble(h, "a pipe in the file's place")
        self.assertEqual(h.run("1 + 1").value, "2")

    def _trouble(self, h: Harness, name: str) -> None:
        code, notice = TROUBLE[name]
        with self.subTest(name):
            reply = h.run(code)
            self.assertEqual((reply.status, reply.value), ("ok", "'end'"), reply.error)
            self.assertRegex(reply.kept, notice)


# The image of the tests has no mount command.
LIBC = ctypes.CDLL(None, use_errno=True)


def mount(folder: str, options: bytes) -> None:
    """Mounts a file system in memory; the tests' namespace allows it."""
    if LIBC.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, options):
        raise OSError(ctypes.get_errno(), "mounting a tmpfs for the test")


class Full(Case):
    """On a real small file system in memory."""

    def test_full_tmp_harms_no_run(self) -> None:
        folder = tempfile.mkdtemp()
        self.addCleanup(os.rmdir, folder)
        mount(folder, b"size=2m")
        self.addCleanup(LIBC.umount2, folder.encode(), 2)  # MNT_DETACH
        h = self.harness(output=1000, tmp=folder)
        reply = h.run("print('x' * 3_000_000)")
        self.assertRegex(reply.kept, r"The first 10\d+ of 3000001 bytes .*no room for more")
        filling = "f = open('fill', 'ab', buffering=0)\nwhile True: f.write(b'x' * 65536)"
        self.assertIn("No space left", h.run(f"import os; os.chdir({folder!r})\n{filling}").error["message"])
        self.assertEqual(h.run("1/0").error["type"], "ZeroDivisionError")
        reply = h.run("import decimal\nprint('x' * 100_000)\ndecimal.Decimal(1)")
        self.assertEqual(reply.value, "Decimal('1')")
        self.assertRegex(reply.kept, "printed 100001 bytes; no file keeps them|The first 0 of")
        h.run("f.close(); os.remove('fill')")
        self.assertIn("All 100001 bytes", h.run("print('x' * 100_000)").kept)


class Values(Case):
    """`out`, which has the values of earlier runs."""

    def test_values_of_the_last_runs_are_kept(self) -> None:
        h = self.harness()
        for i in range(7):
            h.run(f"{i} * 10")
        self.assertEqual(h.run("[*out], out[7]").value, "([3, 4, 5, 6, 7], 60)")
        self.assertIn("<out: the values of runs 4, 5, 6, 7, 8>", h.run("out[1]").error["message"])
        self.assertEqual(h.run("out").value, "<out: the values of runs 4, 5, 6, 7, 8>")

    def test_a_value_that_is_shown_in_part_says_how_to_have_it_again(self) -> None:
        h = self.harness()
        reply = h.run("list(range(10_000))")
        self.assertIn("(list of 10000 items, abridged)\n(out[1] is all of it)", reply.value or "")
        self.assertEqual(h.run("len(out[1])").value, "10000")
        self.assertEqual(h.run("'many words ' * 1000").done["whole"], "out[3]")
        self.assertNotIn("whole", h.run("'small'").done)
        self.assertNotIn("is all of it", h.run("display(list(range(10_000)))").text())

    def test_a_name_of_the_codes_own_is_left_alone(self) -> None:
        h = self.harness()
        h.run("out = 'mine'")
        self.assertIn("(_ is all of it)", h.run("list(range(10_000))").value or "")
        self.assertEqual(h.run("out").value, "'mine'")

    def test_a_budget_makes_room_for_values(self) -> None:
        h = self.harness()
        shown = []
        for tokens in (500, 4000, 20_000):
            number = h.start("['x' * 40] * 300", tokens=tokens)
            shown.append(len(h.finish().value or ""))
            self.assertEqual(h.run(f"len(out[{number}])").value, "300")
        self.assertLess(shown[0], shown[1])
        self.assertEqual(shown[2], 300 * 44)
