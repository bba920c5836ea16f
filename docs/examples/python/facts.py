"""What a model is, from its headers; `print(facts)` shows a table, a notebook shows it by itself."""

import smelt

facts = smelt.inspect("cars")
assert facts.parameters == sum(tensor.parameters for tensor in facts.tensors)
mlp = facts.matching(["*.mlp.*"])
assert all(tensor.dtype == "F32" for tensor in mlp)
