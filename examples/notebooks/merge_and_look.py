# needs: smelt[clip] smelt-zoo

# %% [markdown]
# # Merge and look
#
# Three models that each learned one thing become one model that does all three. No training, no GPU: ten minutes on a
# laptop, most of it reading. Everything comes from the zoo, a package of small models and their tasks.

# %%
import smelt

BASE = "zoo:clip-tiny"
EXPERTS = {"photos": "zoo:clip-tiny-photos", "digits": "zoo:clip-tiny-digits", "letters": "zoo:clip-tiny-letters"}
TASKS = "photos,digits,letters"

# %% [markdown]
# The base is a small CLIP model. Each expert is that base, fine-tuned on one task. How good are they, on 100 pictures
# of each task? `smelt.evaluate` gives rows; rows of several models are compared.

# %%
rows = smelt.evaluate(BASE, TASKS, limit=100)
for expert in EXPERTS.values():
    rows += smelt.evaluate(expert, TASKS, limit=100)
rows

# %% [markdown]
# Every expert is best at its own task. Before merging them: do they pull the weights in the same direction? A *task
# vector* is what fine-tuning changed. Cosines near 0 say that the three changes hardly touch each other.

# %%
smelt.analyse.cosine_similarity(EXPERTS, base=BASE, keys="vision_model.*")

# %% [markdown]
# Good. So the changes may be added up. A plan says what a merge would do, from headers alone; nothing is read yet.

# %%
recipe = {
    "pool": {"base": BASE, "models": EXPERTS},
    "merge": {"task_arithmetic": {"scale": 0.6}},
    "include": "vision_model.*",
}
smelt.plan(recipe)

# %% [markdown]
# Now merge, into a folder that `from_pretrained` loads, and ask the result.

# %%
merged = smelt.merge(recipe, out="merged")
rows += smelt.evaluate("merged", TASKS, limit=100)
rows

# %% [markdown]
# One model of the size of one expert, and close to each of them on its own task. Another method is one word away. TIES
# drops small changes and settles conflicts by a vote of signs; averaging is where everybody starts.

# %%
for method in ("average", "ties"):
    smelt.merge({**recipe, "merge": method}, out=method)
    rows += smelt.evaluate(method, TASKS, limit=100)
rows

# %% [markdown]
# How much of the changes should be added? The scale is the one number that matters most. Choose it on validation
# pictures, never on the test. One merge gives the whole curve.

# %%
curve = smelt.analyse.scale_curve(recipe, [0.2, 0.4, 0.6, 0.8, 1.0], tasks=TASKS, split="val", limit=50)
curve

# %% [markdown]
# The folder says what it was made of, and anybody can check that it still is.

# %%
smelt.verify("merged")

# %% [markdown]
# Next: `smelt bench clip8 -o clip8` tries every method on eight tasks and writes a report;
# [Your own tasks](your_own_tasks.ipynb) brings your pictures; [Which models?](which_models.ipynb) chooses among many.
