"""What discovery tells, in few tokens: rows of data whose texts are a line or two.

A row is a dict that holds what is worth its tokens wherever it is printed, as
text or as JSON. What it leaves out is still there for code that asks by key.
"""

from __future__ import annotations

import sys
from typing import Any

Row = dict[str, Any]

_MAX_GAPS = 3  # servers of which it is told why they could not be searched
_MAX_REASON = 160  # characters of it, and of what a server is for
_MAX_NAMED = 20  # further such servers that are named
_SCHEMAS = ("inputSchema", "outputSchema")


class Terse(Row):
    """A row without what is rarely wanted, which is still found by its key."""

    def __init__(self, shown: Row, whole: Row) -> None:
        super().__init__(shown)
        self._whole = whole

    def __missing__(self, key: str) -> Any:
        if key in _SCHEMAS and key not in self._whole:
            raise KeyError(f'{key}: ask again with detail="full"')
        return self._whole[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else self._whole.get(key, default)


class Doc(Terse):
    """A tool: its name and first sentence, then what it takes."""

    def __repr__(self) -> str:
        row = self._whole
        name = row["name"] if "name" in self else f"mcp_{_alias(row, 'server')}.{_alias(row, 'tool')}"
        if "saved" in self:
            name = f"{row['tool']} (saved tool)"
        if "server" in self and self["server"] != _alias(row, "server"):
            name += f" (server {self['server']!r})"
        takes = str(self.get("signature") or "")
        alias = _alias(row, "tool")
        lines = [f"{name}: {' '.join(str(self.get('description') or '').split())}".rstrip(": ")]
        if takes:
            lines.append("    " + (takes[len(alias) :] if takes.startswith(alias + "(") else takes))
        lines += [f"    {key}: {self[key]}" for key in ("problem", "stale") if key in self]
        lines += [f"    why: {', '.join(self['why'])}"] if self.get("why") else []
        return "\n".join(lines)


class About(Terse):
    """A server: its name, how many tools, and what it is for."""

    def __repr__(self) -> str:
        tools = self.get("tools")
        facts = [f"{tools} tool{'' if tools == 1 else 's'}"] if tools is not None else []
        facts += ["loaded"] if self.get("loaded") else []
        facts += [f"as mcp_{self['alias']}"] if "alias" in self else []
        facts += [f"{key}: {self[key]}" for key in ("problem", "stale") if key in self]
        text = f"{self['name']} ({'; '.join(facts)})" if facts else str(self["name"])
        return f"{text}: {self['description']}" if self.get("description") else text


class Rows(list):  # type: ignore[type-arg]
    """Rows, whose text is those of all. Why tools are stale is told once: the whole server's are."""

    def __repr__(self) -> str:
        texts: list[str] = []
        told: set[str] = set()
        for row in self:
            why = row.get("stale") if isinstance(row, Terse) else None
            texts.append(repr(row).replace(f"stale: {why}", "stale: likewise") if why in told else repr(row))
            told |= {why} if why else set()
        return "\n".join(texts) or "(none)"

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return type(self)(found) if isinstance(at, slice) else found


def _alias(row: Row, what: str) -> str:
    """The Python spelling of a row's server or tool."""
    return str(row.get(f"{what}Alias") or row.get(what) or "")


def _shown(row: Row, keys: tuple[str, ...]) -> Row:
    return {key: row[key] for key in keys if row.get(key)}


def docs(rows: list[Row], detail: str) -> list[Row]:
    """Docs of tools of any server; as they are if all was asked for."""
    return rows if detail == "full" else Rows(map(_doc, rows))


def _doc(row: Row) -> Doc:
    row = {**row, "name": row["tool"], "description": row.get("description") or row.get("title") or ""}
    own: Row = {what: row[what] for what in ("server", "tool") if row.get(what)}
    aliases = {f"{w}Alias": _alias(row, w) for w in own if _alias(row, w) != own[w]}
    return Doc({**own, **aliases, **_shown(row, ("saved", "description", "signature", "problem", "stale", "why"))}, row)


def listed(rows: list[Row]) -> list[Row]:
    """Docs of one server's tools, under the names that MCP has for their parts."""
    whole = [{**row, "name": row["tool"]} for row in rows]
    return Rows(Doc(_shown(row, ("name", "description", "signature", "problem", "stale")), row) for row in whole)


def servers(rows: list[Row]) -> list[Row]:
    """What is known of servers."""
    return [About(_about(row), row) for row in rows]


def _about(row: Row) -> Row:
    alias = {"alias": row["alias"]} if row.get("alias") not in (None, row["name"]) else {}
    shown = {"name": row["name"], **alias, **_shown(row, ("description", "problem", "stale", "loaded"))}
    if "description" in shown:
        shown["description"] = str(shown["description"])[:_MAX_REASON]
    return shown if row.get("tools") is None else {**shown, "tools": row["tools"]}


def tell_gaps(gaps: list[Row]) -> None:
    """Says on stderr which servers a search had to leave out; why, only of the first."""
    for row in gaps[:_MAX_GAPS]:
        print(f"not searched: {row.get('server')}: {str(row.get('reason'))[:_MAX_REASON]}", file=sys.stderr)
    names = [str(row.get("server")) for row in gaps[_MAX_GAPS:]]
    if names:
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        print(f"not searched either: {', '.join(names[:_MAX_NAMED])}{more}", file=sys.stderr)
