"""What the analyses left in `analyses/*.json`, checked and ready to draw. A file that is not there is no figure.

What only one line of work leaves there its own pages read, by `read_figure`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile
from smelt.files.reading import read_json
from smelt.reporting.figures.heat import Matrix
from smelt.reporting.order import PublishedOrder, read_orders
from smelt.reporting.published import PublishedTable, read_published
from smelt.reporting.words import short_layer, without_shared_start

__all__ = [
    "Analyses",
    "Heat",
    "LayerNorms",
    "LineChart",
    "SignShares",
    "checked_table",
    "read_analyses",
    "read_figure",
]


@dataclass(frozen=True)
class LayerNorms:
    """The length of each model's change, layer after layer; `relative` where it is divided by the base's length."""

    layers: tuple[str, ...]
    models: dict[str, tuple[float | None, ...]]
    relative: bool


@dataclass(frozen=True)
class SignShares:
    """Shares of opposite signs between pairs, and (name, share) over all models."""

    pairs: Matrix
    overall: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Heat:
    """Any matrix to look at: coefficients by layer and model, gates by task and expert. `signed`: both sides of 0."""

    title: str
    matrix: Matrix
    note: str
    signed: bool


@dataclass(frozen=True)
class LineChart:
    """Any numbers that change along an axis: the diagonal of a map over the epochs, one line for each expert."""

    title: str
    x_label: str
    y_label: str
    x: tuple[float, ...]
    lines: dict[str, tuple[float | None, ...]]
    note: str


@dataclass(frozen=True)
class Analyses:
    """The figures about weights that a folder has."""

    cosine: Matrix | None = None
    norms: LayerNorms | None = None
    signs: SignShares | None = None
    heats: tuple[Heat, ...] = ()
    lines: tuple[LineChart, ...] = ()
    published: tuple[PublishedTable, ...] = ()
    orders: tuple[PublishedOrder, ...] = ()


_OVERALL = {
    "entries": "changed entries that some models raise and others lower",
    "mass": "the same, weighted by magnitude",
    "cancelled": "magnitude that cancels when all changes are added",
}


def read_analyses(folder: Path) -> Analyses:
    """Read cosine, norms, signs, heat-NAME, lines-NAME, published and order.json of a folder."""
    cosine, norms, signs = (read_figure(folder / f"{name}.json") for name in ("cosine", "norms", "signs"))
    return Analyses(
        _matrix(cosine, folder / "cosine.json") if cosine else None,
        _norms(norms, folder / "norms.json") if norms else None,
        _signs(signs, folder / "signs.json") if signs else None,
        tuple(_heat(content, path) for path in sorted(folder.glob("heat-*.json")) if (content := read_figure(path))),
        tuple(_lines(content, path) for path in sorted(folder.glob("lines-*.json")) if (content := read_figure(path))),
        read_published(folder / "published.json"),
        read_orders(folder / "order.json"),
    )


def read_figure(path: Path, remedy: str = "run the analysis again or remove the file") -> dict[str, Any] | None:
    """A figure as data, one JSON object; None where there is no file.

    `remedy` is what to do about a file that cannot be read.
    """
    if not path.is_file():
        return None
    try:
        content = read_json(path)
    except CorruptFile as error:
        raise CorruptFile(f"{error}; {remedy}") from None
    if not isinstance(content, dict):
        raise CorruptFile(f"{path}: should hold an object, has {type(content).__name__}")
    return content


def checked_table(value: Any, path: Path, where: str) -> dict[str, Any]:
    """A table of a figure's file, which should have something in it; `where` is its name there."""
    if not isinstance(value, dict) or not value:
        raise CorruptFile(f"{path}: `{where}` should be a table with something in it")
    return value


def _matrix(content: Mapping[str, Any], path: Path) -> Matrix:
    names, matrix = content.get("names"), content.get("matrix")
    if not isinstance(names, list) or not isinstance(matrix, list) or len(names) != len(matrix):
        raise CorruptFile(f"{path}: `names` and `matrix` should be lists of the same length")
    if any(not isinstance(row, list) or len(row) != len(names) for row in matrix):
        raise CorruptFile(f"{path}: every row of `matrix` should have {len(names)} numbers, one for each name")
    labels = _labels(names)
    return Matrix(labels, labels, tuple(_numbers(row, path) for row in matrix))


def _norms(content: Mapping[str, Any], path: Path) -> LayerNorms:
    relative = content.get("relative")
    layers, models = content.get("layers"), relative or content.get("models")
    if not isinstance(layers, list) or not isinstance(models, dict):
        raise CorruptFile(f"{path}: should hold a list `layers` and a table `models`")
    return LayerNorms(tuple(map(str, layers)), _rows(models, len(layers), "layer", path), bool(relative))


def _signs(content: Mapping[str, Any], path: Path) -> SignShares:
    overall = ((text, content.get(name)) for name, text in _OVERALL.items())
    shares = tuple((text, float(value)) for text, value in overall if isinstance(value, int | float))
    return SignShares(_matrix(content, path), shares)


def _heat(content: Mapping[str, Any], path: Path) -> Heat:
    rows, columns, matrix = (content.get(word) for word in ("rows", "columns", "matrix"))
    if not isinstance(rows, list) or not isinstance(columns, list) or not isinstance(matrix, list):
        raise CorruptFile(f"{path}: should hold the lists `rows`, `columns` and `matrix`")
    if len(matrix) != len(rows) or any(not isinstance(row, list) or len(row) != len(columns) for row in matrix):
        raise CorruptFile(f"{path}: `matrix` should have {len(rows)} rows of {len(columns)} numbers, as named")
    values = tuple(_numbers(row, path) for row in matrix)
    named = Matrix(_layers(rows), _labels(columns), values)
    title = str(content.get("title") or path.stem.removeprefix("heat-"))
    return Heat(title, named, str(content.get("note") or ""), bool(content.get("signed", False)))


def _lines(content: Mapping[str, Any], path: Path) -> LineChart:
    at, lines = content.get("x"), content.get("lines")
    if not isinstance(at, list) or not isinstance(lines, dict) or not at or not lines:
        raise CorruptFile(f"{path}: should hold a list `x` and a table `lines`, both with something in them")
    rows = _rows(lines, len(at), "of `x`", path)
    x = tuple(value for value in _numbers(at, path) if value is not None)
    if len(x) < len(at) or list(x) != sorted(set(x)):
        raise CorruptFile(f"{path}: `x` should be numbers in rising order")
    title = str(content.get("title") or path.stem.removeprefix("lines-"))
    x_label, y_label, note = (str(content.get(word) or "") for word in ("x_label", "y_label", "note"))
    return LineChart(title, x_label, y_label, x, rows, note)


def _rows(table: Mapping[str, Any], length: int, each: str, path: Path) -> dict[str, tuple[float | None, ...]]:
    """Rows of so many numbers, by their names without what all of them begin with."""
    wrong = next((name for name, row in table.items() if not isinstance(row, list) or len(row) != length), None)
    if wrong is not None:
        raise CorruptFile(f"{path}: {wrong!r} should have {length} numbers, one for each {each}")
    return dict(zip(_labels(list(table)), (_numbers(row, path) for row in table.values()), strict=True))


def _labels(names: Sequence[Any]) -> tuple[str, ...]:
    """Names without what all of them begin with."""
    short = without_shared_start([str(name) for name in names])
    return tuple(short[str(name)] for name in names)


def _layers(names: Sequence[Any]) -> tuple[str, ...]:
    """Modules by their short names, where these tell them apart."""
    short = tuple(short_layer(str(name)) for name in names)
    return short if all("." in str(name) for name in names) and len(set(short)) == len(names) else _labels(names)


def _numbers(row: Sequence[Any], path: Path) -> tuple[float | None, ...]:
    """Numbers, and None for what was not a number: JSON writes nan as null, some writers as NaN."""
    wrong = next((value for value in row if value is not None and not isinstance(value, int | float)), None)
    if wrong is not None:
        raise CorruptFile(f"{path}: {wrong!r} is not a number")
    return tuple(None if value is None or value != value else float(value) for value in row)
