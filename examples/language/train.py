"""A small byte-level Llama: the model, its tokenizer, and a plain training loop.

Bytes are tokens 0 to 255; three more mark the beginning, the end and padding. Everything is seeded, and a folder with
the same settings, parent and text as last time is not trained again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

__all__ = ["BOS", "Settings", "byte_tokenizer", "load", "new_model", "train_once"]

BOS, EOS, PAD = 256, 257, 258
CONTEXT = 128


@dataclass(frozen=True)
class Settings:
    """What decides the numbers, apart from the text."""

    base_steps: int
    expert_steps: int
    hidden: int = 128
    layers: int = 4
    heads: int = 4
    batch: int = 16
    base_rate: float = 3e-3
    expert_rate: float = 1e-3
    seed: int = 0


def new_model(settings: Settings) -> LlamaForCausalLM:
    """A Llama with random weights, the same ones for the same seed."""
    torch.manual_seed(settings.seed)
    config = LlamaConfig(
        vocab_size=259,
        hidden_size=settings.hidden,
        intermediate_size=settings.hidden * 11 // 4,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.heads,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=False,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
    )
    return LlamaForCausalLM(config)


def load(folder: Path) -> LlamaForCausalLM:
    """A trained model from disk, to be trained further."""
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)


def train_once(
    folder: Path, parent: Path | None, texts: Sequence[bytes], steps: int, rate: float, settings: Settings
) -> bool:
    """Train and save a model unless `folder` already holds this very one; says whether it trained.

    The note that makes a folder count as finished is written last, next to it.
    """
    note = folder.with_suffix(".json")
    wanted = {
        "parent": json.loads(parent.with_suffix(".json").read_text()) if parent else None,
        "text": [hashlib.sha256(text).hexdigest() for text in texts],
        "steps": steps,
        "rate": rate,
        "settings": asdict(settings),
        "torch": torch.__version__,
    }
    if note.exists() and json.loads(note.read_text()) == wanted:
        return False
    note.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    model = load(parent) if parent else new_model(settings)
    _train(model, texts, steps, rate, settings, folder.name)
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    note.write_text(json.dumps(wanted, indent=2))
    return True


def _train(
    model: LlamaForCausalLM, texts: Sequence[bytes], steps: int, rate: float, settings: Settings, label: str
) -> None:
    """AdamW with a short warm-up and a cosine to a tenth; every row of a batch is a random window of a random text."""
    windows = [torch.frombuffer(bytearray(text), dtype=torch.uint8) for text in texts]
    random = torch.Generator().manual_seed(settings.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.05, fused=True)
    warm_up = min(20, steps // 5 + 1)
    schedule = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.05, 1.0, warm_up),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, steps - warm_up), rate / 10),
        ],
        [warm_up],
    )
    model.train()
    start, recent = time.monotonic(), []
    for step in range(1, steps + 1):
        tokens = _batch(windows, settings.batch, random)
        logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        recent.append(loss.item() / 0.6931471805599453)
        if step % max(1, steps // 4) == 0:
            took = time.monotonic() - start
            print(f"  {label:<8} step {step:>4} of {steps}   {sum(recent) / len(recent):.2f} bits/byte   {took:4.0f} s")
            recent.clear()
    model.eval()


def _batch(windows: Sequence[torch.Tensor], size: int, random: torch.Generator) -> torch.Tensor:
    rows = []
    for which in torch.randint(len(windows), (size,), generator=random).tolist():
        text = windows[which]
        start = int(torch.randint(len(text) - CONTEXT, (1,), generator=random))
        rows.append(text[start : start + CONTEXT].long())
    return F.pad(torch.stack(rows), (1, 0), value=BOS)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Token id = byte value, in the format that `from_pretrained` reads."""
    # Byte-level tokenizers write unprintable bytes as the letters that follow U+0100, in order.
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = (byte for byte in range(256) if byte not in plain)
    letters = {byte: chr(byte) for byte in plain} | {byte: chr(256 + n) for n, byte in enumerate(others)}
    vocabulary = {letters[byte]: byte for byte in range(256)} | {"<s>": BOS, "</s>": EOS, "<pad>": PAD}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
