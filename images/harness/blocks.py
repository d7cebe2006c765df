"""The content of a tool's answer as Python objects, and what the answer becomes."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Callable

from .wire import loads

_decode = base64.b64decode
_SHOWN = 300  # characters of a text in a repr


class Block(dict):  # type: ignore[type-arg]
    """One content block: the dict that the server sent, whose entries are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"a block of type {self.get('type')!r} has no {name}") from None

    @property
    def mime_type(self) -> str:
        return str(self.get("mimeType") or "")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self)!r})"


class Text(Block):
    """A text, in `.text` and str()."""

    def __str__(self) -> str:
        return str(self.get("text", ""))

    def __repr__(self) -> str:
        return f"Text({_brief(str(self))})"


class Medium(Block):
    """A picture or a sound: its bytes in `.data`, their kind in `.mime_type`. display() shows it."""

    @property
    def data(self) -> bytes:
        return _bytes(self.get("data"))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = {"text/plain": repr(self)}
        if self.mime_type:
            bundle[self.mime_type] = self.get("data")
        return bundle

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mime_type or 'of no kind'}, {_size(self.get('data'))})"


class Image(Medium):
    """A picture: its bytes in `.data`, their kind in `.mime_type`. display() shows it."""


class Audio(Medium):
    """A sound: its bytes in `.data`, their kind in `.mime_type`. display() plays it."""


class Resource(Block):
    """An embedded resource: `.uri`, `.mime_type`, and `.text` or the bytes in `.data`."""

    @property
    def _inner(self) -> dict[str, Any]:
        inner = self.get("resource")
        return inner if isinstance(inner, dict) else {}

    @property
    def uri(self) -> str:
        return str(self._inner.get("uri", ""))

    @property
    def mime_type(self) -> str:
        return str(self._inner.get("mimeType") or "")

    @property
    def text(self) -> str | None:
        return self._inner.get("text")

    @property
    def data(self) -> bytes:
        """The resource's bytes, those of its text if it is one."""
        text = self.text
        return _bytes(self._inner.get("blob")) if text is None else str(text).encode()

    def __str__(self) -> str:
        return repr(self) if self.text is None else str(self.text)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        bundle = {"text/plain": str(self)}
        if self.mime_type.startswith(("image/", "audio/")) and "blob" in self._inner:
            bundle[self.mime_type] = self._inner["blob"]
        return bundle

    def __repr__(self) -> str:
        what = _size(self._inner.get("blob")) if self.text is None else _brief(str(self.text))
        return f"Resource({self.uri!r}, {', '.join(p for p in (self.mime_type, what) if p)})"


class ResourceLink(Block):
    """A link to a resource: `.uri`, `.name`. `runtime.read_resource(server, uri)` reads it."""

    def __repr__(self) -> str:
        return f"ResourceLink({self.get('uri')!r}, name={self.get('name')!r})"


class Unknown(Block):
    """A block of a kind that is not known here: the dict as the server sent it."""


_KINDS = {"text": Text, "image": Image, "audio": Audio, "resource": Resource, "resource_link": ResourceLink}


class Result(dict):  # type: ignore[type-arg]
    """A tool's whole answer: content blocks, structuredContent, _meta, as sent."""


class Blocks(list):  # type: ignore[type-arg]
    """The content blocks of an answer, in order. `.raw` is the whole answer."""

    show: Callable[..., Any] | None = None  # display(), once there is one

    def __init__(self, blocks: list[Any], raw: dict[str, Any]) -> None:
        super().__init__(block(b) for b in blocks)
        self.raw = Result(raw)

    def _ipython_display_(self) -> None:
        """Shows each block as display() would: as the last value of a call, an answer is seen and not described."""
        show = type(self).show
        if show is None or not self:
            raise NotImplementedError
        for b in self:
            show(str(b) if isinstance(b, Text) else b)


def block(raw: Any) -> Any:
    """A block by its type. What is no object stays as it is."""
    if not isinstance(raw, dict):
        return raw
    kind = raw.get("type")
    return (_KINDS.get(kind, Unknown) if isinstance(kind, str) else Unknown)(raw)


def text_of(answer: dict[str, Any]) -> str | None:
    """The text of an answer that is one text block, else None."""
    content = answer.get("content") or []
    if len(content) == 1 and isinstance(content[0], dict) and content[0].get("type") == "text":
        return str(content[0].get("text", ""))
    return None


def parsed(text: str) -> Any:
    """The value of a text that should be JSON; the text where it is none."""
    try:
        return loads(text)
    except ValueError:
        return text


def error_text(answer: dict[str, Any]) -> str:
    """What an answer that is an error says."""
    content = answer.get("content") or []
    lines = [b.get("text", "") for b in content if isinstance(b, dict) and b.get("type") == "text"]
    text = "\n".join(t for t in lines if isinstance(t, str) and t)
    if text or answer.get("structuredContent") is None:
        return text or "the tool reported an error without a text"
    return f"the tool reported the error {_brief(repr(answer['structuredContent']))}"


def _bytes(data: Any) -> bytes:
    try:
        return _decode(data)
    except (TypeError, ValueError, binascii.Error) as e:
        raise ValueError(f"the server's data is no base64: {e}") from None


def _size(data: Any) -> str:
    return f"{len(data) * 3 // 4 - data[-2:].count('=')} bytes" if isinstance(data, str) else "no data"


def _brief(text: str) -> str:
    if len(text) <= _SHOWN:
        return repr(text)
    return f"{text[:_SHOWN]!r} ... {len(text)} characters in all"
