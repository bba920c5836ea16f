"""How a model is trained, as data: a shipped recipe by its name, a YAML file, or a table. Unknown words are refused.

source: "FusionBench (Tang et al. 2024, arXiv:2406.03280)"
kind: classifier                     # what it trains: classifier or causal_lm; any where it is left out
method: full                         # or lora: {rank, alpha, dropout, layers}
trained: ["vision_model.*"]          # the tensors that are trained; the family's own by default
steps: 4000                          # or epochs
batch: 32                            # examples of every task in a step
micro_batch: 16                      # so many at once, where a batch does not fit
optimiser: adam
lr: 1.0e-5
schedule: constant                   # or cosine, linear
output: tower                        # or whole, adapter
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from smelt.errors import RecipeError, listed, unknown
from smelt.files.schema import Strict, faults_of, place_of, reason_of
from smelt.files.yaml_reader import read_yaml

__all__ = ["Lora", "TrainingRecipe", "Validation", "read_training_recipe", "shipped_recipes"]

_SHIPPED = Path(__file__).parent / "recipes"
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]


class Lora(Strict):
    """W + (alpha / rank) B A in linear layers, A and B trained in float32 (Hu et al. 2021, arXiv:2106.09685)."""

    rank: Count = 16
    alpha: Positive | None = None
    """Twice the rank where nothing is said."""
    dropout: Share = 0.0
    layers: tuple[str, ...] = ()
    """Last words of the layers' names (q_proj); all linear layers among the trained tensors where none are named."""


class Validation(Strict):
    """How often a model that is being trained is asked on examples that it does not learn from."""

    split: str = "val"
    every: Count = 500
    """Steps between two looks; the last step is one too."""
    examples: Count | None = None
    """Of each task, at most; all where nothing is said."""
    patience: Count | None = None
    """Stop after so many looks that were no better, and take the weights of the best one."""


class TrainingRecipe(Strict):
    """All that an expert follows from, beside its base and its data."""

    source: str = ""
    """Where the numbers come from."""
    notes: tuple[str, ...] = ()
    kind: Literal["classifier", "causal_lm"] | None = None
    """The models that it is for."""
    method: Literal["full", "lora"] = "full"
    lora: Lora = Lora()
    trained: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    """Of those, what stays frozen."""
    steps: Count | None = None
    epochs: Positive | None = None
    batch: Count = 32
    micro_batch: Count | None = None
    split: str = "train"
    examples: Count | None = None
    """Of each task, at most; all where nothing is said."""
    length: Annotated[int, Field(ge=8)] = 512
    """Tokens of one text at most; the beginning of its prompt is cut."""
    optimiser: Literal["adam", "adamw", "sgd"] = "adamw"
    lr: Positive = 1e-5
    betas: tuple[Share, Share] = (0.9, 0.999)
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    clip: Positive | None = None
    """The largest norm of the gradient."""
    schedule: Literal["constant", "cosine", "linear"] = "cosine"
    warmup: Share = 0.0
    """The share of the steps in which the rate rises from nothing."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """What is computed in (autocast)."""
    weights: Literal["float32", "bfloat16"] = "float32"
    """What the model is held in; adapters are always float32."""
    checkpointing: bool = False
    """Compute activations again for the gradient instead of keeping them."""
    seed: Annotated[int, Field(ge=0, lt=1 << 32)] = 0
    validation: Validation | None = None
    output: Literal["whole", "tower", "adapter"] | None = None
    """A whole model, a picture tower alone (as `CLIPVisionModel`), or an adapter; the last for lora by default."""
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """Of a whole model or a tower; that of the base by default."""

    @model_validator(mode="after")
    def _agrees(self) -> TrainingRecipe:
        faults = []
        if (self.steps is None) == (self.epochs is None):
            faults.append("say either steps or epochs")
        if self.micro_batch is not None and self.micro_batch > self.batch:
            faults.append(f"micro_batch is a part of the batch: {self.micro_batch} is more than {self.batch}")
        splits = [self.split, *([self.validation.split] if self.validation else [])]
        if "test" in splits:
            faults.append("nothing is trained or chosen on test; use another split")
        if len(set(splits)) < len(splits):
            faults.append(f"validation: {self.split} is what it learns from; use another split")
        if self.output == "adapter" and self.method != "lora":
            faults.append("output: an adapter is what method lora makes; write whole or tower")
        if self.method != "lora" and self.lora != Lora():
            faults.append("lora: belongs to method lora, which is not asked for")
        if self.weights == "bfloat16" and self.precision == "float32":
            faults.append("weights: what is held in bfloat16 is computed in bfloat16; say precision: bfloat16 too")
        if faults:
            raise ValueError("; ".join(faults))
        return self

    @property
    def written(self) -> Literal["whole", "tower", "adapter"]:
        """What becomes of the result."""
        return self.output or ("adapter" if self.method == "lora" else "whole")

    @property
    def hash(self) -> str:
        """Over all that the result follows from; not over words about it."""
        return hashlib.sha256(json.dumps(self.dump(), sort_keys=True).encode()).hexdigest()

    def dump(self) -> dict[str, Any]:
        """The recipe as plain data, without what only tells about it."""
        return self.model_dump(mode="json", exclude={"source", "notes"})


def shipped_recipes() -> dict[str, Path]:
    """The recipes that come with Smelt, by name."""
    return {path.stem: path for path in sorted(_SHIPPED.glob("*.yaml"))}


def read_training_recipe(
    source: TrainingRecipe | str | Path | Mapping[str, Any] | None, changes: Mapping[str, Any] | None = None
) -> TrainingRecipe:
    """A recipe with changes on top: `lora.rank` is a word of a table; `steps` and `epochs` take each other's place."""
    where, content = _content(source)
    for word, value in (changes or {}).items():
        table, _, inside = word.partition(".")
        if inside:
            content[table] = {**(content.get(table) or {}), inside: value}
        else:
            content[word] = value
        if word in ("steps", "epochs"):
            content.pop("epochs" if word == "steps" else "steps", None)
    try:
        return TrainingRecipe.model_validate(content)
    except ValidationError as error:
        raise RecipeError(f"{where}: {listed(faults_of(error, _fault))}") from None


def _content(source: TrainingRecipe | str | Path | Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    match source:
        case None:
            return "the recipe", {}
        case TrainingRecipe():
            return "the recipe", source.model_dump(mode="json", exclude_unset=True)
        case Mapping():
            return "the recipe", dict(source)
    shipped = shipped_recipes()
    path = shipped.get(str(source), Path(source))
    if not path.is_file():
        raise RecipeError(f"{unknown('training recipe', str(source), shipped)}; or give the path of a YAML file")
    content = read_yaml(path, kind=RecipeError)
    if not isinstance(content, dict):
        raise RecipeError(f"{path}: a training recipe is a table of words")
    return str(source), content


def _fault(error: Mapping[str, Any]) -> str:
    if error["type"] == "extra_forbidden":
        tables: dict[str, type[Strict]] = {"lora": Lora, "validation": Validation}
        table = tables.get(str(error["loc"][0]), TrainingRecipe) if len(error["loc"]) > 1 else TrainingRecipe
        return unknown("word of a training recipe", str(error["loc"][-1]), table.model_fields)
    where = place_of(error)
    return reason_of(error) if where == "it" else f"{where}: {reason_of(error)}"
