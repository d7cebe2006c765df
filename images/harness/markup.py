"""HTML as text: what a reader would see of it, in few tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_HTML = 1 << 19  # characters looked at

_UNSEEN = ("script", "style", "head", "template", "svg", "noscript")
_BREAKS = frozenset("p div br tr li table ul ol section pre h1 h2 h3 h4 h5 h6 /p /div /tr /table /li".split())
_CELLS = frozenset(("/td", "/th"))
_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9-]*|<[!?]")
_SPACE = re.compile(r"[ \t\r\n\f\v\xa0]+")


def strip(markup: str) -> str:
    """The text of HTML: cells apart by bars, blocks by lines."""
    import html  # its table of names is rarely wanted

    out: list[str] = []
    for text, tag in _pieces(markup[:MAX_HTML]):
        out.append(_SPACE.sub(" ", html.unescape(text)))
        if tag in _BREAKS:
            out.append("\n")
        elif tag in _CELLS:
            out.append(" | ")
    lines = (_SPACE.sub(" ", line).strip(" |") for line in "".join(out).split("\n"))
    return "\n".join(line for line in lines if line)


def _pieces(markup: str) -> Iterator[tuple[str, str]]:
    """Pairs of a text that can be seen and the tag after it, in one pass."""
    at = 0
    for m in _TAG.finditer(markup):
        if m.start() < at:
            continue  # inside what was passed over
        tag = m.group()[1:].lower()
        yield markup[at : m.start()], tag
        end = ">"
        if markup.startswith("<!--", m.start()):
            end = "-->"
        elif tag in _UNSEEN:
            end = f"</{tag}>"
        found = markup.find(end, m.end())
        if found < 0:
            return
        at = found + len(end)
    yield markup[at:], ""
