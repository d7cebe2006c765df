"""Pictures and sounds as a client can take them: known formats, bounded sizes."""

from __future__ import annotations

import io
import math
import struct
import zlib
from typing import Any, NamedTuple

MAX_BYTES = 1 << 20  # of one picture
MAX_EDGE = 1568  # pixels: models see no more, and a larger one costs more tokens
MAX_SOUND = 3 << 20  # bytes of one sound

_LOSSLESS = 200 << 10  # bytes up to which a picture without an alpha channel stays PNG
_SMALLER = 0.7  # per try
_PIXELS = 40_000_000  # more than this would take much of a sandbox's memory
_HEADER = 1 << 16
_PNG = b"\x89PNG\r\n\x1a\n"

# What clients can play, and other names for it.
_SOUNDS = {
    "audio/wav": "audio/wav",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/mpeg": "audio/mpeg",
    "audio/mp3": "audio/mpeg",
    "audio/ogg": "audio/ogg",
    "audio/flac": "audio/flac",
    "audio/x-flac": "audio/flac",
}


class Unusable(ValueError):
    """No client could show it; the text says why and what to do."""


class Picture(NamedTuple):
    """A picture that is fit to be sent."""

    mime: str
    data: bytes
    size: tuple[int, int]
    note: str = ""  # what was done to make it fit


def sniff(data: bytes) -> tuple[str, int, int]:
    """The MIME type, width and height of a whole picture, ("", 0, 0) if it is none.

    One that is broken off is none: some agents cannot go on after a picture
    that cannot be read.
    """
    if data.startswith(_PNG) and data[12:16] == b"IHDR" and _whole(data):
        return ("image/png", *struct.unpack(">II", data[16:24]))
    if data[:6] in (b"GIF87a", b"GIF89a") and data[-64:].rstrip(b"\0").endswith(b";"):
        return ("image/gif", *struct.unpack("<HH", data[6:10]))
    if data.startswith(b"\xff\xd8") and b"\xff\xd9" in data[-64:]:
        return ("image/jpeg", *_jpeg(data))
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and struct.unpack("<I", data[4:8])[0] + 8 <= len(data):
        return ("image/webp", *_webp(data))
    return "", 0, 0


def _whole(data: bytes) -> bool:
    """Reports whether all chunks of a PNG are there and as they were written."""
    at = len(_PNG)
    while at + 12 <= len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        end = at + 8 + size
        if data[end : end + 4] != struct.pack(">I", zlib.crc32(memoryview(data)[at + 4 : end])):
            return False
        if data[at + 4 : at + 8] == b"IEND":
            return True
        at = end + 4
    return False


def _mended(data: bytes) -> bytes:
    """A PNG without the chunks that readers can do without and that are damaged. Some readers want all to be whole."""
    if not data.startswith(_PNG):
        return data
    kept, at = [_PNG], len(_PNG)
    while at + 12 <= len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        chunk = data[at : at + 12 + size]
        at += len(chunk)
        needless = bool(chunk[4] & 0x20)  # the case of a chunk's first letter says so
        if not needless or chunk[-4:] == struct.pack(">I", zlib.crc32(chunk[4:-4])):
            kept.append(chunk)
    return b"".join(kept)


def _jpeg(data: bytes) -> tuple[int, int]:
    """Width and height from the start-of-frame segment."""
    at = 2
    while at + 9 < min(len(data), _HEADER * 8) and data[at] == 0xFF:
        kind = data[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 1 if kind == 0xFF else 2 + int(struct.unpack(">H", data[at + 2 : at + 4])[0])
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    if len(data) < 30:
        return 0, 0
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = struct.unpack("<HH", data[26:30])
    return width & 0x3FFF, height & 0x3FFF


def fit(data: bytes) -> Picture:
    """Makes encoded data fit the bounds. Raises Unusable."""
    mime, width, height = sniff(data)
    if not mime:
        data = _mended(data)
        mime, width, height = sniff(data)
    if not mime or not width or not height:
        raise Unusable("it is no whole PNG, JPEG, GIF or WebP")
    if len(data) <= MAX_BYTES and max(width, height) <= MAX_EDGE:
        return Picture(mime, data, (width, height))
    if width * height > _PIXELS:
        raise Unusable(f"its {width}x{height} pixels are too many to be scaled here: draw it smaller")
    try:
        from PIL import Image
    except ImportError:
        if len(data) <= MAX_BYTES:
            return Picture(mime, data, (width, height))
        raise Unusable(
            f"its {len(data)} bytes are more than {MAX_BYTES}, and without Pillow it cannot be scaled: draw it smaller"
        ) from None
    try:
        with Image.open(io.BytesIO(data)) as image:
            was = f"{width}x{height} pixels, {_bytes(len(data))}"
            if getattr(image, "n_frames", 1) > 1:
                was += f", {image.n_frames} frames"
            picture = shrink(image, was)
    except Exception as e:
        raise Unusable(f"it cannot be scaled ({type(e).__name__}: {str(e)[:100]}): draw it smaller") from e
    return picture._replace(note=picture.note or f"sent as {picture.mime} of {_bytes(len(picture.data))}; it has {was}")


def shrink(image: Any, was: str) -> Picture:
    """Encodes a PIL image of any mode within the bounds."""
    from PIL import Image

    size = image.size
    if not min(size):
        raise Unusable("it has no pixels")
    edge = min(max(size), MAX_EDGE)
    if size[0] * size[1] > _PIXELS:
        image = image.resize(_scaled(size, 2 * edge), Image.Resampling.NEAREST)
    image = _plain(image)
    while True:
        to = _scaled(size, edge)
        small = image if to == image.size else image.resize(to, Image.Resampling.LANCZOS, reducing_gap=3.0)
        mime, data = _encode(small)
        if len(data) <= MAX_BYTES:
            break
        edge = math.floor(edge * _SMALLER)
    note = f"shown at {to[0]}x{to[1]} of {was}" if to != size else ""
    return Picture(mime, data, to, note)


def _scaled(size: tuple[int, int], edge: int) -> tuple[int, int]:
    """The size with its longer edge scaled to edge."""
    scale = edge / max(size)
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _plain(image: Any) -> Any:
    """The image in a mode that PNG and JPEG share: L, LA, RGB or RGBA."""
    mode = image.mode
    if mode in ("L", "LA", "RGB", "RGBA"):
        return image
    if mode == "1":
        return image.convert("L")
    if mode in ("I", "F") or mode.startswith("I;16"):
        return _grey(image)
    if mode in ("PA", "RGBa", "La") or "transparency" in image.info:
        return image.convert("RGBA")
    return image.convert("RGB")


def _grey(image: Any) -> Any:
    """Deep grey values spread over the 256 that can be shown, darkest to brightest."""
    image = image if image.mode in ("I", "F") else image.convert("I")
    low, high = image.getextrema()
    if not (math.isfinite(low) and math.isfinite(high)):
        raise Unusable("it holds values that are not finite: replace NaN and infinity first")
    scale = 255 / (high - low) if high > low else 0
    return image.point(lambda x: x * scale - low * scale).convert("L")


def _encode(image: Any) -> tuple[str, bytes]:
    """PNG, or JPEG where that saves much: on photographs."""
    png = _save(image, "PNG")
    if len(png) <= _LOSSLESS:
        return "image/png", png
    if image.mode in ("LA", "RGBA"):
        if len(png) <= MAX_BYTES:
            return "image/png", png
        image = _flat(image)
    jpeg = _save(image, "JPEG", quality=85)
    return ("image/jpeg", jpeg) if len(jpeg) < len(png) // 2 else ("image/png", png)


def _flat(image: Any) -> Any:
    """The image on white."""
    from PIL import Image

    image = image.convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image).convert("RGB")


def _save(image: Any, form: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def sound(mime: str, data: bytes) -> tuple[str, bytes]:
    """The MIME type that clients know, and data. Raises Unusable."""
    known = _SOUNDS.get(mime.partition(";")[0].strip().lower())
    if known is None:
        raise Unusable(f"clients cannot play {mime[:50]}: use WAV, MP3, Ogg or FLAC")
    if len(data) > MAX_SOUND:
        raise Unusable(f"its {len(data)} bytes are more than {MAX_SOUND}: use a part of it, or a lower rate")
    return known, data


def _bytes(n: int) -> str:
    return f"{n / 1e6:.1f} MB" if n >= 1e6 else f"{n / 1e3:.0f} kB"
