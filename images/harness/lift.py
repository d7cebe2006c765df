"""Takes a function out of its session, with all that it needs, as the text of a file.

What it needs is looked for by name: the imports, helper functions, classes and
constants that its code and its decorators use, and what these use in turn. What
can't be told in a file is refused, with what to change.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import functools
import inspect
import sys
import types
from typing import Any, Callable

from .texts import (
    EMPTY,
    Def,
    Unsavable,
    assignment,
    evaluated,
    literal,
    literally,
    refuse,
    repeatable,
    replaced,
    same,
    texts,
    used,
)
from .trace import is_own

MAX_CONSTANT = 10_000  # characters of one constant's text
_MAX_DEPTH = 100  # of what needs what
_BLOCKS = ("def ", "async def ", "class ", "@")
_MAX_WRAPPERS = 10  # decorators around one function


class Lifted:
    """What was taken out: the text of a file that defines name, and what it expects of a session."""

    def __init__(self, name: str, text: str, servers: list[str], tools: list[str]) -> None:
        self.name, self.text, self.servers, self.tools = name, text, servers, tools


def name_of(func: Any) -> str:
    """The name under which a function is to be saved. Raises Unsavable if it is none that can be."""
    if isinstance(func, type):
        refuse(f"{func.__name__} is a class; save a function that makes and uses it: the class is saved with it.")
    if isinstance(func, functools.partial):
        refuse("a functools.partial can't be saved: write a function with def that calls it, and save that.")
    if inspect.ismethod(func):
        refuse(f"{func.__name__} is a method of an object: write a function with def that makes what it needs.")
    if hasattr(func, "dispatch") and hasattr(func, "registry"):
        refuse("a singledispatch function is spread over many: write one function that tells the types apart.")
    inner = _innermost(func)
    if inner is None:
        refuse(f"save_tool takes a function that was written with def in this session, not {_kind(func)}.")
    name: str = inner.__name__
    if name == "<lambda>":
        refuse("a lambda has no name to be saved under: write it as `def name(...): return ...`.")
    return name


def _kind(value: Any) -> str:
    """A value in the words of a message."""
    kind = type(value)
    if isinstance(value, types.ModuleType):
        return f"the module {value.__name__}"
    if isinstance(value, (types.BuiltinFunctionType, types.FunctionType)):
        return f"the function {value.__name__} of a library"
    return f"a {kind.__name__}" if kind.__module__ == "builtins" else f"a {kind.__module__}.{kind.__name__}"


def _own_function(value: Any) -> types.FunctionType | None:
    """The value, if it is a function that the session's own code defines."""
    if isinstance(value, types.FunctionType) and is_own(value.__code__.co_filename):
        return value
    return None


def _innermost(value: Any) -> types.FunctionType | None:
    """The function that was written with def, under its decorators; None if the session has none."""
    func = _own_function(_unwrapped(value))
    if func is None:
        return None
    return _decorated(func) or func


def _unwrapped(value: Any) -> Any:
    """What is under decorators that use functools.wraps."""
    for _ in range(_MAX_WRAPPERS):
        wrapped = getattr(value, "__wrapped__", None)
        if wrapped is None:
            break
        value = wrapped
    return value


def _decorated(wrapper: types.FunctionType) -> types.FunctionType | None:
    """The function around which a decorator that uses no functools.wraps has put wrapper."""
    todo, seen = [wrapper], {id(wrapper)}
    while todo and len(seen) < _MAX_WRAPPERS:
        for cell in todo.pop().__closure__ or ():
            held = _content(cell, None)
            inner = _own_function(_unwrapped(held))
            if inner is None or id(held) in seen:
                continue
            seen.add(id(held))
            if inner.__globals__.get(inner.__code__.co_name) is wrapper:
                return inner
            todo.append(inner)
    return None


def _content(cell: Any, default: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return default  # empty


class Lift:
    """Takes one function out. Use one for each."""

    def __init__(self, given: Callable[[str, Any], str], saver: Any = None) -> None:
        """given says of a name and its value what every session has by it: "", "tool", "server" or "helper".

        A decorator whose value is saver is left out of the text.
        """
        self._given, self._saver = given, saver
        self._taken: dict[str, Any] = {}
        self._imports: dict[str, None] = {}  # in order
        self._futures: set[str] = set()
        self._parts: list[str] = []  # what is needed before what needs it
        self._servers: set[str] = set()
        self._tools: set[str] = set()
        self._depth = 0

    def take(self, func: Any) -> Lifted:
        """The text of a file with func and what it needs. Raises Unsavable."""
        name = name_of(func)
        inner = _innermost(func)
        assert inner is not None  # name_of has looked
        self._taken[name] = func
        self._function(name, func, inner)
        text = "\n".join(self._head())
        for part in self._parts:
            blocks = part.startswith(_BLOCKS) or text.rpartition("\n")[2].startswith((" ", *_BLOCKS))
            text += ("\n\n\n" if blocks else "\n" if part is not self._parts[0] else "\n\n") + part
        return Lifted(name, text.strip("\n") + "\n", sorted(self._servers), sorted(self._tools))

    def _head(self) -> list[str]:
        futures = [f"from __future__ import {name}" for name in sorted(self._futures)]
        imports = list(self._imports)
        return [*futures, *([""] if futures and imports else []), *imports]

    def _function(self, name: str, value: Any, func: types.FunctionType) -> None:
        """Adds a function's def, after what it needs."""
        where = Def(func)
        self._check(func, value, where.node)
        text = self._undecorated(where, func)
        text = self._defaults(text, func)
        if func.__code__.co_flags & __future__.annotations.compiler_flag:
            self._futures.add("annotations")
        free = dict(zip(func.__code__.co_freevars, (_content(c, EMPTY) for c in func.__closure__ or ())))
        self._needs(text, func.__name__, free, func.__globals__)
        self._parts.append(text + self._attributes(name, value, func))

    def _check(self, func: types.FunctionType, value: Any, node: Any) -> None:
        """Refuses what its def does not say all of."""
        name = func.__name__
        if value is not func and not node.decorator_list:
            refuse(f"{name} was wrapped after its def: put the decorator above the def, as @decorator, and save it.")
        outer = func.__qualname__.rpartition(".")[0]
        if outer and not outer.endswith("<locals>"):
            refuse(f"{name} is a method of the class {outer}: write a function with def that uses the class.")
        if "__class__" in func.__code__.co_freevars:
            refuse(
                f"{name} uses super() or __class__, as a method does: write a function that needs no class around it."
            )
        for inner in ast.walk(node):
            if isinstance(inner, ast.Nonlocal) and set(inner.names) & set(func.__code__.co_freevars):
                refuse(
                    f"{name} changes {', '.join(inner.names)} of the function around it (nonlocal): keep that in a "
                    f"global variable, or with save_memory if it shall outlast the session."
                )

    def _undecorated(self, where: Def, func: types.FunctionType) -> str:
        """The def's text without the decorator that saves it."""
        node: Any = ast.parse(where.text).body[0]
        lines = where.text.split("\n")
        for d in reversed(node.decorator_list):
            if self._saver is not None and evaluated(d, func.__globals__) == self._saver:
                del lines[d.lineno - 1 : d.end_lineno]
        return "\n".join(lines)

    def _attributes(self, name: str, value: Any, func: types.FunctionType) -> str:
        """Lines that set what was set on the function."""
        lines = []
        if value is not func:
            return ""  # its decorators have set them, and will again
        for key, what in vars(func).items():
            text = literal(what)
            if text is None:
                refuse(f"{name}.{key} is {_kind(what)}, which no file can hold: keep it in a global variable instead.")
            lines.append(f"\n{func.__name__}.{key} = {text}")
        return "\n" + "".join(lines) if lines else ""

    def _defaults(self, text: str, func: types.FunctionType) -> str:
        """The def with the values of defaults that its words would not give again."""
        node: Any = ast.parse(text).body[0]
        positional = [*node.args.posonlyargs, *node.args.args]
        values = func.__defaults__ or ()
        found = list(zip(positional[len(positional) - len(values) :], node.args.defaults, values)) if values else []
        keyword = func.__kwdefaults__ or {}
        found += [
            (arg, given, keyword[arg.arg])
            for arg, given in zip(node.args.kwonlyargs, node.args.kw_defaults)
            if given is not None and arg.arg in keyword
        ]
        edits = [(given, self._default(func, arg.arg, given, value)) for arg, given, value in found]
        for given, words in sorted(edits, key=lambda e: (e[0].lineno, e[0].col_offset), reverse=True):
            if words is not None:
                text = replaced(text, given, words)
        return text

    def _default(self, func: types.FunctionType, param: str, given: Any, value: Any) -> str | None:
        """What to write for a default, None if its own words do."""
        if evaluated(given, func.__globals__) is value:
            return None
        words = literal(value)
        if words is not None:
            said = literally(given)
            return None if said is not EMPTY and same(said, value) else words
        if "<locals>" not in func.__qualname__:
            return None
        refuse(
            f"the default of {func.__name__}'s parameter {param} is {_kind(value)}, which no file can hold: "
            f"make it None, and make what is meant inside the function."
        )

    def _needs(self, text: str, whose: str, free: dict[str, Any], names: dict[str, Any]) -> None:
        """Adds what a text uses of the names around it."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            refuse(f"{whose} needs what needs what needs more, {_MAX_DEPTH} times over: make it simpler.")
        named, hints = used(text, bool(self._futures))
        for name in sorted(named):
            self._name(name, whose, free, names, text)
        for name in sorted(hints - named):
            self._try(name, whose, free, names, text)
        self._depth -= 1

    def _try(self, name: str, *rest: Any) -> None:
        """As _name, for what only annotations use, which nothing evaluates: it may be missing."""
        before = dict(self._taken), dict(self._imports), list(self._parts), self._depth
        try:
            self._name(name, *rest)
        except Unsavable:
            self._taken, self._imports, self._parts, self._depth = before

    def _name(self, name: str, whose: str, free: dict[str, Any], names: dict[str, Any], text: str) -> None:
        if name in free:
            value = free[name]
            if value is EMPTY:
                refuse(f"{whose} uses {name} of the function around it, which has no value yet: save it later.")
        elif name in names:
            value = names[name]
        elif hasattr(builtins, name) or (name.startswith("__") and name.endswith("__")):
            return
        elif self._given(name, None):
            self._note(name, None)
            return
        else:
            refuse(f"{whose} uses {name}, which this session does not have: define or import it, then save again.")
        if isinstance(value, types.ModuleType):
            self._submodules(name, value, text)
        self._need(name, value, whose, {} if name in free else names)

    def _note(self, name: str, value: Any) -> bool:
        """Reports whether every session has a name, and notes which of them a tool counts on."""
        given = self._given(name, value)
        if given == "server":
            self._servers.add(name[len("mcp_") :])
        elif given == "tool":
            self._tools.add(name)
        return bool(given)

    def _need(self, name: str, value: Any, whose: str, names: dict[str, Any]) -> None:
        """Adds what gives a name its value. names are of the module that it is a global of, {} for none."""
        if name in self._taken:
            if name == next(iter(self._taken)) or self._taken[name] is value:
                return
            refuse(f"two different things are called {name} where {whose} is defined: rename one, and save again.")
        if self._note(name, value):
            return
        if name == "_":
            refuse(f"{whose} uses _, the last value of a call: pass it as a parameter.")
        self._taken[name] = value
        func = _innermost(value)
        if func is not None:
            self._as(name, func.__name__, value, whose, lambda: self._function(func.__name__, value, func))
        elif isinstance(value, type) and _is_own_class(value):
            self._as(name, value.__name__, value, whose, lambda: self._class(value))
        elif not (self._imported(name, value, names) or self._constant(name, value, whose, names)):
            refuse(_unsayable(name, value, whose))

    def _as(self, name: str, own: str, value: Any, whose: str, add: Callable[[], None]) -> None:
        """Adds a definition, and the other name that it goes by."""
        if own == name:
            add()
            return
        if not own.isidentifier():
            refuse(f"{whose} uses {name}, which is a lambda: write it as `def {name}(...): return ...`.")
        self._need(own, value, whose, {})
        self._parts.append(f"{name} = {own}")

    def _class(self, cls: type) -> None:
        """Adds a class of the session's."""
        name = cls.__name__
        module = sys.modules.get(cls.__module__)
        if "<locals>" in cls.__qualname__ or module is None:
            refuse(f"the class {name} is defined inside a function: define it outside, then save again.")
        codes = [f.__code__ for f in map(_own_function, vars(cls).values()) if f is not None]
        for text in texts(vars(module)):
            lines = [c.co_firstlineno for c in codes if c.co_filename == text.name]
            for node in text.statements():
                inside = isinstance(node, ast.ClassDef) and all(
                    node.lineno <= n <= (node.end_lineno or 0) for n in lines
                )
                if inside and getattr(node, "name", "") == name:
                    cut = text.cut(node)
                    self._needs(cut, name, {}, vars(module))
                    self._parts.append(cut)
                    return
        refuse(f"the source of the class {name} is not known: run it again, then save.")

    def _submodules(self, name: str, module: types.ModuleType, text: str) -> None:
        """Adds imports for modules in a package that a text reaches through its name."""
        for node in ast.walk(ast.parse(text)):
            path: list[str] = []
            while isinstance(node, ast.Attribute):
                path.insert(0, node.attr)
                node = node.value
            if not (path and isinstance(node, ast.Name) and node.id == name):
                continue
            dotted = module.__name__
            for part in path:
                dotted = f"{dotted}.{part}"
                if dotted not in sys.modules or dotted.startswith("mcp."):
                    break
                self._imports[f"import {dotted}"] = None

    def _imported(self, name: str, value: Any, names: dict[str, Any]) -> bool:
        """Adds the import that gives a name its value, if there is one."""
        statement = _import_of(name, value, names) or _import_by(name, value)
        if statement is None:
            return False
        self._imports[statement] = None
        return True

    def _constant(self, name: str, value: Any, whose: str, names: dict[str, Any]) -> bool:
        """Adds an assignment that gives a name its value, as it is now."""
        assigned = assignment(name, names)
        if assigned is not None:
            text, expression = assigned
            said = literally(expression)
            if said is not EMPTY and same(said, value) and len(text) <= MAX_CONSTANT:
                self._parts.append(text)
                return True
        words = literal(value)
        if words is not None and len(words) > MAX_CONSTANT:
            refuse(
                f"{whose} uses {name}, which is {len(words)} characters of data: pass it as a parameter, or keep "
                f"it with save_memory({name!r}, {name}) and have the function call load_memory({name!r})."
            )
        if words is not None:
            self._parts.append(f"{name} = {words}")
            return True
        if assigned is None or _is_data(value) or not repeatable(assigned[1]):
            return False
        self._needs(assigned[0], name, {}, names)
        self._parts.append(assigned[0])
        return True


def _is_own_class(cls: type) -> bool:
    module = sys.modules.get(cls.__module__)
    return cls.__module__ == "__main__" or (module is not None and not _lasting(module))


def _lasting(module: Any) -> bool:
    """Reports whether later sessions can import a module too."""
    path = getattr(module, "__file__", None)
    if path is None:
        return str(module.__name__) != "__main__"  # built in, or the harness's own
    return not is_own(path)


def _import_of(name: str, value: Any, names: dict[str, Any]) -> str | None:
    """The import statement by which a name got its value, from the texts that bind names."""
    for text in texts(names) if names else ():
        for node in text.statements():
            if isinstance(node, ast.Import):
                for a in node.names:
                    bound = a.asname or a.name.partition(".")[0]
                    if bound == name and sys.modules.get(a.name if a.asname else bound) is value and _lasting(value):
                        return f"import {a.name} as {name}" if a.asname else f"import {bound}"
            if isinstance(node, ast.ImportFrom) and not node.level and node.module != "__future__":
                for a in node.names:
                    if name in (a.asname or a.name, name if a.name == "*" else ""):
                        found = _from(str(node.module), name if a.name == "*" else a.name, name, value)
                        if found is not None:
                            return found
    return None


def _from(module: str, attribute: str, name: str, value: Any) -> str | None:
    """The from-import that gives a name its value, None if that one does not, or can't in later sessions."""
    found = sys.modules.get(module)
    if found is None or not _lasting(found) or getattr(found, attribute, EMPTY) is not value:
        return None
    if isinstance(value, types.ModuleType) and not _lasting(value):
        return None
    return f"from {module} import {attribute}" + (f" as {name}" if attribute != name else "")


def _import_by(name: str, value: Any) -> str | None:
    """An import statement by what a value says of itself."""
    if isinstance(value, types.ModuleType):
        if sys.modules.get(value.__name__) is not value or not _lasting(value):
            return None
        return f"import {value.__name__}" + (f" as {name}" if value.__name__ != name else "")
    if not isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return None
    module, own = getattr(value, "__module__", None), getattr(value, "__name__", "")
    return _from(str(module), own, name, value) if own.isidentifier() else None


_DATA = (
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "torch",
    "scipy",
    "PIL",
    "matplotlib",
    "_io",
    "socket",
    "sqlite3",
    "asyncio",
    "_asyncio",
)


def _is_data(value: Any) -> bool:
    """Reports whether a value is what a call has come to, rather than what the code is about."""
    kind = type(value)
    iterates = hasattr(kind, "__next__") or hasattr(kind, "__await__") or hasattr(kind, "__anext__")
    return iterates or kind.__module__.partition(".")[0] in _DATA or kind.__module__.startswith("bridged_harness")


def _unsayable(name: str, value: Any, whose: str) -> str:
    if isinstance(value, types.ModuleType):
        return (
            f"{whose} uses the module {name}, a file of this session which later ones do not have "
            f"({getattr(value, '__file__', '')}): define what it uses in a call, then save again."
        )
    return (
        f"{whose} uses {name}, {_kind(value)} that only this session has: pass it as a parameter, "
        f"or make it inside the function."
    )
