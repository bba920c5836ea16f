# needs: smelt[clip] smelt-zoo

# %% [markdown]
# # Your own tasks
#
# A task is a folder: pictures sorted by class, and a small file that names the classes. This notebook makes one, asks
# models about it, and uses it to choose a merge.

# %%
import random
from pathlib import Path

from PIL import Image, ImageDraw

import smelt

# %% [markdown]
# Your pictures lie in `pictures/SPLIT/CLASS/*.png`. Here they are drawn: circles, squares and triangles of any colour,
# size and place. `val` is for choosing, `test` for the last number.

# %%
PICTURES = Path("shapes/pictures")


def draw(shape: str, rng: random.Random) -> Image.Image:
    picture = Image.new("RGB", (32, 32), (245, 245, 245))
    pen, r = ImageDraw.Draw(picture), rng.randint(6, 11)
    x, y = rng.randint(r + 1, 31 - r), rng.randint(r + 1, 31 - r)
    colour = tuple(rng.randint(0, 160) for _ in range(3))
    if shape == "circle":
        pen.ellipse((x - r, y - r, x + r, y + r), fill=colour)
    elif shape == "square":
        pen.rectangle((x - r, y - r, x + r, y + r), fill=colour)
    else:
        pen.polygon([(x, y - r), (x - r, y + r), (x + r, y + r)], fill=colour)
    return picture


rng = random.Random(0)
for split, count in (("val", 40), ("test", 60)):
    for shape in ("circle", "square", "triangle"):
        folder = PICTURES / split / shape
        folder.mkdir(parents=True)
        for number in range(count):
            draw(shape, rng).save(folder / f"{number:02}.png")

# %% [markdown]
# The file. A template turns a class into a sentence that CLIP can read; several are averaged.

# %%
Path("shapes/task.yaml").write_text("""\
name: shapes
version: 1                  # raise it when classes, templates or pictures change
title: Circles, squares and triangles
classes: [circle, square, triangle]
templates: ["an icon of a {}", "a {}"]
data: {folder: pictures}    # pictures/test/circle/*.png
""")
print(next(iter(PICTURES.glob("test/*/00.png"))).parent.parent)

# %% [markdown]
# That is all. A folder is as good as a name wherever tasks are named.

# %%
smelt.evaluate("zoo:clip-tiny", "shapes")

# %% [markdown]
# Nobody trained on these pictures. Which experts of the zoo know something about them?

# %%
candidates = ["zoo:clip-tiny", "zoo:clip-tiny-icons", "zoo:clip-tiny-sketches", "zoo:clip-tiny-emoji"]
rows = smelt.evaluate(candidates[0], "shapes", split="val")
for model in candidates[1:]:
    rows += smelt.evaluate(model, "shapes", split="val")
rows

# %% [markdown]
# The base is hard to beat here. Does a merge of the three help? The scale says how much of them is added: ask `val`.

# %%
recipe = {
    "pool": {"base": candidates[0], "models": candidates[1:]},
    "merge": "task_arithmetic",
    "include": "vision_model.*",
}
curve = smelt.analyse.scale_curve(recipe, [0.1, 0.2, 0.3, 0.4, 0.6], tasks="shapes", split="val")
curve

# %% [markdown]
# The less, the better: these experts know other things, and a minute on `val` says so. On `test` the best scale is as
# good as the base alone. The interval says how far a number from 180 pictures can be trusted.

# %%
smelt.merge({**recipe, "merge": {"task_arithmetic": {"scale": curve.best}}}, out="merged")
smelt.evaluate("merged", "shapes")

# %% [markdown]
# Where does it fail? The command line shows the confusions: `smelt eval merged --tasks shapes --confusion`. Tasks in
# words are made the same way; see [Evaluation](../../docs/how-to/evaluation.md).
