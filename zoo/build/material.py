"""What training reads: the pictures of every split on the device, and all captions as tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import CLIPTokenizer

import captions
from pictures import SIZE
from smelt.tasks.pictures.mosaic import read_mosaic
from tokenizer import FOLDER as TOKENIZER


@dataclass
class Split:
    """Pictures uint8 [n, 3, 32, 32] with their labels."""

    pixels: Tensor
    labels: Tensor

    def half(self, which: int) -> Split:
        """Every other picture: the first set of experts learns from half 0, the second from half 1."""
        return Split(self.pixels[which::2], self.labels[which::2])


class Material:
    """Everything that zoo/.cache/pool (pack.py) and the tokenizer give."""

    def __init__(self, device: str):
        self.device = device
        self.pool = captions.read_pool()
        self.table = captions.Table(self.pool)
        self.tokenizer = CLIPTokenizer.from_pretrained(TOKENIZER)
        flat = [text for wordings in self.table.texts for text in wordings]
        coded = self.tokenizer(
            flat, padding="max_length", truncation=True, max_length=captions.LENGTH, return_tensors="pt"
        )
        self.tokens = coded["input_ids"].view(len(self.table.texts), 3, captions.LENGTH).to(device)
        self.splits = {
            task: {split: self._split(task, split) for split in ("train", "val", "test")} for task in self.pool
        }

    def class_tokens(self, task: str) -> Tensor:
        """The English prompts of a task's classes [classes, 3 wordings, length]."""
        return self.tokens[torch.tensor(self.table.english[task], device=self.device)]

    def pixels(self, name: str, count: int) -> Tensor:
        pixels = torch.from_numpy(read_mosaic(captions.POOL / f"{name}.webp", count, SIZE))
        return pixels.to(self.device).permute(0, 3, 1, 2).contiguous()

    def _split(self, task: str, split: str) -> Split:
        labels = torch.tensor(self.pool[task]["labels"][split])
        return Split(self.pixels(f"{task}-{split}", len(labels)), labels.to(self.device))
