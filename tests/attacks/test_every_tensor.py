"""Every input tensor is accounted for: it is in the output, or the run is refused and says why."""

import json

import pytest
import torch

import smelt
from checkpoints import CONFIG, random_state, read_weights, snapshot, state, write_model
from smelt.errors import IncompatibleModels
from smelt.formats.views.llava import LLAVA_NAMES

LLAVA = {
    "vision_tower.vision_model.embeddings.class_embedding": (4,),
    "vision_tower.vision_model.encoder.layers.0.self_attn.q_proj.weight": (4, 4),
    "vision_tower.vision_model.encoder.layers.0.self_attn.q_proj.bias": (4,),
    "multi_modal_projector.linear_1.weight": (4, 4),
    "language_model.model.embed_tokens.weight": (6, 4),
    "language_model.model.layers.0.mlp.gate_proj.weight": (8, 4),
    "language_model.model.layers.1.mlp.gate_proj.weight": (8, 4),
    "language_model.lm_head.weight": (6, 4),
    "image_newline": (4,),
}
VIT = {
    "vit.embeddings.cls_token": (1, 1, 4),
    "vit.embeddings.patch_embeddings.projection.weight": (4, 3, 2, 2),
    "vit.encoder.layer.0.attention.attention.query.weight": (4, 4),
    "vit.encoder.layer.0.attention.attention.query.bias": (4,),
    "vit.encoder.layer.1.layernorm_before.weight": (4,),
    "classifier.weight": (3, 4),
}
STRANGE = {"a": (), "1": (2,), "x..y": (2, 2), "layers.0": (3,), "ünïcode/wéight": (2,), "w" * 300: (2, 2)}


@pytest.mark.parametrize("shapes", [LLAVA, VIT, STRANGE], ids=["llava", "vit", "strange"])
@pytest.mark.parametrize("method", ["average", "ties", "tsv"])
def test_tensors_that_no_list_knows_are_merged_and_kept(tmp_path, shapes, method):
    for seed, name in enumerate(("base", "cars", "birds")):
        write_model(tmp_path / name, random_state(seed, shapes), None)
    models = [tmp_path / "cars", tmp_path / "birds"]
    every = {"include": "*"} if shapes is LLAVA else {}  # its tower is known by the names, and left as it is
    smelt.merge(models, base=tmp_path / "base", method=method, out=tmp_path / "out", **every)
    merged, cars = read_weights(tmp_path / "out"), read_weights(tmp_path / "cars")
    if shapes is LLAVA:
        shapes = {LLAVA_NAMES.common(name): shape for name, shape in shapes.items()}
        cars = {LLAVA_NAMES.common(name): tensor for name, tensor in cars.items()}
    assert {name: tuple(t.shape) for name, t in merged.items()} == {name: tuple(s) for name, s in shapes.items()}
    assert not any(torch.equal(merged[name], cars[name]) for name in shapes)
    assert smelt.plan(models, base=tmp_path / "base", method=method, **every).tensors == len(shapes)


def test_integers_and_flags_are_copied_from_the_base_and_said_so(tmp_path):
    for value, name in enumerate(("base", "cars", "birds")):
        buffers = {"steps": torch.tensor([value]), "mask": torch.tensor([value == 0]), "w": torch.ones(2) * value}
        write_model(tmp_path / name, buffers, None)
    models = [tmp_path / "cars", tmp_path / "birds"]
    done = smelt.merge(models, base=tmp_path / "base", out=tmp_path / "out")
    merged = read_weights(tmp_path / "out")
    assert (merged["steps"].item(), merged["mask"].item(), merged["w"].tolist()) == (0, True, [1.5, 1.5])
    assert any("2 tensors are copied from base" in note and "mask" in note for note in done.notes)


@pytest.mark.timeout(10)
def test_empty_tensors_are_kept(tmp_path):
    empty = {f"empty.{n}.w": torch.zeros(0, 3) for n in range(40)}
    for value, name in ((1.0, "cars"), (3.0, "birds")):
        write_model(tmp_path / name, {**empty, "w": torch.full((2,), value)}, None)
    smelt.merge([tmp_path / "cars", tmp_path / "birds"], out=tmp_path / "out", threads=1)
    merged = read_weights(tmp_path / "out")
    assert len(merged) == 41
    assert merged["w"].tolist() == [2, 2]


def merge(two, tmp_path, **words):
    base, cars, birds = two
    return smelt.merge({"cars": cars, "birds": birds}, base=base, method="ties", out=tmp_path / "out", **words)


@pytest.fixture
def change(tmp_path, two):
    """Write one of the models anew before the snapshot is taken."""

    def write(name, tensors, config=CONFIG):
        write_model(tmp_path / "models" / name, tensors, config)
        return snapshot(tmp_path)

    return write


def refuses(two, tmp_path, before, *words, **options):
    with pytest.raises(IncompatibleModels) as caught:
        merge(two, tmp_path, **options)
    for word in words:
        assert word in str(caught.value)
    assert caught.value.exit_code == 2
    assert snapshot(tmp_path) == before
    return caught.value


def test_a_missing_tensor_is_refused_and_named(two, tmp_path, change):
    tensors = state(1.0)
    del tensors["layers.1.mlp.bias"]
    before = change("cars", tensors)
    refuses(two, tmp_path, before, "cars lacks 'layers.1.mlp.bias'", "`missing='base'`")


def test_missing_base_takes_the_bases_tensor_when_the_recipe_says_so(two, tmp_path, change):
    tensors = state(1.0)
    del tensors["layers.1.mlp.bias"]
    change("cars", tensors)
    base, cars, birds = two
    smelt.merge([cars, birds], base=base, method="average", missing="base", out=tmp_path / "out")
    merged = read_weights(tmp_path / "out")
    assert merged["layers.1.mlp.bias"].tolist() == [5.5] * 4  # (base's 4 + birds' 7) / 2
    assert merged["layers.0.mlp.bias"].tolist() == [4.0] * 4  # (cars' 3 + birds' 5) / 2


def test_a_tensor_that_the_base_lacks_is_refused_and_named(two, tmp_path, change):
    before = change("birds", {**state(3.0), "extra.weight": torch.ones(2)})
    refuses(two, tmp_path, before, "birds has 'extra.weight', which base lacks", "`skip='extra.weight'`")


def test_an_extra_tensor_left_out_by_the_recipe_is_mentioned(two, tmp_path, change):
    change("birds", {**state(3.0), "extra.weight": torch.ones(2)})
    done = merge(two, tmp_path, skip="extra.weight")
    assert any("extra.weight" in note for note in done.notes), "a tensor that does not reach the output is told of"


def test_all_shape_mismatches_are_listed_at_once_with_the_models(two, tmp_path, change):
    tensors = {**state(1.0), "head.weight": torch.ones(5, 3), "layers.0.mlp.weight": torch.ones(4, 2)}
    before = change("cars", tensors)
    error = refuses(two, tmp_path, before, "(4, 3) in base, birds but (5, 3) in cars", "`skip='head.*'`")
    assert len(error.faults) == 2
    assert any("'layers.0.mlp.weight'" in fault and "(4, 2) in cars" in fault for fault in error.faults)


def test_faults_of_every_kind_come_together(two, tmp_path, change):
    tensors = {**state(1.0), "head.weight": torch.ones(5, 3), "extra": torch.ones(1)}
    del tensors["embed.weight"]
    before = change("cars", tensors)
    error = refuses(two, tmp_path, before, "'embed.weight'", "'head.weight'", "'extra'")
    assert len(error.faults) == 3


def test_a_mismatch_that_the_recipe_skips_is_copied_from_the_base(two, tmp_path, change):
    change("cars", {**state(1.0), "head.weight": torch.ones(5, 3)})
    merge(two, tmp_path, skip="head.*")
    assert torch.equal(read_weights(tmp_path / "out")["head.weight"], state(0.0)["head.weight"])


def test_more_layers_in_one_model_are_refused(two, tmp_path, change):
    before = change("birds", state(3.0, layers=4))
    refuses(two, tmp_path, before, "birds", "layers.2.mlp.weight")


def vocabulary(rows, announced):
    tensors = {"model.embed_tokens.weight": torch.ones(rows, 3), "lm_head.weight": torch.ones(rows, 3)}
    return tensors, {"model_type": "pico", "vocab_size": announced}


@pytest.mark.parametrize(("rows", "announced"), [(10, 8), (8, 10)])
def test_a_vocabulary_other_in_the_weights_than_in_the_config_is_refused(two, tmp_path, change, rows, announced):
    for name in ("base", "cars", "birds"):
        before = change(name, *vocabulary(rows, announced))
    refuses(two, tmp_path, before, "base: config.json says vocab_size", str(rows), str(announced), "`vocab='base'`")


def test_vocabularies_of_two_sizes_are_refused_with_the_policies_there_are(two, tmp_path, change):
    change("base", *vocabulary(8, 8))
    change("birds", *vocabulary(8, 8))
    before = change("cars", *vocabulary(9, 9))
    refuses(two, tmp_path, before, "(8, 3) in base, birds but (9, 3) in cars")
    for folder, count in zip(two, (8, 9, 8), strict=True):
        (folder / "vocab.json").write_text(json.dumps({f"t{n}": n for n in range(count)}))
    before = snapshot(tmp_path)
    refuses(two, tmp_path, before, "9 in cars", "8 in base", "union", "intersection")


def test_by_rows_the_config_follows_the_weights(two, tmp_path, change):
    for name in ("base", "cars", "birds"):
        change(name, *vocabulary(10, 8))
    merge(two, tmp_path, vocab="rows")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["vocab_size"] == 10
