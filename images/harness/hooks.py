"""Gives the code display(), and makes libraries show here what they would show elsewhere."""

from __future__ import annotations

import importlib.machinery
import sys
from typing import Any, Callable

from . import figures, notebook, tables
from .capture import Capture
from .display import Handle, Rich


class Hooks:
    """The ways in which code shows something before its end. For the main thread."""

    def __init__(self, rich: Rich, capture: Capture) -> None:
        self._rich, self._capture = rich, capture

    def install(self) -> None:
        """Makes what is imported from now on use the methods here."""
        adjust = {
            "matplotlib": figures.lend_fonts,
            "matplotlib.font_manager": figures.say_once,
            "matplotlib.pyplot": _setting("show", self.show),
            "pandas": tables.adjust,
            "matplotlib.figure": lambda module: _setting("show", self.show_value)(module.Figure),
            "plotly.io": _setting("show", self.show_value),
            "PIL.ImageShow": _setting("show", self.show_value),
            "IPython.core.display_functions": _setting("display", self.display),
        }
        sys.meta_path.insert(0, AfterImport(adjust))
        sys.meta_path.append(notebook.Notebook(self.display))

    def display(self, *values: Any, raw: bool = False, display_id: Any = None, **_: Any) -> Handle | None:
        """Shows each value: as a picture where it is one, else as text. Takes what IPython's does."""
        for value in values:
            if issubclass(type(value), str):
                self._print(value)
                continue
            before = self._rich.count
            text = self._rich.bundle(value) if raw and type(value) is dict else self._rich.value(value)
            self._mark(before)
            if text is not None:
                self._print(text)
        return None if display_id is None else Handle(self.display, str(display_id))

    def show(self, *_: Any, block: Any = None, **__: Any) -> None:
        """Shows the open figures, and closes them. Without waiting, they are shown at the end of the run."""
        if block is False:  # as pyplot.pause() does, for each step of a film
            return
        before = self._rich.count
        self._rich.figures()
        self._mark(before)

    def show_value(self, value: Any, *_: Any, **__: Any) -> None:
        """Shows what a figure's or an image's own show() would show in a window."""
        self.display(value)

    def _mark(self, before: int) -> None:
        """Says in the text which pictures belong here; pictures come apart from it.

        The first thing that a run shows needs no mark.
        """
        if before or self._capture.printed:
            for number in range(before + 1, self._rich.count + 1):
                self._print(f"[picture {number}]")

    def _print(self, text: str) -> None:
        print(text, file=self._capture.stdout)


def _setting(name: str, function: Callable[..., Any]) -> Callable[[Any], None]:
    """Puts function into a module, as a plain one: pyplot gives its show() attributes."""

    def shown(*args: Any, **options: Any) -> Any:
        """Shows it in the result of this call."""
        return function(*args, **options)

    return lambda module: setattr(module, name, shown)


class AfterImport:
    """Adjusts modules just after the code has imported them."""

    def __init__(self, adjust: dict[str, Callable[[Any], None]]) -> None:
        self._adjust = adjust

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Finds a module as ever, and adds a last step to its import."""
        if name not in self._adjust:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            real = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                real(module)
                try:
                    self._adjust[name](module)
                except Exception:
                    pass  # another version of it: it works as its authors made it

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
