"""Checkpoints of Megatron-core, in both of its formats, gathered from the ranks as they are read.

    iter_0000100/.metadata, __R_N.distcp, common.pt       torch_dist: a distributed checkpoint of torch
    iter_0000100/mp_rank_TT/model_optim_rng.pt            legacy: a file for each tensor-parallel rank,
    iter_0000100/mp_rank_TT_PPP/model_optim_rng.pt        and for each stage of the pipeline
    latest_checkpointed_iteration.txt                     names the iteration

In legacy files a rank has rows of some matrices and columns of others, told by their names. In both, names become those
of Hugging Face's models where a config.json beside says which model it is (smelt.formats.shards.megatron_names).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from smelt.caller import option
from smelt.errors import CorruptFile
from smelt.files.reading import names_in
from smelt.formats import dtype as dtypes
from smelt.formats.folder_files import read_config
from smelt.formats.pickle_header import StoredTensor
from smelt.formats.shards.dcp import open_dcp
from smelt.formats.shards.folders import with_config
from smelt.formats.shards.megatron_names import hf_tensors
from smelt.formats.shards.pieces import Piece, Pieces, ShardedSource, check_whole
from smelt.formats.shards.recognise import MEGATRON_RANK, dcp_folder, megatron_folder
from smelt.formats.shards.runs import joined_source
from smelt.formats.shards.torch_archive import TorchArchive, read_archive
from smelt.formats.source import Source, TensorInfo

__all__ = ["open_megatron"]

_FILE = "model_optim_rng.pt"
_LAYER = re.compile(r"^(decoder\.layers\.)(\d+)(\..+)$")
_ROWS = re.compile(
    r"(word_embeddings|output_layer|linear_qkv|linear_fc1|linear_q_up_proj|linear_kv_up_proj)\.(weight|bias)$"
)
_COLUMNS = re.compile(r"(linear_proj|linear_fc2)\.weight$")
_SAME = re.compile(
    r"(layer_norm_(weight|bias)|(layernorm|norm)\.(weight|bias)|(linear_proj|linear_fc2)\.bias|"
    r"position_embeddings\.weight|router\.(weight|expert_bias))$"
)
_FC1 = "mlp.linear_fc1."


def open_megatron(path: Path, part: str | None = None, *, allow_pickle: bool = False) -> Source:
    """The model of one iteration."""
    folder = megatron_folder(path) or path
    is_dcp = dcp_folder(folder) is not None
    stored = open_dcp(folder, part) if is_dcp else _Legacy(path, folder).source(allow_pickle)
    joined, note = hf_tensors(stored.tensors, read_config(stored.folder))
    source = joined_source(stored, joined) if joined is not None else stored
    source.notes = [f"Megatron-core, {note}", *stored.notes]
    return source


class _Legacy:
    """The files of all ranks of one iteration."""

    def __init__(self, path: Path, folder: Path):
        self._path, self._folder = path, folder
        self._ranks: dict[tuple[int, int], Path] = {}
        for name in names_in(folder):
            if match := MEGATRON_RANK.match(name):
                if match["expert"]:
                    raise CorruptFile(
                        f"{folder}: its experts lie on several ranks ({name}), which is read only from torch_dist "
                        "checkpoints; save it as torch_dist by Megatron"
                    )
                self._ranks[int(match["stage"] or 0), int(match["tensor"])] = folder / name / _FILE
        self._tensor = 1 + max(tensor for _, tensor in self._ranks)
        self._stages = 1 + max(stage for stage, _ in self._ranks)

    def source(self, allow_pickle: bool) -> Source:
        wanted = [(stage, tensor) for stage in range(self._stages) for tensor in range(self._tensor)]
        lost = [place for place in wanted if place not in self._ranks or not self._ranks[place].is_file()]
        if lost:
            stage, tensor = lost[0]
            raise CorruptFile(
                f"{self._folder}: the file of tensor-parallel rank {tensor}, stage {stage} is missing ({len(lost)} of "
                f"{len(wanted)}); copy the files of every rank, or use another iteration"
            )
        if not allow_pickle:
            raise CorruptFile(
                f"{self._path}: Megatron's files are pickles, which can run code where torch opens them. Write "
                f"{option('allow_pickle')} to read this one: Smelt reads names and numbers, and runs nothing"
            )
        paths = [self._ranks[place] for place in wanted]
        archives = [read_archive(path) for path in paths]
        self._check_iterations(archives)
        tensors: dict[str, Pieces] = {}
        layers = 0
        for stage in range(self._stages):
            numbers = range(stage * self._tensor, (stage + 1) * self._tensor)
            tables = [self._model(archives[number]) for number in numbers]
            ranks = [(number, archives[number], table) for number, table in zip(numbers, tables, strict=True)]
            own = 0
            for name in tables[0]:
                match = _LAYER.match(name)
                if match:
                    own = max(own, 1 + int(match[2]))
                global_name = f"{match[1]}{int(match[2]) + layers}{match[3]}" if match else name
                if stage and name.startswith("embedding."):
                    continue  # the last stage's copy of the first one's table
                if global_name in tensors:
                    raise CorruptFile(f"{self._folder}: {global_name!r} stands in two stages of the pipeline")
                tensors[global_name] = self._gathered(name, ranks)
            layers += own
        source = ShardedSource(str(self._path), paths, tensors)
        source.folder, about = with_config(self._folder)
        said = archives[0].content.get("iteration")
        step = f", iteration {said}" if type(said) is int else ""
        source.notes = [
            f"legacy format, {self._tensor} tensor-parallel and {self._stages} pipeline ranks{step}; left out: the "
            "optimiser's state",
            *about,
        ]
        return source

    def _check_iterations(self, archives: list[TorchArchive]) -> None:
        for archive in archives:
            if not isinstance(archive.content, Mapping) or "model" not in archive.content:
                several = isinstance(archive.content, Mapping) and "model0" in archive.content
                why = (
                    "is of an interleaved pipeline, which is read only from torch_dist" if several else "holds no model"
                )
                raise CorruptFile(f"{archive.where}: {why}")
        version = archives[0].content.get("checkpoint_version")
        if isinstance(version, int | float) and version < 3:
            raise CorruptFile(
                f"{archives[0].where}: version {version} of the format, whose queries, keys and values lie in another "
                "order; load and save it with a newer Megatron"
            )
        said = [archive.content.get("iteration") for archive in archives]
        other = next((n for n, one in enumerate(said) if one != said[0]), None)
        if other is not None:
            raise CorruptFile(
                f"{archives[other].where}: is of iteration {said[other]}, and {archives[0].where} of {said[0]}; two "
                "saves are mixed. Use another iteration"
            )

    def _model(self, archive: TorchArchive) -> dict[str, StoredTensor]:
        model = archive.content["model"]
        if not isinstance(model, Mapping) or not all(isinstance(name, str) for name in model):
            raise CorruptFile(f"{archive.where}: holds no table of tensors")
        found = {name.removeprefix("module."): one for name, one in model.items() if isinstance(one, StoredTensor)}
        if not any(name.startswith(("decoder.", "embedding.")) for name in found):
            raise CorruptFile(f"{archive.where}: has no names of Megatron-core (decoder.layers. ...); convert it first")
        return {name: one for name, one in found.items() if not name.endswith("_extra_state")}

    def _gathered(self, name: str, ranks: list[tuple[int, TorchArchive, dict[str, StoredTensor]]]) -> Pieces:
        found = []
        for number, archive, model in ranks:
            if name not in model:
                raise CorruptFile(f"{archive.where}: has no {name!r}, which other ranks have; two runs may be mixed")
            found.append((number, archive, model[name]))
        first = found[0][2]
        if any((one.shape, one.code) != (first.shape, first.code) for _, _, one in found):
            raise CorruptFile(f"{self._folder}: {name!r} has other shapes on other ranks; two runs may be mixed")
        how = _how(name) if len(found) > 1 else "same"
        if how is None:
            raise CorruptFile(
                f"{self._folder}: how {name!r} is split over tensor-parallel ranks is not known; save it as "
                "torch_dist by Megatron"
            )
        pieces = self._blocks(name, how, found, ranks[0][2])
        axis = 1 if how == "columns" else 0
        shape = list(first.shape)
        if how != "same":
            shape[axis] *= len(found)
        whole = Pieces(TensorInfo(first.code, tuple(shape)), tuple(shape) or (1,), tuple(pieces))
        check_whole(str(self._folder), name, whole)
        return whole

    def _blocks(
        self,
        name: str,
        how: str,
        found: list[tuple[int, TorchArchive, StoredTensor]],
        model: Mapping[str, StoredTensor],
    ) -> list[Piece]:
        """A rank's block of a matrix; of gate and up, which every rank has a part of, two."""
        blocks: list[Piece] = []
        for rank, (number, archive, one) in enumerate(found):
            position, strides = archive.place(one)
            if strides is not None:
                raise CorruptFile(f"{archive.where}: {name!r} does not lie row after row, which is not read")
            sizes = one.shape or (1,)
            offsets = [0] * len(sizes)
            if how == "same":
                return [Piece(number, position, tuple(offsets), sizes)]
            axis = 1 if how == "columns" else 0
            offsets[axis] = rank * sizes[axis]
            if axis == 0 and self._is_gated(name, one, model):
                half = sizes[0] // 2
                rows = (half, *sizes[1:])
                size = _row_bytes(one) * half
                for which in (0, 1):
                    offsets[0] = which * half * len(found) + rank * half
                    blocks.append(Piece(number, position + which * size, tuple(offsets), rows))
            else:
                blocks.append(Piece(number, position, tuple(offsets), sizes))
        return blocks

    def _is_gated(self, name: str, one: StoredTensor, model: Mapping[str, StoredTensor]) -> bool:
        """Whether the first layer of an MLP is gate and up: then it has twice the rows that the second has columns."""
        if _FC1 not in name:
            return False
        second = model.get(name.replace("linear_fc1.bias", "linear_fc1.weight").replace("linear_fc1", "linear_fc2"))
        return second is not None and len(second.shape) == 2 and one.shape[0] == 2 * second.shape[1]


def _row_bytes(one: StoredTensor) -> int:
    return math.prod(one.shape[1:]) * dtypes.item_size(one.code)


def _how(name: str) -> Literal["rows", "columns", "same"] | None:
    """Which part of a tensor a tensor-parallel rank has."""
    if _SAME.search(name):
        return "same"
    if _COLUMNS.search(name):
        return "columns"
    return "rows" if _ROWS.search(name) else None
