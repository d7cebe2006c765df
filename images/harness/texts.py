"""The texts that the session's code is from, and what their words say of names and values."""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import inspect
import math
import textwrap
import types
from collections.abc import Iterator
from typing import Any, NoReturn

from . import source

DEFINITION = (ast.FunctionDef, ast.AsyncFunctionDef)


_PARSE = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


_PLAIN = (type(None), bool, int, float, complex, str, bytes, list, tuple, dict, set, type(Ellipsis))


class _Empty:
    pass


EMPTY = _Empty()


class Unsavable(ValueError):
    """Why a function can't be saved, and what to change."""


def refuse(why: str) -> NoReturn:
    raise Unsavable(why)


class Text:
    """A text that defines functions: a call of the session, or a file that it wrote."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self.lines = text.split("\n")
        self.tree: ast.Module = compile(text, name, "exec", _PARSE, True)

    def cut(self, node: Any) -> str:
        """A statement's lines, decorators too, as they would be with no indent."""
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        whole = "\n".join(self.lines[first - 1 : node.end_lineno])
        if not node.col_offset:
            return whole
        text = textwrap.dedent(whole)
        try:
            if _dump(ast.parse(text).body[0]) == _dump(node):
                return text
        except (SyntaxError, IndexError):
            pass
        return ast.unparse(node)  # a text of several lines in it has less of an indent

    def statements(self) -> Iterator[ast.stmt]:
        """The statements that bind names of the module, the last one first."""
        todo: list[Any] = list(self.tree.body)
        while todo:
            node = todo.pop()
            if isinstance(node, (*DEFINITION, ast.ClassDef)):
                yield node
                continue
            if isinstance(node, ast.stmt):
                yield node
            todo += [n for n in ast.iter_child_nodes(node) if isinstance(n, (ast.stmt, ast.ExceptHandler))]


@functools.lru_cache(maxsize=256)
def _parsed(name: str, text: str) -> Text | None:
    try:
        return Text(name, text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def text_of(filename: str) -> Text | None:
    """The text that a function's code is from, None if it is not known any more."""
    text = source.text_of(filename)
    return None if text is None else _parsed(filename, text)


def texts(names: dict[str, Any]) -> Iterator[Text]:
    """The texts that bind names of a module, newest first."""
    if names.get("__name__") != "__main__":
        text = text_of(str(names.get("__file__")))
        if text is not None:
            yield text
        return
    for filename in source.calls():
        text = text_of(filename)
        if text is not None:
            yield text


def _dump(node: ast.AST) -> str:
    """What a statement says, whatever the indent of its docstrings."""
    node = copy.deepcopy(node)
    for inner in ast.walk(node):
        doc = ast.get_docstring(inner, False) if isinstance(inner, (*DEFINITION, ast.ClassDef)) else None
        if doc is not None:
            inner.body[0] = ast.Expr(ast.Constant(inspect.cleandoc(doc)))  # type: ignore[attr-defined]
    return ast.dump(node)


class Def:
    """Where a function is defined."""

    def __init__(self, func: types.FunctionType) -> None:
        code = func.__code__
        text = text_of(code.co_filename)
        if text is None:
            refuse(f"the source of {func.__name__} is not known: run its def in a call of its own, then save it.")
        self.node = self._find(text, code)
        self.text = text.cut(self.node)

    @staticmethod
    def _find(text: Text, code: types.CodeType) -> Any:
        for node in ast.walk(text.tree):
            if isinstance(node, DEFINITION) and node.name == code.co_name:
                if code.co_firstlineno in (node.lineno, *(d.lineno for d in node.decorator_list[:1])):
                    return node
        refuse(f"the def of {code.co_name} is not where it was: run it again, then save it.")


def assignment(name: str, names: dict[str, Any]) -> tuple[str, ast.expr] | None:
    """The last statement that binds a name, and the expression, if it is an assignment to it alone."""
    for text in texts(names) if names else ():
        for node in text.statements():
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target, given = node.targets[0], node.value
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                target, given = node.target, node.value
            elif name in _bound(node):
                return None
            else:
                continue
            if isinstance(target, ast.Name) and target.id == name:
                cut = ast.get_source_segment(text.text, node)
                return (cut, given) if cut is not None and not node.col_offset else None
            if name in _bound(node):
                return None
    return None


def _bound(node: ast.AST) -> set[str]:
    """The names that a statement binds, but those of statements in it."""
    if isinstance(node, (*DEFINITION, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {a.asname or a.name.partition(".")[0] for a in node.names}
    out: set[str] = set()
    todo: list[ast.AST] = [node]
    while todo:
        for child in ast.iter_child_nodes(todo.pop()):
            if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load):
                out.add(child.id)
            if not isinstance(child, (ast.stmt, ast.Lambda)):
                todo.append(child)
    return out


def used(text: str, lazy: bool) -> tuple[set[str], set[str]]:
    """The names that a text uses and does not define itself, and those of its annotations if these are lazy."""
    import symtable  # only who saves needs it

    hints: set[str] = set()
    if lazy:
        text = _without_hints(text, hints)
    top = symtable.symtable(text, "<saved>", "exec")
    own = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
    names = {s.get_name() for s in top.get_symbols() if s.is_referenced()}
    todo = list(top.get_children())
    while todo:
        table = todo.pop()
        names |= {s.get_name() for s in table.get_symbols() if s.is_global()}
        todo += table.get_children()
    return names - own, hints - own


def _without_hints(text: str, hints: set[str]) -> str:
    """A text without its annotations, whose names go to hints."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            hint = getattr(node, field, None)
            if isinstance(hint, ast.AST):
                hints |= {n.id for n in ast.walk(hint) if isinstance(n, ast.Name)}
                setattr(node, field, ast.Constant(None) if isinstance(node, ast.AnnAssign) else None)
    return ast.unparse(tree)


def repeatable(expression: ast.expr) -> bool:
    """Reports whether an expression may be evaluated again in a later session, as far as its words tell."""
    for node in ast.walk(expression):
        if isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
            return False
        if isinstance(node, ast.Name) and node.id.startswith("mcp_"):
            return False
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("open", "input"):
            return False
    return True


def evaluated(expression: ast.expr, names: dict[str, Any]) -> Any:
    """The value of a name with attributes, EMPTY of anything else."""
    if isinstance(expression, ast.Name):
        return names.get(expression.id, getattr(builtins, expression.id, EMPTY))
    if isinstance(expression, ast.Attribute):
        return getattr(evaluated(expression.value, names), expression.attr, EMPTY)
    return EMPTY


def literally(expression: ast.expr) -> Any:
    """The value of a literal, EMPTY of anything else."""
    try:
        return ast.literal_eval(expression)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return EMPTY


def same(a: Any, b: Any) -> bool:
    """Reports whether two plain values are equal, and of the same types."""
    return type(a) is type(b) and repr(a) == repr(b)


def literal(value: Any) -> str | None:
    """A value as Python writes it, None if it is not plain data."""
    import pprint  # only who saves needs it

    if not _is_plain(value, 0):
        return None
    text = repr(value)
    if "inf" in text or "nan" in text:
        text = _words(value)
    elif len(text) > 100:
        text = pprint.pformat(value, width=110, sort_dicts=False)
    return text


def _is_plain(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind not in _PLAIN or depth > 50:
        return False
    if kind is complex:
        return math.isfinite(value.real) and math.isfinite(value.imag)
    if kind is dict:
        return all(_is_plain(k, depth + 1) and _is_plain(v, depth + 1) for k, v in value.items())
    if kind in (list, tuple, set):
        return all(_is_plain(v, depth + 1) for v in value)
    return True


def _words(value: Any) -> str:
    """As repr, with floats that have no literal as calls."""
    kind = type(value)
    if kind is float and not math.isfinite(value):
        return f"float({str(value)!r})"
    if kind is dict:
        return "{" + ", ".join(f"{_words(k)}: {_words(v)}" for k, v in value.items()) + "}"
    if kind in (list, tuple, set) and value:
        parts = ", ".join(map(_words, value))
        return f"[{parts}]" if kind is list else f"{{{parts}}}" if kind is set else f"({parts},)"
    return repr(value)


def replaced(text: str, node: Any, words: str) -> str:
    """The text with other words for an expression; columns count UTF-8's bytes."""
    lines = text.split("\n")
    head = lines[node.lineno - 1].encode()[: node.col_offset].decode()
    tail = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
    lines[node.lineno - 1 : node.end_lineno] = [head + words + tail]
    return "\n".join(lines)
