"""Where in the folder of a training step its shards lie, and the model's config beside them.

    RUN/config.json                                a run's own, where its checkpoints have none
    RUN/checkpoint-500/config.json                 the step's
    RUN/checkpoint-500/pytorch_model_fsdp_0/       torch's distributed checkpoint, as accelerate writes it
    RUN/checkpoint-500/latest                      names the folder of DeepSpeed's files

In: the folder of the shards. Out: the folder around it that has a config, and the step that its name tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from smelt.files.reading import is_there
from smelt.formats.shards.recognise import MODEL_FOLDERS

__all__ = ["said_step", "with_config"]

_CONFIG = "config.json"


def with_config(shards: Path) -> tuple[Path | None, list[str]]:
    """The nearest folder with a config from the shards up to the run's, and a note where it is not the shards' own."""
    for folder in _upwards(shards):
        if is_there(folder / _CONFIG):
            return folder, [] if folder == shards else [f"config and tokenizer are those of {folder}"]
    return None, [f"has no config.json: put the model's config and tokenizer into {shards} to use what is merged"]


def said_step(shards: Path) -> str:
    """`, step 500` where the folder of a step is called so."""
    step = shards if _numbered(shards) else shards.parent if shards.name in MODEL_FOLDERS else None
    found = re.search(r"\d+$", step.name) if step is not None else None
    return f", step {int(found[0])}" if found else ""


def _upwards(shards: Path) -> Iterator[Path]:
    """The folder itself, the step's and the run's, as far as names say that these are around it."""
    yield shards
    step = shards.parent if shards.name in MODEL_FOLDERS or not _numbered(shards) else shards
    if _numbered(shards) and _numbered(shards.parent):  # checkpoint-500/global_step500
        step = shards.parent
    if step != shards:
        yield step
    if _numbered(step):
        yield step.parent


def _numbered(folder: Path) -> bool:
    """Whether this is the folder of a step by its name: checkpoint-500, global_step500, iter_0000500, 500."""
    return folder.name[-1:].isdigit() and folder.name not in MODEL_FOLDERS
