"""What a tool takes: its signature, its help, and Python arguments as the tool's own."""

from __future__ import annotations

import difflib
import inspect
import keyword
import re
from typing import Any

from .errors import InvalidArguments
from .steps import Type

_near, _iskeyword = difflib.get_close_matches, keyword.iskeyword
_Parameter, _Signature = inspect.Parameter, inspect.Signature
_NULL = re.compile(r"\b(?:None|Any)\b")
_OBJECT = re.compile(r"\b(?:dict|Any)\b|\{")
_MAX_SHOWN = 20  # parameters named in an error


class Param:
    """One parameter of a tool."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.name: str = row["name"]
        self.alias: str = row.get("alias") or self.name
        self.type: str = row.get("type") or "Any"
        self.description: str = row.get("description") or ""
        self.required = bool(row.get("required"))
        self.default: Any = row.get("default")
        self.enum: list[Any] = row.get("enum") or []
        self.nullable = bool(_NULL.search(self.type)) or None in self.enum
        # None then means what it does in the signature: that nothing is passed.
        self.omits_none = not self.required and not self.nullable

    def help(self) -> str:
        notes = [] if self.required else ["optional"]
        if not self.required and self.default is not None:
            notes = [f"default {self.default!r}"]
        if self.alias != self.name:
            notes.append(f"the tool's own name for it is {self.name!r}")
        if self.enum and "Literal" not in self.type:
            notes.append("one of " + ", ".join(map(repr, self.enum[:_MAX_SHOWN])))
        head = f"    {self.alias}: {self.type}" + (f" ({'; '.join(notes)})" if notes else "")
        return "\n        ".join([head, *self.description.strip().splitlines()])


class Spec:
    """What is known of one tool, from its docs."""

    def __init__(self, doc: dict[str, Any]) -> None:
        self.doc = doc
        self.server: str = doc.get("server", "")
        self.tool: str = doc["tool"]
        self.alias: str = doc.get("toolAlias") or self.tool
        rows = doc.get("params")
        self.known = rows is not None
        self.loose = bool(doc.get("loose")) or not self.known
        self.params = [Param(row) for row in rows or ()]
        self._required = [p for p in self.params if p.required]
        self._aliases: dict[str, str] = doc.get("paramAliases") or {}
        self._keys: dict[str, Param] = {p.alias: p for p in self.params}
        self._keys.update({p.name: p for p in self.params})

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The tool's arguments for those of a call in Python. Raises InvalidArguments.

        One dict alone is all the arguments if they can be: if its keys are
        parameters, and none that is required is missing. Else it is the first
        parameter, if that takes a dict.
        """
        if len(args) == 1 and not kwargs:
            alone = args[0]
            if isinstance(alone, dict) and self._is_all(alone):
                args, kwargs = (), alone
        out: dict[str, Any] = {}
        wrong: list[tuple[str, str]] = []
        if args:
            self._place(args, out, wrong)
        for key, value in kwargs.items():
            p = self._keys.get(key)
            if p is None:
                if not self.loose or not isinstance(key, str):
                    wrong.append((str(key), self._unknown(key)))
                    continue
                name = self._aliases.get(key, key)
            elif value is None and p.omits_none:
                continue
            else:
                name = p.name
            if name in out:
                wrong.append((name, f"{key} is given twice"))
            out[name] = value
        for p in self._required:
            if p.name not in out:
                wrong.append((p.name, f"{p.alias} is missing"))
        if wrong:
            raise self._refusal(wrong)
        return out

    def _is_all(self, arguments: dict[Any, Any]) -> bool:
        """Reports whether a dict that stands alone is the arguments, and not the first of them."""
        if not self.params or not _OBJECT.search(self.params[0].type):
            return True
        fits = all(isinstance(key, str) and (self.loose or key in self._keys) for key in arguments)
        return fits and all(p.name in arguments or p.alias in arguments for p in self._required)

    def _place(self, args: tuple[Any, ...], out: dict[str, Any], wrong: list[tuple[str, str]]) -> None:
        """Gives positional arguments their names."""
        if len(args) > len(self.params):
            takes = f"takes {len(self.params)} positional arguments" if self.params else "takes keyword arguments only"
            wrong.append(("", f"it {takes} and {len(args)} are given"))
        for p, value in zip(self.params, args):
            if value is not None or not p.omits_none:
                out[p.name] = value

    def _unknown(self, key: Any) -> str:
        near = _near(str(key), list(self._keys), 3, 0.6)
        return f"there is no parameter {key}" + (f" (did you mean {' or '.join(near)}?)" if near else "")

    def _refusal(self, wrong: list[tuple[str, str]]) -> InvalidArguments:
        problems = [{"path": path, "message": message} for path, message in wrong]
        said = "; ".join(message for _, message in wrong[:_MAX_SHOWN])
        text = f"Tool {self.tool} of server {self.server} was not called: {said}. Its signature: {self.text()}"
        data = {"server": self.server, "tool": self.tool, "problems": problems}
        return InvalidArguments(text, "invalid_arguments", data, self.server, self.tool)

    def text(self) -> str:
        """The signature as one line."""
        return str(self.doc.get("signature") or f"{self.alias}{self.signature()}")

    def signature(self) -> inspect.Signature:
        """What inspect.signature tells of the tool."""
        parameters: list[inspect.Parameter] = []
        for p in self.params:
            default = _Parameter.empty if p.required else p.default
            if not p.alias.isidentifier() or _iskeyword(p.alias):
                return ANY
            kind = _Parameter.POSITIONAL_OR_KEYWORD
            parameters.append(_Parameter(p.alias, kind, default=default, annotation=Type(p.type)))
        if self.loose:
            rest = "kwargs" if "kwargs" not in self._keys else "further_arguments"
            parameters.append(_Parameter(rest, _Parameter.VAR_KEYWORD))
        returns = self.doc.get("returns")
        annotation = Type(returns) if isinstance(returns, str) and returns else _Signature.empty
        try:
            return _Signature(parameters, return_annotation=annotation)
        except ValueError:  # two parameters of one name, or a required one behind one that is not
            return ANY

    def help(self) -> str:
        """The tool's docstring."""
        doc = self.doc
        parts = [str(doc.get("description") or doc.get("title") or "").strip()]
        if self.params:
            parts.append("\n".join(["Parameters:", *(p.help() for p in self.params)]))
        if self.loose and self.known:
            parts.append("Further arguments may be passed; the tool's schema does not name them.")
        if doc.get("returns") not in (None, "", "Any"):
            parts.append(f"Returns: {doc['returns']}")
        if doc.get("problem"):
            parts.append(f"Its definition is odd: {doc['problem']}")
        if doc.get("stale"):
            parts.append(f"It may be another by now, for its server does not answer: {doc['stale']}")
        parts.append(f"Tool {self.tool} of MCP server {self.server}.")
        return "\n\n".join(p for p in parts if p)


ANY = _Signature([_Parameter("args", _Parameter.VAR_POSITIONAL), _Parameter("kwargs", _Parameter.VAR_KEYWORD)])
