"""Encoder-decoders and state-space models merge: names, tied tables, what is a matrix and what only looks like one."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import smelt
from smelt.formats.architecture.layout import Layout, Orientation
from smelt.models.references import open_ref
from tiny_sequences import CONFIGS, auto, sequence_model, write_sequence_model


def loaded(folder, kind):
    model, report = auto(kind).from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    return model.eval()


def scores(model, kind):
    ids = torch.tensor([[5, 9, 7, 3]])
    with torch.inference_mode():
        if kind == "whisper":
            heard = torch.linspace(-1, 1, 8 * 32).view(1, 8, 32)
            return model(input_features=heard, decoder_input_ids=ids).logits
        if model.config.is_encoder_decoder:
            return model(input_ids=ids, decoder_input_ids=torch.tensor([[0, 6, 8]])).logits
        return model(input_ids=ids, use_cache=False).logits


def with_all_copies(folder, out, drop="", **config):
    """The same model as older files have it: every tied tensor once more, a bare model's names, silent about ties."""
    out.mkdir()
    state = load_file(folder / "model.safetensors")
    for shared in [name for name in state if name.endswith("shared.weight")]:
        for part in ("encoder", "decoder"):
            state[shared.replace("shared", f"{part}.embed_tokens")] = state[shared].clone()
    table = next(
        state[name] for name in state if name.endswith(("shared.weight", "embed_tokens.weight", "embeddings.weight"))
    )
    if "lm_head.weight" not in state:
        state["proj_out.weight" if "whisper" in str(folder) else "lm_head.weight"] = table.clone()
    save_file({name.removeprefix(drop): one for name, one in state.items()}, out / "model.safetensors")
    words = json.loads((folder / "config.json").read_text())
    words.pop("tie_word_embeddings", None)
    (out / "config.json").write_text(json.dumps(words | config))
    return out


@pytest.mark.parametrize("kind", [kind for kind in CONFIGS if kind not in ("mamba2", "t5-v1_1")])
def test_a_file_with_all_copies_and_one_without_merge_to_the_model(kind, tmp_path):
    model = write_sequence_model(tmp_path / kind, kind)
    drop = {"bart": "model.", "whisper": "model.", "mamba": "backbone."}.get(kind, "")
    older = with_all_copies(tmp_path / kind, tmp_path / "older", drop)
    smelt.merge({"older": older, "now": tmp_path / kind}, method="average", config="now", out=tmp_path / "out")
    assert torch.equal(scores(loaded(tmp_path / "out", kind), kind), scores(model, kind))
    assert len(load_file(tmp_path / "out" / "model.safetensors")) == len(
        load_file(tmp_path / kind / "model.safetensors")
    )


@pytest.mark.parametrize("method", ["average", "tsv"])
@pytest.mark.parametrize("kind", CONFIGS)
def test_copies_give_the_model_back_and_two_their_mean(kind, method, tmp_path):
    for seed, name in enumerate(("base", "one", "two")):
        write_sequence_model(tmp_path / name, kind, seed)
    if method == "average":
        smelt.merge([tmp_path / "one", tmp_path / "two"], method="average", out=tmp_path / "out")
        found = load_file(tmp_path / "out" / "model.safetensors")
        one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
        assert found.keys() == one.keys()
        for name in one:
            torch.testing.assert_close(found[name], (one[name] + two[name]) / 2, msg=name)
    else:
        smelt.merge([tmp_path / "one", tmp_path / "two"], base=tmp_path / "base", method=method, out=tmp_path / "out")
    loaded(tmp_path / "out", kind)


def test_a_head_of_its_own_is_merged_and_kept_where_the_config_unties_it(tmp_path):
    for seed, name in enumerate(("one", "two")):
        write_sequence_model(tmp_path / name, "t5-v1_1", seed)
    smelt.merge([tmp_path / "one", tmp_path / "two"], method="average", out=tmp_path / "out")
    found = load_file(tmp_path / "out" / "model.safetensors")
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    torch.testing.assert_close(found["lm_head.weight"], (one["lm_head.weight"] + two["lm_head.weight"]) / 2)
    assert not torch.allclose(found["lm_head.weight"], found["shared.weight"])


NO_MATRIX = ("A_log", ".D", "conv1d.weight", "relative_attention_bias.weight", "embed_positions.weight", "norm.weight")


@pytest.mark.parametrize("kind", CONFIGS)
def test_only_linear_layers_are_matrices(kind):
    """Decay rates, convolutions over time, biases by distance and tables have two axes or more, and are none."""
    model = sequence_model(kind)
    linear = {f"{name}.weight" for name, one in model.named_modules() if isinstance(one, torch.nn.Linear)}
    found = {name for name, one in model.named_parameters() if Layout.is_matrix(name, tuple(one.shape))}
    assert found == linear - {"lm_head.weight", "proj_out.weight"}
    assert not any(name.endswith(NO_MATRIX) for name in found)
    shapes = {name: tuple(one.shape) for name, one in model.named_parameters()}
    assert not any(Orientation(shapes, model.config.to_dict()).of(name).transposed for name in found)


def test_depth_runs_through_encoder_and_decoder_each():
    layout = Layout.of(name for name, _ in sequence_model("t5").named_parameters())
    assert layout.stacks == {"encoder.block": 2, "decoder.block": 2}
    at = {name: layout.depth(name) for name in layout.names}
    assert at["shared.weight"] == 0
    assert (
        at["encoder.block.0.layer.0.SelfAttention.q.weight"]
        == at["decoder.block.0.layer.0.SelfAttention.q.weight"]
        == 0
    )
    assert (
        at["encoder.block.1.layer.0.SelfAttention.q.weight"]
        == at["decoder.block.1.layer.0.SelfAttention.q.weight"]
        == 1
    )
    assert at["encoder.final_layer_norm.weight"] == 1
    assert layout.main_stack == "decoder.block"


def test_rows_of_the_table_are_words(tmp_path):
    for kind, name in (("mamba", "backbone.embeddings.weight"), ("t5", "shared.weight")):
        write_sequence_model(tmp_path / kind, kind)
        assert [key for key in open_ref(str(tmp_path / kind)).tensors if Layout.holds_vocabulary(key)] == [name]
