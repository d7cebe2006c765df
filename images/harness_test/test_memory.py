"""Memories: the functions, what converts, and the copies of the files. The daemon's side is scripted here."""

from __future__ import annotations

import json
import os
from typing import Any

from driver import Case, Frame, Harness


class Store:
    """Answers as pkg/memory does, as far as the harness can tell."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], list[Frame]] = {}
        self.asked: list[Frame] = []
        self.rivals = 0  # saves by others, each right before one of the code's

    def __call__(self, frame: Frame) -> Frame:
        asked = frame["params"]
        self.asked.append({"method": frame["method"], **asked})
        past = self.kept.setdefault((asked.get("scope") or "global", asked.get("key", "")), [])
        return getattr(self, frame["method"].replace(".", "_"))(asked, past)  # type: ignore[no-any-return]

    def memory_save(self, asked: Frame, past: list[Frame]) -> Frame:
        if self.rivals:
            self.rivals -= 1
            past.append({**past[-1], "value": past[-1]["value"] + 100})
        if asked.get("if", str(len(past))) != str(len(past)):
            return {"error": {"code": "memory_conflict", "message": "it has changed"}}
        past.append({"value": asked["value"], "metadata": asked["metadata"] or {}})
        return {"result": {"version": len(past), "name": asked["key"] + ".json", "text": json.dumps(asked["value"])}}

    def memory_load(self, asked: Frame, past: list[Frame]) -> Frame:
        if asked["key"] == "broken":
            return {"error": {"code": "memory_broken", "message": "its file can't be read"}}
        if not past:
            return {"result": {"found": False, "if": "0"}}
        memory = {"key": asked["key"], **past[-1], "version": len(past), "created": "2026-11-30T10:00:00Z"}
        return {"result": {"found": True, "if": str(len(past)), "memory": memory}}

    def memory_list(self, asked: Frame, past: list[Frame]) -> Frame:
        rows = [{"key": k, "version": len(v), "updated": "T", "bytes": 9} for (_, k), v in self.kept.items() if v]
        return {"result": {"memories": [*rows, {"key": "bad", "error": "torn"}], "more": 3}}

    def memory_search(self, asked: Frame, past: list[Frame]) -> Frame:
        rows = [{"key": "k", "version": 1, "updated": "T", "bytes": 9, "snippet": "...x..."}]
        return {"result": {"memories": rows[: asked["limit"]]}}

    def memory_delete(self, asked: Frame, past: list[Frame]) -> Frame:
        there = bool(past)
        past.clear()
        return {"result": {"deleted": there, "name": asked["key"] + ".json" if there else ""}}

    def memory_history(self, asked: Frame, past: list[Frame]) -> Frame:
        return {"result": {"versions": [{"version": n} for n in range(len(past), 0, -1)]}}

    def memory_restore(self, asked: Frame, past: list[Frame]) -> Frame:
        return self.memory_save({**past[(asked["version"] or len(past) - 1) - 1], "key": asked["key"]}, past)


class Restored(Store):
    def memory_restore(self, asked: Frame, past: list[Frame]) -> Frame:
        answer = super().memory_restore(asked, past)
        answer["result"]["value"] = past[-1]["value"]
        return answer


class Memory(Case):
    def setUp(self) -> None:
        self.store = Restored()

    def one(self) -> Harness:
        h = self.harness(projects=self.enterContext_("projects"))
        h.answer = self.store
        return h

    def enterContext_(self, name: str) -> str:  # enterContext is not in Python 3.9
        import shutil
        import tempfile

        path = tempfile.mkdtemp(suffix=name)
        self.addCleanup(shutil.rmtree, path, True)
        self.addCleanup(_open_up, path)
        self.projects = path
        return path

    def value(self, h: Harness, code: str) -> str | None:
        reply = h.run(code)
        self.assertEqual(reply.status, "ok", reply.error)
        return reply.value

    def test_all_work_with_await_and_without(self) -> None:
        h = self.one()
        for how in (
            "save_memory('k', {'a': 1})",
            "await save_memory('k', {'a': 1})",
            "save_memory_sync('k', {'a': 1})",
        ):
            name = how.replace("save_memory_sync", "runtime.save_memory_sync")
            with self.subTest(how):
                self.assertIn("saved 'k', version", self.value(h, "from mcp import runtime\n" + name) or "")
        table = {
            "load_memory('k')": "{'a': 1}",
            "load_memory('none', 7)": "7",
            "memory_exists('k'), memory_exists('none')": "(True, False)",
            "get_memory_info('k')['version'], get_memory_info('none')": "(3, None)",
            "get_memory_info('k')['created_at'], get_memory_info('k').get('nothing', 2)": "(1796032800.0, 2)",
            "update_memory('k', lambda old: {**old, 'b': 2})": "{'a': 1, 'b': 2}",
            "update_memory('k', {'b': 3})": "{'a': 1, 'b': 3}",
            "memory_history('k')[0]": "{'version': 5}",
            "restore_memory('k', 4)": "{'a': 1, 'b': 2}",
            "delete_memory('k'), delete_memory('k')": "(True, False)",
        }
        for code, want in table.items():
            with self.subTest(code):
                self.assertEqual(self.value(h, code), want)
        save = "import asyncio\nawait save_memory('x', 1)\ndef plain():\n    return load_memory('x')\n"
        for code in (
            "(await load_memory('x'), load_memory('x'), plain(), await runtime.load_memory('x'))",
            "[await load_memory('x') for _ in 'abcd']",
            "await asyncio.gather(*[runtime.load_memory_async('x') for _ in 'abcd'])",
        ):
            with self.subTest(code):
                self.assertIn(self.value(h, save + code), ("(1, 1, 1, 1)", "[1, 1, 1, 1]"))

    def test_an_async_function_may_update(self) -> None:
        h = self.one()
        code = "async def more(old):\n    return (old or 0) + 1\n"
        self.assertEqual(self.value(h, code + "await update_memory('n', more)"), "1")
        error = h.run(code + "update_memory('n', more)").error
        self.assertEqual(error["type"], "TypeError")
        self.assertIn("await", error["message"])

    def test_no_update_is_lost_to_another_session(self) -> None:
        h = self.one()
        h.run("save_memory('n', 0)")
        self.store.rivals = 3
        self.assertEqual(self.value(h, "update_memory('n', lambda n: n + 1)"), "301")

    def test_lists_are_a_line_each(self) -> None:
        h = self.one()
        h.run("save_memory('k', 0)")
        self.assertEqual(
            self.value(h, "list_memories()"), "k (version 1, T, 9 bytes)\nbad: torn\n... and 3 more: give a prefix"
        )
        self.assertEqual(self.value(h, "[m['key'] for m in list_memories('k')]"), "['k', 'bad']")
        self.assertEqual(self.value(h, "search_memories('x')"), "k (version 1, T, 9 bytes): ...x...")
        self.assertEqual(self.value(h, "search_memories('x', limit=0)"), "(none)")

    def test_values_convert_by_rule_or_are_refused_with_their_path(self) -> None:
        h = self.one()
        h.run(
            "import datetime, decimal, enum, uuid, pathlib, dataclasses, collections\n"
            "@dataclasses.dataclass\nclass P:\n    x: int\n    at: object = None\n"
            "E = enum.Enum('E', 'a')\nI = enum.IntEnum('I', 'one')\nclass S(str): pass\n"
            "day = datetime.date(2026, 11, 30)\n"
        )
        good: dict[str, Any] = {
            "day": "2026-11-30",
            "datetime.datetime(2026, 11, 30, 1)": "2026-11-30T01:00:00",
            "{3, 1, 2}": [1, 2, 3],
            "(1, [2, (3,)])": [1, [2, [3]]],
            "P(1, P(day))": {"x": 1, "at": {"x": "2026-11-30", "at": None}},
            "{1: 'a', None: 2, True: 3, 2.5: 4, day: 5}": {"1": 3, "null": 2, "2.5": 4, "2026-11-30": 5},
            "[E.a, I.one, S('s'), decimal.Decimal('1.5')]": [1, 1, "s", 1.5],
            "pathlib.PurePosixPath('/x')": "/x",
            "collections.OrderedDict(b=1, a=2)": {"b": 1, "a": 2},
            "2 ** 80": 2**80,
            "'\\ud800 \\u00e9'": "\ud800 é",
        }
        for code, want in good.items():
            with self.subTest(code):
                reply = h.run(f"save_memory('v', {code})")
                self.assertEqual(reply.status, "ok", reply.error)
                self.assertEqual(self.store.kept["global", "v"][-1]["value"], want)
        bad = {
            "{'a': [1, {'b': b'x'}]}": "value['a'][1]['b']: a value of type bytes",
            "[float('nan')]": "value[0]: nan has no form in JSON",
            "{'a': {1: 1, '1': 2}}": "value['a']: the keys 1 and '1' would be one",
            "{(1, 2): 3}": "value: a key of type tuple",
            "[P(object())]": "value[0]['x']: a value of type object",
            "(lambda x: x)": "value: a value of type function",
        }
        for code, want in bad.items():
            with self.subTest(code):
                error = h.run(f"save_memory('v', {code})").error
                self.assertEqual(error["type"], "TypeError")
                self.assertIn(want, error["message"])
        loop = h.run("a = []\na.append(a)\nsave_memory('v', a)").error
        self.assertIn("contains itself", loop["message"])

    def test_small_data_frames_become_rows(self) -> None:
        h = self.one()
        h.run(
            "import types\n"
            "class Index(list):\n"
            "    is_unique, name, start, step = True, None, 0, 1\n"
            "    def tolist(self): return list(self)\n"
            "class RangeIndex(Index): pass\n"
            "class NaTType: pass\n"
            "class Series:\n"
            "    def __init__(self, data, index=None):\n"
            "        self.data, self.index = data, RangeIndex(range(len(data))) if index is None else index\n"
            "    def tolist(self): return list(self.data)\n"
            "    def __len__(self): return len(self.data)\n"
            "class Cells:\n"
            "    def __init__(self, columns): self.columns = columns\n"
            "    def __getitem__(self, at): return Series(self.columns[at[1]])\n"
            "class DataFrame:\n"
            "    def __init__(self, data, index=None):\n"
            "        self.columns, cells = list(data), list(data.values())\n"
            "        self.iloc, self.shape = Cells(cells), (len(cells[0]), len(cells))\n"
            "        self.index = RangeIndex(range(len(cells[0]))) if index is None else index\n"
            "        self.data = data\n"
            "    def reset_index(self): return DataFrame({'index': self.index, **self.data})\n"
            "for c in (Index, RangeIndex, NaTType, Series, DataFrame): c.__module__ = 'pandas.core'\n"
        )
        nan = "float('nan')"
        for code, want in {
            f"DataFrame({{'a': [1, 2], 5: [{nan}, NaTType()]}})": [{"a": 1, "5": None}, {"a": 2, "5": None}],
            "DataFrame({'a': [1]}, Index(['x']))": [{"index": "x", "a": 1}],
            "[Series([1, 2]), Series([1], Index(['x']))]": [[1, 2], {"x": 1}],
            "Index(['x', 'y'])": ["x", "y"],
        }.items():
            with self.subTest(code):
                reply = h.run(f"save_memory('v', {code})")
                self.assertEqual(reply.status, "ok", reply.error)
                self.assertEqual(self.store.kept["global", "v"][-1]["value"], want)
        for code, text in {
            "{'t': DataFrame({'a': list(range(60000))})}": "value['t']: a data frame of 60000 rows and 1 columns is",
            "DataFrame({'a': [1], 'b': [b'x']})": "value[0]['b']: a value of type bytes",
            "DataFrame({1: [1], '1': [2]})": "two columns of one name",
        }.items():
            with self.subTest(code):
                self.assertIn(text, h.run(f"save_memory('v', {code})").error["message"])

    def test_arguments_are_checked(self) -> None:
        h = self.one()
        for code, want in {
            "save_memory(5, 1)": "TypeError: key: pass a str, not int",
            "save_memory('\\ud800', 1)": "ValueError: key: the character at 0 is half of one",
            "save_memory('k', 1, 'tag')": "TypeError: metadata: pass a dict",
            "save_memory('k')": "TypeError: ",
            "update_memory('k', 5)": "TypeError: pass a function of the old value, or a dict",
            "save_memory('k', 5); update_memory('k', {'a': 1})": "TypeError: the memory is no dict but int",
            "load_memory('broken')": "MCPError: its file can't be read",
        }.items():
            with self.subTest(code):
                error = h.run(code).error
                self.assertIn(want, f"{error['type'].rpartition('.')[2]}: {error['message']}")

    def test_they_say_what_they_are(self) -> None:
        h = self.one()
        for code, want in {
            "import inspect; str(inspect.signature(load_memory))": "default: Any = None, *, scope: str = 'global')",
            "load_memory.__doc__": "The value under a key",
            "load_memory.__name__": "load_memory",
            "from mcp import runtime; [n in dir(runtime) for n in ('save_memory', 'load_memory_sync')]": "[True, True]",
            "runtime.capability_summary()": "save_memory(key, value",
        }.items():
            with self.subTest(code):
                self.assertIn(want, self.value(h, code) or "")

    def test_one_that_is_never_awaited_is_told(self) -> None:
        h = self.one()
        reply = h.run("from mcp import runtime\nx = runtime.save_memory_async('k', 1)")
        self.assertIn("save_memory_async", reply.notices)
        self.assertEqual(self.store.asked, [])

    def test_files_are_shown_as_the_daemon_tells_and_after_each_change(self) -> None:
        h = self.one()
        memory = os.path.join(self.projects, "memory")

        def told(code: str, news: Frame) -> str | None:
            h.runs += 1
            h.send({"t": "run", "run": h.runs, "code": code, "servers": [], "told": {"memory": news}})
            reply = h.finish()
            self.assertEqual(reply.status, "ok", reply.error)
            return reply.value

        walk = f"[(d, f) for d, _, fs in os.walk({memory!r}) for f in fs]"
        look = f"import os\nsorted(os.path.relpath(os.path.join(d, f), {memory!r}) for d, f in {walk})"
        self.assertEqual(told(look, {"files": {"a.json": "1", "project/b.json": "2"}}), "['a.json', 'project/b.json']")
        self.assertEqual(
            told(look, {"files": {"c.json": "3"}, "gone": ["a.json", "never.json"]}), "['c.json', 'project/b.json']"
        )
        self.assertEqual(
            self.value(h, f"save_memory('k', 5, scope='project'); open({memory!r} + '/project/k.json').read()"), "'5'"
        )
        self.assertEqual(self.value(h, "delete_memory('k', scope='project'); " + look), "['c.json', 'project/b.json']")
        for path, mode in {"": 0o555, "project": 0o555, "c.json": 0o444}.items():
            self.assertEqual(os.stat(os.path.join(memory, path)).st_mode & 0o777, mode, path)

    def test_a_folder_that_code_has_spoiled_is_told_once(self) -> None:
        h = self.one()
        h.run(f"open({self.projects!r} + '/memory', 'w').close()")
        first, second = h.run("save_memory('k', 1)"), h.run("save_memory('k', 2)")
        self.assertEqual((first.status, second.status), ("ok", "ok"))
        self.assertIn("does not show all memories", first.notices)
        self.assertEqual(second.notices, "")

    def test_without_a_folder_for_projects_all_else_works(self) -> None:
        h = self.harness(projects="/nowhere/at/all")
        h.answer = self.store
        self.assertEqual(self.value(h, "save_memory('k', 1)"), "\"saved 'k', version 1\"")


def _open_up(path: str) -> None:
    """Lets a folder be removed by whoever is not root."""
    for folder, _, _ in os.walk(path):
        os.chmod(folder, 0o755)
