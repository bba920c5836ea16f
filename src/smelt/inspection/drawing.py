"""A difference as a file: the heat map over depth as SVG, all that is shown as an HTML page, the data as JSON."""

from __future__ import annotations

from pathlib import Path

from smelt.caller import option
from smelt.errors import RecipeError
from smelt.files.writing import write_file, write_json
from smelt.inspection.difference import Difference, small

__all__ = ["check_name", "write"]

_ENDS = (".svg", ".html", ".json")


def check_name(path: Path) -> None:
    """Refuse a file whose name does not say what to write."""
    if path.suffix not in _ENDS:
        raise RecipeError(f"{option('out', str(path))}: the name says what to write; end it in {', '.join(_ENDS)}")


def write(found: Difference, path: Path) -> Path:
    """Write a difference; the name of the file says how."""
    check_name(path)
    if path.suffix == ".json":
        return write_json(path, found.to_json())
    return write_file(path, _svg(found) if path.suffix == ".svg" else _page(found))


def _svg(found: Difference) -> str:
    from smelt.reporting.draw.heat import heat_map
    from smelt.reporting.figures.heat import Matrix, plain_map

    depth = found.depth
    drawn = plain_map(Matrix(depth.layers, depth.kinds, depth.values), small)
    return f"{heat_map(drawn, f'Relative difference |b - a| / |a| of {found.first} (a) and {found.second} (b)')}\n"


def _page(found: Difference) -> str:
    from markupsafe import escape

    title = escape(f"{found.first} and {found.second}")
    style = "body { font:15px/1.5 system-ui, sans-serif; margin:2em auto; max-width:60em; padding:0 1em; }"
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    dark = "<style>:root { color-scheme:light dark; } " + style + "</style>"
    return f'<!doctype html>\n<html lang="en"><head>{head}{dark}</head><body>{found._repr_html_()}</body></html>\n'
