"""mergekit's YAML becomes the native recipe that means the same; what it does not know is refused."""

import json

import pytest

from checkpoints import write_yaml
from smelt.errors import RecipeError
from smelt.recipe.mergekit.reader import from_mergekit
from smelt.recipe.pipeline import bind
from smelt.recipe.schema import Recipe


def config(method, *, base="./base", models=("./cars", "./birds"), own=(), **top):
    """`own` holds the parameters of each model, in order; `parameters=` those of the configuration."""
    own = [*own, *[None] * (len(models) - len(own))]
    entries = [{"model": m, **({"parameters": p} if p else {})} for m, p in zip(models, own, strict=True)]
    whole = {"merge_method": method, "models": entries, **top}
    return whole if base is None else {**whole, "base_model": base}


def read(given):
    """The recipe of a configuration, which round-trips and whose every pipeline binds."""
    recipe = Recipe.parse(from_mergekit(given)[0])
    assert Recipe.parse(recipe.dump()) == recipe
    sliced = [*(recipe.slices or []), *(s for part in recipe.parts for s in part.slices or [])]
    for pipeline in [recipe.merge, *(one.merge for one in (*sliced, *recipe.parts) if one.merge)]:
        bind(pipeline, list(recipe.pool.models))
    return recipe


def stages(given):
    return [{call.name: call.parameters} for call in read(given).merge]


def refused(given, *words):
    with pytest.raises(RecipeError) as caught:
        read(given)
    for word in words:
        assert word in str(caught.value)


WEIGHTS = [{"weight": 0.2}, {"weight": 0.8}]
TABLE = {"cars": 0.2, "birds": 0.8}
VOTE = {"density": 1.0, "weights": TABLE, "scale": 1.0, "merge": "sum", "tie": "positive"}
SUM = {"weights": TABLE, "scale": 1.0, "normalize": False}

PIPELINES = [
    ("linear", None, WEIGHTS, [{"average": {"weights": TABLE, "normalize": True}}]),
    ("nuslerp", None, WEIGHTS, [{"nuslerp": {"weights": TABLE, "over": "tensor", "around": "origin"}}]),
    ("nuslerp", "./base", WEIGHTS, [{"nuslerp": {"weights": TABLE, "over": "tensor", "around": "base"}}]),
    ("multislerp", None, WEIGHTS, [{"multislerp": {"weights": TABLE, "normalize": True, "around": "origin"}}]),
    ("karcher", None, (), [{"karcher": {"iterations": 10, "tolerance": 1e-5}}]),
    ("task_arithmetic", "./base", WEIGHTS, [{"task_arithmetic": SUM}]),
    ("ties", "./base", WEIGHTS, [{"ties": {**VOTE, "merge": "mean", "trim": "tensor"}}]),
    ("dare_linear", "./base", WEIGHTS, [{"dare": {"density": 1.0, "rescale": "l1"}}, {"task_arithmetic": SUM}]),
    ("dare_ties", "./base", WEIGHTS, [{"dare": {"density": 1.0, "rescale": "l1"}}, {"ties": VOTE}]),
    (
        "della",
        "./base",
        WEIGHTS,
        [{"della": {"density": 1.0, "window": 0.3, "rescale": "l1"}}, {"ties": {**VOTE, "merge": "mean"}}],
    ),
    (
        "della_linear",
        "./base",
        WEIGHTS,
        [{"della": {"density": 1.0, "window": 0.3, "rescale": "l1"}}, {"task_arithmetic": SUM}],
    ),
    (
        "breadcrumbs",
        "./base",
        WEIGHTS,
        [{"breadcrumbs": {"density": 1.0, "top": 0.01, "rescale": "none"}}, {"task_arithmetic": SUM}],
    ),
    (
        "breadcrumbs_ties",
        "./base",
        WEIGHTS,
        [{"breadcrumbs": {"density": 1.0, "top": 0.01, "rescale": "none"}}, {"ties": VOTE}],
    ),
    ("model_stock", "./base", (), [{"model_stock": {"over": "tensor", "floor": 1e-6}}]),
    ("sce", "./base", (), [{"sce": {"density": 1.0, "tie": "positive", "equal_below": 1e-6}}]),
    ("ram", "./base", (), [{"ram": {"epsilon": 1e-5}}]),
    ("ramplus_tl", "./base", (), [{"ram_plus": {"r": 0.1, "limit": 0.2, "epsilon": 1e-5}}]),
]


@pytest.mark.parametrize(("method", "base", "own", "expected"), PIPELINES)
def test_a_method_of_several_models_is_this_pipeline(method, base, own, expected):
    assert stages(config(method, base=base, own=own)) == expected


@pytest.mark.parametrize(
    ("method", "parameters", "expected"),
    [
        ("slerp", {"t": 0.3}, [{"slerp": {"t": 0.3}}]),
        ("nearswap", {"t": 0.001}, [{"nearswap": {"t": 0.001}}]),
        ("arcee_fusion", {}, ["arcee_fusion"]),
    ],
)
def test_a_method_of_the_base_and_one_model_is_this_pipeline(method, parameters, expected):
    recipe = read(config(method, models=["./cars"], parameters=parameters))
    assert recipe.dump()["merge"] == expected


def test_passthrough_is_one_model_times_its_scale():
    assert stages(config("passthrough", base=None, models=["./cars"])) == [{"passthrough": {"scale": 1.0}}]
    assert stages(config("passthrough", base=None, models=["./cars"], own=[{"scale": 2}])) == [
        {"passthrough": {"scale": 2}}
    ]


def test_flags_choose_the_native_words():
    nuslerp = [
        stages(config("nuslerp", base=None, own=WEIGHTS, parameters=flags))[0]["nuslerp"]["over"]
        for flags in (
            {"nuslerp_flatten": False},
            {"nuslerp_flatten": False, "nuslerp_row_wise": True},
            {"nuslerp_row_wise": True},
        )
    ]
    assert nuslerp == ["row", "column", "tensor"]
    assert stages(config("ties", own=WEIGHTS, parameters={"normalize": False}))[0]["ties"]["merge"] == "sum"
    assert stages(config("model_stock", parameters={"filter_wise": True}))[0]["model_stock"]["over"] == "row"
    dare = stages(config("dare_ties", own=WEIGHTS, parameters={"rescale": False, "normalize": True, "lambda": 0.5}))
    assert dare[0]["dare"]["rescale"] == "none"
    assert (dare[1]["ties"]["merge"], dare[1]["ties"]["scale"]) == ("mean", 0.5)


def test_ties_with_rescale_trims_in_a_step_of_its_own():
    trim, vote = stages(config("ties", own=WEIGHTS, parameters={"rescale": True, "density": 0.3}))
    assert trim == {"trim": {"density": 0.3, "trim": "tensor", "rescale": "l1"}}
    assert vote["ties"]["density"] == 1.0


def test_a_flag_may_vary_by_filter():
    flag = [{"filter": "mlp", "value": True}, {"value": False}]
    over = stages(config("model_stock", parameters={"filter_wise": flag}))[0]["model_stock"]["over"]
    assert over == [{"filter": "*mlp*", "value": "row"}, {"value": "tensor"}]
    refused(config("nuslerp", base=None, own=WEIGHTS, parameters={"nuslerp_flatten": flag}), "cannot vary by filter")
    refused(config("model_stock", parameters={"filter_wise": "perhaps"}), "filter_wise", "true or false", "'perhaps'")


def test_epsilon_of_della_is_half_a_window_and_may_be_zero():
    window = stages(config("della", own=WEIGHTS, parameters={"epsilon": [0.1, 0.2]}))[0]["della"]["window"]
    assert window == {"depth": [0.2, 0.4], "outside": 0.2}
    assert stages(config("della", own=WEIGHTS, parameters={"epsilon": 0}))[0]["della"]["window"] == 1e-9


def test_a_list_is_a_gradient_whose_first_value_holds_outside_the_layers():
    assert stages(config("slerp", models=["./cars"], parameters={"t": [0, 0.5, 1]})) == [
        {"slerp": {"t": {"depth": [0, 0.5, 1], "outside": 0}}}
    ]
    assert stages(config("slerp", models=["./cars"], parameters={"t": [0.5]})) == [{"slerp": {"t": 0.5}}]
    refused(config("slerp", models=["./cars"], parameters={"t": [0, "a"]}), "only numbers can vary")
    refused(config("slerp", models=["./cars"], parameters={"t": []}), "only numbers can vary")


def test_a_filter_is_a_substring_and_a_star_or_none_is_the_rest():
    t = [{"filter": "self_attn", "value": [0, 1]}, {"filter": "a*b", "value": 0.2}, {"filter": "*", "value": 0.5}]
    (stage,) = stages(config("slerp", models=["./cars"], parameters={"t": t}))
    assert stage["slerp"]["t"] == [
        {"filter": "*self_attn*", "value": {"depth": [0, 1], "outside": 0}},
        {"filter": "*a[*]b*", "value": 0.2},
        {"value": 0.5},
    ]


def test_numbers_that_yaml_takes_for_text_are_numbers():
    assert stages(config("nearswap", models=["./cars"], parameters={"t": "1e-3"})) == [{"nearswap": {"t": 0.001}}]


def test_a_models_value_comes_before_the_configurations():
    own = [{"weight": [{"filter": "q_proj", "value": 0.9}]}, {"weight": 0.1}]
    given = config("task_arithmetic", own=own, parameters={"weight": [{"filter": "mlp", "value": 0.3}, {"value": 0.5}]})
    weights = stages(given)[0]["task_arithmetic"]["weights"]
    assert weights["birds"] == 0.1
    assert weights["cars"] == [
        {"filter": "*q_proj*", "value": 0.9},
        {"filter": "*mlp*", "value": 0.3},
        {"value": 0.5},
    ]


def test_filters_that_leave_a_required_value_open_are_refused():
    own = [{"weight": [{"filter": "mlp", "value": 0.9}]}, {"weight": 0.1}]
    refused(config("task_arithmetic", own=own), "needs a value for 'weight' of cars")
    refused(config("slerp", models=["./cars"]), "slerp needs a value for 't'")


def test_filters_that_leave_a_value_open_fall_to_its_default():
    own = [{"weight": 1, "density": [{"filter": "mlp", "value": 0.5}]}, {"weight": 1}]
    density = stages(config("ties", own=own))[0]["ties"]["density"]
    assert density == {"cars": [{"filter": "*mlp*", "value": 0.5}, {"value": 1.0}], "birds": 1.0}


@pytest.mark.parametrize(
    ("typo", "where", "meant"),
    [
        ({"parameterz": {}}, "the configuration", "parameters"),
        ({"dtyp": "float32"}, "the configuration", "dtype"),
        ({"models": [{"modl": "./cars"}]}, "an entry of models", "model"),
        ({"tokenizer": {"sorce": "union"}}, "tokenizer", "source"),
        ({"tokenizer": {"tokens": {"<s>": {"forse": True}}}}, "token '<s>'", "force"),
        ({"base_model": {"modle": "./base"}}, "a model reference", "model"),
        ({"base_model": {"model": {"path": "./base", "revison": "x"}}}, "a model reference", "revision"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(typo, where, meant):
    refused({**config("ties", own=WEIGHTS), **typo}, f"key in {where}", f"did you mean {meant!r}?")


def test_an_unknown_key_of_a_slice_or_module_is_refused():
    source = {"model": "./cars", "layer_range": [0, 2]}
    refused({"merge_method": "passthrough", "slices": [{"source": [source]}]}, "a slice", "'sources'")
    given = {"merge_method": "passthrough", "slices": [{"sources": [{**source, "layer_rang": 1}]}]}
    refused(given, "a source of a slice", "'layer_range'")
    refused({"merge_method": "linear", "modules": {"default": {"model": []}}}, "module 'default'", "'models'")


@pytest.mark.parametrize(
    ("parameters", "meant"), [({"denisty": 0.5}, "density"), ({"lamda": 1}, "lambda"), ({"normalise": 1}, "normalize")]
)
def test_an_unknown_parameter_is_refused_with_the_nearest(parameters, meant):
    refused(config("ties", own=WEIGHTS, parameters=parameters), "parameter of ties", f"did you mean {meant!r}?")
    refused(config("ties", own=[{**WEIGHTS[0], **parameters}, WEIGHTS[1]]), f"did you mean {meant!r}?")


def test_a_parameter_of_the_merge_beside_a_model_is_refused():
    own = [{"weight": 1, "normalize": True}, {"weight": 1}]
    refused(config("ties", own=own), "normalize belongs to the whole merge", "cars")


def test_a_mask_in_bytes_makes_no_difference_to_any_method():
    """mergekit's int8_mask saves its memory; it is in many configurations, also of methods that never used it."""
    assert stages(config("ties", own=WEIGHTS, parameters={"int8_mask": True})) == stages(config("ties", own=WEIGHTS))
    read(config("slerp", models=["./cars"], parameters={"t": 0.5, "int8_mask": True}))


def test_an_unknown_method_is_refused_with_the_nearest():
    refused(config("dare_tise", own=WEIGHTS), "mergekit method", "did you mean 'dare_ties'?")


@pytest.mark.parametrize("given", [{"value": 1, "fliter": "x"}, {"filter": "x"}, [{"value": 1}, 2]])
def test_a_malformed_conditional_value_is_refused(given):
    refused(config("slerp", models=["./cars"], parameters={"t": given}), "`value` and `filter`")


def test_exactly_one_of_models_slices_and_modules_is_given():
    refused({"merge_method": "linear"}, "exactly one of models, slices and modules")
    refused({**config("linear", base=None, own=WEIGHTS), "slices": [{}]}, "['models', 'slices']")


@pytest.mark.parametrize(
    ("written", "ref"),
    [
        ("org/name", "hf:org/name"),
        ("org/name@main", "hf:org/name@main"),
        ("org/name+other/lora@v2", "hf:org/name+hf:other/lora@v2"),
        ("./cars@main", "./cars"),
        ("/models/cars", "/models/cars"),
        ("cars", "cars"),
        ("~/cars", "~/cars"),
        ({"model": "org/name"}, "hf:org/name"),
        ({"model": {"path": "org/name", "revision": "main"}}, "hf:org/name@main"),
        ({"model": {"path": "org/name"}, "lora": {"path": "./lora"}}, "hf:org/name+./lora"),
        ({"model": "./cars", "override_architecture": "LlamaForCausalLM"}, "./cars"),
    ],
)
def test_a_model_reference_becomes_one_of_smelt(written, ref):
    recipe = read({"merge_method": "passthrough", "models": [{"model": written}]})
    assert list(recipe.pool.models.values()) == [ref]


def test_a_local_path_with_a_plus_or_an_at_in_it_stays_whole(tmp_path):
    for name in ("cars+trucks", "cars@home"):
        folder = tmp_path / name
        folder.mkdir()
        recipe = read({"merge_method": "passthrough", "models": [{"model": str(folder)}]})
        assert list(recipe.pool.models.values()) == [str(folder)]


@pytest.mark.parametrize("ref", [None, "", 3, {"model": {"revision": "main"}}, {"model": None}])
def test_what_is_no_reference_is_refused(ref):
    refused({"merge_method": "passthrough", "models": [{"model": ref}]}, "mergekit:")


def test_models_with_the_same_last_name_get_numbers_and_one_called_base_another_name():
    recipe = read(config("linear", base=None, models=["./a/x", "./b/x", "./base"], parameters={"weight": 1}))
    assert recipe.pool.models == {"x": "./a/x", "x-2": "./b/x", "base-model": "./base"}
    refused(config("linear", base=None, models=["./cars", "./cars"], parameters={"weight": 1}), "listed twice")


def test_the_base_is_the_origin_of_changes_listed_or_not():
    for models in (["./cars", "./birds"], ["./base", "./cars", "./birds"]):
        recipe = read(config("ties", models=models, parameters={"weight": 1}))
        assert (recipe.pool.base, recipe.config) == ("./base", "base")
        assert recipe.pool.models == {"cars": "./cars", "birds": "./birds"}


def test_the_base_is_slerps_first_model_listed_or_not():
    for models in (["./cars"], ["./cars", "./base"], ["./base", "./cars"]):
        recipe = read(config("slerp", models=models, parameters={"t": 0.2}))
        assert recipe.pool.base is None
        assert list(recipe.pool.models.values()) == ["./base", "./cars"]
        assert recipe.config == "base-model"


def test_linear_and_karcher_count_the_base_among_the_models():
    recipe = read(config("karcher"))
    assert (recipe.pool.base, set(recipe.pool.models)) == (None, {"cars", "birds", "base-model"})
    recipe = read(config("linear", own=[{"weight": 0.3}], parameters={"weight": 1}))
    (call,) = recipe.merge
    assert call.parameters["weights"] == {"cars": 0.3, "birds": 1, "base-model": 1}
    refused(config("linear", own=WEIGHTS), "linear needs a value for 'weight' of base-model")


def test_a_base_that_is_needed_must_be_given():
    refused(config("ties", base=None, own=WEIGHTS), "ties needs a base_model")
    refused(config("ties", models=["./base"], own=[{"weight": 1}]), "no model to merge beside the base")


def test_without_a_base_the_config_is_the_first_models():
    assert read(config("linear", base=None, own=WEIGHTS)).config == "cars"


def test_out_dtype_comes_before_dtype():
    assert read(config("ties", own=WEIGHTS, dtype="float32", out_dtype="bfloat16")).dtype == "bfloat16"
    assert read(config("ties", own=WEIGHTS, dtype="float16")).dtype == "float16"
    assert read(config("ties", own=WEIGHTS)).dtype is None


def test_without_a_tokenizer_rows_are_merged_by_number():
    assert read(config("ties", own=WEIGHTS)).vocab == "rows"


@pytest.mark.parametrize(
    ("given", "vocab"),
    [
        ({"tokenizer_source": "union"}, "union"),
        ({"tokenizer_source": "base"}, "base"),
        ({"tokenizer_source": "./base"}, "base"),
        ({"tokenizer_source": "./birds"}, "birds"),
        ({"tokenizer": {"source": "./birds"}}, "birds"),
        ({"tokenizer": {"pad_to_multiple_of": 8}}, "union"),
    ],
)
def test_the_tokenizers_source_is_the_vocabulary_policy(given, vocab):
    recipe = read(config("ties", own=WEIGHTS, **given))
    assert recipe.vocab == vocab
    assert recipe.pad_vocab_to == given.get("tokenizer", {}).get("pad_to_multiple_of")


def test_the_bases_tokenizer_is_found_where_the_base_is_one_of_the_models():
    recipe = read(config("linear", models=["./cars", "./base"], parameters={"weight": 1}, tokenizer_source="base"))
    assert recipe.vocab == "base-model"


def test_a_tokenizer_that_cannot_be_is_refused():
    refused(config("ties", own=WEIGHTS, tokenizer_source="union", tokenizer={"source": "base"}), "not both")
    refused(config("ties", own=WEIGHTS, tokenizer_source="./ships"), "./ships", "not one of the models")


def test_rules_for_single_tokens_name_models_of_the_pool():
    tokens = {
        "<a>": {"source": "./birds", "force": True},
        "<b>": {"source": {"kind": "model_token", "model": "./base", "token": "<s>"}},
        "<c>": {"source": {"kind": "zero"}},
        "<d>": {"source": {"model": {"path": "./cars"}}},
    }
    rules = read(config("ties", own=WEIGHTS, tokenizer={"source": "union", "tokens": tokens})).tokens
    assert {token: rule.source for token, rule in rules.items()} == {
        "<a>": "birds",
        "<b>": {"kind": "model_token", "model": "base", "token": "<s>"},
        "<c>": {"kind": "zero"},
        "<d>": "cars",
    }
    assert [rule.force for rule in rules.values()] == [True, False, False, False]


def test_the_chat_template_is_carried():
    assert read(config("ties", own=WEIGHTS, chat_template="chatml")).chat_template == "chatml"


def sliced(method, *slices, **top):
    return {"merge_method": method, "slices": list(slices), **top}


def source(model, first, end, **parameters):
    return {"model": model, "layer_range": [first, end], **({"parameters": parameters} if parameters else {})}


def test_slices_stack_layers_of_several_models():
    recipe = read(sliced("passthrough", {"sources": [source("./cars", 0, 3)]}, {"sources": [source("./birds", 1, 4)]}))
    assert recipe.pool.models == {"cars": "./cars", "birds": "./birds"}
    assert [s.models for s in recipe.slices] == [{"cars": (0, 3)}, {"birds": (1, 4)}]


def test_a_slice_has_parameters_of_its_own_before_the_configurations():
    pair = [source("./base", 0, 2), source("./cars", 0, 2)]
    given = sliced(
        "slerp",
        {"sources": pair, "parameters": {"t": 0.1}},
        {"sources": pair},
        base_model="./base",
        parameters={"t": 1},
    )
    assert [s.merge[0].parameters for s in read(given).slices] == [{"t": 0.1}, {"t": 1}]


def test_the_base_of_a_slice_gives_its_own_layers():
    given = sliced("ties", {"sources": [source("./base", 2, 4), source("./cars", 0, 2, weight=1)]}, base_model="./base")
    recipe = read(given)
    assert recipe.pool.base == "./base"
    assert (recipe.slices[0].models, recipe.slices[0].base) == ({"cars": (0, 2)}, (2, 4))


def test_tables_of_a_slice_name_every_model_of_the_pool():
    """Those that the slice does not read have a value too, which nobody uses."""
    pair = [source("./cars", 0, 2, weight=0.2), source("./birds", 0, 2, weight=0.8)]
    recipe = read(sliced("linear", {"sources": pair}, {"sources": [source("./ships", 0, 2, weight=1)]}))
    assert recipe.slices[0].merge[0].parameters["weights"] == {"cars": 0.2, "birds": 0.8, "ships": 0.2}
    assert recipe.slices[1].merge[0].parameters["weights"] == 1


def test_slices_that_cannot_be_are_refused():
    alone = {"sources": [source("./cars", 0, 2, weight=1)]}
    refused(sliced("ties", alone, base_model="./base"), "among the sources of every slice")
    refused(sliced("passthrough", {"sources": [{"model": "./cars"}]}), "layer_range", "None")
    refused(sliced("passthrough", {"sources": [source("./cars", 0, "2")]}), "layer_range", "[0, '2']")
    twice = {"sources": [source("./cars", 0, 2, weight=1), source("./cars", 2, 4, weight=1)]}
    refused(sliced("linear", twice), "listed twice in a slice")
    refused(sliced("passthrough", {"sources": []}), "sources must be a list")
    refused(sliced("ties", {**alone, "base_model": "./other"}, base_model="./base"), "base_model of its own")


def test_linear_in_slices_counts_only_the_sources():
    pair = [source("./cars", 0, 2), source("./birds", 0, 2)]
    recipe = read(sliced("linear", {"sources": pair}, base_model="./base", parameters={"weight": 1}))
    assert (recipe.pool.base, list(recipe.slices[0].models)) == ("./base", ["cars", "birds"])


def test_modules_are_parts_by_the_prefixes_of_their_names():
    module = {"models": [{"model": "./cars"}, {"model": "./birds"}], "parameters": {"weight": 0.5}}
    given = {"merge_method": "linear", "modules": {"vision_tower": module, "adapter": module}}
    recipe = read(given)
    assert "vision_tower.*" in recipe.parts[0].keys
    assert recipe.parts[1].keys == ["adapter.*", "model.adapter.*"]
    assert recipe.parts[0].models == ["cars", "birds"]
    assert recipe.parts[0].merge[0].parameters == {"weights": 0.5, "normalize": True}


def test_a_module_may_have_slices():
    given = {"merge_method": "passthrough", "modules": {"default": {"slices": [{"sources": [source("./cars", 0, 2)]}]}}}
    (part,) = read(given).parts
    assert (part.keys, part.slices[0].models) == (["*"], {"cars": (0, 2)})


WITHOUT_WEIGHT = {
    "slerp": {"t": 0.35},
    "karcher": None,
    "model_stock": {"filter_wise": True},
    "sce": {"select_topk": 0.5},
    "ram": None,
    "ramplus_tl": {"r": 0.05, "alpha": 1.0},
    "nearswap": {"t": 0.0001},
    "arcee_fusion": None,
    "passthrough": {"scale": 0.5},
}
"""Methods that have no use for a weight, with what they need."""


@pytest.mark.parametrize("method", WITHOUT_WEIGHT)
@pytest.mark.parametrize("where", ["beside the models", "for all"])
def test_a_weight_that_means_nothing_is_accepted_with_a_note(method, where):
    two = method in ("slerp", "nearswap", "arcee_fusion")
    words = {"models": ["./base", "./cars"] if two else ["./cars", "./birds"], "base": "./base"}
    if method == "passthrough":
        words = {"models": ["./cars"], "base": None}
    said = WITHOUT_WEIGHT[method] or {}
    plain = config(method, **words, parameters=said)
    own, more = (WEIGHTS[: len(words["models"])], {}) if where == "beside the models" else ((), {"weight": 0.5})
    weighted = config(method, **words, own=own, parameters={**said, **more})
    assert read(weighted) == read(plain)
    assert from_mergekit(plain)[1] == []
    assert from_mergekit(weighted)[1] == [f"`weight` means nothing to {method}, in mergekit neither; it is not used"]


def test_a_misspelt_weight_is_still_refused_where_weights_mean_nothing():
    refused(config("model_stock", own=[{"wieght": 0.5}]), "no parameter of model_stock named 'wieght'")


def test_every_slice_with_such_a_weight_is_noted_once():
    pair = [source("./base", 0, 2, weight=0.2), source("./cars", 0, 2, weight=0.8)]
    given = sliced("slerp", {"sources": pair}, {"sources": pair}, base_model="./base", parameters={"t": 0.5})
    assert len(from_mergekit(given)[1]) == 1


def test_the_note_is_told_by_plan_and_merge(cli, two, tmp_path):
    base, cars, _ = two
    given = config("slerp", base=str(base), models=[str(base), str(cars)], own=WEIGHTS, parameters={"t": 0.5})
    recipe = write_yaml(tmp_path / "recipe.yaml", given)
    note = "`weight` means nothing to slerp, in mergekit neither; it is not used"
    assert note in " ".join(cli("plan", recipe).out.split())
    ran = cli("merge", recipe, "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert f"note: {note}" in ran.out
    assert note in json.loads((tmp_path / "out" / "manifest.json").read_text())["notes"]


def test_every_fault_of_a_configuration_is_told_at_once(tmp_path, cli):
    given = {
        "merge_method": "dare_ties",
        "base_mdoel": "./base",
        "models": [
            {"model": "./cars", "paramters": {"weight": 1}},
            {"model": 3},
            {"model": "./birds", "parameters": {"densty": 0.5, "lambda": 1.0}},
        ],
        "parameters": {"normalize": "perhaps"},
        "tokenizer_source": "union",
        "tokenizer": {"source": "base"},
    }
    ran = cli("plan", write_yaml(tmp_path / "r.yaml", given))
    assert (ran.code, ran.err.splitlines()) == (
        2,
        [
            "smelt: this configuration of mergekit has faults:",
            "  - no key in the configuration named 'base_mdoel' (did you mean 'base_model'?)",
            "  - no key in an entry of models named 'paramters' (did you mean 'parameters'?)",
            "  - not a model reference: 3",
            "  - dare_ties needs a base_model",
            "  - dare_ties needs a value for 'weight' of cars",
            "  - dare_ties needs a value for 'weight' of birds",
            "  - normalize must be true or false, got 'perhaps'",
            "  - no parameter of dare_ties named 'densty' (did you mean 'density'?)",
            "  - lambda belongs to the whole merge, and mergekit ignores it beside a model (birds); write it under the "
            "parameters of the slice or of the configuration",
            "  - give tokenizer_source or tokenizer, not both",
        ],
    )


def test_faults_of_several_slices_are_told_at_once():
    given = {
        "merge_method": "passthrough",
        "slices": [
            {"sources": [{"model": "./cars", "layer_range": [0]}]},
            {"sources": [{"model": "./birds", "layer_range": [0, 2], "scale": 1}]},
            {"sources": "cars"},
        ],
    }
    refused(given, "layer_range is [first, one past the last], got [0]", "named 'scale'", "sources must be a list")


def test_the_case_of_a_method_does_not_matter():
    assert stages(config("TIES", own=WEIGHTS)) == stages(config("ties", own=WEIGHTS))
