"""What is registered, from Python."""

import smelt

ties = smelt.list_methods()["ties"]
assert ties.kind == "method"
assert ties.paper == "2306.01708"
assert ties.parameters["density"].default == 0.2
assert ties.parameters["density"].per_model
