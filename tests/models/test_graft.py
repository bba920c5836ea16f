"""The language model of a model that sees and reads: put in from a model of texts, merged with one, taken out again."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import smelt
from smelt.errors import IncompatibleModels, RecipeError
from smelt.formats.source import read_whole
from smelt.models.references import absolute_ref, open_ref, ref_seen_from
from tiny_multimodal import CONFIGS, TEXT, multimodal, save_as_transformers_4, scores

TEXTS = {"llava": "llama", "qwen2_vl": "qwen2", "paligemma": "gemma", "qwen3_vl": "qwen3", "idefics3": "llama"}
"""A class that sees and reads, and the class of texts of its language model."""


def text_model(kind, seed=5, **words):
    import transformers

    config = transformers.CONFIG_MAPPING[kind].from_dict({**TEXT, "tie_word_embeddings": kind == "gemma", **words})
    torch.manual_seed(seed)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Every class with a model of texts that fits."""
    home = tmp_path_factory.mktemp("grafts")
    for kind, text in TEXTS.items():
        save_as_transformers_4(multimodal(kind), home / kind)
        text_model(text).save_pretrained(home / f"{kind}-text")
    return home


def grafted(home, kind, out, **words):
    models = {"text": str(home / f"{kind}-text")}
    pool = {"base": str(home / kind), "models": models, "graft": {"text": "language"}}
    smelt.merge({"pool": pool, "merge": "average", **words}, out=out)
    return out


def seeing(folder):
    from transformers import AutoModelForImageTextToText

    return AutoModelForImageTextToText.from_pretrained(folder).eval()


def reading(folder):
    from transformers import AutoModelForCausalLM

    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    return model.eval()


def logits(model, ids=(1, 5, 9, 7, 3)):
    words = {"input_ids": torch.tensor([list(ids)])}
    if model.config.model_type == "paligemma":  # text as it is written, each word after those before it
        words["token_type_ids"] = torch.ones_like(words["input_ids"])
    with torch.inference_mode():
        return model(**words).logits


@pytest.mark.parametrize("kind", TEXTS)
def test_what_was_grafted_reads_as_the_text_model_and_sees_by_the_old_tower(home, kind, tmp_path):
    model = seeing(grafted(home, kind, tmp_path / "out"))
    text, before = reading(home / f"{kind}-text"), multimodal(kind)
    torch.testing.assert_close(logits(model), logits(text))
    assert not torch.allclose(logits(before), logits(text))
    for name, own in before.named_parameters():
        if not name.startswith(("model.language_model.", "model.text_model.", "lm_head.")):
            assert torch.equal(model.get_parameter(name), own), name
    shown = scores(model, kind)  # the picture still counts
    assert shown.isfinite().all()
    assert not torch.allclose(shown, scores(before, kind))


@pytest.mark.parametrize("kind", TEXTS)
def test_what_is_grafted_and_taken_out_again_is_the_same_bytes(home, kind, tmp_path):
    grafted(home, kind, tmp_path / "out")
    smelt.merge({"one": f"{tmp_path / 'out'}#language"}, method="average", out=tmp_path / "text")
    before, after = (load_file(one / "model.safetensors") for one in (home / f"{kind}-text", tmp_path / "text"))
    assert before.keys() == after.keys()
    assert all(before[name].numpy().tobytes() == after[name].numpy().tobytes() for name in before)
    assert torch.equal(logits(reading(tmp_path / "text")), logits(reading(home / f"{kind}-text")))


@pytest.mark.parametrize("kind", sorted(CONFIGS))
def test_the_language_model_of_every_class_loads_alone_and_says_the_same(kind, tmp_path):
    model = multimodal(kind)
    for save, name in ((model.save_pretrained, "new"), (lambda to: save_as_transformers_4(model, to), "old")):
        save(tmp_path / name)
        smelt.merge({"one": f"{tmp_path / name}#language"}, method="average", out=tmp_path / f"{name}-text")
        torch.testing.assert_close(logits(reading(tmp_path / f"{name}-text")), logits(model))


def test_a_qwen_whose_config_is_flat_as_transformers_4_wrote_it(tmp_path):
    folder = save_as_transformers_4(multimodal("qwen2_vl"), tmp_path / "flat")
    config = json.loads((folder / "config.json").read_text())
    inner = config.pop("text_config")
    inner |= {"rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]}, "rope_theta": 10000.0}
    for word in ("rope_parameters", "model_type"):
        inner.pop(word)
    (folder / "config.json").write_text(json.dumps({**inner, **config, "model_type": "qwen2_vl"}))
    smelt.merge({"one": f"{folder}#language"}, method="average", out=tmp_path / "text")
    own = json.loads((tmp_path / "text" / "config.json").read_text())
    assert own["model_type"] == "qwen2"
    assert "vision_config" not in own
    assert "rope_scaling" not in own
    torch.testing.assert_close(logits(reading(tmp_path / "text")), logits(multimodal("qwen2_vl")))


def test_a_text_model_is_merged_with_the_language_model_inside(home, tmp_path):
    out = grafted(home, "llava", tmp_path / "out", merge={"task_arithmetic": {"scale": 0.25}})
    base, text = open_ref(str(home / "llava")), open_ref(str(home / "llava-text"))
    found = load_file(out / "model.safetensors")
    key = "layers.1.mlp.up_proj.weight"
    before = read_whole(base, f"model.language_model.{key}")
    wanted = 0.75 * before + 0.25 * read_whole(text, f"model.{key}")
    torch.testing.assert_close(found[f"model.language_model.{key}"], wanted)
    assert torch.equal(
        found["model.multi_modal_projector.linear_1.weight"],
        read_whole(base, "model.multi_modal_projector.linear_1.weight"),
    )


def test_what_a_text_model_learned_is_added_where_the_base_is_its_base(home, tmp_path):
    """out = text base + (VLM - text base) + (chat - text base), with the tower of the VLM."""
    base, chat = text_model("qwen2", 1), text_model("qwen2", 2)
    base.save_pretrained(tmp_path / "base")
    chat.save_pretrained(tmp_path / "chat")
    recipe = {
        "pool": {
            "base": str(tmp_path / "base"),
            "models": {"vlm": str(home / "qwen2_vl"), "chat": str(tmp_path / "chat")},
            "graft": {"base": "language", "chat": "language"},
        },
        "merge": {"task_arithmetic": {"scale": 1.0}},
    }
    smelt.merge(recipe, out=tmp_path / "out")
    model, vlm = seeing(tmp_path / "out"), multimodal("qwen2_vl")
    key = "layers.0.self_attn.q_proj.weight"
    own = model.get_parameter(f"model.language_model.{key}")
    there = vlm.get_parameter(f"model.language_model.{key}") + chat.get_parameter(f"model.{key}")
    torch.testing.assert_close(own, there - base.get_parameter(f"model.{key}"))
    assert torch.equal(model.model.visual.patch_embed.proj.weight, vlm.model.visual.patch_embed.proj.weight)


def test_any_other_place_is_said_by_how_names_begin(home, tmp_path):
    recipe = {
        "pool": {
            "base": str(home / "llava"),
            "models": {"text": str(home / "llava-text")},
            "graft": {"text": {"model.": "model.language_model.", "lm_head.": "lm_head."}},
        },
        "merge": "average",
    }
    smelt.merge(recipe, out=tmp_path / "out")
    out = grafted(home, "llava", tmp_path / "by-name")
    found, wanted = load_file(tmp_path / "out" / "model.safetensors"), load_file(out / "model.safetensors")
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_all_that_does_not_fit_is_said_at_once(home, tmp_path):
    text_model("llama", num_hidden_layers=3, intermediate_size=20).save_pretrained(tmp_path / "text")
    pool = {"base": str(home / "llava"), "models": {"text": str(tmp_path / "text")}, "graft": {"text": "language"}}
    with pytest.raises(IncompatibleModels) as caught:
        smelt.merge({"pool": pool, "merge": "average"}, out=tmp_path / "out")
    said = str(caught.value)
    assert "would become 'model.language_model.layers.2" in said
    assert "and 10 more" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("graft", "said"),
    [
        ({"text": {"model.": "model.language_model.", "head.": "lm_head."}}, "nothing of it begins with 'head.'"),
        ({"text": {"model.": "model.words."}}, "would become 'model.words.embed_tokens.weight', which"),
        ({"text": {"model.": "model.language_model."}}, "no beginning of the graft takes its 'lm_head.weight'"),
        (
            {"text": {"model.": "model.language_model.", "lm_head.": "model.language_model.embed_tokens."}},
            "would both become 'model.language_model.embed_tokens.weight'",
        ),
        ({"text": "vision"}, "there is no place named 'vision'"),
        ({"strange": "language"}, "no model named 'strange'"),
        ({"text": "language", "base": "language"}, "none is left that sees and reads"),
        ({"text": 3}, "pool.graft.text"),
    ],
)
def test_a_graft_that_means_nothing_is_refused(home, graft, said, tmp_path):
    pool = {"base": str(home / "llava"), "models": {"text": str(home / "llava-text")}, "graft": graft}
    with pytest.raises((IncompatibleModels, RecipeError)) as caught:
        smelt.merge({"pool": pool, "merge": "average"}, out=tmp_path / "out")
    assert said in str(caught.value)


def tokenizer(folder, words):
    content = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: number for number, word in enumerate(words)}, "unk_token": "w0"},
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(content))


def test_a_text_model_with_fewer_words_goes_by_the_rules_of_the_vocabulary(home, tmp_path):
    """The host has four words more, as a model that sees and reads has for pictures, and two others change places."""
    words = [f"w{number}" for number in range(60)]
    host, text = save_as_transformers_4(multimodal("llava"), tmp_path / "host"), tmp_path / "text"
    text_model("llama", vocab_size=60).save_pretrained(text)
    tokenizer(host, [*words, "<image>", "<pad>", "<a>", "<b>"])
    tokenizer(text, [words[1], words[0], *words[2:]])
    pool = {"base": str(host), "models": {"text": str(text)}, "graft": {"text": "language"}}
    with pytest.raises(IncompatibleModels, match=r"(?s)64 in base, 60 in text.*vocab: base"):
        smelt.merge({"pool": pool, "merge": "average"}, out=tmp_path / "out")
    smelt.merge({"pool": pool, "merge": "average", "vocab": "base"}, out=tmp_path / "out")
    found, rows = seeing(tmp_path / "out").get_input_embeddings().weight, reading(text).get_input_embeddings().weight
    order = [1, 0, *range(2, 60)]
    assert torch.equal(found[:60], rows[order])
    assert torch.equal(found[60:], multimodal("llava").get_input_embeddings().weight[60:])
    assert "<image>" in (tmp_path / "out" / "tokenizer.json").read_text()


def test_a_config_that_computes_something_else_is_refused(home, tmp_path):
    text_model("llama", rms_norm_eps=0.1).save_pretrained(tmp_path / "text")
    pool = {"base": str(home / "llava"), "models": {"text": str(tmp_path / "text")}, "graft": {"text": "language"}}
    with pytest.raises(IncompatibleModels, match=r"text_config.rms_norm_eps is 1e-06 in base but 0.1 in text"):
        smelt.merge({"pool": pool, "merge": "average"}, out=tmp_path / "out")


def test_parts_are_references_like_all_others(home, tmp_path):
    ref = f"{home / 'llava'}#language"
    assert absolute_ref("llava#language", home) == ref
    assert ref_seen_from(ref, home) == "llava#language"
    source = open_ref("llava#language", relative_to=home)
    assert set(source.tensors) == set(text_model("llama").state_dict())
    assert source.has_bytes("lm_head.weight")
    assert "model_type" in json.loads((source.folder / "config.json").read_text())
    source.close()
    facts = smelt.inspect(ref)
    assert "part (language)" in facts.format


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("llava#tongue", "part of a model"),
        ("llava-text#language", "has no part 'language'"),
        ("none#language", "no model"),
    ],
)
def test_a_part_that_is_not_there_is_refused(home, ref, said):
    with pytest.raises(RecipeError, match=said):
        open_ref(ref, relative_to=home)


def test_a_path_may_hold_the_sign_of_a_part(tmp_path):
    folder = tmp_path / "a#b"
    folder.mkdir()
    save_file({"w": torch.ones(2, 2)}, folder / "model.safetensors")
    assert open_ref(str(folder)).folder == folder
