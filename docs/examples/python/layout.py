"""What names and shapes alone tell about a model."""

from smelt.formats.architecture.layout import Layout, Orientation

layout = Layout.of(
    [
        "model.embed_tokens.weight",
        "model.layers.0.mlp.up_proj.weight",
        "model.layers.10.mlp.up_proj.weight",
        "model.norm.weight",
        "lm_head.weight",
    ]
)

assert layout.block("model.layers.10.mlp.up_proj.weight") == ("model.layers", 10, "mlp.up_proj.weight")
assert layout.stacks == {"model.layers": 11}
assert layout.depth("model.layers.10.mlp.up_proj.weight") == 1.0
assert layout.depth("model.embed_tokens.weight") == 0.0  # feeds the blocks
assert layout.depth("model.norm.weight") == 1.0  # follows them
assert layout.holds_vocabulary("lm_head.weight")
assert layout.is_matrix("model.layers.0.mlp.up_proj.weight", (64, 16))
assert not layout.is_matrix("lm_head.weight", (32000, 16))

stored = Orientation({"h.0.mlp.c_fc.weight": (16, 64), "h.0.mlp.c_fc.bias": (64,)})
assert stored.of("h.0.mlp.c_fc.weight").shape == (64, 16)  # [out, in], as stages see it: it has 64 outputs
