"""The class of results that show themselves: `print(result)`, and what a notebook shows of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self, TypeVar

from smelt.display.blocks import Block
from smelt.display.html import as_html
from smelt.display.text import as_text, print_blocks

__all__ = ["Shown", "ShownDict", "ShownList"]

T = TypeVar("T")


class Shown:
    """A result that says by `shown` what there is to see; `repr` stays what it is, for programs."""

    __slots__ = ()

    def shown(self) -> Iterable[Block]:
        """What people see of it."""
        raise NotImplementedError

    def print(self) -> None:
        """Show it in the terminal, as the command line does."""
        print_blocks(self.shown())

    def __str__(self) -> str:
        return as_text(self.shown())

    def _repr_html_(self) -> str:
        """What Jupyter, Colab and VS Code show."""
        return as_html(self.shown())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What IPython asks for first: text, which for a class with its own `repr` would else be that, and HTML."""
        return {"text/plain": str(self), "text/html": self._repr_html_()}

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What it asks for of lists and tables, of which it thinks that it knows how to print them."""
        printer.text(str(self))


class ShownList(Shown, list[T]):
    """A list that shows itself, as a table; so does the sum of two."""

    def __add__(self, other: Iterable[T]) -> Self:  # type: ignore[override]
        return type(self)([*self, *other])


class ShownDict(Shown, dict[str, T]):
    """A table of things by name that shows itself."""
