"""How numbers and settings are written for people, the same on the page and in every table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "bytes_text",
    "count",
    "percent",
    "plural",
    "seconds_text",
    "setting_text",
    "short_hash",
    "short_layer",
    "without_shared_start",
]


def percent(value: float) -> str:
    """0.7134 → `71.3`; the sign is in the heading."""
    return f"{100 * value:.1f}"


def count(number: int) -> str:
    """16000 → `16,000`."""
    return f"{number:,}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """`1 task`, `8 tasks`."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def seconds_text(seconds: float) -> str:
    """Three digits that matter: `0.42 s`, `12.3 s`, `3 min 20 s`, `5 h 12 min`."""
    if seconds >= 7200:
        minutes = round(seconds / 60)
        return f"{minutes // 60} h {minutes % 60} min"
    if seconds >= 120:
        whole = round(seconds)
        return f"{whole // 60} min {whole % 60} s"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"


def bytes_text(size: float) -> str:
    """In powers of ten, as disks and the rest of Smelt count: `91.4 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.0f} TB"


def setting_text(setting: Mapping[str, Any]) -> str:
    """{"density": 0.2, "scale": 0.3} → `density 0.2, scale 0.3`; a stage's own setting follows its name."""
    return ", ".join(f"{name} {_value(value)}".rstrip() for name, value in setting.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = setting_text(value)
        return f"({inner})" if inner else ""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def short_hash(digest: str | None) -> str:
    """The first twelve digits of a hash, without the name of its kind."""
    return (digest or "").rpartition(":")[2][:12]


def short_layer(name: str) -> str:
    """`vision_model.encoder.layers.3` → `layer 3`; other modules keep their last word."""
    last = name.rpartition(".")[2]
    return f"layer {last}" if last.isdigit() else last.replace("_", " ")


def without_shared_start(names: Sequence[str]) -> dict[str, str]:
    """zoo:clip-tiny-photos, zoo:clip-tiny-digits → photos, digits: whole words that all names begin with go."""
    first, last = min(names, default=""), max(names, default="")
    if first == last:
        return dict(zip(names, names, strict=True))
    cut = 0
    for place, (a, b) in enumerate(zip(first, last, strict=False), 1):
        if a != b:
            break
        if a in "-_/:.":
            cut = place
    return {name: name[cut:] or name for name in names}
