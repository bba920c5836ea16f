"""Tiny models of texts with real configs, as their own libraries write them, and tables of texts."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import torch

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{one}" for one in LETTERS), "q", ":", ".", "?"]
TEXTS = ["a cat", "the dog runs", "iron is a metal", "gold", "birds fly over trees", "a fish swims in the sea"]


def bert_tokenizer() -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = list(dict.fromkeys(WORDS))
    own = Tokenizer(models.WordPiece({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    own.normalizer = normalizers.BertNormalizer(lowercase=True)
    own.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    own.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ends)
    return PreTrainedTokenizerFast(
        tokenizer_object=own,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=64,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def bert_config(**words: Any) -> Any:
    from transformers import BertConfig

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return BertConfig(vocab_size=len(set(WORDS)), max_position_embeddings=64, **sizes, **words)


def write_bert(folder: Path, seed: int = 0) -> Path:
    from transformers import BertModel

    torch.manual_seed(seed)
    with quiet():
        BertModel(bert_config()).save_pretrained(folder)
        bert_tokenizer().save_pretrained(folder)
    return folder


def write_classifier(folder: Path, seed: int = 0, labels: tuple[str, ...] = ("no", "yes")) -> Path:
    """A BertForSequenceClassification as transformers writes it."""
    from transformers import BertForSequenceClassification

    torch.manual_seed(seed)
    named = {"id2label": dict(enumerate(labels)), "label2id": {one: place for place, one in enumerate(labels)}}
    with quiet():
        model = BertForSequenceClassification(bert_config(num_labels=len(labels), **named))
        torch.nn.init.normal_(model.classifier.weight)
        model.save_pretrained(folder)
        bert_tokenizer().save_pretrained(folder)
    return folder


def write_embedder(folder: Path, seed: int = 0, *, dense: bool = True, pooling: str = "mean", **words: Any) -> Path:
    """Bert, pooling, a dense layer and normalisation, as sentence-transformers writes them."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    bert = write_bert(folder.parent / f"{folder.name}-bert", seed)
    with quiet():
        modules: list[Any] = [Transformer(str(bert)), Pooling(16, pooling)]
        modules += [Dense(16, 8)] if dense else []
        SentenceTransformer(modules=[*modules, Normalize()], device="cpu", **words).save(str(folder))
    return folder


def write_older(new: Path, old: Path) -> Path:
    """The same model as older versions of the library laid it out: 0_Transformer, pickles, no folder for Normalize."""
    from safetensors.torch import load_file

    (old / "0_Transformer").mkdir(parents=True)
    modules = json.loads((new / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    for module in modules:
        module["type"] = f"sentence_transformers.models.{module['type'].rpartition('.')[2]}"
    (old / "modules.json").write_text(json.dumps(modules))
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(new / name, old / "0_Transformer")
    (old / "0_Transformer/sentence_bert_config.json").write_text('{"max_seq_length": 64, "do_lower_case": false}')
    (old / "1_Pooling").mkdir()
    modes = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}
    (old / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 16, **modes}))
    if (new / "2_Dense").is_dir():
        (old / "2_Dense").mkdir()
        dense = {"in_features": 16, "out_features": 8, "bias": True}
        (old / "2_Dense/config.json").write_text(
            json.dumps({**dense, "activation_function": "torch.nn.modules.activation.Tanh"})
        )
        torch.save(load_file(new / "2_Dense/model.safetensors"), old / "2_Dense/pytorch_model.bin")
    return old


def write_static(folder: Path, seed: int = 0) -> Path:
    """A table of word vectors (StaticEmbedding)."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    torch.manual_seed(seed)
    with quiet():
        module = StaticEmbedding(bert_tokenizer()._tokenizer, embedding_dim=8)
        SentenceTransformer(modules=[module], device="cpu").save(str(folder))
    return folder


def write_splade(folder: Path, seed: int = 0) -> Path:
    """A sparse encoder."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import MLMTransformer, SpladePooling
    from transformers import BertForMaskedLM

    torch.manual_seed(seed)
    bert = folder.parent / f"{folder.name}-bert"
    with quiet():
        BertForMaskedLM(bert_config()).save_pretrained(bert)
        bert_tokenizer().save_pretrained(bert)
        SparseEncoder(modules=[MLMTransformer(str(bert)), SpladePooling()], device="cpu").save(str(folder))
    return folder


def write_clip(folder: Path, seed: int = 0) -> Path:
    """A CLIP in a folder of sentence-transformers."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import CLIPModel
    from transformers import CLIPConfig, CLIPImageProcessor
    from transformers import CLIPModel as Network

    torch.manual_seed(seed)
    inner = folder.parent / f"{folder.name}-clip"
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    words = {"vocab_size": len(set(WORDS)), "max_position_embeddings": 32, "bos_token_id": 2, "eos_token_id": 3}
    sight = {"image_size": 8, "patch_size": 4}
    with quiet():
        config = CLIPConfig(text_config={**small, **words}, vision_config={**small, **sight}, projection_dim=8)
        Network(config).save_pretrained(inner)
        bert_tokenizer().save_pretrained(inner)
        CLIPImageProcessor(size={"shortest_edge": 8}, crop_size={"height": 8, "width": 8}).save_pretrained(inner)
        SentenceTransformer(modules=[CLIPModel(str(inner))], device="cpu").save(str(folder))
    return folder


@contextlib.contextmanager
def quiet() -> Any:
    """Libraries draw bars."""
    with contextlib.redirect_stderr(io.StringIO()):
        yield
