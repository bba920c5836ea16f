import numpy as np

from smelt.hub.graph.graph import NewNode, SemanticGraph
from smelt.hub.hub import Hub


def square(red: int, green: int, blue: int) -> tuple[str, str, np.ndarray]:
    """A picture is a style, where it comes from, and its pixels (or the path of a file)."""
    return "icon", f"drawn here, {red} {green} {blue}", np.full((32, 32, 3), (red, green, blue), dtype=np.uint8)


graph = SemanticGraph.build(
    "colours",
    [
        NewNode("color.n.01", "colour", "what a thing looks like in the light", ["colour", "color"], draws=True),
        NewNode("red.n.01", "red", "the colour of blood", parents=["color.n.01"], pictures=[square(200, 20, 20)]),
        NewNode("green.n.01", "green", "the colour of grass", parents=["color.n.01"], pictures=[square(20, 160, 40)]),
    ],
)
graph.save("colours")  # a folder; `smelt hub init --graph colours` takes it
assert len(graph.node("color.n.01").pictures) == 2  # shared with what is below it

hub = Hub.init("my-hub", graph="colours")
blue = NewNode("blue.n.01", "blue", "the colour of the sky", parents=["color.n.01"], pictures=[square(30, 60, 220)])
hub.add_node(blue)  # every label is extended; old nodes keep their numbers
assert [node.name for node in hub.graph.nodes] == ["colour", "red", "green", "blue"]
assert hub.graph.version != graph.version
hub.close()
