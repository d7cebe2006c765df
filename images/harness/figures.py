"""Figures of plotting libraries, as pictures where they can be drawn here.

Nothing here imports a library that the code has not imported.
"""

from __future__ import annotations

import importlib.machinery
import io
import os
import sys
from typing import Any

from .brief import lineage
from .pictures import MAX_EDGE, Picture, Unusable, fit

_DPI = 10  # below this nothing can be read
_TRACES = 10  # told of in a summary
_TITLE = 100  # characters

# What can be drawn without a browser, and the package that does it.
_DRAWN = {"plotly": "kaleido", "altair": "vl_convert"}


def lend_fonts(matplotlib: Any) -> None:
    """Gives matplotlib the list of fonts that was made with the image. Called when it is imported."""
    folder = os.path.join(sys.prefix, "share", "bridged", "matplotlib")
    if os.path.isdir(folder):
        import shutil  # matplotlib has imported it

        shutil.copytree(folder, matplotlib.get_cachedir(), copy_function=shutil.copyfile, dirs_exist_ok=True)


def say_once(font_manager: Any) -> None:
    """Lets each complaint about a font that is missing through once, instead of for each word drawn."""
    seen: set[str] = set()

    def first(record: Any) -> bool:
        message = record.getMessage()
        known = message in seen
        seen.add(message)
        return not known

    font_manager._log.addFilter(first)


def kind(value: Any) -> str:
    """Which library's figure value is: matplotlib, animation, plotly, altair, or "" for none."""
    return next((_KINDS[name] for name in lineage(value) if name in _KINDS), "")


_KINDS = {
    ("matplotlib", "Figure"): "matplotlib",
    ("matplotlib", "Animation"): "animation",
    ("plotly", "BaseFigure"): "plotly",
    ("altair", "TopLevelMixin"): "altair",
}


def draw(figure: Any) -> Picture:
    """Draws a matplotlib figure, at a lower dpi if it would be too large."""
    width, height = (float(n) * figure.dpi for n in figure.get_size_inches())
    longest = max(width, height, 1)
    scale = min(1.0, MAX_EDGE / longest)
    if scale < 1:  # not too small to be read, and not too large to be drawn
        scale = max(scale, min(_DPI / figure.dpi, 2 * MAX_EDGE / longest))
    data = _save(figure, figure.dpi * scale)
    picture = fit(data)
    figure.stale = False  # drawing it has changed its dpi for a moment
    if scale == 1:
        return picture
    was = f"{round(width)}x{round(height)} pixels; savefig() and publish() hand over the full one"
    return picture._replace(note=f"shown at {picture.size[0]}x{picture.size[1]} of {was}")


def _save(figure: Any, dpi: float) -> bytes:
    out = io.BytesIO()
    try:
        figure.savefig(out, format="png", dpi=dpi, bbox_inches="tight")
        return out.getvalue()
    except ValueError:  # something lies far outside of it
        out = io.BytesIO()
        figure.savefig(out, format="png", dpi=dpi)
        return out.getvalue()


def animated(animation: Any) -> tuple[Any, str]:
    """The figure of an animation, and what to say about its other frames."""
    figure = animation._fig
    animation._draw_was_started = True  # or it warns, once it is collected
    return figure, "One frame of the animation is shown: its save('a.gif', writer='pillow') keeps them all."


def still(value: Any, library: str) -> Picture | None:
    """A plotly or altair figure as a picture, None if nothing here can draw it."""
    if importlib.machinery.PathFinder.find_spec(_DRAWN[library]) is None:
        return None
    try:
        if library == "plotly":
            return fit(value.to_image(format="png"))
        out = io.BytesIO()
        value.save(out, format="png")
        return fit(out.getvalue())
    except Unusable:
        raise
    except Exception:
        return None  # such as kaleido without a browser: the summary says what there is


def summary(value: Any, library: str) -> str:
    """A few words for a figure that nothing here can draw."""
    told = _plotly(value) if library == "plotly" else _altair(value)
    advice = f"not drawn: no working {_DRAWN[library]} is here; use matplotlib for a picture, or save it as HTML"
    return f"{type(value).__name__} of {library}{told}\n({advice})"


def _plotly(figure: Any) -> str:
    layout = figure.layout
    lines = [_named("title", _deep(layout, "title", "text"))]
    for axis in ("xaxis", "yaxis"):
        lines.append(_named(axis[0], _deep(layout, axis, "title", "text")))
    traces = list(figure.data)
    for trace in traces[:_TRACES]:
        points = next(
            (len(v) for v in (_deep(trace, k) for k in _POINTS) if v is not None and hasattr(v, "__len__")), 0
        )
        lines.append(f"\n  {trace.type}{_named('', trace.name)}: {points} points")
    if len(traces) > _TRACES:
        lines.append(f"\n  and {len(traces) - _TRACES} more traces")
    return "".join(lines)


_POINTS = ("x", "y", "z", "values", "lat", "locations", "r")


def _altair(chart: Any) -> str:
    """The mark and the encodings, from the chart's own description without its data."""
    mark = _deep(chart, "mark")
    lines = [_named("title", _deep(chart, "title")), _named("mark", _deep(mark, "type") or mark)]
    for name in ("x", "y", "color", "size", "row", "column"):
        lines.append(_named(name, _deep(chart, "encoding", name, "shorthand")))
    shape = _deep(chart, "data", "shape")
    if shape:
        lines.append(f" rows={shape[0]}")
    return "".join(lines)


def _deep(value: Any, *names: str) -> Any:
    for name in names:
        value = getattr(value, name, None)
    return value


def _named(name: str, value: Any) -> str:
    """A piece of a summary; nothing for what is not set."""
    if type(value) is not str or not value:
        return ""
    return f" {name}={value[:_TITLE]!r}" if name else f" {value[:_TITLE]!r}"


def open_figures() -> list[Any]:
    """The figures that pyplot holds, in the order of their numbers."""
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is None:
        return []
    return [plt.figure(number) for number in plt.get_fignums()]


def close_figures() -> None:
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is not None:
        plt.close("all")
