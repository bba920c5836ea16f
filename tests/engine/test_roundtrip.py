"""Real Hugging Face checkpoints, merged and loaded again: copies of one model give its logits back."""

import json
import shutil

import pytest
import torch

import smelt
from checkpoints import read_weights, snapshot
from smelt.formats.views.llava import LLAVA_NAMES

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

WORDS = "<unk> <s> </s> the cat sat on a mat".split()
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
SIZE = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4}


def llama(seed, tie=False, words=WORDS, layers=2, **changes):
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        **{**SIZE, "num_key_value_heads": 2, "num_hidden_layers": layers, "vocab_size": len(words), **changes},
        tie_word_embeddings=tie, bos_token_id=1, eos_token_id=2, pad_token_id=None, attention_bias=True,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    model.generation_config.max_new_tokens = 7
    return scrambled(model)


def scrambled(model):
    """Biases and norms away from their zeros and ones, so that losing one shows."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model.eval()


def tokenizer(words=WORDS):
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: n for n, w in enumerate(words)}, unk_token="<unk>"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )
    fast.chat_template = TEMPLATE
    return fast


def clip(seed):
    torch.manual_seed(seed)
    part = {**SIZE, "num_hidden_layers": 2}
    config = transformers.CLIPConfig(
        text_config={**part, "vocab_size": 20, "max_position_embeddings": 8, "projection_dim": 8, "eos_token_id": 2},
        vision_config={**part, "image_size": 8, "patch_size": 4, "projection_dim": 8},
        projection_dim=8,
    )
    return scrambled(transformers.CLIPModel(config))


def vit(seed):
    torch.manual_seed(seed)
    config = transformers.ViTConfig(**SIZE, num_hidden_layers=2, image_size=8, patch_size=4, num_labels=3)
    return scrambled(transformers.ViTForImageClassification(config))


def llava(seed):
    torch.manual_seed(seed)
    vision = transformers.CLIPVisionConfig(**SIZE, num_hidden_layers=2, image_size=8, patch_size=4, projection_dim=8)
    text = transformers.LlamaConfig(**SIZE, num_key_value_heads=2, num_hidden_layers=2, vocab_size=20)
    config = transformers.LlavaConfig(vision_config=vision, text_config=text, image_token_index=19)
    return scrambled(transformers.LlavaForConditionalGeneration(config))


def images():
    return torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


INPUTS = {
    "llama": lambda: {"input_ids": torch.tensor([[1, 3, 4, 5, 6]])},
    "tied llama": lambda: {"input_ids": torch.tensor([[1, 3, 4, 5, 6]])},
    "clip": lambda: {"input_ids": torch.tensor([[1, 3, 2], [1, 4, 2]]), "pixel_values": images()},
    "vit": lambda: {"pixel_values": images()},
    "llava": lambda: {"input_ids": torch.tensor([[1, 19, 19, 19, 19, 3]]), "pixel_values": images()[:1]},
}
MAKERS = {"llama": llama, "tied llama": lambda seed: llama(seed, tie=True), "clip": clip, "vit": vit, "llava": llava}


def logits(model, kind="llama"):
    with torch.no_grad():
        result = model.eval()(**INPUTS[kind]())
    return result.logits_per_image if kind == "clip" else result.logits


def load(folder, model, **options):
    """Loaded with every weight in its place: none missing, none left over."""
    loaded, report = type(model).from_pretrained(folder, output_loading_info=True, **options)
    for trouble in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report.get(trouble), (trouble, report[trouble])
    return loaded


@pytest.fixture(params=list(MAKERS))
def checkpoint(request, tmp_path):
    """A model, and folders with three copies of it."""
    model = MAKERS[request.param](0)
    for name in ("base", "cars", "birds"):
        model.save_pretrained(tmp_path / name)
    return request.param, model


def merged(tmp_path, method="average", out="out", base=True, **words):
    smelt.merge(
        {name: tmp_path / name for name in ("cars", "birds")},
        base=tmp_path / "base" if base else None,
        method=method,
        out=tmp_path / out,
        **words,
    )
    return tmp_path / out


@pytest.mark.parametrize("method", ["average", "ties", "slerp", "model_stock", "tsv", "iso_c"])
def test_copies_of_one_model_give_its_logits_back(tmp_path, checkpoint, method):
    kind, model = checkpoint
    out = merged(tmp_path, method)
    again = logits(load(out, model), kind)
    if method == "average":
        assert torch.equal(again, logits(model, kind))
    else:
        torch.testing.assert_close(again, logits(model, kind), rtol=1e-4, atol=1e-5)
    assert smelt.verify(out).ok
    # `save_pretrained` writes a LLaVA under older names; a merge writes those that it has in memory
    names = [LLAVA_NAMES.common(name) if kind == "llava" else name for name in read_weights(tmp_path / "base")]
    assert read_weights(out).keys() == set(names)


def test_the_mean_of_two_models_is_the_mean_of_all_their_parameters(tmp_path):
    first, second = llama(1), llama(2)
    first.save_pretrained(tmp_path / "cars")
    second.save_pretrained(tmp_path / "birds")
    loaded = load(merged(tmp_path, base=False), first)
    for (name, mine), one, two in zip(loaded.named_parameters(), first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(mine, (one + two) / 2, msg=name)


def test_a_tied_model_comes_out_tied(tmp_path):
    first, second = llama(1, tie=True), llama(2, tie=True)
    first.save_pretrained(tmp_path / "cars")
    second.save_pretrained(tmp_path / "birds")
    out = merged(tmp_path, base=False)
    loaded = load(out, first)
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight
    assert "lm_head.weight" not in read_weights(out)


def test_modules_merge_in_memory_as_folders_do_on_disk(tmp_path):
    first, second = llama(1, tie=True), llama(2, tie=True)
    first.save_pretrained(tmp_path / "cars")
    second.save_pretrained(tmp_path / "birds")
    state = smelt.merge({"cars": first, "birds": second})
    fresh = llama(3, tie=True)
    fresh.load_state_dict(state)
    assert torch.equal(logits(fresh), logits(load(merged(tmp_path, base=False), first)))


@pytest.mark.parametrize("shard_size", ["2KB", "10KB"])
def test_shards_load(tmp_path, checkpoint, shard_size):
    kind, model = checkpoint
    out = merged(tmp_path, shard_size=shard_size)
    assert len(list(out.glob("model-*-of-*.safetensors"))) > 1
    assert torch.equal(logits(load(out, model), kind), logits(model, kind))
    assert smelt.verify(out).ok


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_output_loads_in_the_type_it_was_asked_for(tmp_path, checkpoint, dtype):
    _kind, model = checkpoint
    loaded = load(merged(tmp_path, dtype=dtype), model, dtype="auto")
    assert {str(p.dtype) for p in loaded.parameters()} == {f"torch.{dtype}"}
    expected = {name: p.to(getattr(torch, dtype)) for name, p in model.named_parameters()}
    assert all(torch.equal(p, expected[name]) for name, p in loaded.named_parameters())


def test_half_precision_checkpoints_stay_what_they_are(tmp_path):
    model = llama(0).to(torch.bfloat16)
    for name in ("base", "cars", "birds"):
        model.save_pretrained(tmp_path / name)
    loaded = load(merged(tmp_path, "ties"), model, dtype="auto")
    assert loaded.dtype == torch.bfloat16
    assert torch.equal(logits(loaded), logits(model))


@pytest.fixture
def language(tmp_path):
    """Three small Llamas with tokenizers, chat templates and generation configs."""
    models = {name: llama(seed) for seed, name in enumerate(("base", "cars", "birds"))}
    for name, model in models.items():
        model.save_pretrained(tmp_path / name)
        tokenizer().save_pretrained(tmp_path / name)
    return models


def test_tokenizer_template_and_generation_config_come_along(tmp_path, language):
    out = merged(tmp_path, "ties")
    loaded = transformers.AutoTokenizer.from_pretrained(out)
    assert loaded("the cat sat")["input_ids"] == tokenizer()("the cat sat")["input_ids"] == [3, 4, 5]
    assert loaded.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False) == "hi"
    assert transformers.GenerationConfig.from_pretrained(out).max_new_tokens == 7
    model = load(out, language["base"])
    assert model.generate(torch.tensor([[1, 3]]), do_sample=False).shape[1] <= 9


def test_processor_files_come_along(tmp_path):
    model = clip(0)
    for name in ("base", "cars", "birds"):
        model.save_pretrained(tmp_path / name)
        (tmp_path / name / "preprocessor_config.json").write_text(
            json.dumps({"image_processor_type": "CLIPImageProcessor"})
        )
    out = merged(tmp_path)
    assert snapshot(out)["preprocessor_config.json"] == snapshot(tmp_path / "base")["preprocessor_config.json"]


def test_one_changed_byte_in_any_file_is_found(tmp_path, language):
    out = merged(tmp_path, shard_size="4KB")
    for name, content in snapshot(out).items():
        changed = bytearray(content)
        changed[len(content) // 2] ^= 1
        (out / name).write_bytes(changed)
        found = smelt.verify(out)
        assert any(fault.startswith(name) for fault in found.faults), name
        (out / name).write_bytes(content)
    assert smelt.verify(out).ok


def test_stacked_layers_load_and_compute_what_their_layers_do(tmp_path, language):
    slices = [{"models": {"cars": [0, 2]}}, {"models": {"birds": [1, 2]}}]
    out = merged(tmp_path, "passthrough", base=False, slices=slices)
    loaded = load(out, language["base"])
    assert loaded.config.num_hidden_layers == len(loaded.model.layers) == 3
    expected = llama(9, layers=3)
    with torch.no_grad():
        for mine, theirs in zip(
            (expected.model.embed_tokens, *expected.model.layers, expected.model.norm, expected.lm_head),
            (
                language["cars"].model.embed_tokens,
                *language["cars"].model.layers,
                language["birds"].model.layers[1],
                language["birds"].model.norm,
                language["birds"].lm_head,
            ),
            strict=True,
        ):
            mine.load_state_dict(theirs.state_dict())
    assert torch.equal(logits(loaded), logits(expected))


def test_skip_keeps_the_bases_tensors_and_include_merges_only_what_it_names(tmp_path, language):
    skipped = load(merged(tmp_path, skip=["lm_head.*"], out="skip"), language["base"])
    assert torch.equal(skipped.lm_head.weight, language["base"].lm_head.weight)
    assert not torch.equal(skipped.model.norm.weight, language["base"].model.norm.weight)
    included = load(merged(tmp_path, include=["*.mlp.*"], out="include"), language["base"])
    for name, parameter in included.named_parameters():
        same = torch.equal(parameter, language["base"].get_parameter(name))
        assert same is (".mlp." not in name), name


def test_missing_base_fills_in_a_headless_model(tmp_path, language):
    from safetensors.torch import load_file, save_file

    path = tmp_path / "cars" / "model.safetensors"
    weights = load_file(path)
    del weights["lm_head.weight"]
    save_file(weights, path)
    with pytest.raises(smelt.IncompatibleModels, match=r"cars lacks 'lm_head\.weight'"):
        merged(tmp_path)
    loaded = load(merged(tmp_path, missing="base"), language["base"])
    expected = (language["base"].lm_head.weight + language["birds"].lm_head.weight) / 2
    torch.testing.assert_close(loaded.lm_head.weight, expected)


@pytest.fixture
def vocabularies(tmp_path):
    """cars knows 'dog', birds has the base's words in another order."""
    words = {"base": WORDS, "cars": [*WORDS, "dog"], "birds": [*WORDS[:3], *reversed(WORDS[3:])]}
    models = {name: llama(seed, words=list_) for seed, (name, list_) in enumerate(words.items())}
    for name, model in models.items():
        model.save_pretrained(tmp_path / name)
        tokenizer(words[name]).save_pretrained(tmp_path / name)
    return words, models


@pytest.mark.parametrize("policy", ["union", "base"])
def test_vocabularies_are_brought_together_by_token(tmp_path, vocabularies, policy):
    words, models = vocabularies
    with pytest.raises(smelt.IncompatibleModels, match="union"):
        merged(tmp_path)
    out = merged(tmp_path, vocab=policy)
    loaded, tokens = load(out, models["base"]), transformers.AutoTokenizer.from_pretrained(out)
    expected = [*WORDS, "dog"] if policy == "union" else WORDS
    assert sorted(tokens.get_vocab(), key=tokens.get_vocab().get) == expected
    assert loaded.config.vocab_size == len(loaded.model.embed_tokens.weight) == len(expected)
    for table in ("model.embed_tokens.weight", "lm_head.weight"):
        rows = {name: model.get_parameter(table) for name, model in models.items()}
        mine = loaded.get_parameter(table)
        for word in WORDS:
            mean = (rows["cars"][words["cars"].index(word)] + rows["birds"][words["birds"].index(word)]) / 2
            torch.testing.assert_close(mine[tokens.get_vocab()[word]], mean)
        if policy == "union":
            torch.testing.assert_close(mine[tokens.get_vocab()["dog"]], rows["cars"][-1])
    ids = tokens("the cat sat", return_tensors="pt")["input_ids"]
    assert loaded(ids).logits.shape == (1, 3, len(expected))


def test_an_output_can_be_merged_again(tmp_path, language):
    first = merged(tmp_path, shard_size="4KB")
    shutil.copytree(first, tmp_path / "again")
    smelt.merge([first, tmp_path / "again"], out=tmp_path / "twice")
    assert torch.equal(logits(load(tmp_path / "twice", language["base"])), logits(load(first, language["base"])))
