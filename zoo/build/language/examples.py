"""What specialists are trained on: prompts and answers of the domains as tokens, in batches of similar length."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from distributions import part_folder

DOMAINS = ("instruction", "maths", "multilingual", "coding", "safety")
HELD = 200
"""Examples of each domain that are kept out, to see the loss on."""
POOL = 50
"""Batches that are sorted by length together."""
Item = tuple[list[int], int]
"""Ids of prompt, answer and end of turn, and where the answer begins."""


def read(path: Path) -> list[dict]:
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def find(data: Path, domain: str) -> Path:
    found = [path for path in (data / f"{domain}.jsonl", data / f"{domain}.jsonl.gz") if path.exists()]
    if not found:
        raise SystemExit(f"{data}: no {domain}.jsonl; run zoo/build/language/{domain}.py first")
    return found[0]


def asked_elsewhere() -> tuple[set[str], set[str]]:
    """The prompts of every shipped test and validation task, and the modules that their examples are of.

    The examples of coding are what the packages of the machine print: made anew, they may be divided otherwise.
    """
    prompts: set[str] = set()
    modules: set[str] = set()
    for path in sorted(part_folder("language").glob("*/*.jsonl.gz")):
        if not path.name.startswith("train"):
            rows = read(path)
            prompts |= {row["prompt"] for row in rows if "prompt" in row}
            modules |= {row["module"] for row in rows if "module" in row}
    return prompts, modules


def of_domain(data: Path, domain: str) -> tuple[list[dict], list[dict]]:
    """(for training, kept out), in an order that is the same for all time."""
    prompts, modules = asked_elsewhere()
    rows = [
        row for row in read(find(data, domain)) if row["prompt"] not in prompts and row.get("module") not in modules
    ]
    random.Random(f"{domain} order").shuffle(rows)
    return rows[HELD:], rows[:HELD]


def tokens(rows: list[dict], tokenizer: Any, longest: int) -> list[Item]:
    """What is too long is left out."""
    chats = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": row["prompt"]}], tokenize=False, add_generation_prompt=True
        )
        for row in rows
    ]
    asked = tokenizer(chats, add_special_tokens=False)["input_ids"]
    said = tokenizer([row["answer"] for row in rows], add_special_tokens=False)["input_ids"]
    pairs = [([*a, *b, tokenizer.eos_token_id], len(a)) for a, b in zip(asked, said, strict=True)]
    return [pair for pair in pairs if len(pair[0]) <= longest]


def mixture(own: str, known: dict[str, list[Item]], share: float, count: int) -> list[Item]:
    """So many examples of a specialist: of its own domain, and a share of the others', all alike often.

    A domain that is too small is gone through again, each time in another order.
    """
    others = [domain for domain in known if domain != own]
    elsewhere = round(share * count) if others else 0
    parts = {own: count - elsewhere}
    for place, domain in enumerate(others):
        parts[domain] = elsewhere // len(others) + (place < elsewhere % len(others))
    found: list[Item] = []
    for domain, wanted in parts.items():
        draw, taken = random.Random(f"{own} {domain} {share}"), list[Item]()
        while len(taken) < wanted:
            taken += draw.sample(known[domain], len(known[domain]))
        found += taken[:wanted]
    random.Random(f"{own} {share} mixed").shuffle(found)
    return found


def batches(items: list[Item], size: int, seed: int) -> Iterator[list[Item]]:
    """Whole batches of examples of similar length, in random order."""
    pools = [sorted(items[i : i + POOL * size], key=lambda one: len(one[0])) for i in range(0, len(items), POOL * size)]
    cut = [pool[i : i + size] for pool in pools for i in range(0, len(pool) - size + 1, size)]
    random.Random(seed).shuffle(cut)
    yield from cut


def padded(batch: list[Item], device: str) -> dict[str, Tensor]:
    """Ids, mask, and which tokens are the answer's, side by side."""
    width = max(len(ids) for ids, _ in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    wanted = torch.zeros(len(batch), width, dtype=torch.bool)
    mask = torch.zeros(len(batch), width, dtype=torch.long)
    for row, (one, start) in enumerate(batch):
        ids[row, : len(one)] = torch.tensor(one)
        mask[row, : len(one)] = 1
        wanted[row, start : len(one)] = True
    return {name: one.to(device, non_blocking=True) for name, one in (("ids", ids), ("mask", mask), ("wanted", wanted))}
