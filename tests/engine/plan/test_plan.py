"""The plan knows every tensor of the output, what it is made from and what it costs, before a weight is read."""

import pytest
import torch

from smelt.engine.plan.build import make_plan
from smelt.engine.pool import ModelPool
from smelt.errors import IncompatibleModels, RecipeError
from smelt.formats.source import MemorySource
from smelt.recipe.schema import Recipe


def model(layers=2, dtype=torch.float32, **more):
    tensors = {"model.embed.weight": torch.ones(6, 4), "norm.weight": torch.ones(4)}
    tensors |= {f"model.layers.{n}.mlp.weight": torch.ones(8, 4) for n in range(layers)}
    return {name: tensor.to(dtype) for name, tensor in tensors.items()} | more


def plan(models=None, base=None, **words):
    models = models or {"cars": model(), "birds": model()}
    recipe = {"pool": {"base": "base" if base else None, "models": dict.fromkeys(models, "x")}, "merge": "average"}
    sources = {name: MemorySource(name, state) for name, state in models.items()}
    pool = ModelPool(MemorySource("base", base) if base else None, sources)
    return make_plan(Recipe.parse({**recipe, **words}), pool)


def items(made):
    return {item.key: item for item in made.items}


def test_every_tensor_has_an_item_in_natural_order():
    made = plan({"cars": model(12), "birds": model(12)})
    layers = [item.key for item in made.items if "layers" in item.key]
    assert layers == [f"model.layers.{n}.mlp.weight" for n in range(12)]
    assert len(made.items) == 14
    assert [item.order for item in made.items] == list(range(14))


def test_bytes_are_counted_from_headers():
    made = plan(dtype="bfloat16")
    elements = 6 * 4 + 4 + 2 * 8 * 4
    assert made.bytes_out == 2 * elements
    assert made.bytes_in == 2 * 4 * elements  # two models in float32


def test_the_base_is_read_only_by_pipelines_that_use_it():
    assert items(plan(base=model()))["norm.weight"].base is None
    used = items(plan(base=model(), merge="ties"))["norm.weight"]
    assert used.base.model == "base"
    assert [tap.model for tap in used.taps] == ["cars", "birds"]


def test_the_output_has_the_references_dtype_unless_the_recipe_says_otherwise():
    half = {"cars": model(dtype=torch.float16), "birds": model()}
    assert {item.info.dtype for item in plan(half).items} == {"F16"}
    assert {item.info.dtype for item in plan(half, base=model(dtype=torch.bfloat16)).items} == {"BF16"}
    assert {item.info.dtype for item in plan(half, dtype="fp32").items} == {"F32"}


def test_integers_keep_their_type_and_are_copied():
    ids = {"position_ids": torch.arange(4)}
    made = items(plan({"cars": model(**ids), "birds": model(**ids)}, dtype="bfloat16"))
    assert made["position_ids"].copied
    assert made["position_ids"].info.dtype == "I64"
    assert not made["norm.weight"].copied


def test_include_and_skip_decide_what_is_merged_the_rest_is_copied():
    merged = {k for k, item in items(plan(include=["*layers*"], skip=["*layers.1*"])).items() if not item.copied}
    assert merged == {"model.layers.0.mlp.weight"}


def test_leaving_everything_out_is_refused():
    with pytest.raises(RecipeError, match="nothing is left to merge"):
        plan(skip=["*"])


def test_depth_runs_from_the_first_block_to_the_last():
    made = items(plan({"cars": model(5), "birds": model(5)}))
    assert [made[f"model.layers.{n}.mlp.weight"].depth for n in range(5)] == [0, 0.25, 0.5, 0.75, 1]
    assert (made["model.embed.weight"].depth, made["norm.weight"].depth) == (0, 1)


def test_parameters_are_resolved_per_tensor():
    weights = {"cars": {"depth": [0.0, 1.0]}, "birds": 2.0}
    made = items(plan({"cars": model(3), "birds": model(3)}, merge={"average": {"weights": weights}}))
    assert made["model.layers.1.mlp.weight"].stages[0].parameters["weights"] == [0.5, 2.0]
    assert made["model.layers.2.mlp.weight"].stages[0].parameters["weights"] == [1.0, 2.0]


def test_equal_stages_are_one_object():
    made = items(plan())
    assert made["model.layers.0.mlp.weight"].stages[0] is made["model.layers.1.mlp.weight"].stages[0]


def test_a_model_wide_rank_refuses_parameters_that_vary():
    with pytest.raises(RecipeError, match="ties ranks over the whole model, so density cannot vary"):
        plan(base=model(), merge={"ties": {"density": {"depth": [0.1, 0.9]}}})


def test_a_part_is_merged_in_its_own_way_by_its_own_models():
    part = {"keys": ["norm.*"], "merge": "passthrough", "models": ["birds"]}
    made = items(plan(parts=[part]))
    assert [tap.model for tap in made["norm.weight"].taps] == ["birds"]
    assert made["norm.weight"].stages[0].stage.name == "passthrough"
    assert made["model.embed.weight"].stages[0].stage.name == "average"


def test_slices_stack_layers_of_several_models():
    slices = [{"models": {"cars": [0, 2]}}, {"models": {"birds": [1, 3]}}]
    made = plan({"cars": model(3), "birds": model(3)}, merge="passthrough", slices=slices)
    layers = [(item.key, item.taps[0].model, item.taps[0].key) for item in made.items if "layers" in item.key]
    assert layers == [
        ("model.layers.0.mlp.weight", "cars", "model.layers.0.mlp.weight"),
        ("model.layers.1.mlp.weight", "cars", "model.layers.1.mlp.weight"),
        ("model.layers.2.mlp.weight", "birds", "model.layers.1.mlp.weight"),
        ("model.layers.3.mlp.weight", "birds", "model.layers.2.mlp.weight"),
    ]
    assert made.layers == {"model.layers": [0, 1, 1, 2]}
    assert items(made)["model.embed.weight"].taps[0].model == "cars"
    assert items(made)["norm.weight"].taps[0].model == "birds"


def test_missing_base_gives_a_model_the_bases_tensor_in_its_place():
    short = model()
    del short["norm.weight"]
    made = items(plan({"cars": short, "birds": model()}, base=model(), missing="base", merge="ties"))
    assert [(tap.model, tap.source.label) for tap in made["norm.weight"].taps] == [("cars", "base"), ("birds", "birds")]


def test_the_base_is_advised_only_where_there_is_one():
    short = model()
    del short["norm.weight"]
    with pytest.raises(IncompatibleModels, match=r"birds lacks 'norm.weight'; `skip='norm.weight'` takes"):
        plan({"cars": model(), "birds": short})
    with pytest.raises(IncompatibleModels, match=r"birds lacks 'norm.weight'; `missing='base'` takes the base's"):
        plan({"cars": model(), "birds": short}, base=model(), merge="ties")


def test_eight_bit_weights_are_read_but_written_only_in_another_type():
    eight = {"cars": model(dtype=torch.float8_e4m3fn), "birds": model(dtype=torch.float8_e4m3fn)}
    with pytest.raises(IncompatibleModels, match=r"8 bits.*`dtype='bfloat16'`"):
        plan(eight)
    assert {item.info.dtype for item in plan(eight, dtype="bfloat16").items} == {"BF16"}


def test_quantised_weights_with_scales_are_refused():
    scaled = model(dtype=torch.float8_e4m3fn) | {"norm.weight_scale_inv": torch.ones(1)}
    with pytest.raises(IncompatibleModels, match=r"'norm\.weight' is quantised"):
        plan({"cars": scaled, "birds": scaled}, dtype="bfloat16")


def test_the_fingerprint_follows_recipe_and_tensors():
    assert plan().fingerprint("cpu") == plan().fingerprint("cpu")
    assert plan().fingerprint("cpu") != plan().fingerprint("cuda")
    assert plan().fingerprint("cpu") != plan(seed=1).fingerprint("cpu")
    assert plan().fingerprint("cpu") != plan({"cars": model(3), "birds": model(3)}).fingerprint("cpu")


def test_an_alias_is_said():
    assert any("dare_ties is [dare, ties(density=1.0)]" in note for note in plan(base=model(), merge="dare_ties").notes)


def test_copies_are_said():
    assert any("left out by the recipe): norm.weight" in note for note in plan(skip=["norm.weight"]).notes)
