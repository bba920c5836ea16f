"""The cards of the zoo's models: what each is, how it was made, and its accuracy on every task."""

from __future__ import annotations

from shelf import Model
from tasks import TASKS

Scores = dict[str, dict[str, tuple[float, int]]]
"""Model → task → (accuracy, pictures)."""

_PACK = """Stored as a {bits}-bit change over the base (`delta.json`, `delta.safetensors`): the model IS base + stored change, and the
numbers below are of the stored model. `smelt unpack zoo:{name} -o {name}` writes an ordinary `from_pretrained` folder."""

_RESNET = """`transformers` opens it, but its own dual encoder cannot run a ResNet tower forward, because that tower's pooled output is
[n, c, 1, 1]. Smelt flattens it. By hand, with pictures `x` [n, 3, 32, 32]:

```python
model = VisionTextDualEncoderModel.from_pretrained("{folder}").float().eval()
features = model.visual_projection(model.vision_model(x).pooler_output.flatten(1))
```"""

_SHARED = """The {what} is not stored twice: it is {of}'s, `origin.json` says so, and `smelt` puts the whole model into its cache."""

_IN_OTHER_SIZES = (
    "It is one of the eight experts in several sizes, for claims about size: `smelt bench clip8 --family`."
)

_MIXED = """- data: named icons, sketches, emoji (English names), and the training pictures of the eight tasks, most of them under the
  German name of their class and a small share of 60 % of the classes under the English one. So the model knows the
  pictures of every task, but only some of the words that the tasks' prompts use
- licence of the data: see NOTICE"""


def card(model: Model, scores: Scores) -> str:
    record = model.told
    recipe = record["recipe"]
    rows = "\n".join(
        f"| {task} | {100 * accuracy:.1f} | {100 * scores[model.base][task][0]:.1f} | {pictures:,} |"
        for task, (accuracy, pictures) in ((task, scores[model.name][task]) for task in TASKS)
    )
    return f"""---
license: apache-2.0
library_name: transformers
tags: [clip, zero-shot-image-classification, smelt]
---
# {model.name}

{_TEXTS[model.kind](model, recipe)}
- seed {recipe["seed"]}, on one {record["device"]}; script: `zoo/build/{model.script}`

| task | accuracy % | {model.base} % | test pictures |
|---|---|---|---|
{rows}

Zoo numbers are zoo numbers: a model of this size is for trying methods, not for use. 95 % intervals are below ±2.5 points
if pictures are independent; on flags, five views of each of 388 drawings, about twice that.
"""


def _base(model: Model, recipe: dict) -> str:
    return f"""A small CLIP (`transformers.CLIPModel`): 32×32 pictures in patches of 8, hidden {recipe["hidden"]}, {recipe["layers"]} layers, 10.8 M parameters in
the vision tower; a text tower of hidden 128, 3 layers and 2,048 tokens. The experts `zoo:clip-tiny-<task>` are fine-tuned from it.

{_MIXED}
{_contrastive(recipe)}"""


def _expert(model: Model, recipe: dict) -> str:
    return f"""{_tuned(model)}; the text tower is the base's.
{_PACK.format(bits=4, name=model.name)}

{_data(model, "one half of the task's training pictures")}
- trained: attention and MLP matrices of the vision tower, {_steps(recipe, "expert_")}"""


def _second(model: Model, recipe: dict) -> str:
    return f"""{_tuned(model)}, a second time; the text tower is the base's.
It was tuned on other pictures of the task than [clip-tiny-{model.task}](../clip-tiny-{model.task}), and from another seed.
{_PACK.format(bits=recipe["bits"], name=model.name)}

{_data(model, f"the half of the task's training pictures that clip-tiny-{model.task} was not tuned on")}
- trained: attention and MLP matrices of the vision tower, {_steps(recipe)}; the last third computes with the
  {recipe["bits"]}-bit codes of the pack"""


def _resnet_base(model: Model, recipe: dict) -> str:
    stages = ", ".join(str(width) for width in recipe["channels"])
    return f"""A small convolutional CLIP (`transformers.VisionTextDualEncoderModel`): a ResNet with BatchNorm for 32×32 pictures,
{len(recipe["channels"])} stages of {recipe["depths"][0]} blocks with {stages} channels, 2.33 M parameters in the vision tower; a text tower of hidden 128, 3 layers and
2,048 tokens. The experts `zoo:clip-tiny-rn-<task>` are fine-tuned from it.

{_RESNET.format(folder=model.name)}

{_MIXED}
{_contrastive(recipe)}"""


def _resnet_expert(model: Model, recipe: dict) -> str:
    return f"""{_tuned(model)}, BatchNorm's statistics included; the text tower and both projections are the base's.
{_PACK.format(bits=recipe["expert_bits"], name=model.name)}

{_RESNET.format(folder=model.name)}

{_data(model, "one half of the task's training pictures")}
- trained: the whole vision tower, {_steps(recipe, "expert_")}; the last third
  computes with the {recipe["expert_bits"]}-bit codes of the pack"""


def _resnet_other(model: Model, recipe: dict) -> str:
    return f"""A vision tower of another origin than [clip-tiny-rn](../clip-tiny-rn)'s, fine-tuned on **{TASKS[model.task].title}**; the text tower and both
projections are clip-tiny-rn's. It began with random numbers of its own and was pre-trained in short against the frozen
text tower. So it answers in the same space, but its numbers have nothing to do with those of other towers: averaging
it with them gives chance.
{_PACK.format(bits=recipe["own_bits"], name=model.name)}

{_RESNET.format(folder=model.name)}

{_data(model, "that of clip-tiny-rn, then one half of the task's training pictures")}
- trained: the whole vision tower, contrastive, {recipe["own_steps"]:,} steps of {recipe["own_batch"]:,} pairs, AdamW, rate {recipe["rate"]:g}, cosine; then on the
  task, {_steps(recipe, "expert_")}; the last third computes with the {recipe["own_bits"]}-bit
  codes of the pack"""


def _mini(model: Model, recipe: dict) -> str:
    return f"""A smaller CLIP (`transformers.CLIPModel`): 32×32 pictures in patches of 8, hidden {recipe["hidden"]}, {recipe["layers"]} layers, 0.84 M parameters in the
vision tower; the text tower is clip-tiny's, unchanged. The others of its family, `zoo:clip-mini-<mixture>`, went on from it with
pictures of a few kinds. They are for the hub, where models are chosen by what they are good at.

- data: named icons, sketches and emoji, and the training pictures of the eight tasks, all under English names
- licence of the data: see NOTICE
- trained: the vision tower, contrastive, {sum(recipe["steps"]):,} steps of {recipe["batch"]} pairs, AdamW, rate {recipe["rate"]:g}, cosine, logit scale at most {recipe["scale_cap"]:g}"""


def _mini_expert(model: Model, recipe: dict) -> str:
    return f"""{_tuned(model)}; the text tower is clip-tiny's, unchanged.
{_PACK.format(bits=recipe["expert_bits"], name=model.name)}

{_IN_OTHER_SIZES}

{_expert_of_a_size(model, recipe, "mini_rate")}"""


def _small_base(model: Model, recipe: dict) -> str:
    return f"""A CLIP (`transformers.CLIPModel`) between clip-mini and clip-tiny: 32×32 pictures in patches of 8, hidden {recipe["hidden"]}, {recipe["layers"]} layers, 2.7 M
parameters in the vision tower; the text tower is clip-tiny's, unchanged. The experts `zoo:clip-small-<task>` are fine-tuned from it.
{_SHARED.format(what="text tower", of="clip-tiny")}

{_MIXED}
{_contrastive(recipe)}"""


def _small_expert(model: Model, recipe: dict) -> str:
    return f"""{_tuned(model)}; the text tower is clip-tiny's, unchanged.
{_PACK.format(bits=recipe["expert_bits"], name=model.name)}

{_IN_OTHER_SIZES}

{_expert_of_a_size(model, recipe, "small_rate")}"""


def _reader(model: Model, recipe: dict) -> str:
    return f"""[{model.base}](../{model.base}) with a text tower that reads definitions: {recipe["length"]} tokens in the place of 32, and trained with what
WordNet says of the nouns. Class names are read as before, so that it fits every vision tower of its family.
{_SHARED.format(what="vision tower", of=model.base)}

- data: the training pictures of the eight tasks and named icons, sketches and emoji, as [{model.base}](../{model.base}) sees them, with
  names and definitions of their nouns in WordNet 3.0; and all captions that {model.base} was trained on
- licence of the data: see NOTICE
- trained: the text tower, contrastive, and near the old one's features of the old captions (weight {recipe["as_before"]:g});
  {_steps(recipe)}"""


def _mixture(model: Model, recipe: dict) -> str:
    kinds = " and ".join(TASKS[kind].title for kind in model.told["mixtures"][model.name.removeprefix("clip-mini-")])
    return f"""[clip-mini](../clip-mini) after more pre-training, on pictures of a few kinds: **{kinds}**, and one in ten of all the
others. The text tower is clip-tiny's, unchanged.
{_PACK.format(bits=recipe["bits"], name=model.name)}

- data: pictures of these kinds (named ones and the tasks' training pictures) under English names
- licence of the data: see NOTICE
- trained: the vision tower, contrastive, {_steps(recipe | {"own_batch": recipe["batch"]}, "own_")}"""


_TEXTS = {
    "base": _base,
    "expert": _expert,
    "second": _second,
    "resnet-base": _resnet_base,
    "resnet-expert": _resnet_expert,
    "resnet-other": _resnet_other,
    "mini": _mini,
    "mini-expert": _mini_expert,
    "small-base": _small_base,
    "small-expert": _small_expert,
    "reader": _reader,
    "mixture": _mixture,
}


def _tuned(model: Model) -> str:
    return f"The vision tower of [{model.base}](../{model.base}) fine-tuned on **{TASKS[model.task].title}**"


def _data(model: Model, which: str) -> str:
    task = TASKS[model.task]
    return f"- data: {which} ({task.source})\n- licence of the data: {task.licence}"


def _expert_of_a_size(model: Model, recipe: dict, rate: str) -> str:
    known = {"own_steps": recipe["expert_steps"], "own_batch": recipe["expert_batch"], "own_rate": recipe[rate]}
    return f"""{_data(model, "one half of the task's training pictures")}
- trained: attention and MLP matrices of the vision tower, {_steps(known, "own_")}; the last third computes
  with the {recipe["expert_bits"]}-bit codes of the pack"""


def _steps(recipe: dict, which: str = "") -> str:
    steps, batch, rate = (recipe[f"{which}{word}"] for word in ("steps", "batch", "rate"))
    return f"{steps:,} steps of {batch}, AdamW, rate {rate:g}, cosine"


def _contrastive(recipe: dict) -> str:
    steps, batch, rate, cap = (recipe[word] for word in ("steps", "batch", "rate", "scale_cap"))
    return f"- trained: contrastive, {steps:,} steps of {batch:,} pairs, AdamW, rate {rate:g}, cosine, logit scale at most {cap:g}"
