# needs: smelt[hub] smelt-zoo smelt-zoo-more

# %% [markdown]
# # Which models?
#
# You have a task in words and a shelf full of models. A hub tests every model once, on pictures of many things, when it
# is added. After that it answers *which models for which class* without running any of them on your task.

# %%
from smelt.hub import Hub, NewNode, SemanticGraph, find_graph

# %% [markdown]
# The things that models are tested on are nodes of a *semantic graph*. The zoo has one of hundreds; seven of them will
# do here.

# %%
zoo = find_graph("zoo")
names = ["two.n.01", "three.n.01", "eight.n.01", "horse.n.01", "dog.n.01", "truck.n.01", "shirt.n.01"]
some = []
for node in [zoo.node(name) for name in names if name in {one.id for one in zoo.nodes}]:
    shown = zip([zoo.pictures[number] for number in node.pictures], zoo.pixels(node.pictures), strict=True)
    pictures = [(picture.style, picture.source, pixels) for picture, pixels in shown]
    some.append(NewNode(node.id, node.name, node.definition, node.names, pictures=pictures))
graph = SemanticGraph.build("a part of the zoo", some)
graph

# %% [markdown]
# A hub is a folder, or a database. Adding a model labels it: a few seconds each, once.

# %%
hub = Hub.init("my-hub", graph=graph, node_text="name")
for model in ("zoo:clip-tiny-rn-digits", "zoo:clip-tiny-rn-photos", "zoo:clip-tiny-rn-clothing"):
    hub.add(model)
hub.models()

# %% [markdown]
# What is one of them good at?

# %%
hub.strengths("clip-tiny-rn-photos", limit=3)

# %% [markdown]
# Now a task, in words alone. With seven nodes the labels are coarse; the zoo's whole graph tells models apart better.

# %%
selection = hub.select(["eight", "horse", "truck"], domain="small picture", k=1, nodes=2)
selection

# %% [markdown]
# Why that model for horses? Because of how it does on the nodes that are nearest to the word.

# %%
selection.explain("horse")

# %% [markdown]
# The selection is a classifier. Each class asks its own models; here are six pictures of horses.

# %%
horses = zoo.pixels(zoo.node("horse.n.01").pictures)[:6]
answers = hub.predict(horses, selection)
answers

# %%
hub.close()

# %% [markdown]
# `smelt hub init --models zoo` makes a hub of the whole zoo, `smelt hub serve` shows it as a page. More:
# [Selecting from a hub](../../docs/how-to/hub.md).
