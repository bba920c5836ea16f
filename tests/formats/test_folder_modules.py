"""The modules of a sentence-transformers model come along, so that a merge of two still gives sentence vectors."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import smelt
from checkpoints import CONFIG, snapshot, state, write_model

MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"},
]


@pytest.fixture
def two_encoders(tmp_path):
    files = {
        "modules.json": json.dumps(MODULES),
        "config_sentence_transformers.json": "{}",
        "sentence_bert_config.json": '{"max_seq_length": 16}',
        "1_Pooling/config.json": '{"word_embedding_dimension": 4}',
        "2_Dense/config.json": '{"in_features": 4, "out_features": 2}',
        "2_Dense/pytorch_model.bin": "the same numbers, pickled",
        "3_Old/config.json": "{}",
        "onnx/model.onnx": "old numbers",
    }
    for who, value in (("first", 1.0), ("second", 2.0)):
        folder = write_model(tmp_path / who, state(value), CONFIG)
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(content)
        save_file({"linear.weight": torch.full((2, 4), value)}, folder / "2_Dense/model.safetensors")
    return [tmp_path / "first", tmp_path / "second"]


def test_the_weights_of_modules_are_merged_and_the_rest_is_carried_or_named(two_encoders, tmp_path):
    smelt.merge(two_encoders, out=tmp_path / "out")
    assert snapshot(tmp_path / "out").keys() == {
        "1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors", "README.md", "config.json",
        "config_sentence_transformers.json", "manifest.json", "model.safetensors", "modules.json",
        "sentence_bert_config.json",
    }  # fmt: skip
    assert load_file(tmp_path / "out/2_Dense/model.safetensors")["linear.weight"].tolist() == [[1.5] * 4] * 2
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["notes"] == [
        "beside the weights of first, and left behind: 2_Dense/pytorch_model.bin, 3_Old/, onnx/",
    ]
    assert smelt.verify(tmp_path / "out").ok


def test_a_pickle_is_read_where_a_module_has_no_other_weights_and_it_is_allowed(two_encoders, tmp_path):
    for folder, value in zip(two_encoders, (1.0, 2.0), strict=True):
        (folder / "2_Dense" / "model.safetensors").unlink()
        torch.save({"linear.weight": torch.full((2, 4), value)}, folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(smelt.SmeltError, match="pickle"):
        smelt.merge(two_encoders, out=tmp_path / "out")
    smelt.merge(two_encoders, out=tmp_path / "out", allow_pickle=True)
    assert load_file(tmp_path / "out/2_Dense/model.safetensors")["linear.weight"].tolist() == [[1.5] * 4] * 2


@pytest.mark.parametrize("path", ["../second", "/etc", "..", "1_Pooling/../../second"])
def test_a_module_outside_of_the_folder_is_refused(two_encoders, tmp_path, path):
    (two_encoders[0] / "modules.json").write_text(json.dumps([{"path": path, "type": "sentence_transformers.X"}]))
    with pytest.raises(smelt.SmeltError, match="which is not in this folder"):
        smelt.merge(two_encoders, out=tmp_path / "out")


@pytest.mark.parametrize("content", ["{}", "3", "[3, null]", '[{"path": 5}]', '[{"path": null, "type": []}]'])
def test_an_odd_modules_json_is_refused(two_encoders, tmp_path, content):
    (two_encoders[0] / "modules.json").write_text(content)
    with pytest.raises(smelt.SmeltError, match=r"is no list of modules|has no type and path"):
        smelt.merge(two_encoders, out=tmp_path / "out")


def test_a_pack_and_its_unpacked_folder_keep_the_modules(two_encoders, tmp_path):
    packed = smelt.pack(two_encoders[1], base=two_encoders[0], out=tmp_path / "pack", bits=8)
    assert packed.notes == (
        "left to the base, which has the same: config_sentence_transformers.json, sentence_bert_config.json",
        "beside the weights of second, and left behind: 2_Dense/pytorch_model.bin, 3_Old/, onnx/",
    )
    assert smelt.unpack(tmp_path / "pack", out=tmp_path / "out").notes == ()
    found = load_file(tmp_path / "out/2_Dense/model.safetensors")["linear.weight"]
    assert torch.allclose(found, torch.full((2, 4), 2.0), atol=0.01)


def test_a_merged_encoder_loads_and_encodes(tmp_path):
    """With equal models the merge is the model, so that it gives the same vectors, through the dense layer too."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(words), **sizes)).save_pretrained(tmp_path / "bert")
    BertTokenizerFast({word: number for number, word in enumerate(words)}).save_pretrained(tmp_path / "bert")
    modules = [Transformer(str(tmp_path / "bert")), Pooling(8), Dense(8, 3)]
    encoder = sentence_transformers.SentenceTransformer(modules=modules, device="cpu")
    encoder.save(str(tmp_path / "one"))
    encoder.save(str(tmp_path / "two"))
    smelt.merge([tmp_path / "one", tmp_path / "two"], out=tmp_path / "out")
    merged = sentence_transformers.SentenceTransformer(str(tmp_path / "out"), device="cpu")
    vectors = merged.encode(["a b", "c"])
    assert vectors.shape == (2, 3)
    assert torch.allclose(torch.from_numpy(vectors), torch.from_numpy(encoder.encode(["a b", "c"])), atol=1e-6)
