"""What a config.json says of a model's quantisation, and the format that its numbers are offered in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smelt.errors import CorruptFile, RecipeError, shortened
from smelt.formats import dtype as dtypes
from smelt.formats.folder_files import QUANTISATION

__all__ = ["QuantisationSettings", "offered_format", "settings_of"]

_UNIVERSAL = "BF16"


@dataclass(frozen=True)
class QuantisationSettings:
    """Of one model."""

    label: str
    """The model, for messages."""
    said: Mapping[str, Any]
    """The table in config.json; empty where there is none."""
    dtype: str
    """What dequantised tensors are offered as."""
    model_type: str = ""
    """The config's word for the architecture."""

    @property
    def method(self) -> str:
        """The library that wrote it, in its own word; empty where the config says nothing."""
        return str(self.said.get("quant_method") or self.said.get("quant_algo") or "").lower()

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

    def fault(self, what: str) -> CorruptFile:
        """What is wrong with the model, as an error."""
        return CorruptFile(f"{self.label}: {what}")

    def unread(self, what: str) -> RecipeError:
        """What is not read here, as an error."""
        return RecipeError(
            f"{self.label}: {what}; dequantise it with the library that wrote it, and give the result instead"
        )


def settings_of(label: str, config: Mapping[str, Any] | None) -> QuantisationSettings:
    """Those of a model with this config.json."""
    config = config or {}
    text = config.get("text_config")
    sections = [config, *([text] if isinstance(text, Mapping) else [])]
    said = next((section[key] for section in sections for key in QUANTISATION if section.get(key)), {})
    if not isinstance(said, Mapping):
        raise CorruptFile(f"{label}: config.json has a quantization_config that is no table")
    names = (section.get(key) for section in sections for key in ("dtype", "torch_dtype"))
    dtype = next(filter(None, map(offered_format, names)), _UNIVERSAL)
    return QuantisationSettings(label, said, dtype, str(config.get("model_type", "")))


def offered_format(name: Any) -> str | None:
    """A format of 16 or 32 bits by the config's word for it."""
    try:
        found = dtypes.parse_dtype(str(name))
    except RecipeError:
        return None
    return found if found in dtypes.NUMPY_FLOATS else None
