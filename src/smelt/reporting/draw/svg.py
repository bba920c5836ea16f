"""Elements of SVG as text, every attribute and every text escaped."""

from __future__ import annotations

from markupsafe import Markup, escape

__all__ = ["tag", "text_of"]


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """`tag("line", x1=0, stroke_width=2)` → `<line x1="0" stroke-width="2"/>`.

    An underscore in a name is a hyphen, one at its end is dropped (`class_`), None leaves the attribute out.
    `name` and attribute names are ours; values and children may be anyone's and are escaped.
    """
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(text_of(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = Markup("").join(escape(child) for child in children)
    return Markup(f"<{name}{words}>{inner}</{name}>" if children else f"<{name}{words}/>")


def text_of(value: object) -> str:
    """Numbers with two digits after the point at most, and no needless ones."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
