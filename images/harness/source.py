"""Turns the text of a call into code, and keeps the text for tracebacks."""

from __future__ import annotations

import ast
import linecache
import re
import textwrap
import types
from collections import deque

_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

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


def compile_run(number: int, code: str) -> tuple[types.CodeType, types.CodeType | None]:
    """Compiles code; the second part is its last expression, None if it has none to show.

    The source is registered, so that tracebacks and inspect show it.
    """
    code = _clean(code)
    name = f"<run {number}>"
    _kept.add(name, code)
    try:
        tree = compile(code, name, "exec", ast.PyCF_ONLY_AST | _AWAIT)
    except SyntaxError as e:
        _hint(e)
        raise
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not _muted(code, tree.body[-1]):
        node = tree.body.pop()
        last = compile(ast.Expression(node.value), name, "eval", _AWAIT)
    return compile(tree, name, "exec", _AWAIT), last


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
        self._sizes: deque[tuple[str, int]] = deque()
        self._total = 0

    def add(self, name: str, code: str) -> None:
        """Registers a source, so that tracebacks and inspect show it, and drops old ones past the bound."""
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)  # no mtime: never dropped as stale
        self._sizes.append((name, len(code)))
        self._total += len(code)
        while self._total > MAX_KEPT and len(self._sizes) > 1:
            old, size = self._sizes.popleft()
            self._total -= size
            linecache.cache.pop(old, None)


_kept = _Kept()


def _hint(error: SyntaxError) -> None:
    """Adds advice to the message where the line tells what was meant."""
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
