from smelt.hub.graph.build import GraphConfig

config = GraphConfig.load("configs/graph.yaml")  # a word that is unknown or missing is refused
assert [one.style for one in config.pictures] == ["photo", "sketch"]
