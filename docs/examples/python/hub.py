from smelt.hub.graph.graph import NewNode, SemanticGraph, find_graph
from smelt.hub.hub import Hub

# A hub in a folder, on a small part of the zoo's graph. `Hub.open("my-hub")` opens one that is there.
zoo, some = find_graph("zoo"), []
for node in map(zoo.node, ("two.n.01", "three.n.01", "eight.n.01", "horse.n.01", "dog.n.01", "truck.n.01")):
    shown = zip([zoo.pictures[n] for n in node.pictures], zoo.pixels(node.pictures), strict=True)
    pictures = [(picture.style, picture.source, pixels) for picture, pixels in shown]
    some.append(NewNode(node.id, node.name, node.definition, node.names, pictures=pictures))
hub = Hub.init("my-hub", graph=SemanticGraph.build("a part of the zoo", some), node_text="name")
hub.add("zoo:clip-tiny-rn-digits")
hub.add("zoo:clip-tiny-rn-photos")

# Words in, models out.
selection = hub.select(classes=["three", "eight", "horse"], domain="small picture", k=1, nodes=2)
assert selection.used == ("clip-tiny-rn-digits", "clip-tiny-rn-photos")
why = selection.explain("horse")
assert [node.name for node in why.nodes] == ["horse", "dog"]
assert "horse.n.01" in str(why)  # the table that --explain prints

# Pictures in (files, PIL images or arrays), classes out. Each chosen model runs once.
answers = hub.predict(zoo.pixels(zoo.node("horse.n.01").pictures), selection)
assert answers.names.count("horse") > len(answers.names) / 2

# The released code's reading instead of the paper's.
hub.select(["three", "horse"], metric="f1", overall="others", nodes=2)
hub.close()
