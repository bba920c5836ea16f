"""Tiny models of texts with real configs, as their own libraries write them, and tables of texts."""

from __future__ import annotations

import contextlib
import io
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


@contextlib.contextmanager
def quiet() -> Any:
    """Libraries draw bars."""
    with contextlib.redirect_stderr(io.StringIO()):
        yield
