"""`smelt export`: a language model as a GGUF file."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from smelt.cli.from_function import Argument, Given, Option, command
from smelt.cli.options import ALLOW_PICKLE, ANSWER, FORCE, OUT

if TYPE_CHECKING:
    from smelt.engine.convert.export import ExportSummary

__all__ = ["export"]


@command(
    "smelt.engine.convert.export:export",
    model=Argument("A folder, hf:org/name, zoo:name, BASE+ADAPTER.", metavar="MODEL", complete="models"),
    out=OUT.but("The file to write: NAME.gguf."),
    type=Option("f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 ...; as stored by default.", complete="gguf types"),
    pre=Option("llama.cpp's name for how the tokenizer cuts text, if it is not found."),
    modelfile=Option("Write a Modelfile for Ollama beside it."),
    allow_pickle=ALLOW_PICKLE,
    force=FORCE.but("Replace an existing file, at the end."),
    **ANSWER,
)
def export(given: Given) -> None:
    """Write a language model as a GGUF file, with its tokenizer and chat template, for llama.cpp and its kin.

    \b
    smelt export MODEL -o OUT.gguf
    smelt export MODEL -o OUT.gguf --type q8_0 --modelfile
    """
    done: ExportSummary = given.call()
    given.answer(lambda: dataclasses.asdict(done), done.print)
