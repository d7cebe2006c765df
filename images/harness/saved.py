"""Saved tools: functions that outlive their session, by name in every later one.

The daemon keeps each as a file. A session knows their names; what a file says
is asked for when a tool is used, and again in each later run that uses it, so
that what a person has changed counts, and what is broken breaks nothing else.
"""

from __future__ import annotations

import asyncio.coroutines
import builtins
import functools
import importlib.machinery
import inspect
import keyword
import linecache
import re
import sys
import types
from collections.abc import Iterator
from typing import Any, Callable

from .errors import MCPError
from .lift import Lift, Lifted, name_of
from .mcpmod import Abouts
from .memory import is_awaited
from .proxies import Server
from .rpc import Client
from .texts import Unsavable
from .tools import Tools
from .wire import getpid

PACKAGE = "user_tools"  # the module of all saved tools, and of the file that may hold many

_MAX_NAME = 64
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_SERVERS = re.compile(r"\bmcp\.servers\.(\w+)")
_signature = inspect.signature


class BrokenTool(ImportError):
    """A saved tool that can't be used as its file is now."""


class _File:
    """One file of saved tools: what it said when it was last asked for, and the module that came of it."""

    def __init__(self, shelf: Shelf, name: str) -> None:
        self._shelf, self.name = shelf, name
        self.path, self.version = "", 0
        self._digest = ""
        self._module: types.ModuleType | None = None
        self._turn = -1  # when the file was last asked for
        self._given: dict[str, Any] = {}  # what the session lends the module
        self.left_out: dict[str, SyntaxError] = {}  # what is broken of a file of many tools

    def forget(self) -> None:
        """Has the file asked for again at the next use."""
        self._turn = -1

    def module(self) -> types.ModuleType:
        """The module, as of this run. Raises BrokenTool, and MCPError if there is no such file."""
        turn = self._shelf.turn
        if self._module is not None and (self._turn == turn or self._shelf.is_forked()):
            return self._module
        answer = self._shelf.ask("saved.read", {"name": self.name, "digest": self._digest})
        if answer.get("same") and self._module is not None:
            self._lend(self._module, ())
        else:
            self._module, self._digest = None, ""
            self.path, self.version = answer["path"], answer.get("version") or 0
            self._module = self.run(answer["source"], self.path)
            self._digest = answer["digest"]
        self._turn = turn
        return self._module

    def run(self, text: str, path: str) -> types.ModuleType:
        """Makes a module of a text."""
        linecache.cache[path] = (len(text), None, text.splitlines(True), path)
        module = types.ModuleType(f"{PACKAGE}.{self.name}")
        module.__file__ = path
        try:
            code = self._compile(text, path)
            self._given = {}
            self._lend(module, _names_in(code), _SERVERS.findall(text))
            sys.modules[module.__name__] = module
            exec(code, module.__dict__)
        except Exception as e:
            sys.modules.pop(module.__name__, None)
            raise self.broken(e, path) from e
        return module

    def _compile(self, text: str, path: str) -> types.CodeType:
        """The code of a text; of a file of many tools, without those that are broken."""
        self.left_out = {}
        try:
            return compile(text, path, "exec", dont_inherit=True)
        except SyntaxError:
            if self.name != PACKAGE:
                raise
        lines = text.split("\n")
        for begin, end in _pieces(lines):
            piece = "\n" * begin + "\n".join(lines[begin:end])
            try:
                compile(piece, path, "exec", dont_inherit=True)
            except SyntaxError as e:
                self.left_out.update(dict.fromkeys(_DEFINED.findall(piece), e))
                lines[begin:end] = [""] * (end - begin)
        return compile("\n".join(lines), path, "exec", dont_inherit=True)

    def _lend(self, module: types.ModuleType, wanted: Any, servers: Any = ()) -> None:
        """Gives a module the names that every session has, and loads the servers that it speaks of."""
        for name in wanted:
            self._given.setdefault(name, None)
        aliases = [name[len("mcp_") :] for name in self._given if name.startswith("mcp_") and name != "mcp_servers"]
        self._shelf.load([*aliases, *servers])
        names = module.__dict__
        for name, before in self._given.items():
            value = self._shelf.names.get(name)
            if isinstance(value, Saved) and value._file is self:
                continue  # the module defines it, or is broken
            if value is not None and names.get(name) is before:
                names[name] = self._given[name] = value

    def broken(self, error: Exception, path: str) -> BrokenTool:
        """What to say of a file, or of a part, that Python refuses."""
        line = error.lineno if isinstance(error, SyntaxError) else _line_in(error, path)
        where = f"{path}, line {line}" if line else path
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        back = f"restore_tool({self.name!r}) for the version before, " if self.name != PACKAGE else ""
        broken = BrokenTool(
            f"{where}: {type(error).__name__}: {why}. Other tools still work. To mend it: save_tool a function of that "
            f"name, {back}or have the file corrected."
        )
        broken.name, broken.path = self.name, path
        return broken


_DEFINED = re.compile(r"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", re.M)


def _pieces(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Where the parts of a text begin and end that begin at its margin, decorators with what they decorate."""
    begin, decorated = 0, False
    for at, line in enumerate(lines):
        if line[:1].strip() and line[0] not in "#)]}":
            if not decorated and at > begin:
                yield begin, at
                begin = at
            decorated = line[0] == "@"
    yield begin, len(lines)


def _names_in(code: types.CodeType) -> set[str]:
    """All names that code uses, attributes among them."""
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names |= _names_in(const)
    return names


def _line_in(error: BaseException, path: str) -> int:
    """The last line of a file in an exception's traceback, 0 if there is none."""
    line, tb = 0, error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == path:
            line = tb.tb_lineno
        tb = tb.tb_next
    return line


class Saved:
    """A saved tool, as a function. It is looked for when it is used."""

    def __init__(self, file: _File, name: str) -> None:
        self._file, self.__name__ = file, name
        self.__qualname__, self.__module__ = name, PACKAGE

    def _function(self) -> Any:
        module = self._file.module()
        try:
            return vars(module)[self.__name__]
        except KeyError:
            error = self._file.left_out.get(self.__name__)
        if error is not None:
            raise self._file.broken(error, self._file.path) from error
        raise BrokenTool(
            f"{self._file.path} defines no {self.__name__}: a file of saved tools defines the function that it is "
            f"named for. save_tool a function of that name, or have the file corrected or renamed."
        )

    def _known(self) -> Any:
        """The function, None if it can't be had."""
        try:
            return self._function()
        except (BrokenTool, MCPError):
            return None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._function()(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a function: what a class holds becomes a method."""
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return getattr(self._function(), name)

    @property
    def __wrapped__(self) -> Any:
        return self._attribute("__wrapped__", lambda f: f)

    @property
    def __signature__(self) -> inspect.Signature:
        found: inspect.Signature = self._attribute("__signature__", _signature)
        return found

    def _attribute(self, name: str, of: Callable[[Any], Any]) -> Any:
        function = self._known()
        if function is None:
            raise AttributeError(name)
        return of(function)

    def _help(self) -> str | None:
        try:
            doc: str | None = self._function().__doc__
            return doc
        except (BrokenTool, MCPError) as e:
            return f"This saved tool can't be used now: {e}"

    __doc__ = property(_help)

    def _mark(self) -> Any:
        """What tells asyncio that it is to be awaited."""
        return _MARKS[0] if inspect.iscoroutinefunction(self._known()) else None

    def _marker(self) -> Any:
        """What tells inspect that it is to be awaited."""
        return _MARKS[1] if inspect.iscoroutinefunction(self._known()) else None

    _is_coroutine, _is_coroutine_marker = property(_mark), property(_marker)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, self._function())

    def __mro_entries__(self, bases: Any) -> tuple[Any, ...]:
        return (self._function(),)

    def __reduce__(self) -> str:
        return self.__name__  # as a function is pickled: by its name in its module

    def __copy__(self) -> Saved:
        return self

    def __deepcopy__(self, memo: Any) -> Saved:
        return self

    def __repr__(self) -> str:
        return f"<saved tool {self.__name__}>"


_MARKS = getattr(asyncio.coroutines, "_is_coroutine", None), getattr(inspect, "_is_coroutine_mark", None)


class JustSaved(Saved):
    """What save_tool gives: the tool, which tells where it is."""

    told = ""

    def __repr__(self) -> str:
        return f"<saved tool {self.told}>"


class _Row(dict):  # type: ignore[type-arg]
    """What is known of a saved tool, in two lines."""

    def __repr__(self) -> str:
        facts = [f"version {self['version']}"] if self.get("version") else []
        facts += ["edited"] if self.get("edited") else []
        facts += [f"uses mcp_{', mcp_'.join(self['servers'])}"] if self.get("servers") else []
        about = self.get("problem") or self.get("description") or ""
        first = f"{self.get('signature') or self['name']}: {about}".rstrip(": ")
        return f"{first}\n    {', '.join([*facts, str(self.get('file') or '')])}"


def _either(method: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a method work with await and without."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        value = method(self, *args, **kwargs)
        return _given(value) if is_awaited(sys._getframe(1)) else value

    return call


async def _given(value: Any) -> Any:
    return value


class Shelf:
    """The saved tools, as a session has them."""

    def __init__(self, client: Client, tools: Tools, names: dict[str, Any]) -> None:
        """names are what every session has by name, to which those of the tools are added."""
        self._client, self._tools, self.names = client, tools, names
        self._pid = getpid()
        self._files: dict[str, _File] = {}
        self._stubs: dict[str, Saved] = {}
        self.turn = 0  # counts the runs
        self._lend: Callable[[], None] = lambda: None
        self._main: dict[str, Any] = {}

    def functions(self) -> dict[str, Any]:
        """What code calls, by name."""
        calls = (self.save_tool, self.list_tools_saved, self.tool_source, self.restore_tool, self.delete_tool)
        return {f.__name__: f for f in calls}

    def start(self, lend: Callable[[], None], main: dict[str, Any]) -> None:
        """Makes the tools importable.

        lend gives code that runs the names of servers that were just loaded; main
        are that code's names.
        """
        self._lend, self._main = lend, main
        sys.meta_path.append(_Finder(self))

    def is_forked(self) -> bool:
        """Reports whether this is a child, which can ask the daemon nothing."""
        return getpid() != self._pid

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        return self._client.call_sync(method, params)

    def load(self, aliases: list[str]) -> None:
        """Loads servers that a tool uses. One that can't be is told of when it is used."""
        for alias in aliases:
            if alias not in self._tools.servers:
                try:
                    self._tools.add(self.ask("servers.load", {"names": [alias]}).get("loaded") or [])
                    self._lend()
                except MCPError:
                    pass

    def begin(self) -> None:
        """Begins a run: what files say may be another by now."""
        self.turn += 1

    def hear(self, listed: list[str]) -> None:
        """Takes the names of the tools that there are by now from the daemon: "tool", or "file.tool"."""
        stubs: dict[str, Saved] = {}
        for entry in listed:
            file, _, name = entry.rpartition(".")
            if not self._shadows(name):
                stubs.setdefault(name, self._stub(file or name, name))
        for name in [n for n in self._stubs if n not in stubs]:
            self._remove(name)
        self._stubs = stubs
        self.names.update(stubs)

    def _stub(self, file: str, name: str) -> Saved:
        known = self._stubs.get(name)
        if known is not None and known._file.name == file:
            return known
        return Saved(self._files.setdefault(file, _File(self, file)), name)

    def _remove(self, name: str) -> None:
        stub = self._stubs.pop(name, None)
        for names in (self.names, self._main):
            if stub is not None and names.get(name) is stub:
                del names[name]

    def _shadows(self, name: str) -> str:
        """What a tool of that name would hide, "" for nothing."""
        if name.startswith("mcp_") or name in ("mcp", PACKAGE):
            return "the names of MCP servers" if name != PACKAGE else "the module of saved tools"
        if hasattr(builtins, name):
            return f"Python's own {name}"
        if name in self.names and name not in self._stubs:
            return f"the helper {name} of this sandbox"
        return ""

    def find(self, name: str) -> Saved:
        """A tool by name. Raises KeyError."""
        return self._stubs[name]

    def __iter__(self) -> Any:
        return iter(sorted(self._stubs))

    def rest(self) -> types.ModuleType | None:
        """The module of the file that holds many, None if there is none."""
        if not any(stub._file.name == PACKAGE for stub in self._stubs.values()):
            return None
        return self._files[PACKAGE].module()

    def _check(self, name: str) -> None:
        if keyword.iskeyword(name) or not _NAME.match(name) or len(name) > _MAX_NAME:
            raise Unsavable(
                f"{name} can't be the name of a saved tool: it is a letter, then letters, digits and _, at most "
                f"{_MAX_NAME} in all, and no keyword. Rename the function."
            )
        hidden = self._shadows(name)
        if hidden:
            raise Unsavable(f"a saved tool named {name} would hide {hidden} in every session: rename the function.")

    def _kind(self, name: str, value: Any) -> str:
        """What every session has by a name: "tool", "server", "helper", or "" for nothing."""
        if name.startswith("mcp_") and name != "mcp_servers":
            return "server" if value is None or isinstance(value, Server) else ""
        if name in self._stubs:
            return "tool" if value is None or value is self._stubs[name] else ""
        if name in self.names and (value is None or value is self.names[name] or value == self.names[name]):
            return "helper"
        return ""

    @_either
    def save_tool(self, func: Any, description: str | None = None, *, version: int | None = None) -> Any:
        """Keeps a function with all that it needs: every later session has it by its name, without an import.

        What can't be kept raises ValueError, which says what to change. A tool of
        that name gets a new version; version=3 saves only if the last is the third.
        """
        if isinstance(func, Saved):
            raise Unsavable(f"{func.__name__} is a saved tool already: define a function of that name to change it.")
        name = name_of(func)
        self._check(name)
        lifted = Lift(self._kind, self.save_tool).take(func)
        self._try(lifted)
        asked = {"name": name, "source": lifted.text, "description": description, "version": version}
        answer = self.ask("saved.save", {key: value for key, value in asked.items() if value is not None})
        return self._saved(name, answer)

    def _try(self, lifted: Lifted) -> None:
        """Runs a text as later sessions will, so that what fails does so now."""
        try:
            module = _File(self, lifted.name).run(lifted.text, f"<saved {lifted.name}>")
        except BrokenTool as e:
            cause = e.__cause__
            raise Unsavable(
                f"{lifted.name} does not load on its own: {type(cause).__name__}: {cause}. Change the function so that "
                f"this works, which is what later sessions get:\n{lifted.text}"
            ) from None
        sys.modules.pop(module.__name__, None)

    def _saved(self, name: str, answer: dict[str, Any]) -> JustSaved:
        file = self._files.setdefault(name, _File(self, name))
        file.forget()
        self._stubs[name] = self.names[name] = Saved(file, name)
        out = JustSaved(file, name)
        before = f"; version {answer['replaced']} is kept" if answer.get("replaced") else ""
        out.told = f"{name}: version {answer['version']}, {answer['path']}{before}"
        return out

    @_either
    def list_tools_saved(self) -> Abouts:
        """The saved tools: name, signature, description, version and versions, when it was saved, file, problem."""
        rows = self.ask("saved.list", {})["tools"]
        for row in rows:
            hidden = "" if row["name"] in self._stubs else self._shadows(row["name"])
            if hidden:
                row["problem"] = f"it is not there by name, since it would hide {hidden}: have the file renamed"
        return Abouts(map(_Row, rows))

    @_either
    def tool_source(self, name: Any, version: int | None = None) -> str:
        """The file of a saved tool, as it is or was in a version."""
        asked = {"name": _named(name)} if version is None else {"name": _named(name), "version": version}
        source: str = self.ask("saved.read", asked)["source"]
        return source

    @_either
    def restore_tool(self, name: Any, version: int | None = None) -> Any:
        """Makes an earlier version the newest, by default the one before the last; of a deleted tool, the last."""
        asked = {"name": _named(name)} if version is None else {"name": _named(name), "version": version}
        return self._saved(_named(name), self.ask("saved.restore", asked))

    @_either
    def delete_tool(self, name: Any) -> str:
        """Deletes a saved tool. Its versions are kept for a while: restore_tool brings it back."""
        name = _named(name)
        answer = self.ask("saved.delete", {"name": name})
        self._remove(name)
        return f"{name} is deleted; restore_tool({name!r}) brings version {answer['version']} back."


def _named(tool: Any) -> str:
    """The name of a tool that is given by it, or by the tool itself."""
    return tool if isinstance(tool, str) else str(getattr(tool, "__name__", tool))


class _Package(types.ModuleType):
    """`user_tools`: its attributes are the saved tools, and what else the file user_tools.py defines."""

    def __getattr__(self, name: str) -> Any:
        shelf: Shelf = self.__dict__["_shelf"]
        if name == "__all__":
            return list(shelf)
        try:
            return shelf.find(name)
        except KeyError:
            rest = None if name.startswith("__") else shelf.rest()
        if rest is not None and name in vars(rest):
            return vars(rest)[name]
        raise AttributeError(f"there is no saved tool {name}: list_tools_saved() has them")

    def __dir__(self) -> list[str]:
        return list(self.__dict__["_shelf"])


class _Finder:
    """Makes `import user_tools` work, and `import user_tools.<tool>`."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name == PACKAGE or (name.startswith(PACKAGE + ".") and name[len(PACKAGE) + 1 :] in self._shelf._stubs):
            loader: Any = self
            return importlib.machinery.ModuleSpec(name, loader, is_package=name == PACKAGE)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        if spec.name == PACKAGE:
            module = _Package(PACKAGE, "The saved tools.")
            module.__dict__["_shelf"] = self._shelf
            return module
        return self._shelf.find(spec.name[len(PACKAGE) + 1 :])._file.module()

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run: create_module made it whole."""
