"""What is shown other than by printing it. The libraries are stand-ins with the real ones' protocol."""

from __future__ import annotations

import base64
import os
import re
import struct
import zlib

from driver import Case, Harness, Reply

# For the code in a sandbox: makes pictures without a library.
PICTURES = """
import struct, zlib

def png(width=2, height=2, filler=0):
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    rows = (b'\\0' + bytes(3 * width)) * height
    return (b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0))
            + chunk(b'tEXt', b'x' * filler) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))

class P:
    def __init__(self, *args): self.data = png(*args)
    def _repr_png_(self): return self.data
"""

MARKS = "[picture 1]\n[picture 2]\n[picture 3]\n"  # where pictures were shown between prints
GIF = "b'GIF89a\\x05\\0\\x04\\0\\0\\0\\0;'"
JPEG = "b'\\xff\\xd8\\xff\\xe0\\0\\x04ab\\xff\\xc0\\0\\x0b\\x08\\0\\x07\\0\\x09\\x01\\x01\\x11\\0\\xff\\xd9'"
WEBP = "b'RIFF\\x16\\0\\0\\0WEBPVP8L\\x0a\\0\\0\\0\\x2f\\x01\\x40\\0\\0\\0\\0\\0\\0\\0'"
WAV = "b'RIFF\\x24\\0\\0\\0WAVEfmt '"


def method(name: str, result: str, plain: str = "") -> str:
    """Code whose value gives a form of itself."""
    repr_ = f"\n    def __repr__(s): return {plain!r}" if plain else ""
    return f"class V:\n    def {name}(s, include=None, exclude=None): return {result}{repr_}\nV()"


# The code; the text for its value; the types of what is sent; a part of the notices.
FORMS: dict[str, tuple[str, str, list[str], str]] = {
    "a PNG": (method("_repr_png_", "png()", "plain"), "", ["image/png"], ""),
    "a PNG with metadata": (method("_repr_png_", "(png(), {'width': 2})"), "", ["image/png"], ""),
    "a PNG as base64": (method("_repr_png_", "__import__('base64').b64encode(png()).decode()"), "", ["image/png"], ""),
    "a JPEG": (method("_repr_jpeg_", JPEG), "", ["image/jpeg"], ""),
    "a JPEG that says it were a PNG": (method("_repr_png_", JPEG), "", ["image/jpeg"], ""),
    "a GIF in a bundle": (method("_repr_mimebundle_", f"{{'image/gif': {GIF}}}"), "", ["image/gif"], ""),
    "a WebP in a bundle": (method("_repr_mimebundle_", f"({{'image/webp': {WEBP}}}, {{}})"), "", ["image/webp"], ""),
    "a picture before text": (
        method("_repr_mimebundle_", "{'text/plain': 'p', 'text/html': 'h', 'image/png': png()}"),
        "",
        ["image/png"],
        "",
    ),
    "a picture that is broken off": (method("_repr_png_", "png()[:-9]", "plain"), "plain", [], "no whole PNG"),
    "a picture that is damaged": (
        method("_repr_png_", "png().replace(b'IDAT', b'IDOT')", "plain"),
        "plain",
        [],
        "no whole PNG",
    ),
    "a picture whose colour profile is damaged": (
        method("_repr_png_", "png()[:33] + bytes([0, 0, 0, 1]) + b'iCCPxJUNK' + png()[33:]", "plain"),
        "",
        ["image/png"],
        "",
    ),
    "a picture that is none": (method("_repr_png_", "b'junk'", "plain"), "plain", [], "no whole PNG"),
    "a picture that is a number": (method("_repr_png_", "5", "plain"), "plain", [], "image/png is not shown"),
    "a picture whose method raises": (
        method("_repr_png_", "1/0", "plain"),
        "plain",
        [],
        "V._repr_png_ raised ZeroDivisionError: division by zero",
    ),
    "a picture that there is not": (method("_repr_png_", "None", "plain"), "plain", [], ""),
    "a sound": (method("_repr_mimebundle_", f"{{'audio/x-wav': {WAV}}}"), "", ["audio/wav"], ""),
    "a sound in an object like IPython's": (
        f"class Audio:\n    data, mimetype = {WAV}, 'audio/wav'\n    def _repr_html_(s): return '<audio>'\nAudio()",
        "",
        ["audio/wav"],
        "",
    ),
    "a sound that clients can't play": (
        method("_repr_mimebundle_", "{'audio/midi': b'x', 'text/plain': 'p'}"),
        "p",
        [],
        "clients cannot play audio/midi",
    ),
    "a film": (method("_repr_mimebundle_", "{'video/mp4': b'x', 'text/plain': 'p'}"), "p", [], "cannot play video/mp4"),
    "Markdown before its repr": (method("_repr_markdown_", "'**m**'", "plain"), "**m**", [], ""),
    "a repr before LaTeX": (method("_repr_latex_", "'$x^2$'", "x**2"), "x**2", [], ""),
    "LaTeX before an address": (method("_repr_latex_", "'$x^2$'"), "$x^2$", [], ""),
    "a repr before HTML": (method("_repr_html_", "'<b>h</b>'", "plain"), "plain", [], ""),
    "HTML as text before an address": (
        method(
            "_repr_html_",
            "'<style>.a{}</style><table><tr><th>a</th><th>b</th></tr>\\n<tr><td>1&lt;2</td><td>é</td></tr></table>'"
            "'<!-- <p>no --><p>end<script>1<2</script>'",
        ),
        "a | b\n1<2 | é\nend",
        [],
        "",
    ),
    "HTML before words that tell only a class": (
        method("_repr_html_", "'<b>h</b>'", "<IPython.core.display.HTML object>"),
        "h",
        [],
        "",
    ),
    "a small SVG": (method("_repr_svg_", "'<svg/>'"), "<svg/>", [], ""),
    "a large SVG": (method("_repr_svg_", "'<svg>' + 'x' * 9000", "plain"), "plain", [], ""),
    "JSON": (method("_repr_json_", "{'a': [1]}"), "{'a': [1]}", [], ""),
    "a bundle's own plain text": (method("_repr_mimebundle_", "{'text/plain': 'p', 'text/html': 'h'}"), "p", [], ""),
    "a bundle that is none": (method("_repr_mimebundle_", "[1, 2]", "plain"), "plain", [], ""),
    "a bundle of wrong types": (
        method("_repr_mimebundle_", "{5: 5, 'text/plain': 5, 'text/markdown': b'x', 'audio/wav': 5}", "plain"),
        "plain",
        [],
        "audio/wav is not shown",
    ),
    "instances that make up any method": (
        "class V:\n    def __getattr__(s, name): return lambda *a, **k: 1/0\n    def __repr__(s): return 'plain'\nV()",
        "plain",
        [],
        "",
    ),
    "a class that has methods": ("P", "<class '__main__.P'>", [], ""),
    "its own display": (
        "class V:\n    def _ipython_display_(s): display(P())\nV()",
        "",
        ["image/png"],
        "",
    ),
    "its own display that declines": (
        "class V:\n    def _ipython_display_(s): raise NotImplementedError\n    def __repr__(s): return 'plain'\nV()",
        "plain",
        [],
        "",
    ),
}

# A package that stands in for one that is not in this image.
PACKAGES = {
    "polars/__init__.py": """
class Config:
    now = {}
    def __init__(self, **options): self.options = options
    def __enter__(self): Config.now = self.options
    def __exit__(self, *_): Config.now = {}
class DataFrame:
    def __repr__(self): return 'rows=%s format=%s' % (Config.now.get('tbl_rows'), Config.now.get('tbl_formatting'))
""",
    "pandas/__init__.py": """
options = {'display.max_rows': 60, 'display.min_rows': 10, 'display.max_colwidth': 50, 'display.max_columns': 0}
get_option, set_option = options.get, options.__setitem__
class DataFrame:
    def __init__(self, rows, columns=('a',), width=1):
        self.shape, self.columns, self.width = (rows, len(columns)), columns, width
        self.dtypes = ['int64' if i % 2 else 'object' for i in range(len(columns))]
    def to_string(self, max_rows, min_rows, max_cols, max_colwidth, show_dimensions):
        asked = '%s/%s/%s/%s ' % (max_rows, min_rows, max_cols, max_colwidth)
        return asked.ljust(self.width * (max_colwidth or 1000))
    def __repr__(self): return 'formats all'
class Styler:
    def __init__(self, data): self.data = data
    def to_string(self, delimiter): return delimiter.join(['x'] * self.data.shape[0])
""",
    "plotly/__init__.py": "",
    "plotly/io.py": "def show(figure): raise RuntimeError('there is no browser')",
    "plotly/graph_objs.py": """
from types import SimpleNamespace as N
class BaseFigure:
    def __init__(self):
        self.layout = N(title=N(text='Sales'), xaxis=N(title=N(text='year')), yaxis=N(title=N(text=None)))
        self.data = [N(type='bar', name='north', x=range(12)), N(type='pie', name=None, values=[1, 2])]
    def show(self):
        import plotly.io
        plotly.io.show(self)
    def to_image(self, format):
        assert format == 'png'
        from __main__ import png
        return png()
    def _repr_html_(self): raise RuntimeError('megabytes')
class Figure(BaseFigure): pass
""",
    "altair/__init__.py": """
from types import SimpleNamespace as N
class TopLevelMixin:
    def save(self, file, format): raise RuntimeError('no renderer')
class Chart(TopLevelMixin):
    title, mark = 'T', N(type='point')
    encoding, data = N(x=N(shorthand='a:Q'), y=N(shorthand='b')), N(shape=(7, 2))
""",
    "matplotlib/__init__.py": "def get_cachedir(): return __import__('os').environ['MPLCONFIGDIR']",
    "../prefix/share/bridged/matplotlib/fontlist.json": "{}",
    "matplotlib/font_manager.py": "import logging\n_log = logging.getLogger(__name__)",
    "matplotlib/figure.py": """
class Figure:
    dpi, size = 100, (6.4, 4.8)
    def __init__(self, number=0): self.number, self.stale = number, True
    def show(self): raise RuntimeError('no window')
    def get_size_inches(self): return self.size
    def savefig(self, out, format, dpi, bbox_inches=None):
        from __main__ import png
        if self.number == 13: raise RuntimeError('cannot be drawn')
        if self.number == 14 and bbox_inches: raise ValueError('Image size is too large')
        out.write(png(*(round(n * dpi) for n in self.size)))
""",
    "matplotlib/pyplot.py": """
from .figure import Figure
figures = {}
def figure(number=None):
    show.__signature__ = None  # as pyplot does when it chooses its backend
    number = number or max(figures, default=0) + 1
    return figures.setdefault(number, Figure(number))
def get_fignums(): return sorted(figures)
def close(which): figures.clear()
def show(): raise RuntimeError('no window')
""",
}


def types(reply: Reply) -> list[str]:
    return [f["mime"] for f in reply.of("rich")]


def edges(reply: Reply) -> list[tuple[int, int]]:
    """Widths and heights of the PNGs that were sent."""
    out = []
    for f in reply.of("rich"):
        data = base64.b64decode(f["data"])
        assert zlib.crc32(data[12:29]) == struct.unpack(">I", data[29:33])[0]
        out.append(struct.unpack(">II", data[16:24]))
    return out


class Display(Case):
    shared: Harness

    @classmethod
    def setUpClass(cls) -> None:
        cls.shared = Harness()
        cls.addClassCleanup(cls.shared.close)
        for name, source in PACKAGES.items():
            path = os.path.join(cls.shared.dir, "packages", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(source)
        cls.shared.run(f"import sys\nsys.path.insert(0, {os.path.join(cls.shared.dir, 'packages')!r})")
        cls.shared.run(f"sys.prefix = {os.path.join(cls.shared.dir, 'prefix')!r}")
        cls.shared.run(PICTURES)

    def test_value_is_shown_in_its_best_form(self) -> None:
        for name, (code, text, kinds, note) in FORMS.items():
            with self.subTest(name):
                reply = self.shared.run(code)
                self.assertEqual((reply.status, reply.value or ""), ("ok", text), reply.error)
                self.assertEqual(types(reply), kinds)
                self.assertIn(note, reply.notices)

    def test_display_shows_all_and_returns_a_handle_on_demand(self) -> None:
        reply = self.shared.run("display(P(), 'text', 5, [1])\nh = display(6, display_id=True)\nh.update(7)")
        self.assertEqual((reply.text(1), types(reply)), ("text\n5\n[1]\n6\n7\n", ["image/png"]))
        reply = self.shared.run("display({'text/plain': 'p', 'image/png': png()}, raw=True)\ndisplay({'a': 1})")
        self.assertEqual((reply.text(1), types(reply)), ("{'a': 1}\n", ["image/png"]))
        self.assertEqual(self.shared.run("display({'text/html': '<b>h</b>'}, raw=True)").text(1), "h\n")

    def test_pictures_and_prints_keep_their_order(self) -> None:
        reply = self.shared.run("print('a')\ndisplay(P())\nprint('b')\ndisplay(P())\nprint('c')\nP()")
        order = [p[1] if f["t"] == "output" else f"<{f['t']}>" for f in reply.frames for p in f.get("parts", [0])]
        # Joined: text that waits for company may be sent in pieces.
        self.assertEqual("".join(order), "a\n<rich>[picture 1]\nb\n<rich>[picture 2]\nc\n<rich><done>")

    def test_pictures_past_the_bounds_are_noted(self) -> None:
        reply = self.shared.run("display(*[P() for _ in range(20)])")
        self.assertEqual(len(reply.of("rich")), 16)
        self.assertIn("More than 16 pictures", reply.notices)
        reply = self.shared.run("display(*[P(2, 2, 1_000_000) for _ in range(5)])")
        self.assertEqual(len(reply.of("rich")), 4)
        self.assertIn("one call shows 4194304 at most", reply.notices)
        reply = self.shared.run("display(P(50_000, 1_000))")
        self.assertEqual(len(reply.of("rich")), 0)
        self.assertIn("50000x1000 pixels are too many", reply.notices)

    def test_code_for_notebooks_works_without_ipython(self) -> None:
        reply = self.shared.run(
            "from IPython.display import display as show, HTML, Image, JSON, Latex, Markdown\nimport IPython\n"
            "show(Markdown('**m**'), HTML('<p>h</p>'), Latex('$l$'), JSON({'a': 1}), Image(data=png()))\n"
            "open('p.png', 'wb').write(png())\nshow(Image('p.png'), Image(filename='p.png'))\n"
            "print(IPython.get_ipython())\nImage(data=b'x')"
        )
        self.assertEqual(reply.text(1), "**m**\nh\n$l$\n{'a': 1}\n" + MARKS + "None\n", reply.error)
        self.assertEqual(types(reply), ["image/png"] * 3)
        self.assertRegex(reply.value or "", "IPython.display.Image object")
        self.assertIn("no network", self.shared.run("Image(url='u')").error["message"])

    def test_samples_are_a_sound(self) -> None:
        reply = self.shared.run("from IPython.display import Audio\nAudio([[0, 0.5, -1], [1, 0, 0]], rate=8000)")
        (frame,) = reply.of("rich")
        data = base64.b64decode(frame["data"])
        self.assertEqual((frame["mime"], data[:4], data[22:28]), ("audio/wav", b"RIFF", struct.pack("<HI", 2, 8000)))
        self.assertEqual(data[44:], struct.pack("<6h", 0, 32767, 16383, 0, -32767, 0))
        self.assertIn("rate must be", self.shared.run("Audio([1, 2])").error["message"])
        self.assertIn("a lower rate", self.shared.run("Audio([0] * 2_000_000, rate=1)").notices)

    def test_figures_are_shown_once(self) -> None:
        run = self.shared.run
        run("import matplotlib.pyplot as plt")
        self.assertEqual(edges(run("plt.figure(); plt.figure();")), [(640, 480)] * 2)
        self.assertEqual(len(run("1").of("rich")), 0)
        self.assertEqual(len(run("f = plt.figure()\nf").of("rich")), 1)
        self.assertEqual(len(run("f").of("rich")), 1)
        self.assertEqual(len(run("f = plt.figure()\ndisplay(f)\nf.stale = True").of("rich")), 2)
        self.assertEqual(len(run("plt.figure(); plt.show(); plt.show();").of("rich")), 1)
        self.assertEqual(len(run("plt.figure()\nfor _ in range(99): plt.show(block=False)").of("rich")), 1)
        self.assertEqual(len(run("f = plt.figure()\nf.show()\nf.stale = False").of("rich")), 1)
        reply = run("plt.figure(13); f = plt.figure(14); 'kept'")
        self.assertEqual((reply.value, len(reply.of("rich"))), ("'kept'", 1))
        self.assertIn("A figure is not shown: RuntimeError: cannot be drawn", reply.notices)

    def test_figures_of_code_that_fails_are_shown_with_it(self) -> None:
        for code in ("1/0", "exit(3)", "compile('(', '', 'exec')"):
            reply = self.shared.run("import matplotlib.pyplot as plt\nplt.figure()\n" + code)
            self.assertEqual((reply.status, len(reply.of("rich"))), ("error", 1))
        reply = self.shared.interrupted("plt.figure()\nprint('go')\nimport time\ntime.sleep(60)")
        self.assertEqual((reply.status, len(reply.of("rich"))), ("interrupted", 0))
        self.assertEqual(len(self.shared.run("1").of("rich")), 0)

    def test_matplotlib_finds_the_fonts_of_the_image(self) -> None:
        self.shared.run("import matplotlib")
        self.assertTrue(os.path.exists(os.path.join(self.shared.dir, "fontlist.json")))

    def test_fonts_are_missed_once(self) -> None:
        reply = self.shared.run(
            "import matplotlib.font_manager as f\nfor i in range(99): f._log.warning('no font %s', 'ab'[i % 2])"
        )
        self.assertEqual(reply.text(2), "no font a\nno font b\n")

    def test_large_figure_is_drawn_smaller(self) -> None:
        reply = self.shared.run("import matplotlib.pyplot as plt\nf = plt.figure(); f.size = (32, 16); f")
        self.assertEqual(edges(reply), [(1568, 784)])
        told = "Picture 1: shown at 1568x784 of 3200x1600 pixels; savefig() and publish() hand over the full one."
        self.assertIn(told, reply.notices)

    def test_figures_that_cannot_be_drawn_are_summed_up(self) -> None:
        run = self.shared.run
        reply = run("import plotly.graph_objs\nf = plotly.graph_objs.Figure()\nf.show()\nf")
        told = "Figure of plotly title='Sales' x='year'\n  bar 'north': 12 points\n  pie: 2 points\n(not drawn"
        self.assertTrue((reply.value or "").startswith(told), reply.value)
        self.assertTrue(reply.text(1).startswith(told), reply.text(1))
        reply = run("import altair\naltair.Chart()")
        told = "Chart of altair title='T' mark='point' x='a:Q' y='b' rows=7\n(not drawn: no working vl_convert"
        self.assertTrue((reply.value or "").startswith(told), reply.value)
        run("for name in ('kaleido', 'vl_convert'): open(sys.path[0] + '/' + name + '.py', 'w').close()")
        self.assertEqual(types(run("import importlib; importlib.invalidate_caches()\nf")), ["image/png"])
        self.assertIn("mark='point'", run("altair.Chart()").value or "")

    def test_frames_are_shown_within_bounds(self) -> None:
        tables = {
            "pd.DataFrame(10**9)": "60/10/20/50 \n[1000000000 rows x 1 columns; object: a]",
            "pd.DataFrame(50, range(20))": "10/10/20/50 \n[50 rows x 20 columns; object: 0, 2, 4, ",
            "pd.DataFrame(50, range(31))": "10/10/20/50 \n[50 rows x 31 columns; 16 object, 15 int64]",
            "pd.DataFrame(50, 'abc', 200)": "10/10/20/20 \n[50 rows x 3 columns; object: a, c; int64: b]",
            "pd.DataFrame(50, 'abc', 1000)": "6/6/10/20 \n[50 rows x 3 columns; object: a, c; int64: b]",
            "pd.Styler(pd.DataFrame(3))": "x | x | x\n[3 rows x 1 columns, styled]",
            "pd.Styler(pd.DataFrame(61))": "60/10/20/50 \n[61 rows x 1 columns; object: a]\n(out[N] is all of it)\n(a",
            "pd.set_option('display.max_rows', 500)\npd.DataFrame(9)": "500/10/20/50 \n[9 rows x 1 columns;",
            "pd.set_option('display.max_rows', None)\npd.DataFrame(9)": "1000/10/20/50 \n[9 rows x 1 columns;",
        }
        for code, want in tables.items():
            with self.subTest(code):
                reply = self.shared.run("import pandas as pd\n" + code)
                value = re.sub(r"out\[\d+]", "out[N]", re.sub(" +\n", " \n", reply.value or ""))
                self.assertEqual(value[: len(want)], want, reply.error)

    def test_frames_of_another_library_are_plain(self) -> None:
        reply = self.shared.run("import polars\npolars.DataFrame()")
        self.assertEqual(reply.value, "rows=10 format=NOTHING")
