"""The text tower's tokenizer: a byte-pair encoding of about 2,000 tokens in CLIP's own format.

    python zoo/build/tokenizer.py        after pack.py

Learned from every caption the base is trained on, in English and German.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import CLIPTokenizer

import captions
from distributions import folder_of

VOCABULARY = 2_048
FOLDER = folder_of("clip-tiny")
_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
"""How CLIP cuts a text into words before pairs are merged."""


def learn(texts: list[str]) -> CLIPTokenizer:
    start, end = "<|startoftext|>", "<|endoftext|>"
    pairs = Tokenizer(models.BPE(unk_token=end, end_of_word_suffix="</w>"))
    pairs.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    pairs.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[start, end],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    letters = [chr(code) for code in range(33, 127)]  # every sign also as the end of a word, whatever the captions hold
    pairs.train_from_iterator([*texts, *letters], trainer)
    with tempfile.TemporaryDirectory() as scratch:
        pairs.model.save(scratch)
        vocabulary = json.loads((Path(scratch) / "vocab.json").read_text(encoding="utf-8"))
        lines = (Path(scratch) / "merges.txt").read_text(encoding="utf-8").splitlines()
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    return CLIPTokenizer(
        vocab=vocabulary,
        merges=merges,
        bos_token=start,
        eos_token=end,
        unk_token=end,
        pad_token=end,
        model_max_length=captions.LENGTH,
    )


if __name__ == "__main__":
    texts = captions.Table(captions.read_pool()).all_texts()
    tokenizer = learn(texts)
    FOLDER.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(FOLDER)
    longest = max(len(ids) for ids in tokenizer(texts)["input_ids"])
    print(f"{len(texts)} captions, {len(tokenizer)} tokens, the longest caption has {longest} of {captions.LENGTH}")
