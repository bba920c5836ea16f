"""What a file of a model folder is to the programs that load the folder, by its name.

A loader picks files by their names, so a name decides what a file that nobody expected could do: be taken for weights,
be run, change how a model is built or fed. One table, read from the top; what it does not know is inert (a note, a log,
a picture). Names count without regard to case: some file systems have none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

__all__ = ["TOOL_FILES", "FileKind", "kind_of", "shown", "some_of"]

FileKind: TypeAlias = Literal["weights", "pickle", "code", "tokenizer", "template", "config"]

# The name is that of the file alone, in small letters, without its folders.
_NAMES: dict[FileKind, str] = {
    "weights": r".*\.(safetensors|gguf|ggml|h5|keras|msgpack|onnx|onnx_data|npz|npy|pb|tflite|ot|dduf|nemo|mlmodel)"
    r"|.*\.distcp|.*\.index\.json|openvino_.*\.xml",
    # Weights too, as a rule, but whoever opens one runs what is in it.
    "pickle": r".*\.(bin|pt|pth|ckpt|pkl|pickle|joblib|dill)",
    "code": r".*\.(py|pyc|pyd|so(\.\d+)*|dylib|dll)",
    "tokenizer": r"(vocab|merges|dict).*\.txt|.*\.(model|spm|tiktoken|vocab|bpe)|.*\.txt\.gz",
    "template": r".*\.(jinja2?|j2)",
    # Every .json: libraries give their configs, processors, adapters and notes hundreds of names.
    "config": r".*\.json|(.*[-_.])?config\.ya?ml",
}
_LONGEST, _MOST = 255, 8
_TABLE = tuple((kind, re.compile(_NAMES[kind], re.DOTALL)) for kind in get_args(FileKind))

TOOL_FILES = frozenset({".git", ".gitattributes", ".gitignore", ".cache", ".huggingface", ".ds_store"})
"""What version control, downloads and desktops leave in a folder, in small letters: no part of a model."""


def kind_of(name: str) -> FileKind | None:
    """What a loader would take a file of this name for, in whatever folder; None where none would take it."""
    last = name.rsplit("/", 1)[-1].lower()
    return next((kind for kind, pattern in _TABLE if pattern.fullmatch(last)), None)


def shown(name: str) -> str:
    """A file's name for a line of text: no longer than a name can be, with the characters escaped that no line has."""
    name = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..."
    return name if name.isprintable() else ascii(name)


def some_of(names: Sequence[str]) -> str:
    """The first few of many names in a row, and how many there are beside."""
    row = ", ".join(map(shown, names[:_MOST]))
    return row + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")
