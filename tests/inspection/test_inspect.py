"""`smelt.inspect`: what a model is, from headers alone. The numbers are those of models made here by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import smelt
from checkpoints import state, write_model
from restricted_user import is_one_line, run
from smelt.errors import CorruptFile, RecipeError
from smelt.inspection.model_facts import DtypeFacts, FileFacts, QuantisedFacts, TensorFacts

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 10,
    "tie_word_embeddings": True,
}
CARD = "---\nlicense: apache-2.0  # as the base\ntags: [a, b]\n---\n# A model\n\nlicense: not this one\n"
TOKENIZER = '{"added_tokens": [{"content": "model", "id": 0}], "model": {"type": "Unigram", "vocab": []}}'


def llama() -> dict[str, torch.Tensor]:
    """10 x 4 + 2 x (4 x 4 + 4) + 4 = 84 numbers in 6 tensors."""
    tensors = {"model.embed_tokens.weight": torch.ones(10, 4), "model.norm.weight": torch.ones(4)}
    for layer in range(2):
        tensors[f"model.layers.{layer}.mlp.up_proj.weight"] = torch.ones(4, 4, dtype=torch.bfloat16)
        tensors[f"model.layers.{layer}.input_layernorm.weight"] = torch.ones(4)
    return tensors


@pytest.fixture
def model(tmp_path):
    files = {"README__md": CARD, "tokenizer__json": TOKENIZER, "chat_template__jinja": "{{ messages }}"}
    return write_model(tmp_path / "model", llama(), CONFIG, **files)


def test_a_folder_tells_its_family_numbers_sizes_and_small_files(model):
    found = smelt.inspect(model)
    assert (found.format, found.family, found.architecture) == ("safetensors", "llama", "LlamaForCausalLM")
    assert (found.parameters, len(found.tensors)) == (84, 6)
    assert found.dtypes == {"F32": DtypeFacts(4, 52, 208), "BF16": DtypeFacts(2, 32, 64)}
    assert found.files == (FileFacts("model.safetensors", (model / "model.safetensors").stat().st_size),)
    sizes = {"hidden_size": 4, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    assert found.sizes == {"": sizes}
    assert (found.vocabulary, found.tokenizer, found.chat_template) == (10, "Unigram", True)
    assert found.tied == {"lm_head.weight": "model.embed_tokens.weight"}
    assert (found.quantised, found.adapter, found.pack, found.made) == (None, None, None, None)
    assert found.licence == "apache-2.0"
    assert found.notes == ()
    assert TensorFacts("model.layers.1.mlp.up_proj.weight", "BF16", (4, 4), 32) in found.tensors


def test_it_shows_itself_in_80_columns_and_in_a_notebook(model):
    found = replace(smelt.inspect(model), model="mine <b>")
    text = str(found)
    assert text.splitlines()[0] == "mine <b>"
    assert "parameters  84 in 6 tensors" in text
    assert "dtypes      F32: 52 in 4 tensors, 0.0 MB\n            BF16: 32 in 2 tensors" in text
    assert "size        hidden 4, 2 layers, 2 heads, 1 key-value heads" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "mine &lt;b&gt;" in found._repr_html_()
    assert json.loads(json.dumps(found.to_json()))["parameters"] == 84


def test_shards_are_counted_and_what_does_not_agree_is_noted(tmp_path):
    folder = write_model(tmp_path / "model", {}, {**CONFIG, "vocab_size": 12})
    (folder / "model.safetensors").unlink()
    tensors = {**llama(), "lm_head.weight": torch.ones(10, 4)}
    for number, names in enumerate((list(tensors)[:3], list(tensors)[3:]), 1):
        save_file({name: tensors[name] for name in names}, folder / f"model-0000{number}-of-00002.safetensors")
    found = smelt.inspect(folder)
    assert len(found.files) == 2
    assert found.tied == {}
    assert found.notes == (
        "config.json ties lm_head.weight to model.embed_tokens.weight; the file holds both",
        "config.json says vocab_size 12, but model.embed_tokens.weight has 10 rows",
    )
    assert "in 2 files" in str(found)


def test_parts_of_a_config_have_sizes_of_their_own(tmp_path):
    config = {"model_type": "clip", "text_config": {"hidden_size": 8}, "vision_config": {"n_layer": 3, "x": True}}
    found = smelt.inspect(write_model(tmp_path / "model", {"a": torch.ones(1)}, config))
    assert found.sizes == {"text": {"hidden_size": 8}, "vision": {"num_hidden_layers": 3}}


def test_without_a_config_the_names_tell_the_depth(tmp_path):
    save_file(state(layers=3), tmp_path / "alone.safetensors")
    found = smelt.inspect(tmp_path / "alone.safetensors")
    assert (found.family, found.sizes, found.tokenizer) == (None, {"": {"num_hidden_layers": 3}}, None)


def test_a_state_dict_is_inspected_like_a_file():
    shared = torch.ones(2, 3)
    found = smelt.inspect({"embed": shared, "head": shared, "norm": torch.ones(3, dtype=torch.float16)})
    assert (found.format, found.parameters, found.tied) == ("state dict", 9, {"head": "embed"})
    assert smelt.inspect(torch.nn.Linear(2, 3)).parameters == 9
    with pytest.raises(RecipeError, match="a model is a reference, a state dict or a module, got int"):
        smelt.inspect(7)


def test_a_pickle_needs_no_permission_since_nothing_in_it_is_run(tmp_path):
    folder = tmp_path / "old"
    folder.mkdir()
    torch.save(llama(), folder / "pytorch_model.bin")
    found = smelt.inspect(folder)
    assert (found.format, found.parameters) == ("pickle", 84)
    assert smelt.inspect(folder / "pytorch_model.bin").dtypes == found.dtypes


def test_a_gguf_file_tells_its_quantisations_and_its_fields(tmp_path):
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    for name, value in {"block_count": 1, "embedding_length": 32, "attention.head_count": 2}.items():
        writer.add_uint32(f"llama.{name}", value)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"t{number}" for number in range(10)])
    writer.add_chat_template("{{ messages }}")
    writer.add_license("mit")
    q8 = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor("token_embd.weight", gguf.quantize(torch.ones(10, 32).numpy(), q8), raw_dtype=q8)
    writer.add_tensor("blk.0.ffn_up.weight", torch.ones(64, 32).half().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = smelt.inspect(tmp_path / "m.gguf")
    assert (found.format, found.family, found.parameters) == ("GGUF", "llama", 10 * 32 + 64 * 32)
    assert found.dtypes == {"F16": DtypeFacts(1, 2048, 4096), "Q8_0": DtypeFacts(1, 320, 340)}  # 10 blocks of 34 bytes
    assert found.quantised == QuantisedFacts("Q8_0", 1)
    assert found.sizes == {"": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}}
    assert (found.vocabulary, found.tokenizer, found.chat_template, found.licence) == (10, "BPE", True, "mit")
    assert [one.name for one in found.tensors] == ["model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight"]
    assert found.tied == {"lm_head.weight": "model.embed_tokens.weight"}

    whole = (tmp_path / "m.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[:-1000])
    with pytest.raises(CorruptFile, match=r"'blk.0.ffn_up.weight' ends at byte .*; the file is cut off"):
        smelt.inspect(tmp_path / "cut.gguf")


def write_adapter(folder: Path, base: str | None, **settings: object) -> Path:
    folder.mkdir()
    table = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "base_model_name_or_path": base, **settings}
    (folder / "adapter_config.json").write_text(json.dumps(table))
    tensors = {}
    for layer, rank in ((0, 2), (1, 3)):
        stem = f"base_model.model.model.layers.{layer}.mlp.up_proj"
        tensors |= {f"{stem}.lora_A.weight": torch.ones(rank, 4), f"{stem}.lora_B.weight": torch.ones(4, rank)}
    save_file(tensors, folder / "adapter_model.safetensors")
    return folder


def test_an_adapter_tells_its_ranks_targets_and_base_and_the_family_of_that(model, tmp_path):
    found = smelt.inspect(write_adapter(tmp_path / "adapter", "../model", use_rslora=True))
    assert (found.format, found.family, found.parameters) == ("rsLoRA adapter", "llama", 2 * 4 * 2 + 2 * 4 * 3)
    assert found.adapter is not None
    assert (found.adapter.ranks, found.adapter.targets, found.adapter.modules) == ((2, 3), ("up_proj",), 2)
    assert found.adapter.base == str(model)
    assert "rsLoRA of rank 2 and 3, alpha 4" in str(found)


def test_an_adapter_whose_base_is_not_here_is_inspected_all_the_same(model, tmp_path):
    adapter = write_adapter(tmp_path / "adapter", "nowhere")
    found = smelt.inspect(adapter)
    assert found.family is None
    assert found.notes[0].startswith("its base cannot be opened (there is no model at 'nowhere'")
    assert smelt.inspect(f"{model}+{adapter}").family == "llama"
    assert smelt.inspect(write_adapter(tmp_path / "remote", "org/name")).adapter.base == "hf:org/name"
    assert smelt.inspect(write_adapter(tmp_path / "nameless", None)).adapter.base is None
    with pytest.raises(RecipeError, match="is no adapter"):
        smelt.inspect(f"{adapter}+{model}")


BLOCK = "down_blocks_1_attentions_0_transformer_blocks_0_attn2_to_k"


@pytest.mark.parametrize(
    ("tensors", "kind", "naming", "family", "ranks", "alphas"),
    [
        ({f"lora_unet_{BLOCK}.lora_down.weight": (4, 768), f"lora_unet_{BLOCK}.lora_up.weight": (8, 4),
          f"lora_unet_{BLOCK}.alpha": ()}, "LoRA", "kohya", "SD 1.5", (4,), (1.0,)),
        ({f"lora_unet_{BLOCK}.lora_down.weight": (4, 2048), f"lora_unet_{BLOCK}.lora_up.weight": (8, 4),
          f"lora_unet_{BLOCK}.dora_scale": (8, 1)}, "DoRA, LoRA", "kohya", "SDXL", (4,), ()),
        ({f"lora_unet_input_blocks_4_1_proj_in.hada_w{n}_{s}": (8, 2) if s == "a" else (2, 8)
          for n in (1, 2) for s in "ab"}, "LoHa", "kohya", "SDXL", (2,), ()),
        ({"lora_unet_double_blocks_0_img_attn_qkv.lokr_w1": (4, 4),
          "lora_unet_double_blocks_0_img_attn_qkv.lokr_w2": (8, 8)}, "LoKr", "kohya", "Flux", (), ()),
        ({"transformer.single_transformer_blocks.0.attn.to_q.lora_A.weight": (2, 8),
          "transformer.single_transformer_blocks.0.attn.to_q.lora_B.weight": (8, 2)},
         "LoRA", "diffusers", "Flux", (2,), ()),
        ({"transformer.transformer_blocks.0.attn.to_q.lora_A.weight": (2, 1536),
          "transformer.transformer_blocks.0.attn.to_q.lora_B.weight": (1536, 2)},
         "LoRA", "diffusers", "SD3", (2,), ()),
        ({"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": (2, 8),
          "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight": (8, 2)},
         "LoRA", "PEFT", "language model", (2,), ()),
    ],
)  # fmt: skip
def test_adapters_in_single_files_are_told_apart(tmp_path, tensors, kind, naming, family, ranks, alphas):
    save_file({name: torch.ones(shape) for name, shape in tensors.items()}, tmp_path / "a.safetensors")
    found = smelt.inspect(tmp_path / "a.safetensors")
    told = found.adapter
    assert (found.format, told.kind, told.naming, told.family) == (f"{kind} adapter", kind, naming, family)
    assert (told.ranks, told.alphas, told.base, told.modules) == (ranks, alphas, None, 1)
    assert f"{naming}, for {family}" in str(found)


def test_a_pack_has_the_shapes_of_its_base_and_its_own_bytes(model, tmp_path):
    changed = {name: tensor + 1 for name, tensor in llama().items()}
    smelt.pack(write_model(tmp_path / "tuned", changed, CONFIG), base=model, out=tmp_path / "pack", bits=4)
    found = smelt.inspect(tmp_path / "pack")
    assert (found.format, found.parameters, found.family) == ("delta pack, 4 bits", 84, "llama")
    assert found.files[0].name == "delta.safetensors"
    assert (found.pack.bits, found.pack.rank, Path(found.pack.base).name) == (4, None, "model")
    assert found.made is not None
    (tmp_path / "pack" / "delta.json").write_text(
        (tmp_path / "pack" / "delta.json").read_text().replace('"../model"', '"../pack"')
    )
    with pytest.raises(RecipeError, match="leads back to itself"):
        smelt.inspect(tmp_path / "pack")


def test_a_merged_model_names_its_parents_and_methods(two, tmp_path):
    base, cars, birds = map(str, two)
    steps = [{"dare": {"density": 0.5}}, "ties"]
    smelt.merge({"cars": cars, "birds": birds}, base=base, method=steps, out=tmp_path / "merged")
    made = smelt.inspect(tmp_path / "merged").made
    assert made.methods == ("dare", "ties")
    assert made.parents == {"base": base, "cars": cars, "birds": birds}
    assert made.smelt == smelt.__version__


def test_a_mixed_model_counts_all_of_its_parts(tmp_path):
    folder = write_model(tmp_path / "mixed", {"a": torch.ones(2)}, {"model_type": "clip"})
    save_file({"a": torch.ones(3, 2)}, folder / "experts.safetensors")
    save_file({"a.first.weight": torch.ones(5)}, folder / "routers.safetensors")
    note = {"format": "smelt-mix", "version": 1, "method": "wemoe", "family": "clip", "parameters": {}, "routed": "*"}
    note |= {"experts": ["cars", "birds", "chess"], "seed": 0, "parents": {}, "sha256": {}}
    (folder / "mix.json").write_text(json.dumps(note))
    found = smelt.inspect(folder)
    assert (found.format, found.parameters, found.experts) == ("mixed model, wemoe", 13, ("cars", "birds", "chess"))
    assert [one.name for one in found.tensors] == ["model/a", "experts/a", "routers/a.first.weight"]
    (folder / "routers.safetensors").unlink()
    with pytest.raises(CorruptFile, match="is a mixed model without routers"):
        smelt.inspect(folder)


def test_codes_with_scales_are_told_apart_from_integers(tmp_path):
    codes = {"a.weight": torch.ones(2, 2, dtype=torch.uint8), "a.weight_scale": torch.ones(2)}
    counts = {"steps": torch.ones(1, dtype=torch.int32)}
    plain = smelt.inspect(write_model(tmp_path / "fp8", {**codes, **counts}, {"model_type": "llama"}))
    assert plain.quantised == QuantisedFacts("codes with scales beside them", 1)
    assert "'a.weight' is quantised with 'a.weight_scale', in a way that is not read here" in plain.notes[0]
    said = {"model_type": "llama", "quantization_config": {"quant_method": "gptq", "bits": 4}}
    assert smelt.inspect(write_model(tmp_path / "gptq", counts, said)).quantised == QuantisedFacts("gptq, 4 bits", 0)


def test_codes_that_are_read_are_counted_under_the_names_and_shapes_that_they_stand_for(tmp_path):
    codes = {"a.weight": torch.ones(4, 8, dtype=torch.int8), "a.weight_scale": torch.ones(4, 1)}
    found = smelt.inspect(write_model(tmp_path / "int8", {**codes, "b": torch.ones(2)}, {"model_type": "llama"}))
    how = "int8, a scale for each row"
    assert TensorFacts("a.weight", how, (4, 8), 4 * 8 + 4 * 4) in found.tensors  # a byte each, and four scales
    assert (found.parameters, found.quantised) == (34, QuantisedFacts(how, 1))
    assert f"{how}: 32 in 1 tensors" in str(found)


def test_names_of_the_zoo_and_shapes_are_references_too():
    pytest.importorskip("smelt_zoo")
    assert smelt.inspect("zoo:clip-tiny").parameters == 11_655_809
    assert smelt.inspect("zoo:llava-tiny").parameters == 13_339_008  # from its parts; it is not unpacked for this
    assert smelt.inspect("shape:llama-3.1-8b").parameters == 8_030_261_248
    with pytest.raises(RecipeError, match="no zoo model named 'clip-tini'"):
        smelt.inspect("zoo:clip-tini")


def test_the_command_lists_tensors_by_pattern(model, cli):
    assert "parameters  84 in 6 tensors" in cli("inspect", model).out
    lines = cli("inspect", model, "--keys", "*.mlp.*").out.splitlines()
    assert [line.split() for line in lines if ".mlp." in line] == [
        [f"model.layers.{layer}.mlp.up_proj.weight", "BF16", "4", "×", "4"] for layer in range(2)
    ]
    ran = cli("inspect", model, "--keys", "*.mpl.*")
    assert (ran.code, ran.out) == (2, "")
    assert "the pattern '*.mpl.*' matches no tensor (names look like 'model." in ran.err


def test_json_counts_the_tensors_or_lists_those_that_were_asked_for(model, cli):
    counted = json.loads(cli("inspect", model, "--json").out)
    assert (counted["parameters"], counted["tensors"], counted["dtypes"]["BF16"]["parameters"]) == (84, 6, 32)
    assert len(json.loads(cli("inspect", model, "--json", "--tensors").out)["tensors"]) == 6
    listed = json.loads(cli("inspect", model, "--json", "--keys", "*norm.weight").out)["tensors"]
    assert listed[0] == {"name": "model.layers.0.input_layernorm.weight", "dtype": "F32", "shape": [4], "bytes": 16}


def test_what_cannot_be_inspected_is_one_line_and_exit_code_2(model, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    (tmp_path / "empty").mkdir()
    weights = (model / "model.safetensors").read_bytes()
    for name, content in {"cut": weights[:-1], "short": b"abc", "text": b"no header at all"}.items():
        (tmp_path / f"{name}.safetensors").write_bytes(content)
    (tmp_path / "torn.bin").write_bytes(b"PK\x03\x04")
    (tmp_path / "notes.txt").write_text("nothing")
    shut = write_model(tmp_path / "shut", llama(), CONFIG)
    (shut / "model.safetensors").chmod(0)
    cases = {
        "nowhere": "there is no model at 'nowhere' (a folder or file; for the Hugging Face hub write hf:nowhere)",
        "zoo:nothing": "no zoo model named 'nothing'",
        "hf:org/name": "hf:org/name is not in the local cache, and the Hub is not asked",
        tmp_path / "empty": "no model weights (*.safetensors) in this folder",
        tmp_path / "cut.safetensors": "272 bytes of tensors are announced but only 271 are there",
        tmp_path / "short.safetensors": "3 bytes are too few for a safetensors file",
        tmp_path / "text.safetensors": "not a safetensors file",
        tmp_path / "torn.bin": "cannot be read without running it",
        tmp_path / "notes.txt": "not a model (a folder, or a .safetensors or .gguf file)",
        shut: "this user may not open it (permission denied)",
    }
    for (code, said), words in zip(run(*(("inspect", case) for case in cases)), cases.values(), strict=True):
        is_one_line(code, said, words)
        assert code == 2


def test_nothing_heavy_is_loaded_and_it_takes_no_longer_than_a_few_empty_commands(model):
    script = (
        "import os, sys; from smelt.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = ('torch', 'numpy', 'transformers', 'huggingface_hub', 'yaml', 'jinja2', 'rich')\n"
        "print('USED', sum(os.times()[:2]), *[name for name in heavy if name in sys.modules])"
    )

    def used(*words: object) -> tuple[float, list[str]]:
        command = [sys.executable, "-c", script, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        _, seconds, *loaded = done.stdout.splitlines()[-1].split()
        return float(seconds), loaded

    tries = [(used("--version")[0], *used("inspect", model)) for _ in range(3)]
    assert [loaded for _, _, loaded in tries] == [[], [], []]
    assert min(ours for _, ours, _ in tries) < 3 * min(empty for empty, _, _ in tries)


def test_the_parts_of_a_model_that_sees_and_reads_are_named_with_their_numbers(tmp_path):
    from tiny_multimodal import multimodal, save_as_transformers_4

    model = multimodal("qwen2_vl")
    found = smelt.inspect(save_as_transformers_4(model, tmp_path / "model"))
    named = dict(model.named_parameters())
    merger = [one.numel() for name, one in named.items() if name.startswith("model.visual.merger.")]
    assert (found.parts["projector"].tensors, found.parts["projector"].parameters) == (len(merger), sum(merger))
    assert (
        sum(one.parameters for one in found.parts.values()) == found.parameters == sum(map(torch.numel, named.values()))
    )
    assert any("vision: " in value for _, value in found._facts())
    language = smelt.inspect(f"{tmp_path / 'model'}#language")
    assert (language.format, language.family, language.parts) == ("a part (language) of a model", "qwen2", {})
    assert language.parameters == found.parts["language"].parameters
