"""Icon sets of @iconify/json, drawn with resvg."""

from __future__ import annotations

import functools
import io
import json
import re

import numpy as np
from PIL import Image

import fetch

LICENCES = frozenset(
    {"MIT", "Apache-2.0", "CC0-1.0", "ISC", "OFL-1.1", "CC-BY-4.0", "CC-BY-3.0", "Unlicense", "BSD-3-Clause"}
)


@functools.cache
def collections() -> dict[str, dict]:
    """The sets whose licence lets us ship what is made of them."""
    text = (fetch.package("@iconify/json") / "package" / "collections.json").read_text(encoding="utf-8")
    return {name: info for name, info in json.loads(text).items() if info["license"].get("spdx") in LICENCES}


@functools.cache
def icon_set(name: str) -> dict:
    if name not in collections():
        raise ValueError(f"the icon set {name!r} has no licence that allows shipping")
    path = fetch.package("@iconify/json") / "package" / "json" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def icon_names(name: str) -> set[str]:
    return set(icon_set(name)["icons"]) | set(icon_set(name).get("aliases", {}))


def draw(set_name: str, icon: str, *, size: int, square: bool = True, margin: float = 0.0) -> Image.Image:
    """An icon as RGBA, `size` pixels wide; `square` centres it in a square, else it keeps its proportions."""
    collection = icon_set(set_name)
    body, box = _resolve(collection, icon)
    left, top, width, height = box
    if square:
        side = max(width, height)
        left, top, width, height = left - (side - width) / 2, top - (side - height) / 2, side, side
    pad = margin * max(width, height)
    left, top, width, height = left - pad, top - pad, width + 2 * pad, height + 2 * pad
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="{left} {top} {width} {height}" width="{width}" height="{height}" color="#000">{body}</svg>'
    )
    return render(svg, size, max(1, round(size * height / width)))


def render(svg: str, width: int, height: int) -> Image.Image:
    import resvg_py

    return Image.open(io.BytesIO(bytes(resvg_py.svg_to_bytes(svg_string=svg, width=width, height=height)))).convert(
        "RGBA"
    )


def on_paper(image: Image.Image, size: int) -> np.ndarray:
    """An RGBA picture centred on a white square, reduced to size x size RGB."""
    side = max(image.size)
    paper = Image.new("RGBA", (side, side), (255, 255, 255, 255))
    paper.alpha_composite(image, ((side - image.width) // 2, (side - image.height) // 2))
    return np.asarray(paper.convert("RGB").resize((size, size), Image.Resampling.LANCZOS))


def slug(label: str) -> str:
    """An emoji's label as icon sets spell it: `woman’s hat` → `womans-hat`."""
    return re.sub(r"[^a-z0-9]+", "-", re.sub("[’“”]", "", label.lower())).strip("-")


def _resolve(collection: dict, icon: str) -> tuple[str, tuple[float, float, float, float]]:
    entry = collection["icons"].get(icon)
    while entry is None:
        alias = collection["aliases"][icon]
        icon = alias["parent"]
        entry = collection["icons"].get(icon)
    default = {"left": 0, "top": 0, "width": 16, "height": 16}
    return entry["body"], tuple(entry.get(k, collection.get(k, v)) for k, v in default.items())
