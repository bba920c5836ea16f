"""Models by their shapes alone: what a plan needs where the weights lie elsewhere.

In: the size of a public model as data (`sizes/*.yaml`), by `shape:llama-3.1-8b` or by the name of a repository of that
size; or headers that the hub gives (repository.py). Out: a Source with a header and no numbers. It can be planned with,
and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files as package_files
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from smelt.errors import RecipeError, unknown
from smelt.files.schema import Strict
from smelt.files.yaml_reader import parse_yaml
from smelt.formats import dtype as dtypes
from smelt.formats.source import Source, TensorInfo
from smelt.models.references import reference_scheme

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ShapeSource", "Size", "known_sizes", "shape_source", "shape_source_of_repository"]

_SUFFIX = ".yaml"


class Size(Strict):
    """A decoder of the Llama or Gemma 2 kind."""

    family: Literal["llama", "gemma2"]
    layers: int
    width: int
    inner: int
    heads: int
    key_value_heads: int
    head_width: int
    vocabulary: int
    tied: bool
    parameters: int
    names: Mapping[str, str]
    """Repositories of this size (`*` stands for anything), and the dtype that each is stored in."""

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Every tensor, under its Hugging Face name."""
        yield "model.embed_tokens.weight", (self.vocabulary, self.width)
        queries, keys = self.heads * self.head_width, self.key_value_heads * self.head_width
        block: dict[str, tuple[int, ...]] = {
            "self_attn.q_proj": (queries, self.width),
            "self_attn.k_proj": (keys, self.width),
            "self_attn.v_proj": (keys, self.width),
            "self_attn.o_proj": (self.width, queries),
            "mlp.gate_proj": (self.inner, self.width),
            "mlp.up_proj": (self.inner, self.width),
            "mlp.down_proj": (self.width, self.inner),
        }
        norms = ["input_layernorm", "post_attention_layernorm"]
        if self.family == "gemma2":
            norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        block |= dict.fromkeys(norms, (self.width,))
        for number in range(self.layers):
            yield from ((f"model.layers.{number}.{part}.weight", shape) for part, shape in block.items())
        yield "model.norm.weight", (self.width,)
        if not self.tied:
            yield "lm_head.weight", (self.vocabulary, self.width)


class ShapeSource(Source):
    """Names, shapes and dtypes; no numbers."""

    def __init__(self, label: str, tensors: dict[str, TensorInfo], tied: dict[str, str], folder: Path | None = None):
        self.label, self.tensors, self.tied, self.folder = label, tensors, tied, folder

    @classmethod
    def of_size(cls, label: str, size: Size, dtype: str) -> ShapeSource:
        """Of a known size."""
        code = dtypes.parse_dtype(dtype)
        tensors = {name: TensorInfo(code, shape) for name, shape in size.shapes()}
        return cls(label, tensors, {"lm_head.weight": "model.embed_tokens.weight"} if size.tied else {})

    def read(self, key: str, start: int, out: Tensor) -> None:
        raise RecipeError(
            f"{self.label}: only its shapes are here, which is enough to plan; to merge, give the weights "
            "(a folder, or hf:org/name where the hub can be reached)"
        )


@cache
def known_sizes() -> dict[str, Size]:
    """The sizes by name."""
    folder = package_files("smelt.models").joinpath("sizes")
    found = (entry for entry in folder.iterdir() if entry.name.endswith(_SUFFIX))
    return {
        entry.name.removesuffix(_SUFFIX): Size.model_validate(parse_yaml(entry.read_text(encoding="utf-8"), entry.name))
        for entry in sorted(found, key=lambda one: one.name)
    }


@reference_scheme("shape")
def shape_source(name: str, *, allow_pickle: bool = False) -> ShapeSource:
    """`shape:llama-3.1-8b`, or with another dtype `shape:llama-3.1-8b@float32`."""
    plain, _, dtype = name.partition("@")
    sizes = known_sizes()
    if plain not in sizes:
        raise RecipeError(unknown("model size", plain, sizes))
    return ShapeSource.of_size(f"shape:{name}", sizes[plain], dtype or "bfloat16")


def shape_source_of_repository(name: str) -> ShapeSource | None:
    """The shapes of a repository on the hub, by its name; None where it is not known."""
    repository = name.partition("@")[0]
    for size in known_sizes().values():
        for pattern, dtype in size.names.items():
            if fnmatchcase(repository, pattern):
                return ShapeSource.of_size(f"hf:{name}", size, dtype)
    return None
