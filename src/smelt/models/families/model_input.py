"""A model as somebody gave it, behind one face: a reference, a Source, a module, a state dict, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.files.reading import read_json_table
from smelt.formats import dtype as dtypes
from smelt.formats.source import MemorySource, Source, TensorInfo, read_whole
from smelt.models.families.preprocess import Preprocess
from smelt.system.process import usable_cores
from smelt.system.threads import single_core_pool

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ModelInput", "check_device", "known_config", "read_all"]


@dataclass
class ModelInput:
    """What is known of it before a number is read."""

    label: str
    source: Source | None
    """Nothing if nothing was given."""
    folder: Path | None = None
    config: dict[str, Any] | None = None
    preprocess: Preprocess | None = None
    origin: Any = None
    """The object as it was given: a module, a loaded model."""
    opened_here: bool = False

    @classmethod
    def open(cls, model: Any, what: str, *, allow_pickle: bool = False) -> ModelInput:
        """Open what was given; `what` is its word in messages."""
        import torch

        if model is None:
            return cls(what, None)
        if isinstance(model, str | Path):
            from smelt.models.references import open_ref

            source = open_ref(str(model), allow_pickle=allow_pickle)
            return cls(str(model), source, opened_here=True)._read_folder()
        if isinstance(model, Source):
            return cls(model.label, model)._read_folder()
        if isinstance(model, torch.nn.Module):
            config = getattr(model, "config", None)
            words = config.to_dict() if hasattr(config, "to_dict") else None  # type: ignore[union-attr]
            return cls(type(model).__name__, MemorySource(what, model.state_dict()), config=words, origin=model)
        if isinstance(model, Mapping) and all(isinstance(tensor, torch.Tensor) for tensor in model.values()):
            return cls("state dict", MemorySource(what, model))
        raise RecipeError(f"{what}: expected a reference, a module or a state dict, got {type(model).__name__}")

    @property
    def present(self) -> bool:
        return self.source is not None

    @property
    def names(self) -> Sequence[str]:
        """Its tensors, tied ones too."""
        return [] if self.source is None else [*self.source.tensors, *self.source.tied]

    def info(self, name: str) -> TensorInfo:
        assert self.source is not None
        return self.source.tensors[self.source.tied.get(name, name)]

    def read(self, name: str) -> Tensor:
        """One tensor: floats in fp32, integers as they are."""
        import torch

        assert self.source is not None
        info = self.info(name)
        kind = torch.float32 if info.dtype in dtypes.FLOATS else dtypes.torch_dtype(info.dtype)
        return read_whole(self.source, self.source.tied.get(name, name), kind)

    def close(self) -> None:
        if self.opened_here and self.source is not None:
            self.source.close()

    def _read_folder(self) -> ModelInput:
        """What the folder around the weights says, or the file itself."""
        assert self.source is not None
        self.folder = self.source.folder
        if self.folder is not None:
            file = self.folder / "config.json"
            self.config = read_json_table(file) if file.is_file() else None
            self.preprocess = Preprocess.load(self.folder)
        return self

    @property
    def config_in_file(self) -> dict[str, Any] | None:
        """The config that a file of weights holds itself (GGUF), where no config.json lies beside."""
        own = getattr(self.source, "config", None)
        return own() if self.config is None and callable(own) else None


def read_all(places: Mapping[str, tuple[ModelInput, str]]) -> dict[str, Tensor]:
    """The tensors of a model, {name: (whose it is, its name there)}, read by threads of one core each.

    A pack's tensors are decoded in small pieces, and a piece that two cores share costs more than it saves.
    """
    with single_core_pool(usable_cores(), "smelt-read") as pool:
        found = pool.map(lambda place: place[0].read(place[1]), places.values())
        return dict(zip(places, found, strict=True))


def known_config(given: ModelInput, text: ModelInput) -> Mapping[str, Any]:
    """The config of a model, else that of the one it is said to be like."""
    config = given.config or text.config
    if config is None:
        raise RecipeError(
            f"{given.label}: has no config.json, so its architecture is not known; "
            "give a folder that has one, or say with text_from which model it is like"
        )
    return config


def check_device(device: str, dtype: str) -> None:
    """Refuse a device that this machine lacks, and formats that no model computes in."""
    if dtype not in ("float32", "bfloat16", "float16"):
        raise RecipeError(f"dtype: a model computes in float32, bfloat16 or float16, got {dtype!r}")
    kind = device.split(":")[0]
    if kind not in ("cpu", "cuda", "mps"):
        raise RecipeError(f"device: is cpu, cuda or mps, got {device!r}")
    if kind == "cpu":  # every machine has it; torch takes a second to load, and a run may do without
        return
    import torch

    if (kind == "cuda" and not torch.cuda.is_available()) or (kind == "mps" and not torch.backends.mps.is_available()):
        raise RecipeError(f"device: there is no {kind} on this machine; use cpu")
