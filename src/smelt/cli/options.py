"""The options that several commands share, each written once."""

from __future__ import annotations

from pathlib import Path

from smelt.cli.from_function import Argument, Option
from smelt.files.remote_code import FLAG

__all__ = [
    "ALLOW_PICKLE",
    "ANSWER",
    "BASE",
    "DEVICE",
    "DTYPE",
    "FORCE",
    "JSON",
    "LOADING",
    "LORA",
    "LORA_FORMAT",
    "MEMORY",
    "METHOD",
    "MODEL",
    "MODELS",
    "MODEL_OUT",
    "OUT",
    "POOL",
    "QUIET",
    "RECIPE",
    "SET",
    "SHARD_SIZE",
    "STREAM",
    "TASKS",
    "TEXT_FROM",
    "THREADS",
    "TRUST",
]

ALLOW_PICKLE = Option("Read .bin and .pt files too, with torch's weights_only.", type=bool, default=False)
BASE = Option("The model the others were fine-tuned from.", type=str, default=None, own=True, complete="models")
DEVICE = Option("cpu, cuda or mps.", complete="devices")
DTYPE = Option("Of the output: bfloat16, float16, float32, float64.", complete="dtypes")
STREAM = Option("Read models of the Hugging Face hub from there, without a copy here.")
FORCE = Option("Replace an existing output, at the end.")
JSON = Option("Print the result as JSON.", ("--json",), type=bool, default=False, own=True)
LORA = Option("Write a LoRA adapter of this rank instead of a whole model.", metavar="RANK", min=1)
LORA_FORMAT = Option("How the adapter is written: peft, kohya or diffusers; as the models are, by default.")
MEMORY = Option("Limit for work memory, e.g. 500MB; the interpreter and torch come on top.", type=str)
METHOD = Option(
    "A merge method, or stages with commas: dare,ties (see `smelt methods`).",
    ("-m", "--method"),
    type=str,
    default=None,
    own=True,
    complete="methods",
)
MODEL = Option(
    "A model to merge, as REF or NAME=REF. Give it once per model.",
    type=list[str],
    default=None,
    own=True,
    complete="models",
)
OUT = Option("The folder to write.", ("-o", "--out"), type=Path)
MODEL_OUT = OUT.but("The folder to write; also s3://BUCKET/NAME, gs:// or az://.", stores=True)
POOL = Option(
    "Base and models by the name of a shipped pool or a YAML file: MergeBench/gemma-2-2b.",
    type=str,
    default=None,
    own=True,
    complete="pools",
)
QUIET = Option("Print nothing but errors.", type=bool, default=False, own=True)
RECIPE = Argument("A recipe: Smelt's own or mergekit's YAML.", metavar="RECIPE.yaml", type=Path, default=None, own=True)
SET = Option(
    "A parameter (density=0.2; of one stage dare.density=0.5) or a word of the recipe (skip=lm_head.*).",
    type=list[str],
    default=None,
    own=True,
    complete="settings",
)
SHARD_SIZE = Option("Largest weights file, e.g. 2GB.", type=str)
TASKS = Option("Names, a group or folders (see `smelt tasks`).", complete="tasks")
TEXT_FROM = Option("The CLIP model with the text tower, if the models are picture towers alone.", complete="models")
THREADS = Option("Worker threads; all cores by default.", min=1, type=int, default=None)
TRUST = Option("Run Python code that comes with a model or a task folder.", (FLAG,))

ANSWER = {"quiet": QUIET, "as_json": JSON}
"""The last two of most commands."""
MODELS = {"base": BASE, "model": MODEL, "set": SET}
"""What takes the place of a recipe, after the method."""
LOADING = {"device": DEVICE, "threads": THREADS, "allow_pickle": ALLOW_PICKLE, "trust_remote_code": TRUST}
"""Of commands that load models to run them."""
