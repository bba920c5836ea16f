"""Merging LLaVAs (U11): the vision tower is the base's byte by byte, the rest is merged, what does not fit refused."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import smelt
from checkpoints import read_weights, write_yaml
from smelt.errors import IncompatibleModels
from smelt.formats.views.llava import LLAVA_NAMES
from smelt.testing.pico_llava import llava, save_llava

TOWER = "model.vision_tower."


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """A base and two fine-tunes whose towers are the base's."""
    home = tmp_path_factory.mktemp("llavas")
    return {
        name: str(save_llava(home / name, change=change))
        for name, change in (("base", 0), ("one", 0.01), ("two", 0.03))
    }


def weights(folder):
    return {LLAVA_NAMES.common(name): tensor for name, tensor in read_weights(Path(folder)).items()}


def merged(pool, out, *names, **words):
    words = {"method": "average", **words}
    return smelt.merge({name: pool[name] for name in names}, base=pool["base"], out=out, **words)


def test_the_tower_is_untouched_and_the_rest_is_merged(pool, tmp_path):
    summary = merged(pool, tmp_path / "out", "one", "two")
    base, one, two = (weights(pool[name]) for name in ("base", "one", "two"))
    out = weights(tmp_path / "out")
    assert out.keys() == base.keys() == one.keys()
    for name in out:
        if name.startswith(TOWER):
            assert torch.equal(out[name], base[name])
        else:
            torch.testing.assert_close(out[name], (one[name] + two[name]) / 2)
            assert not torch.equal(out[name], base[name])
    said = "39 tensors are copied from base (the vision tower, which all models share): model.vision_tower."
    assert any(note.startswith(said) for note in summary.notes)


def test_what_the_recipe_leaves_out_itself_is_said_apart_from_the_tower(pool, tmp_path):
    notes = merged(pool, tmp_path / "out", "one", "two", skip=f"{TOWER}pre_layrnorm.*").notes
    assert any(note.startswith("2 tensors are copied from base (left out by the recipe)") for note in notes)
    assert any(note.startswith("37 tensors are copied from base (the vision tower") for note in notes)


def test_a_mean_of_three_equal_towers_would_not_have_kept_it(pool, tmp_path):
    """Why it is copied: by the recipe's own word it is merged, and then rounds."""
    merged(
        {**pool, "three": str(save_llava(tmp_path / "three", change=0.02))},
        tmp_path / "out",
        "one",
        "two",
        "three",
        include="*",
    )
    out, base = weights(tmp_path / "out"), weights(pool["base"])
    tower = [name for name in out if name.startswith(TOWER)]
    assert not all(torch.equal(out[name], base[name]) for name in tower)
    assert all(torch.allclose(out[name], base[name]) for name in tower)


def test_the_output_loads_in_transformers_with_its_processor_and_chat_template(pool, tmp_path):
    from transformers import AutoProcessor, LlavaForConditionalGeneration

    merged(pool, tmp_path / "out", "one", "two")
    model, info = LlavaForConditionalGeneration.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    middle = llava(change=0.01).lm_head.weight.lerp(llava(change=0.03).lm_head.weight, 0.5)
    torch.testing.assert_close(model.lm_head.weight, middle)
    words = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "hi"}]}]
    asked = AutoProcessor.from_pretrained(tmp_path / "out").apply_chat_template(words, add_generation_prompt=True)
    assert asked == "USER: <image>\nhi\nASSISTANT:"
    assert {"generation_config.json", "preprocessor_config.json", "processor_config.json", "tokenizer.json"} <= {
        file.name for file in (tmp_path / "out").iterdir()
    }


def test_layouts_of_names_mix(pool, tmp_path):
    other = save_llava(tmp_path / "other", change=0.03)
    save_file(weights(other), other / "model.safetensors")
    merged(pool, tmp_path / "first", "one", "two")
    merged({**pool, "two": str(other)}, tmp_path / "second", "one", "two")
    first, second = weights(tmp_path / "first"), weights(tmp_path / "second")
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_towers_that_differ_are_refused_with_the_models_and_the_first_tensor(pool, tmp_path):
    other = str(save_llava(tmp_path / "other", change=0.01, tower=0.01))
    with pytest.raises(
        IncompatibleModels, match=r"towers of base and other differ, first in 'model\.vision_tower\.[^']*' \(39 of 39"
    ):
        merged({**pool, "other": other}, tmp_path / "out", "one", "other")
    report = smelt.check_models({"one": pool["one"], "other": other}, base=pool["base"])
    assert not report.ok
    assert "towers of base and other differ" in report.faults[0]
    with pytest.raises(IncompatibleModels, match="towers of one and other differ"):  # without a base the first decides
        smelt.merge({"one": pool["one"], "other": other}, method="average", out=tmp_path / "out")
    merged({**pool, "other": other}, tmp_path / "out", "one", "other", skip=f"{TOWER}*")
    out, base = weights(tmp_path / "out"), weights(pool["base"])
    assert all(torch.equal(out[name], base[name]) for name in out if name.startswith(TOWER))


@pytest.mark.parametrize("part", ["model.multi_modal_projector.linear_1.bias", "model.vision_tower.pre_layrnorm.bias"])
def test_key_sets_that_differ_are_refused(pool, tmp_path, part):
    less = save_llava(tmp_path / "less", change=0.01)
    save_file({name: tensor for name, tensor in weights(less).items() if name != part}, less / "model.safetensors")
    with pytest.raises(IncompatibleModels, match=f"less lacks '{part}'"):
        merged({**pool, "less": str(less)}, tmp_path / "out", "one", "less")


def test_a_tower_is_read_once_and_remembered(pool, tmp_path, monkeypatch):
    from smelt.engine.plan import frozen_part

    read = []
    plain = frozen_part._hash
    monkeypatch.setattr(frozen_part, "_hash", lambda source, key: read.append(key) or plain(source, key))
    merged(pool, tmp_path / "first", "one", "two")
    assert len(read) == 3 * 39
    merged(pool, tmp_path / "second", "one", "two", method="task_arithmetic")
    assert len(read) == 3 * 39


def test_adapters_over_one_base_share_its_tower_without_a_look(pool, tmp_path, monkeypatch):
    peft = pytest.importorskip("peft")
    from smelt.engine.plan import frozen_part

    monkeypatch.setattr(frozen_part, "_hash", lambda source, key: pytest.fail("a tower was read"))
    for number, name in enumerate(("left", "right"), 1):
        adapted = peft.get_peft_model(llava(), peft.LoraConfig(r=2, target_modules=r".*language_model.*q_proj"))
        with torch.no_grad():
            for key, tensor in adapted.named_parameters():
                if "lora_" in key:
                    tensor.fill_(0.1 * number)
        adapted.save_pretrained(tmp_path / name)
    models = {name: f"{pool['base']}+{tmp_path / name}" for name in ("left", "right")}
    smelt.merge(models, base=pool["base"], method="average", out=tmp_path / "out")
    out, base = weights(tmp_path / "out"), weights(pool["base"])
    key = "model.language_model.layers.0.self_attn.q_proj.weight"
    # r = 2 and alpha = 8: the change is 4 * 2 * a * a, for a = 0.1 and 0.2
    torch.testing.assert_close(out[key] - base[key], torch.full((16, 16), 4 * 2 * (0.01 + 0.04) / 2))
    assert all(
        torch.equal(out[name], base[name]) for name in out if "language_model" not in name or "q_proj" not in name
    )


def test_state_dicts_are_known_by_their_names():
    base, one, two = (llava(change=change).state_dict() for change in (0.0, 0.01, 0.03))
    out = smelt.merge({"one": one, "two": two}, base=base, method="average")
    assert all(torch.equal(out[name], base[name]) for name in out if name.startswith(TOWER))
    with pytest.raises(IncompatibleModels, match="vision towers of base and two differ"):
        smelt.merge({"one": one, "two": llava(tower=0.01).state_dict()}, base=base, method="average")


MERGEKIT = {
    "models": lambda entries: {"models": entries},
    "modules": lambda entries: {
        "modules": {part: {"models": entries} for part in ("text_decoder", "vision_tower", "multi_modal_projector")}
    },
}


@pytest.mark.parametrize("shape", MERGEKIT)
def test_a_mergekit_file_of_other_towers_is_refused_until_the_command_line_says_which(pool, tmp_path, cli, shape):
    """What docs/how-to/mergekit.md says: such a file has no word for it, so it is said with --set."""
    other = str(save_llava(tmp_path / "other", change=0.03, tower=0.05))
    entries = [{"model": ref, "parameters": {"weight": 0.5}} for ref in (pool["one"], other)]
    file = write_yaml(tmp_path / "mergekit.yaml", {"merge_method": "linear", **MERGEKIT[shape](entries)})
    refused = cli("merge", file, "-o", tmp_path / "none")
    assert refused.code == 2
    assert "the vision towers of one and other differ" in refused.err
    one, two = weights(pool["one"]), weights(other)
    for word, wanted in (
        (f'skip=["{TOWER}*"]', lambda name: one[name]),
        ('include=["*"]', lambda name: (one[name] + two[name]) / 2),
    ):
        out = tmp_path / word.partition("=")[0]
        ran = cli("merge", file, "--set", word, "-o", out)
        assert ran.code == 0, ran.err
        found = weights(out)
        for name in found:
            expected = wanted(name) if name.startswith(TOWER) else (one[name] + two[name]) / 2
            torch.testing.assert_close(found[name], expected)
