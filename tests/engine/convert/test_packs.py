"""Delta packs from end to end: what is stored, what is lost, what comes back, what is refused."""

import json
import os

import pytest
import torch
from safetensors.torch import load_file

import smelt
from checkpoints import random_state, read_weights, snapshot, write_model
from smelt.engine.convert.pack import pack, unpack
from smelt.errors import IncompatibleModels, NumericalError, OutputError, RecipeError
from smelt.models.references import open_ref
from smelt.testing.pico import load

SHAPES = {
    "embed.weight": (40, 24),
    "layers.0.mlp.weight": (32, 24),
    "layers.0.mlp.bias": (32,),
    "layers.0.norm.weight": (24,),
    "layers.1.mlp.weight": (24, 32),
    "patches.weight": (8, 3, 4, 4),
    "scale": (),
}


def tuned(base, seed, frozen=("embed.weight",)):
    change = random_state(seed, {name: tuple(tensor.shape) for name, tensor in base.items()})
    return {n: t if n in frozen else (t.float() + 0.01 * change[n]).to(t.dtype) for n, t in base.items()}


@pytest.fixture(params=[torch.float32, torch.float16, torch.bfloat16], ids=["fp32", "fp16", "bf16"])
def family(request, tmp_path):
    """A base and two fine-tunes whose embedding was frozen."""
    base = {name: tensor.to(request.param) for name, tensor in random_state(0, SHAPES).items()}
    return (
        write_model(tmp_path / "base", base, tokenizer_config__json="{}"),
        write_model(tmp_path / "cars", tuned(base, 1), tokenizer_config__json='{"of": "cars"}'),
        write_model(tmp_path / "birds", tuned(base, 2)),
    )


@pytest.fixture
def models(tmp_path):
    base = random_state(0, SHAPES)
    return write_model(tmp_path / "base", base), write_model(tmp_path / "cars", tuned(base, 1))


def test_a_tensor_is_stored_as_its_kind_asks(models, tmp_path):
    base, cars = models
    done = pack(cars, base=base, out=tmp_path / "pack")
    stored = load_file(tmp_path / "pack" / "delta.safetensors")
    assert {name: (t.dtype, tuple(t.shape)) for name, t in stored.items()} == {
        "layers.0.mlp.weight.codes": (torch.uint8, (32, 12)),
        "layers.0.mlp.weight.scale": (torch.float32, (32,)),
        "layers.0.mlp.bias.exact": (torch.float32, (32,)),
        "layers.0.norm.weight.exact": (torch.float32, (24,)),
        "layers.1.mlp.weight.codes": (torch.uint8, (24, 16)),
        "layers.1.mlp.weight.scale": (torch.float32, (24,)),
        "patches.weight.codes": (torch.uint8, (8, 24)),
        "patches.weight.scale": (torch.float32, (8,)),
        "scale.exact": (torch.float32, ()),
    }
    assert done.tensors == {"base": 1, "codes": 3, "exact": 3, "absent": 0}


def test_a_pack_by_hand(tmp_path):
    """Rows of the base are 1; the change of each is (7, -3, 0, 1) / 2, which 4 bits hold exactly."""
    base = write_model(tmp_path / "base", {"w": torch.ones(64, 4)})
    model = write_model(tmp_path / "model", {"w": 1 + 0.5 * torch.tensor([[7.0, -3, 0, 1]]).repeat(64, 1)})
    done = pack(model, base=base, out=tmp_path / "pack", bits=4)
    stored = load_file(tmp_path / "pack" / "delta.safetensors")
    assert stored["w.codes"][5].tolist() == [14 + 4 * 16, 7 + 8 * 16]
    assert stored["w.scale"][5] == 0.5
    assert read_whole(tmp_path / "pack")["w"][63].tolist() == [4.5, -0.5, 1.0, 1.5]
    assert (done.error, done.worst_error, done.bytes_before) == (0.0, 0.0, 1024)


def read_whole(ref):
    source = open_ref(str(ref))
    try:
        return {name: read(source, name) for name in source.tensors}
    finally:
        source.close()


def read(source, key, dtype=None):
    from smelt.formats.dtype import torch_dtype

    info = source.tensors[key]
    out = torch.empty(info.count, dtype=dtype or torch_dtype(info.dtype))
    source.read(key, 0, out)
    return out.view(info.shape)


def test_more_bits_lose_less(models, tmp_path):
    base, cars = models
    done = {bits: pack(cars, base=base, out=tmp_path / f"pack-{bits}", bits=bits) for bits in (2, 4, 8)}
    assert 0 < done[8].error < 0.01 < done[4].error < 0.15 < done[2].error < 0.6
    assert done[2].bytes_after < done[4].bytes_after < done[8].bytes_after


def test_a_higher_rank_loses_less_and_the_full_one_only_rounding(models, tmp_path):
    base, cars = models
    done = {rank: pack(cars, base=base, out=tmp_path / f"pack-{rank}", rank=rank) for rank in (2, 6)}
    assert 0.001 < done[6].error < done[2].error < 1
    twelve = {"w": torch.zeros(64, 64)}
    low = {"w": torch.outer(torch.arange(64.0), torch.arange(64.0) - 30)}
    exact = pack(
        write_model(tmp_path / "low", low), base=write_model(tmp_path / "flat", twelve), out=tmp_path / "p", rank=1
    )
    assert exact.error < 1e-3


@pytest.mark.parametrize("how", [{"bits": 2}, {"bits": 4}, {"bits": 8}, {"rank": 3}])
def test_the_error_is_that_of_the_model_as_it_is_read(family, tmp_path, how):
    base, cars, _ = family
    done = pack(cars, base=base, out=tmp_path / "pack", **how)
    before, after, packed = load(base), load(cars), load(tmp_path / "pack")
    lost = {name: float((after[name].double() - packed[name].double()).norm()) for name in after}
    size = {name: float((after[name].double() - before[name].double()).norm()) for name in after}
    assert done.error == pytest.approx(norm(lost) / norm(size), rel=1e-4)
    worst = max((name for name in lost if size[name]), key=lambda name: lost[name] / size[name])
    assert (done.worst_tensor, done.worst_error) == (worst, pytest.approx(lost[worst] / size[worst], rel=1e-4))
    note = json.loads((tmp_path / "pack" / "delta.json").read_text())
    assert note["error"]["relative"] == done.error


def norm(parts):
    return sum(value**2 for value in parts.values()) ** 0.5


@pytest.mark.parametrize("how", [{"bits": 4}, {"rank": 3}])
def test_unpacking_gives_what_reading_the_pack_gives(family, tmp_path, how):
    base, cars, _ = family
    pack(cars, base=base, out=tmp_path / "pack", **how)
    unpack(tmp_path / "pack", out=tmp_path / "plain")
    packed, plain, original = load(tmp_path / "pack"), read_weights(tmp_path / "plain"), load(cars)
    assert packed.keys() == plain.keys() == original.keys()
    for name in packed:
        assert plain[name].dtype == original[name].dtype
        assert torch.equal(packed[name], plain[name])
    assert torch.equal(plain["embed.weight"], original["embed.weight"])
    assert torch.equal(plain["layers.0.mlp.bias"], original["layers.0.mlp.bias"])


@pytest.mark.parametrize("how", [{"bits": 4}, {"rank": 3}])
def test_merging_packs_is_merging_their_unpacked_folders(family, tmp_path, how):
    base, *models = family
    for model in models:
        pack(model, base=base, out=tmp_path / f"{model.name}-pack", **how)
        unpack(tmp_path / f"{model.name}-pack", out=tmp_path / f"{model.name}-plain")
    merged = [
        smelt.merge(
            {model.name: str(tmp_path / f"{model.name}-{kind}") for model in models},
            base=str(base),
            method="ties",
            dtype="float32",
        )
        for kind in ("pack", "plain")
    ]
    for name in SHAPES:
        assert torch.equal(merged[0][name], merged[1][name]), name


def test_merging_to_a_folder_takes_packs_and_names_their_files_as_parents(models, tmp_path):
    base, cars = models
    pack(cars, base=base, out=tmp_path / "pack")
    smelt.merge({"cars": str(tmp_path / "pack")}, base=str(base), method="task_arithmetic", out=tmp_path / "out")
    parents = json.loads((tmp_path / "out" / "manifest.json").read_text())["parents"]
    assert parents["cars"]["files"].keys() == {"model.safetensors", "delta.safetensors", "delta.json"}


def test_config_and_tokenizer_come_along_both_ways(family, tmp_path):
    base, cars, _ = family
    pack(cars, base=base, out=tmp_path / "pack")
    unpack(tmp_path / "pack", out=tmp_path / "plain")
    for name in ("config.json", "tokenizer_config.json"):
        for folder in ("pack", "plain"):
            assert (tmp_path / folder / name).read_bytes() == (cars / name).read_bytes()
    assert smelt.verify(tmp_path / "pack").ok
    assert smelt.verify(tmp_path / "plain").ok


def test_the_models_own_card_comes_along_and_one_without_gets_one(models, tmp_path):
    base, cars = models
    pack(cars, base=base, out=tmp_path / "pack")
    assert "delta pack" in (tmp_path / "pack" / "README.md").read_text()
    (cars / "README.md").write_text("# Cars\n")
    pack(cars, base=base, out=tmp_path / "pack", force=True)
    assert (tmp_path / "pack" / "README.md").read_text() == "# Cars\n"


def test_the_same_model_gives_the_same_bytes(models, tmp_path):
    base, cars = models
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        pack(cars, base=base, out=tmp_path / name / "pack")
    assert snapshot(tmp_path / "a") == snapshot(tmp_path / "b")


def test_pack_and_base_can_be_moved_together(models, tmp_path):
    base, cars = models
    pack(cars, base=base, out=tmp_path / "pack")
    before = read_whole(tmp_path / "pack")
    (tmp_path / "elsewhere").mkdir()
    for folder in (base, tmp_path / "pack"):
        folder.rename(tmp_path / "elsewhere" / folder.name)
    after = read_whole(tmp_path / "elsewhere" / "pack")
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_model_without_some_of_the_bases_tensors_is_packed_without_them(models, tmp_path):
    base, cars = models
    part = {name: tensor for name, tensor in read_weights(cars).items() if name.startswith("layers.")}
    done = pack(write_model(tmp_path / "part", part), base=base, out=tmp_path / "pack")
    assert done.tensors["absent"] == 3
    assert open_ref(str(tmp_path / "pack")).tensors.keys() == part.keys()
    assert set(json.loads((tmp_path / "pack" / "delta.json").read_text())["absent"]) == SHAPES.keys() - part.keys()


def test_every_tensor_that_does_not_fit_the_base_is_named(models, tmp_path):
    base, cars = models
    state = read_weights(cars)
    odd = write_model(tmp_path / "odd", {**state, "head.weight": torch.ones(3, 3), "scale": torch.ones(2)})
    with pytest.raises(IncompatibleModels) as caught:
        pack(odd, base=base, out=tmp_path / "pack")
    assert len(caught.value.faults) == 2
    assert "'head.weight' is not in the base" in str(caught.value)
    assert "'scale' is (2,) in the model but () in the base" in str(caught.value)
    assert not (tmp_path / "pack").exists()


@pytest.mark.parametrize("key", ["layers.0.mlp.weight", "layers.0.mlp.bias"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_refused_and_leave_nothing(models, tmp_path, key, value):
    base, cars = models
    state = read_weights(cars)
    state[key].view(-1)[5] = value
    with pytest.raises(NumericalError, match=rf"{key}.*element 5"):
        pack(write_model(tmp_path / "bad", state), base=base, out=tmp_path / "pack")
    assert sorted(os.listdir(tmp_path)) == ["bad", "base", "cars"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"bits": 3}, "bits: 3 is not one of 2, 4 and 8"),
        ({"bits": 0}, "bits: 0 is not one of"),
        ({"rank": 0}, "rank: 0 is not a whole number from 1 on"),
        ({"bits": 4, "rank": 4}, "either bits"),
    ],
)
def test_wrong_bits_and_ranks_are_refused(models, tmp_path, how, said):
    with pytest.raises(RecipeError, match=said):
        pack(models[1], base=models[0], out=tmp_path / "pack", **how)


def test_an_existing_output_is_kept_unless_forced(models, tmp_path):
    base, cars = models
    pack(cars, base=base, out=tmp_path / "pack", bits=2)
    before = snapshot(tmp_path / "pack")
    with pytest.raises(OutputError, match="already exists"):
        pack(cars, base=base, out=tmp_path / "pack")
    with pytest.raises(OutputError, match="already exists"):
        unpack(tmp_path / "pack", out=cars)
    assert snapshot(tmp_path / "pack") == before
    pack(cars, base=base, out=tmp_path / "pack", force=True)
    assert snapshot(tmp_path / "pack") != before


def test_an_output_over_its_own_input_is_refused(models):
    base, cars = models
    with pytest.raises(OutputError, match="holds an input"):
        pack(cars, base=base, out=base, force=True)


def test_a_base_in_half_precision_keeps_frozen_tensors_and_gives_the_models_dtype_back(tmp_path):
    """The expert was tuned in float32 from a base that is stored in half: what was frozen is the base's, rounded."""
    full = random_state(0, SHAPES)
    base = write_model(tmp_path / "base", {name: tensor.half() for name, tensor in full.items()})
    model = write_model(tmp_path / "model", tuned(full, 1))
    done = pack(model, base=base, out=tmp_path / "pack")
    assert done.tensors["base"] == 1
    packed = load(tmp_path / "pack")
    assert packed["embed.weight"].dtype == torch.float32
    assert torch.equal(packed["embed.weight"], full["embed.weight"].half().float())


def test_integers_are_stored_exactly_where_they_differ(tmp_path):
    ids = torch.arange(600).view(300, 2)
    base = write_model(tmp_path / "base", {"w": torch.zeros(20, 20), "ids": ids, "same": ids.clone()})
    model = write_model(tmp_path / "model", {"w": torch.ones(20, 20), "ids": ids + 1, "same": ids})
    pack(model, base=base, out=tmp_path / "pack")
    packed = load(tmp_path / "pack")
    assert torch.equal(packed["ids"], ids + 1)
    assert torch.equal(packed["same"], ids)
    assert "same.exact" not in load_file(tmp_path / "pack" / "delta.safetensors")


def test_a_pack_can_be_the_base_of_a_pack(models, tmp_path):
    base, cars = models
    pack(cars, base=base, out=tmp_path / "one")
    further = write_model(tmp_path / "further", tuned(read_weights(cars), 7))
    pack(further, base=tmp_path / "one", out=tmp_path / "two", bits=8)
    ours, theirs = load(tmp_path / "two")["layers.0.mlp.weight"], read_weights(further)["layers.0.mlp.weight"]
    assert float((ours - theirs).abs().max()) < 1e-3


def test_a_model_that_is_its_base_is_packed_as_nothing(models, tmp_path):
    base, _ = models
    done = pack(write_model(tmp_path / "twin", read_weights(base)), base=base, out=tmp_path / "pack")
    assert (done.error, done.tensors) == (0.0, {"base": 7, "absent": 0})
    packed = load(tmp_path / "pack")
    assert all(torch.equal(packed[name], tensor) for name, tensor in read_weights(base).items())


def test_unpacking_in_shards_holds_the_same_tensors(models, tmp_path):
    base, cars = models
    pack(cars, base=base, out=tmp_path / "pack")
    unpack(tmp_path / "pack", out=tmp_path / "plain", shard_size="4KB")
    assert len(list((tmp_path / "plain").glob("model-*.safetensors"))) > 1
    packed, plain = load(tmp_path / "pack"), load(tmp_path / "plain")
    assert all(torch.equal(packed[name], plain[name]) for name in packed)


def test_a_vision_tower_alone_is_packed_against_the_whole_clip_model(tmp_path):
    from transformers import CLIPConfig, CLIPModel, CLIPVisionModel

    torch.manual_seed(0)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = CLIPConfig(
        text_config={**size, "vocab_size": 50, "max_position_embeddings": 8},
        vision_config={**size, "image_size": 16, "patch_size": 8},
        projection_dim=16,
    )
    whole = CLIPModel(config)
    whole.save_pretrained(tmp_path / "base")
    tower = CLIPVisionModel.from_pretrained(tmp_path / "base")
    with torch.no_grad():
        for name, weights in tower.named_parameters():
            if name.endswith("fc1.weight"):
                weights += 0.01 * torch.randn_like(weights)
    tower.save_pretrained(tmp_path / "tower")
    done = pack(tmp_path / "tower", base=tmp_path / "base", out=tmp_path / "pack", bits=8)
    assert done.tensors["codes"] == 2
    assert done.tensors["absent"] > 20
    assert done.error < 0.01
    unpack(tmp_path / "pack", out=tmp_path / "plain")
    again = CLIPVisionModel.from_pretrained(tmp_path / "plain").eval()
    pixels = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        ours, theirs = tower.eval()(pixels).pooler_output, again(pixels).pooler_output
    assert torch.allclose(ours, theirs, atol=1e-3)
