"""IPython.display for code that was written for a notebook, where there is no IPython.

Its classes hold data and say of which type it is; display() does the rest.
"""

from __future__ import annotations

import array
import importlib.machinery
import io
import os
import sys
import types
from typing import Any, Callable

_NAMES = ("IPython", "IPython.display")

# Text classes, and the MIME type of each.
_TEXTS = {
    "Markdown": "text/markdown",
    "HTML": "text/html",
    "Latex": "text/latex",
    "Math": "text/latex",
    "SVG": "image/svg+xml",
    "Javascript": "application/javascript",
    "Code": "text/plain",
    "Pretty": "text/plain",
    "JSON": "application/json",
}


class DisplayObject:
    """Data of one MIME type, from memory or from a file."""

    mime = "text/plain"
    binary = False

    def __init__(self, data: Any = None, url: Any = None, filename: Any = None, **options: Any) -> None:
        if url is not None:
            raise ValueError("there is no network here: read the data from a file or from a server")
        if filename is None and type(data) is str and self.binary and os.path.exists(data):
            filename, data = data, None
        if filename is not None:
            with open(filename, "rb") as f:
                data = f.read()
            data = data if self.binary else data.decode("utf-8", "replace")
        self.data, self.filename, self.options = data, filename, options

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {self.mime: self.data}


class Image(DisplayObject):
    """A picture in an encoded form; the form is found out from the data."""

    mime, binary = "image/png", True


class Audio(DisplayObject):
    """A sound: encoded, or samples and their rate."""

    mime, binary = "audio/wav", True

    def __init__(
        self, data: Any = None, filename: Any = None, url: Any = None, rate: Any = None, **options: Any
    ) -> None:
        super().__init__(data, url, filename, **options)
        if self.data is not None and not isinstance(self.data, (bytes, bytearray, str)):
            if not rate:
                raise ValueError("rate must be specified when data is a numpy array or list of audio samples.")
            self.data = wav(self.data, int(rate), options.get("normalize", True))
        self.mime = _sound(self.data) or self.mime


def _sound(data: Any) -> str:
    """The MIME type of encoded sound, "" if it is not known."""
    if isinstance(data, (bytes, bytearray)):
        for start, mime in (
            (b"ID3", "audio/mpeg"),
            (b"\xff\xfb", "audio/mpeg"),
            (b"OggS", "audio/ogg"),
            (b"fLaC", "audio/flac"),
        ):
            if data.startswith(start):
                return mime
    return ""


def wav(samples: Any, rate: int, normalize: bool) -> bytes:
    """Samples from -1 to 1, or of any size to be normalized, as WAV. Rows are channels."""
    import wave

    samples = samples.tolist() if hasattr(samples, "tolist") else list(samples)
    channels = [list(c) for c in samples] if samples and hasattr(samples[0], "__len__") else [samples]
    peak = max((abs(x) for c in channels for x in c), default=0) or 1
    if not normalize and peak > 1:
        raise ValueError("audio data must be between -1 and 1 when normalize=False.")
    scale = 32767 / peak if normalize else 32767
    frames = array.array("h", [int(x * scale) for frame in zip(*channels) for x in frame])
    if sys.byteorder == "big":
        frames.byteswap()
    out = io.BytesIO()
    with wave.open(out, "wb") as w:
        w.setnchannels(len(channels))
        w.setsampwidth(2)
        w.setframerate(rate)
        w.writeframes(frames.tobytes())
    return out.getvalue()


class Notebook:
    """Gives IPython.display to code that imports it. Belongs behind all other finders."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _NAMES or (name == _NAMES[1] and _NAMES[0] not in sys.modules):
            return None
        loader: Any = self
        return importlib.machinery.ModuleSpec(name, loader, is_package=name == _NAMES[0])

    def create_module(self, spec: Any) -> types.ModuleType:
        return types.ModuleType(spec.name, "A stand-in: no IPython is installed.")

    def exec_module(self, module: Any) -> None:
        """Fills the module in."""
        if module.__name__ == _NAMES[0]:
            module.version_info, module.__version__ = (8, 0, 0), "8.0.0"
            module.get_ipython = lambda: None  # as IPython has it outside of a notebook
            return
        module.display = self._display
        module.clear_output = lambda wait=False: None
        for kind in (DisplayObject, Image, Audio):
            kind.__module__ = module.__name__
            setattr(module, kind.__name__, kind)
        for name, mime in _TEXTS.items():
            setattr(module, name, type(name, (DisplayObject,), {"mime": mime, "__module__": module.__name__}))
