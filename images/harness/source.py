"""Turns the text of a call into code, and keeps the text for tracebacks."""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
import re
import textwrap
import types
from collections import deque
from typing import Any

# What the file names of calls begin with: "<run 7>" is the seventh.
CALL = "<run "

_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_FUTURES = {name: getattr(__future__, name).compiler_flag for name in __future__.all_feature_names}

# What is kept of old calls' source, in characters. Functions of older calls
# still run; only tracebacks and inspect lack their lines.
MAX_KEPT = 16 << 20

_FENCE = re.compile(r"\s*```[a-zA-Z0-9_+-]*[ \t]*\n(.*?)\n?```\s*", re.DOTALL)
_HINTS = (
    (re.compile(r"^\s*[!%]\s*pip\s"), "there is no network here, so nothing can be installed"),
    (re.compile(r"^\s*!"), "this is no notebook: use subprocess.run([...]) for commands"),
    (re.compile(r"^\s*%"), "this is no notebook: it has no %magic commands"),
    (re.compile(r"[\u2018\u2019\u201c\u201d]"), "use straight quotes"),
)


class Compiler:
    """Compiles one call after the other; a `from __future__` holds for all later ones."""

    def __init__(self) -> None:
        self._flags = _AWAIT

    def compile(self, number: int, code: str) -> tuple[types.CodeType, types.CodeType | None]:
        """Compiles code; the second part is its last expression, None if it has none to show.

        The source is registered, so that tracebacks and inspect show it.
        """
        code = _clean(code)
        name = f"{CALL}{number}>"
        _kept.add(name, code)
        try:
            return self._compile(name, code)
        except SyntaxError as e:
            _complete(e, code)
            raise

    def _compile(self, name: str, code: str) -> tuple[types.CodeType, types.CodeType | None]:
        tree = compile(code, name, "exec", ast.PyCF_ONLY_AST | self._flags, True)
        self._flags |= _futures(tree)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not _muted(code, tree.body[-1]):
            node = tree.body.pop()
            last = compile(ast.Expression(node.value), name, "eval", self._flags, True)
        return compile(tree, name, "exec", self._flags, True), last


def _futures(tree: ast.Module) -> int:
    """The compiler flags of the __future__ imports at the top of a module. A bad one fails when it is compiled."""
    flags = 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for name in node.names:
                flags |= _FUTURES.get(name.name, 0)
    return flags


def _clean(code: str) -> str:
    """Undoes what pasting does: a BOM, foreign line ends, a fence, an even indent."""
    code = code.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
    fenced = _FENCE.fullmatch(code)
    if fenced:
        code = fenced.group(1)
    if code.lstrip("\n")[:1] in (" ", "\t"):
        code = textwrap.dedent(code)
    return code


class _Kept:
    """The sources that linecache holds, oldest first."""

    def __init__(self) -> None:
        # Python 3.13 keeps the program of -c, and would show its lines for all that exec() runs.
        getattr(linecache, "_interactive_cache", {}).clear()
        self._sizes: deque[tuple[str, int]] = deque()
        self._total = 0

    def add(self, name: str, code: str) -> None:
        """Registers a source, so that tracebacks and inspect show it, and drops old ones past the bound."""
        if type(linecache.cache) is not dict:
            linecache.cache = {}  # code has broken it
        lines = (code + "\n").splitlines(True)  # as of a file: carets are counted from its line's end
        linecache.cache[name] = (len(code), None, lines, name)  # no mtime: never dropped as stale
        self._sizes.append((name, len(code)))
        self._total += len(code)
        while self._total > MAX_KEPT and len(self._sizes) > 1:
            old, size = self._sizes.popleft()
            self._total -= size
            linecache.cache.pop(old, None)

    def find(self, pattern: re.Pattern[str]) -> str | None:
        """The newest source that has the pattern."""
        for name, _ in reversed(self._sizes):
            entry: Any = linecache.cache.get(name)
            if entry is not None and pattern.search("".join(entry[2])):
                return name
        return None

    def names(self) -> list[str]:
        """The calls whose source is kept, newest first."""
        return [name for name, _ in reversed(self._sizes)]


_kept = _Kept()
_getfile = inspect.getfile


def getfile(value: Any) -> str:
    """As inspect.getfile, and knows the calls that classes were defined in."""
    if inspect.isclass(value) and getattr(value, "__module__", None) == "__main__":
        found = _call_of(value)
        if found is not None:
            return found
    return _getfile(value)


def calls() -> list[str]:
    """The file names of the calls whose source is kept, newest first."""
    return _kept.names()


def text_of(filename: str) -> str | None:
    """The source of a call, or of a file; None if it is not known."""
    if filename.startswith("<") and not filename.startswith(CALL):
        return None  # all that exec() runs has such a name
    lines = linecache.getlines(filename)
    return "".join(lines) if lines else None


def _call_of(cls: type) -> str | None:
    """The call that a class was defined in: its methods know, else the newest that defines the name."""
    for member in vars(cls).values():
        member = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "__func__", member))
        code = getattr(member, "__code__", None)
        if isinstance(code, types.CodeType) and code.co_filename.startswith(CALL):
            return code.co_filename
    return _kept.find(re.compile(rf"^[ \t]*class[ \t]+{re.escape(cls.__name__)}\b", re.M))


def _complete(error: SyntaxError, code: str) -> None:
    """Adds the line, which Python looks for in a file, and advice where the line tells what was meant."""
    lines = code.split("\n")
    if error.text is None and error.lineno is not None and 0 < error.lineno <= len(lines):
        error.text = lines[error.lineno - 1]
    line = error.text or ""
    for pattern, advice in _HINTS:
        if pattern.search(line):
            error.msg = f"{error.msg}; {advice}"
            return


def _muted(code: str, node: ast.stmt) -> bool:
    """Reports whether a semicolon follows the last expression, which hides its value."""
    lines = code.split("\n")
    at = (node.end_lineno or 1) - 1
    rest = lines[at].encode("utf-8", "surrogatepass")[node.end_col_offset or 0 :].decode("utf-8", "replace")
    return rest.lstrip().startswith(";")
