"""Shows values: the last expression's, display()'s, and open figures."""

from __future__ import annotations

import base64
import importlib.abc
import importlib.machinery
import io
import sys
from typing import Any, Callable

from .wire import TooLarge

# Bounds on what one run may show, in bytes and in number.
MAX_VALUE = 1 << 18
MAX_RICH = 8 << 20
MAX_RICH_COUNT = 20

# What an agent's client can use, best first, and the method that gives it.
_IMAGES = (("image/png", "_repr_png_"), ("image/jpeg", "_repr_jpeg_"))
_TEXTS = ("_repr_markdown_", "_repr_latex_")

Send = Callable[[str, bytes], None]


class Rich:
    """Collects what one run shows. Not for use by several threads."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self.run = 0
        self.count = 0
        self.notices: list[str] = []

    def begin(self, run: int) -> None:
        self.run, self.count, self.notices = run, 0, []

    def image(self, mime: str, data: bytes) -> None:
        """Sends one picture, or notes why not."""
        if self.count >= MAX_RICH_COUNT:
            self.note(f"More than {MAX_RICH_COUNT} pictures in one call: the rest is left out.")
            return
        if len(data) > MAX_RICH:
            self.note(f"A picture of {len(data)} bytes is left out: at most {MAX_RICH} fit. Lower its size or dpi.")
            return
        self.count += 1
        frame = {"t": "rich", "run": self.run, "mime": mime, "data": base64.b64encode(data).decode()}
        try:
            self._send(frame)
        except TooLarge as e:
            self.note(f"A picture is left out: {e}.")

    def note(self, text: str) -> None:
        if text not in self.notices and len(self.notices) < 10:
            self.notices.append(text)

    def show(self, value: Any) -> bool:
        """Sends value as a picture if it is one; reports whether it was."""
        if _is_figure(value):
            self.image("image/png", _png(value))
            _close(value)
            return True
        for mime, method in _IMAGES:
            data = _call(value, method)
            if isinstance(data, str):
                data = base64.b64decode(data)
            if isinstance(data, bytes):
                self.image(mime, data)
                return True
        return False

    def figures(self) -> None:
        """Shows the figures that the code left open, and closes them."""
        plt = sys.modules.get("matplotlib.pyplot")
        if plt is None:
            return
        for number in plt.get_fignums():
            self.show(plt.figure(number))
        plt.close("all")


class Pyplot(importlib.abc.MetaPathFinder):
    """Makes plt.show() show the figures, when matplotlib.pyplot is imported.

    Its own show() only warns that a picture in memory has no window.
    """

    def __init__(self, rich: Rich) -> None:
        self._rich = rich

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Finds matplotlib.pyplot as ever, and gives it another show()."""
        if name != "matplotlib.pyplot":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            real = spec.loader.exec_module

            def show(*_: Any, **__: Any) -> None:
                """Shows the open figures, and closes them."""
                self._rich.figures()

            def exec_module(module: Any) -> None:
                real(module)
                module.show = show

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _is_figure(value: Any) -> bool:
    figure = getattr(sys.modules.get("matplotlib.figure"), "Figure", None)
    return isinstance(figure, type) and isinstance(value, figure)


def _png(figure: Any) -> bytes:
    buf = io.BytesIO()
    figure.savefig(buf, format="png", bbox_inches="tight")
    return buf.getvalue()


def _close(figure: Any) -> None:
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is not None:
        plt.close(figure)


def _call(value: Any, method: str) -> Any:
    """Calls a _repr_*_ method of value's class, None if it has none or wants not to."""
    if isinstance(value, type) or not callable(getattr(type(value), method, None)):
        return None
    data = getattr(value, method)()
    return data[0] if isinstance(data, tuple) else data


def text(value: Any) -> str:
    """The text that stands for value: its repr, cut in the middle if it is huge."""
    for method in _TEXTS:
        shown = _call(value, method)
        if isinstance(shown, str):
            return cut(shown)
    return cut(repr(value))


def cut(s: str, limit: int = MAX_VALUE) -> str:
    """Leaves the middle of s out if it is longer than limit characters."""
    if len(s) <= limit:
        return s
    head, tail = limit * 3 // 4, limit // 4
    return f"{s[:head]}\n[... {len(s) - head - tail} characters cut ...]\n{s[-tail:]}"
