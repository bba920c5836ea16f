"""What a config.json says of a model's quantisation, and the format that its numbers are offered in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, RecipeError, shortened
from smelt.files.reading import is_there, read_json_table
from smelt.formats import dtype as dtypes
from smelt.formats.folder_files import QUANTISATION

__all__ = ["QuantisationSettings", "offered_format", "settings_of"]

_UNIVERSAL = "BF16"
_BESIDE = {"quantize_config.json": "gptq", "quant_config.json": "awq"}
"""Files that say it where config.json does not, and whose they are."""
_INPUTS_FIRST = frozenset({"gpt2", "openai-gpt", "imagegpt", "decision_transformer", "clvp"})
"""Models whose layers are stored as [in, out] in full precision; libraries that quantise turn them."""


@dataclass(frozen=True)
class QuantisationSettings:
    """Of one model."""

    label: str
    """The model, for messages."""
    said: Mapping[str, Any]
    """The table in config.json, or of a file of the library's own beside it; empty where there is none."""
    dtype: str
    """What dequantised tensors are offered as."""
    model_type: str = ""
    """The config's word for the architecture."""

    @property
    def method(self) -> str:
        """The library that wrote it, in its own word; empty where the config says nothing."""
        return str(self.said.get("quant_method") or self.said.get("quant_algo") or "").lower()

    @property
    def block_size(self) -> tuple[int, int] | None:
        """The rows and columns that share a scale, where the config says so of all blocks."""
        size = self.said.get("weight_block_size")
        if size is None:
            return None
        if not isinstance(size, list) or len(size) != 2 or any(type(side) is not int or side < 1 for side in size):
            shown = shortened(repr(size))
            raise self.fault(
                f"config.json says weight_block_size = {shown}, which is no pair of whole numbers from 1 on"
            )
        return size[0], size[1]

    def whole_number(self, key: str, *, least: int = 1) -> int | None:
        """A setting that is a whole number, None where it is not there."""
        value = self.said.get(key)
        if value is None:
            return None
        if type(value) is not int or value < least:
            raise self.fault(
                f"config.json says {key} = {shortened(repr(value))}, which is no whole number from {least} on"
            )
        return value

    def check_order_of_axes(self) -> None:
        """Refuse models whose layers the library turned when it quantised them."""
        if self.model_type in _INPUTS_FIRST:
            raise self.unread(
                f"layers of a {self.model_type} model are stored as [in, out], and "
                f"{self.method or 'what quantised them'} turned them"
            )

    def fault(self, what: str) -> CorruptFile:
        """What is wrong with the model, as an error."""
        return CorruptFile(f"{self.label}: {what}")

    def unread(self, what: str) -> RecipeError:
        """What is not read here, as an error."""
        return RecipeError(
            f"{self.label}: {what}; dequantise it with the library that wrote it, and give the result instead"
        )


def settings_of(label: str, config: Mapping[str, Any] | None, folder: Path | None = None) -> QuantisationSettings:
    """Those of a model with this config.json, and this folder around it."""
    config = config or {}
    text = config.get("text_config")
    sections = [config, *([text] if isinstance(text, Mapping) else [])]
    said: Any = next((section[key] for section in sections for key in QUANTISATION if section.get(key)), {})
    if not isinstance(said, Mapping):
        raise CorruptFile(f"{label}: config.json has a quantization_config that is no table")
    said = said or _said_beside(folder)
    names = (section.get(key) for section in sections for key in ("dtype", "torch_dtype"))
    dtype = next(filter(None, map(offered_format, names)), _UNIVERSAL)
    return QuantisationSettings(label, said, dtype, str(config.get("model_type", "")))


def _said_beside(folder: Path | None) -> Mapping[str, Any]:
    for name, method in _BESIDE.items():
        if folder is not None and is_there(folder / name):
            return {"quant_method": method, **read_json_table(folder / name)}
    return {}


def offered_format(name: Any) -> str | None:
    """A format of 16 or 32 bits by the config's word for it."""
    try:
        found = dtypes.parse_dtype(str(name))
    except RecipeError:
        return None
    return found if found in dtypes.NUMPY_FLOATS else None
