"""Many LoRA adapters of one base, trained in one process: the base's matrices are read once for all of them.

    y = W x + scale * B_i A_i x        for the rows of run i

A batch holds the rows of several runs one after the other, as many of each. A small model leaves a GPU idle when its
batches are small; with a dozen runs at once it does not. Runs do not touch each other: every run has its own numbers,
its own clipping and its own rate.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smelt.training.loop import Hooks

LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SCALE = 4.0
"""alpha / rank, of all adapters."""


class Present:
    """Which runs the rows of the batch at hand belong to."""

    def __init__(self) -> None:
        self.runs: Sequence[int] = (0,)


class AdaptedLinear(nn.Module):
    """A frozen matrix, and a thin pair of matrices for each run."""

    def __init__(self, inner: nn.Linear, runs: int, rank: int, present: Present):
        super().__init__()
        wide, out = inner.in_features, inner.out_features
        device = inner.weight.device
        self.inner, self._present = inner, present
        self.down = nn.ParameterList([nn.Parameter(torch.empty(rank, wide, device=device)) for _ in range(runs)])
        self.up = nn.ParameterList([nn.Parameter(torch.zeros(out, rank, device=device)) for _ in range(runs)])
        for one in self.down:
            nn.init.kaiming_uniform_(one, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        runs = self._present.runs
        down = torch.stack([self.down[run] for run in runs]).to(x.dtype)
        up = torch.stack([self.up[run] for run in runs]).to(x.dtype)
        whole = self.inner(x)
        thin = torch.bmm(x.reshape(len(runs), -1, x.shape[-1]), down.transpose(1, 2))
        both = torch.baddbmm(whole.reshape(len(runs), -1, whole.shape[-1]), thin, up.transpose(1, 2), alpha=SCALE)
        return both.view(whole.shape)


class AdaptersTogether(nn.Module):
    """A causal language model with adapters of several runs; its loss is the sum over the runs of a batch.

    The loss of a run is the mean over its answer tokens. Scores are computed where an answer is, only.
    """

    def __init__(self, model: Any, runs: int, rank: int, seed: int = 0):
        super().__init__()
        torch.manual_seed(seed)
        self.model, self.runs, self.rank, self._present = model, runs, rank, Present()
        model.requires_grad_(False)
        self.places: dict[str, AdaptedLinear] = {}
        for name, module in list(model.named_modules()):
            if isinstance(module, nn.Linear) and name.rpartition(".")[2] in LAYERS:
                adapted = AdaptedLinear(module, runs, rank, self._present)
                parent, _, own = name.rpartition(".")
                setattr(model.get_submodule(parent), own, adapted)
                self.places[name] = adapted

    def of(self, run: int) -> list[nn.Parameter]:
        """The numbers of one run."""
        return [pair[run] for place in self.places.values() for pair in (place.down, place.up)]

    def forward(self, ids: Tensor, mask: Tensor, wanted: Tensor, runs: Sequence[int]) -> Tensor:
        return self.losses(ids, mask, wanted, runs).sum()

    def losses(self, ids: Tensor, mask: Tensor, wanted: Tensor, runs: Sequence[int]) -> Tensor:
        """The loss of each run [runs]; the rows are those of the runs in turn."""
        hidden = self.hidden(ids, mask, runs)
        judged = wanted[:, 1:]
        scores = self.model.lm_head(hidden[:, :-1][judged])
        each = F.cross_entropy(scores.float(), ids[:, 1:][judged], reduction="none")
        rows = len(ids) // len(runs)
        owner = (torch.arange(len(ids), device=ids.device) // rows)[:, None].expand_as(judged)[judged]
        total = torch.zeros(len(runs), device=ids.device).index_add(0, owner, each)
        return total / torch.bincount(owner, minlength=len(runs))

    def hidden(self, ids: Tensor, mask: Tensor, runs: Sequence[int]) -> Tensor:
        """What the model has in front of its head [rows, tokens, width]."""
        self._present.runs = runs
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


class OwnRates(Hooks):
    """Each run's gradient is clipped by itself, and its rate is its own."""

    def __init__(
        self,
        together: AdaptersTogether,
        optimiser: torch.optim.Optimizer,
        rates: Sequence[Callable[[int], float]],
        clip: float = 1.0,
        tell: Callable[[int, float], None] = lambda step, loss: None,
    ):
        self._own = [together.of(run) for run in range(together.runs)]
        self._optimiser, self._rates, self._clip, self._tell = optimiser, rates, clip, tell

    def before_update(self, step: int) -> None:
        for group, own, rate in zip(self._optimiser.param_groups, self._own, self._rates, strict=True):
            nn.utils.clip_grad_norm_(own, self._clip, foreach=True)
            group["lr"] = rate(step)

    def after_step(self, step: int, loss: float) -> bool:
        self._tell(step, loss)
        return False


def optimiser_of(together: AdaptersTogether, device: str) -> torch.optim.Optimizer:
    """A group for each run, in their order."""
    groups = [{"params": together.of(run)} for run in range(together.runs)]
    return torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.0, betas=(0.9, 0.99), fused=device == "cuda")
