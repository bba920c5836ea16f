"""A weaker base: SmolLM2-135M-Instruct without a third of its layers, healed until it speaks like the whole again.

    python zoo/build/language/healed.py --base FOLDER --data FOLDER --out FOLDER [--device cuda]

1. Which ten of the thirty: those in a row whose going changes least, by the angle between what goes into the first and
   what comes out of the last of them, on examples of all domains (Gromov et al. 2024, arXiv:2403.17887).
2. Healing: a LoRA adapter on what is left, trained so that every next token is as likely as the whole model finds it
   (cross entropy with its probabilities), on the training texts of all domains. The whole model's own guesses are the
   target and never an answer, so the weak base is taught to speak, not to solve.
Writes OUT/healed as an ordinary folder, OUT/heal with the adapter, and OUT/healed.json. The zoo stores which layers are
kept, and the adapter in eight bits; OUT/healed has it rounded like that.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.append(str(Path(__file__).resolve().parents[1]))

from adapters_together import AdaptersTogether, ClippedApart, optimiser_of
from examples import DOMAINS, batches, of_domain, padded, tokens
from lowrank import place_adapter

GONE = 10
RANK, STEPS, BATCH, RATE, WARMUP, LONGEST = 12, 700, 64, 2e-3, 0.05, 256
LOOKED_AT = 256
"""Examples by which the layers are chosen."""


class Healing(nn.Module):
    """How far the short model's guesses are from the whole's, on every token of prompt and answer."""

    def __init__(self, short: AdaptersTogether, whole: Any):
        super().__init__()
        self.short, self._whole = short, [whole]

    def forward(self, ids: Tensor, mask: Tensor, wanted: Tensor) -> Tensor:
        whole = self._whole[0]
        read = mask[:, :-1].bool() & mask[:, 1:].bool()
        with torch.no_grad():
            hidden = whole.model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
            target = whole.lm_head(hidden[:, :-1][read]).float().softmax(-1)
        hidden = self.short.hidden(ids, mask)
        said = self.short.model.lm_head(hidden[:, :-1][read]).float().log_softmax(-1)
        return -(target * said).sum(-1).mean()


@torch.no_grad()
def least_needed(model: Any, ids: Tensor, mask: Tensor) -> tuple[int, list[float]]:
    """The first of the layers in a row to leave out, and the angle of every choice in turns of pi."""
    states = model(input_ids=ids, attention_mask=mask, output_hidden_states=True, use_cache=False).hidden_states
    read, angles = mask.bool(), []
    for first in range(len(states) - 1 - GONE):
        cosine = F.cosine_similarity(states[first][read].float(), states[first + GONE][read].float(), dim=-1)
        angles.append(round(float(cosine.clamp(-1, 1).arccos().mean() / math.pi), 4))
    return min(range(len(angles)), key=lambda first: angles[first]), angles


def shortened(model: Any, gone: range) -> Any:
    kept = [layer for number, layer in enumerate(model.model.layers) if number not in gone]
    model.model.layers = nn.ModuleList(kept)
    for number, layer in enumerate(kept):
        layer.self_attn.layer_idx = number
    model.config.num_hidden_layers = len(kept)
    if getattr(model.config, "layer_types", None):
        model.config.layer_types = [one for n, one in enumerate(model.config.layer_types) if n not in gone]
    return model


def heal(base: Path, data: Path, out: Path, device: str, steps: int, limit: int | None) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from smelt.training.loop import train

    began = time.time()
    tokenizer = AutoTokenizer.from_pretrained(base)

    def load() -> Any:
        words = {"dtype": torch.bfloat16, "attn_implementation": "sdpa"}
        return AutoModelForCausalLM.from_pretrained(base, **words).to(device).requires_grad_(False)

    items = []
    for domain in DOMAINS:
        rows, _ = of_domain(data, domain)
        items += tokens(rows[: limit or 12_000], tokenizer, LONGEST)
    random.Random("healing").shuffle(items)
    looked = padded(items[:LOOKED_AT], device)
    whole = load()
    first, angles = least_needed(whole, looked["ids"], looked["mask"])
    gone = range(first, first + GONE)
    keep = [layer for layer in range(whole.config.num_hidden_layers) if layer not in gone]
    torch.manual_seed(0)
    short = shortened(load(), gone)
    short.save_pretrained(out / "short")
    tokenizer.save_pretrained(out / "short")
    together = AdaptersTogether(short, 1, RANK)
    objective = Healing(together, whole)
    optimiser = optimiser_of(together, device)
    need = (steps + 1) * BATCH
    order = batches((items * math.ceil(need / len(items)))[:need], BATCH, seed=0)

    def rate(step: int) -> float:
        return RATE * min(1.0, (step + 1) / max(1.0, WARMUP * steps)) * (0.5 + 0.5 * math.cos(math.pi * step / steps))

    def tell(step: int, loss: float) -> None:
        if (step + 1) % 100 == 0:
            print(f"healing: step {step + 1} of {steps}, {loss:.4f}, {time.time() - began:.0f} s", flush=True)

    hooks = ClippedApart(together, tell)
    words = {"steps": steps, "rate": rate, "device": device.split(":")[0]}
    curve = train(objective, lambda step: [padded(next(order), device)], optimiser, hooks=hooks, **words)
    together.save(0, out / "heal", "healed")
    lost = place_adapter(out / "heal", out / "placed", "healed", task_type="CAUSAL_LM")
    merged(out / "short", out / "placed", out / "healed")
    record = {
        "name": "smollm2-99m-healed",
        "gone": list(gone),
        "keep": keep,
        "angles": angles,
        "rank": RANK,
        "steps": steps,
        "batch": BATCH,
        "learning_rate": RATE,
        "examples": need,
        "loss": [[step, round(curve[step], 4)] for step in range(0, steps, max(1, steps // 10))]
        + [[steps, round(curve[-1], 4)]],
        "rounding": {"format": "float8_e4m3", "relative_error": round(lost, 4)},
        "seconds": round(time.time() - began, 1),
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else "cpu",
        "torch": torch.__version__,
    }
    (out / "healed.json").write_text(json.dumps(record, indent=1) + "\n")
    print(f"left out {list(gone)}; {record['loss'][-1]}, {record['seconds']} s", flush=True)


def merged(short: Path, adapter: Path, out: Path) -> None:
    """The short model with the adapter as it is stored, in float32 and rounded once."""
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(short, dtype=torch.bfloat16)
    stored = load_file(adapter / "adapter_model.safetensors")
    config = json.loads((adapter / "adapter_config.json").read_text())
    scale, state = config["lora_alpha"] / config["r"], model.state_dict()
    for name in stored:
        if "lora_A" in name:
            key = name.removeprefix("base_model.model.").replace("lora_A.weight", "weight")
            change = stored[name.replace("lora_A", "lora_B")].float() @ stored[name].float()
            state[key].copy_(state[key].float() + scale * change)
    model.load_state_dict(state)
    model.save_pretrained(out)
    AutoTokenizer.from_pretrained(short).save_pretrained(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--limit", type=int, help="examples of each domain, to try it out")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    heal(given.base, given.data, given.out, given.device, given.steps, given.limit)


if __name__ == "__main__":
    main()
