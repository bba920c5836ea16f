"""Several LoRA adapters of one base, trained in one process: the base's matrices are read once for all of them.

    y = W x + scale * B_i A_i x        for the rows of run i

A batch holds the rows of all runs one after the other, as many of each. A small model leaves a GPU idle when its batches are
small; with several runs at once it does not. Runs do not touch each other: each has its own numbers and its own clipping.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smelt.training.loop import Hooks

LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SCALE = 4.0
"""alpha / rank, of all adapters."""


class AdaptedLinear(nn.Module):
    """A frozen matrix, and a thin pair of matrices for each run: [runs, rank, in] and [runs, out, rank]."""

    def __init__(self, inner: nn.Linear, runs: int, rank: int):
        super().__init__()
        device = inner.weight.device
        self.inner = inner
        self.down = nn.Parameter(torch.empty(runs, rank, inner.in_features, device=device))
        self.up = nn.Parameter(torch.zeros(runs, inner.out_features, rank, device=device))
        for one in self.down.data:
            nn.init.kaiming_uniform_(one, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        runs = len(self.down)
        whole = self.inner(x)
        thin = torch.bmm(x.reshape(runs, -1, x.shape[-1]), self.down.to(x.dtype).transpose(1, 2))
        own = whole.reshape(runs, -1, whole.shape[-1])
        return torch.baddbmm(own, thin, self.up.to(x.dtype).transpose(1, 2), alpha=SCALE).view(whole.shape)


class AdaptersTogether(nn.Module):
    """A causal language model with adapters of several runs; its loss is the sum over the runs.

    The loss of a run is the mean over its answer tokens. Scores are computed where an answer is, only.
    """

    def __init__(self, model: Any, runs: int, rank: int, seed: int = 0):
        super().__init__()
        torch.manual_seed(seed)
        self.model, self.runs, self.rank = model, runs, rank
        model.requires_grad_(False)
        self.places: dict[str, AdaptedLinear] = {}
        for name, module in list(model.named_modules()):
            if isinstance(module, nn.Linear) and name.rpartition(".")[2] in LAYERS:
                self.places[name] = AdaptedLinear(module, runs, rank)
                parent, _, own = name.rpartition(".")
                setattr(model.get_submodule(parent), own, self.places[name])

    def learned(self) -> list[nn.Parameter]:
        """The numbers of all runs; their first axis is the run."""
        return [pair for place in self.places.values() for pair in (place.down, place.up)]

    def forward(self, ids: Tensor, mask: Tensor, wanted: Tensor) -> Tensor:
        return self.losses(ids, mask, wanted).sum()

    def losses(self, ids: Tensor, mask: Tensor, wanted: Tensor) -> Tensor:
        """The loss of each run [runs]; the rows are those of the runs in turn."""
        hidden = self.hidden(ids, mask)
        judged = wanted[:, 1:]
        scores = self.model.lm_head(hidden[:, :-1][judged])
        each = F.cross_entropy(scores.float(), ids[:, 1:][judged], reduction="none")
        rows = len(ids) // self.runs
        owner = (torch.arange(len(ids), device=ids.device) // rows)[:, None].expand_as(judged)[judged]
        total = torch.zeros(self.runs, device=ids.device).index_add(0, owner, each)
        return total / torch.bincount(owner, minlength=self.runs)

    def hidden(self, ids: Tensor, mask: Tensor) -> Tensor:
        """What the model has in front of its head [rows, tokens, width]."""
        return self.model.model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state

    def save(self, run: int, folder: Path, base: str) -> None:
        """One run's adapter as PEFT writes it."""
        from safetensors.torch import save_file

        folder.mkdir(parents=True, exist_ok=True)
        tensors = {}
        for name, place in self.places.items():
            for part, pair in (("lora_A", place.down), ("lora_B", place.up)):
                tensors[f"base_model.model.{name}.{part}.weight"] = pair[run].detach().float().cpu().contiguous()
        save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
        config = {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": base,
            "r": self.rank,
            "lora_alpha": SCALE * self.rank,
            "target_modules": LAYERS,
        }
        (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")


class ClippedApart(Hooks):
    """Each run's gradient is clipped by itself."""

    def __init__(
        self,
        together: AdaptersTogether,
        tell: Callable[[int, float], None] = lambda step, loss: None,
        most: float = 1.0,
    ):
        self._learned, self._most, self._tell = together.learned(), most, tell

    @torch.no_grad()
    def before_update(self, step: int) -> None:
        found = [one.grad for one in self._learned if one.grad is not None]
        square = torch.stack([one.square().sum((1, 2)) for one in found]).sum(0)
        factor = (self._most / square.sqrt().clamp(min=1e-12)).clamp(max=1.0)[:, None, None]
        torch._foreach_mul_(found, [factor] * len(found))

    def after_step(self, step: int, loss: float) -> bool:
        self._tell(step, loss)
        return False


def optimiser_of(together: AdaptersTogether, device: str) -> torch.optim.Optimizer:
    return torch.optim.AdamW(
        together.learned(), lr=1e-3, weight_decay=0.0, betas=(0.9, 0.99), fused=device.startswith("cuda")
    )
