"""`smelt inspect`: what a model is, from headers alone."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.options import JSON

if TYPE_CHECKING:
    from smelt.inspection.model_facts import ModelFacts

__all__ = ["inspect"]


@command(
    "smelt.inspection.inspect:inspect",
    model=Argument("A folder, a file, zoo:name, hf:org/name, BASE+ADAPTER.", metavar="MODEL", complete="models"),
    tensors=Option("List every tensor: name, dtype, shape.", type=bool, default=False, own=True),
    keys=Option(
        "List the tensors whose name matches, e.g. '*.mlp.*'. May be given again.",
        type=list[str],
        default=None,
        own=True,
    ),
    as_json=JSON,
)
def inspect(given: Given) -> None:
    """Say what a model is: format, family, size, dtypes, vocabulary, parents, from its headers alone.

    \b
    smelt inspect MODEL
    smelt inspect MODEL --keys '*.mlp.*'
    """
    found: ModelFacts = given.call()
    listed = found.matching(given["keys"] or ["*"] * given["tensors"])

    def content() -> dict[str, Any]:
        return {**found.to_json(), "tensors": [dataclasses.asdict(one) for one in listed] or len(found.tensors)}

    def show() -> None:
        from smelt.display.text import print_blocks
        from smelt.inspection.model_facts import tensor_table

        print_blocks([*found.shown(), *([tensor_table(listed)] if listed else [])])

    given.answer(content, show)
