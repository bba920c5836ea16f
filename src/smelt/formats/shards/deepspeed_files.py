"""The files of a DeepSpeed checkpoint: which there are, and what those of every rank say.

    global_step500/mp_rank_00_model_states.pt                  the module, and the shapes of parameters (ZeRO-1, 2)
    global_step500/zero_pp_rank_N_mp_rank_00_model_states.pt   the same for every rank (ZeRO-3)
    global_step500/zero_pp_rank_N_mp_rank_00_optim_states.pt   rank N's part of the float32 weights, and more
    latest                                                     names the folder

In: the folder. Out: the content of every file without its numbers; files of several saves are told apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile
from smelt.files.reading import names_in
from smelt.formats.shards.inert_pickle import Record
from smelt.formats.shards.recognise import DEEPSPEED_MODEL, DEEPSPEED_OPTIMISER
from smelt.formats.shards.torch_archive import TorchArchive, read_archive

__all__ = ["DeepSpeedFiles", "read_deepspeed", "stage_of", "table"]

_ELSEWHERE = re.compile(r"^layer_\d+.*model_states\.pt$|^expert_\d+.*model_states\.pt$")


@dataclass(frozen=True)
class DeepSpeedFiles:
    """All that a checkpoint's files say, rank after rank."""

    folder: Path
    models: Mapping[int, tuple[Path, TorchArchive]]
    optimisers: Mapping[int, tuple[Path, TorchArchive]]

    @property
    def first(self) -> Mapping[str, Any]:
        """What the first rank says of the model."""
        return table(self.models[0][1], self.models[0][1].content)

    def optimiser(self, rank: int) -> Mapping[str, Any]:
        """What a rank's optimiser holds."""
        archive = self.optimisers[rank][1]
        return table(archive, table(archive, archive.content).get("optimizer_state_dict"))


def read_deepspeed(folder: Path) -> DeepSpeedFiles:
    """The pickles of all ranks, without their numbers."""
    models: dict[int, tuple[Path, TorchArchive]] = {}
    optimisers: dict[int, tuple[Path, TorchArchive]] = {}
    for name in names_in(folder):
        for pattern, found in ((DEEPSPEED_MODEL, models), (DEEPSPEED_OPTIMISER, optimisers)):
            if match := pattern.match(name):
                _check_part(folder, name, match["part"])
                rank = int(match["rank"] or 0)
                if rank in found:
                    raise CorruptFile(
                        f"{folder}: {found[rank][0].name} and {name} are of one rank, so two saves are mixed; remove "
                        "the stale one"
                    )
                found[rank] = (folder / name, read_archive(folder / name))
        if _ELSEWHERE.match(name):
            raise CorruptFile(
                f"{folder}: {name} is of a pipeline or of experts that DeepSpeed keeps apart, which is not read; turn "
                "it into a universal checkpoint or one file with DeepSpeed's own tools"
            )
    if 0 not in models:
        raise CorruptFile(
            f"{folder}: the file of model states of rank 0 is missing, so this checkpoint is not whole; copy it, or "
            "use an earlier one"
        )
    _check_steps(folder, models)
    return DeepSpeedFiles(folder, models, optimisers)


def _check_part(folder: Path, name: str, part: str) -> None:
    if int(part):
        raise CorruptFile(
            f"{folder}: {name} is of a model that is split over several model-parallel ranks, which is not read; turn "
            "it into one with DeepSpeed's ds_to_universal"
        )


def _check_steps(folder: Path, models: Mapping[int, tuple[Path, TorchArchive]]) -> None:
    steps = {rank: table(archive, archive.content).get("global_steps") for rank, (_, archive) in models.items()}
    for rank, step in steps.items():
        if step != steps[0]:
            raise CorruptFile(
                f"{folder}: rank 0 is of step {steps[0]} and rank {rank} of step {step}, so two saves are mixed; use "
                "another checkpoint"
            )


def table(archive: TorchArchive, found: Any) -> Mapping[str, Any]:
    """A table with names, as every part of these files is."""
    if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
        raise CorruptFile(f"{archive.where}: is no file of a DeepSpeed checkpoint")
    return found


def stage_of(found: Any) -> int:
    """The stage of ZeRO, a number or a member of DeepSpeed's enumeration."""
    if isinstance(found, Record) and len(found.given) == 1:
        found = found.given[0]
    return found if type(found) is int else -1
