"""Models whose vocabularies differ, with real byte-pair tokenizers trained on a few sentences."""

from __future__ import annotations

from pathlib import Path

import tokenizers
import transformers
from parity_models import base_state, fine_tuned, write_model
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.trainers import BpeTrainer

TEXTS = {
    "base": ["the cat sat on the mat and the rat ran", "a cat and a rat and a bat sat"],
    "cars": ["the cat sat on the mat and the rat ran", "a cat and a rat and a bat sat"],
    "birds": ["the wren and the tern went over the fen", "ten hens and seven wrens were there"],
}
ADDED = {"base": [], "cars": ["<car>", "<|im_end|>"], "birds": ["<|im_end|>"]}
TEMPLATES = {
    "base": "{% for m in messages %}{{ m.content }}{% endfor %}",
    "cars": "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}",
    "birds": "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}",
}


def tokenizer(name: str) -> transformers.PreTrainedTokenizerFast:
    plain = tokenizers.Tokenizer(BPE(unk_token="<unk>"))
    plain.pre_tokenizer = Whitespace()
    plain.train_from_iterator(TEXTS[name], BpeTrainer(vocab_size=48, special_tokens=["<unk>", "<s>"]))
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="<unk>", bos_token="<s>")
    fast.add_tokens(ADDED[name], special_tokens=True)
    fast.chat_template = TEMPLATES[name]
    return fast


def write_speakers(root: Path, padding: int = 0) -> dict[str, Path]:
    """base, cars and birds again, each with its own tokenizer and a row for each of its tokens, and then some."""
    folders = {}
    for seed, name in enumerate(TEXTS):
        tok = tokenizer(name)
        rows = len(tok.get_vocab()) + padding
        state = base_state(rows)
        state = state if name == "base" else fine_tuned(state, 0.2, seed)
        folders[name] = write_model(root / name, state, vocab_size=rows)
        tok.save_pretrained(folders[name])
    return folders
