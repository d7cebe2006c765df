"""Shows values: the last expression's, display()'s, and open figures.

A value is shown once, in the form that an agent can use best for its tokens:
a picture or a sound where it is one, else text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any, Callable

from . import brief, figures, markup, pictures, tables
from .brief import cut

# Bounds on what one run may show, in number and in bytes. The daemon has the
# same (pkg/bridge/rich.go).
MAX_COUNT = 16
MAX_TOTAL = 4 << 20

MAX_NOTES = 10
MAX_SVG = 2000  # characters of a drawing that is shown as its own source

# The forms of IPython's display protocol: the method that gives each, if any.
_IMAGES = {"image/png": "_repr_png_", "image/jpeg": "_repr_jpeg_", "image/gif": "", "image/webp": ""}
_METHODS = {
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "image/svg+xml": "_repr_svg_",
    "text/html": "_repr_html_",
    "application/json": "_repr_json_",
}
_AN_ADDRESS = re.compile(r"<[\w.]+ object>|<[^<>]* at 0x[0-9a-fA-F]+>")
_PLAIN = {int, float, str, bool, list, dict, tuple, set, bytes, type(None)}

Bundle = dict[str, Any]


class Rich:
    """Collects what one run shows. Not for use by several threads."""

    def __init__(self, send: Callable[[dict[str, Any]], None], flush: Callable[[], None]) -> None:
        self._send, self._flush = send, flush
        self.begin(0)

    def begin(self, run: int) -> None:
        self.run, self.count, self.total = run, 0, 0
        self.notices: list[str] = []
        self._shown: dict[int, Any] = {}  # figures, by id

    def __enter__(self) -> None:
        """Around a run's code: its end shows the figures that are left open, be it an error."""

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            figures.close_figures()  # drawing takes time, and the code's is over
        else:
            self.figures()

    def note(self, text: str) -> None:
        if text not in self.notices and len(self.notices) < MAX_NOTES:
            self.notices.append(text)

    def value(self, value: Any, whole: str = "") -> str | None:
        """Shows value. Returns the text for it, None if a picture or a sound says it all.

        whole is an expression that gives it again. Raises what the value's own repr() raises.
        """
        brief.room.whole = whole
        try:
            return self._shown_as(value)
        finally:
            brief.room.whole = ""

    def _shown_as(self, value: Any) -> str | None:
        if type(value) in _PLAIN or issubclass(type(value), type):
            return brief.text(value)
        text = tables.text(value)
        if text is not None:
            return text
        library = figures.kind(value)
        if library:
            return self._figure(value, library)
        if ("PIL", "Image") in brief.lineage(value) and self._image(value):
            return None
        return self._protocol(value)

    def _figure(self, value: Any, library: str) -> str | None:
        if library == "animation":
            value, note = figures.animated(value)
            self.note(note)
        if library in ("matplotlib", "animation"):
            self._draw(value)
            return None
        picture = self._made(lambda: figures.still(value, library), "A figure")
        if picture is None:
            return figures.summary(value, library)
        self._picture(picture)
        return None

    def _draw(self, figure: Any) -> None:
        if self._full():
            return
        self._shown[id(figure)] = figure
        self._picture(self._made(lambda: figures.draw(figure), "A figure"))

    def figures(self) -> None:
        """Shows the figures that the code left open, and closes them.

        One that was shown already and has not changed since is only closed.
        """
        for figure in figures.open_figures():
            if id(figure) not in self._shown or figure.stale:
                self._draw(figure)
        figures.close_figures()

    def _image(self, image: Any) -> bool:
        """Shows a PIL image."""
        was = f"{image.size[0]}x{image.size[1]} pixels; save() and publish() hand over the full one"
        picture = self._made(lambda: pictures.shrink(image, was), "An image")
        self._picture(picture)
        return picture is not None

    def _made(self, make: Callable[[], pictures.Picture | None], what: str) -> pictures.Picture | None:
        """What make gives; None and a note if it cannot be made."""
        try:
            return make()
        except Exception as e:
            why = str(e) if isinstance(e, pictures.Unusable) else f"{type(e).__name__}: {_words(e)}"
            self.note(f"{what} is not shown: {why}.")
            return None

    def _picture(self, picture: pictures.Picture | None) -> None:
        if picture is None:
            return
        if self._put(picture.mime, picture.data) and picture.note:
            self.note(f"Picture {self.count}: {picture.note}.")

    def _full(self) -> bool:
        if self.count < MAX_COUNT:
            return False
        self.note(f"More than {MAX_COUNT} pictures in one call: the rest is left out.")
        return True

    def _put(self, mime: str, data: bytes) -> bool:
        """Sends a picture or a sound after what was printed before it, or notes why not."""
        if self._full():
            return False
        if self.total + len(data) > MAX_TOTAL:
            self.note(
                f"A picture or sound of {len(data)} bytes is left out: one call shows {MAX_TOTAL} at most. "
                "Show fewer, or smaller ones, or show the rest in another call."
            )
            return False
        self._flush()
        frame = {"t": "rich", "run": self.run, "mime": mime, "data": base64.b64encode(data).decode()}
        self._send(frame)
        self.count += 1
        self.total += len(data)
        return True

    def _protocol(self, value: Any) -> str | None:
        """Shows value in the best of the forms that it gives of itself."""
        if self._ask(value, "_ipython_display_") is not None:
            return None
        given = self._ask(value, "_repr_mimebundle_", include=None, exclude=None)
        bundle = given[0] if given and type(given[0]) is dict else {}
        return self.bundle(bundle, value)

    def bundle(self, bundle: Bundle, value: Any = None) -> str | None:
        """Shows the best form of a bundle {MIME type: data}, which value's methods complete."""
        for mime, data in self._media(bundle, value):
            if self._medium(mime, data):
                return None
        plain = bundle.get("text/plain")
        for mime in ("text/markdown", "text/plain", *_METHODS):
            if mime == "text/plain":
                plain = plain if type(plain) is str else "" if value is None else brief.text(value)
                shown = "" if _AN_ADDRESS.fullmatch(plain) else plain
            else:
                shown = self._text(mime, self._form(mime, bundle, value))
            if shown:
                return cut(shown, brief.MAX_VALUE)
        return plain if type(plain) is str else ""

    def _form(self, mime: str, bundle: Bundle, value: Any) -> Any:
        if mime in bundle:
            return bundle[mime]
        given = self._ask(value, _METHODS[mime])
        return given[0] if given else None

    def _text(self, mime: str, data: Any) -> str:
        """What to show of a text form, "" if there is nothing or it is too dear."""
        if mime == "application/json":
            return brief.text(data) if data is not None else ""
        if type(data) is not str:
            return ""
        if mime == "image/svg+xml" and len(data) > MAX_SVG:
            self.note(f"An SVG of {len(data)} characters is not shown: draw it as PNG to see it.")
            return ""
        return cut(markup.strip(data), brief.room.abridged) if mime == "text/html" else cut(data, brief.room.string)

    def _media(self, bundle: Bundle, value: Any) -> Iterator[tuple[str, Any]]:
        """The pictures and sounds of a bundle, best first."""
        for mime, method in _IMAGES.items():
            data = bundle.get(mime)
            if data is None and method:
                given = self._ask(value, method)
                data = given[0] if given else None
            if data is not None:
                yield mime, data
        if any(name == "Audio" for _, name in brief.lineage(value)):  # IPython's has a form in HTML alone
            kind, samples = getattr(value, "mimetype", None), getattr(value, "data", None)
            if type(kind) is str and samples is not None:
                yield kind, samples
        for mime, data in bundle.items():
            if type(mime) is str and mime.startswith(("audio/", "video/")):
                yield mime, data

    def _medium(self, mime: str, data: Any) -> bool:
        """Sends a picture or a sound in its encoded form; reports whether it is dealt with."""
        try:
            raw = base64.b64decode(data) if isinstance(data, str) else bytes(memoryview(data))
            if mime.startswith("image/"):
                self._picture(pictures.fit(raw))
            else:
                self._put(*pictures.sound(mime, raw))
        except (ValueError, TypeError) as e:
            self.note(f"A value of type {mime[:50]} is not shown: {_words(e)}.")
            return False
        return True

    def _ask(self, value: Any, method: str, **options: Any) -> tuple[Any, ...] | None:
        """What a method of value's class gives, and its metadata if any.

        None if there is no such method, or it gives nothing, or fails, which is noted.
        """
        if not _has(type(value), method):
            return None
        try:
            given = getattr(value, method)(**options)
        except NotImplementedError:
            return None
        except Exception as e:
            self.note(f"{type(value).__name__}.{method} raised {type(e).__name__}: {_words(e)}")
            return None
        if method == "_ipython_display_":
            return (given,)
        return None if given is None else given if type(given) is tuple and given else (given,)


def _has(kind: type, method: str) -> bool:
    """Reports whether a class has the method. Its instances may make up any."""
    return any(method in base.__dict__ for base in type.mro(kind))


def _words(error: BaseException) -> str:
    try:
        return cut(" ".join(str(error).split()), 200)
    except Exception:
        return "(its str() fails)"


class Handle:
    """What display(display_id=True) returns: showing again takes the place of updating."""

    def __init__(self, display: Callable[..., object], name: str) -> None:
        self.display, self.display_id = display, name

    def update(self, value: Any, **options: Any) -> None:
        self.display(value, **options)
