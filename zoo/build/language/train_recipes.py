"""Train specialists of llm5: a LoRA adapter for each domain and recipe over one base, the domains in one process.

    python zoo/build/language/train_recipes.py --base FOLDER --data FOLDER --out FOLDER [--recipe NAME ...] [--device cuda]

`--data` holds a `<domain>.jsonl[.gz]` of prompts and answers for each domain (the build scripts beside this one write
them); recipes.yaml says what is tried. The loss is that of the answer alone, the loop `smelt.training.loop.train`.
Writes OUT/<recipe>/<domain>/ as PEFT does, with a training.json. The five domains of a recipe are trained at once.
`--steps 2 --limit 40 --device cpu` goes the whole way in a minute on a laptop.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

sys.path.append(str(Path(__file__).resolve().parents[1]))

from adapters_together import AdaptersTogether, ClippedApart, optimiser_of
from examples import DOMAINS, HELD, Item, batches, mixture, of_domain, padded, tokens

RECIPES = Path(__file__).with_name("recipes.yaml")


@dataclass(frozen=True)
class Recipe:
    name: str
    share: float
    steps: int
    rate: float
    batch: int
    rank: int
    warmup: float
    longest: int

    def rate_at(self, step: int) -> float:
        """A short rise, then half a cosine."""
        up = min(1.0, (step + 1) / max(1.0, self.warmup * self.steps))
        return self.rate * up * (0.5 + 0.5 * math.cos(math.pi * step / self.steps))


@dataclass
class Run:
    """One specialist that is trained."""

    recipe: Recipe
    domain: str
    items: list[Item]
    order: Any
    seen: int = 0


def recipes(names: list[str] | None = None) -> list[Recipe]:
    content = yaml.safe_load(RECIPES.read_text(encoding="utf-8"))
    every = [Recipe(name, **content["common"], **words) for name, words in content["recipes"].items()]
    return [one for one in every if not names or one.name in names]


def train_all(
    base: Path,
    data: Path,
    out: Path,
    chosen: list[Recipe],
    *,
    device: str,
    steps: int | None = None,
    limit: int | None = None,
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base)
    longest = max(one.longest for one in chosen)
    known: dict[str, list[Item]] = {}
    kept: dict[str, list[Item]] = {}
    for domain in DOMAINS:
        rows, held = of_domain(data, domain)
        known[domain] = tokens(rows[:limit], tokenizer, longest)
        kept[domain] = tokens(held[: limit or HELD], tokenizer, longest)
    for one in chosen:
        together(base, known, kept, out, one, min(one.steps, steps or one.steps), device)


def together(
    base: Path,
    known: dict[str, list[Item]],
    kept: dict[str, list[Item]],
    out: Path,
    recipe: Recipe,
    steps: int,
    device: str,
) -> None:
    from transformers import AutoModelForCausalLM

    from smelt.training.loop import train

    began = time.time()
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16, attn_implementation="sdpa").to(device)
    runs = [run_of(recipe, domain, known, steps) for domain in DOMAINS]
    objective = AdaptersTogether(model, len(runs), recipe.rank)
    optimiser = optimiser_of(objective, device)
    curve: list[list[float]] = []

    def batch_of(step: int) -> list[dict[str, Any]]:
        drawn = [next(run.order) for run in runs]
        for run, batch in zip(runs, drawn, strict=True):
            run.seen += sum(len(ids) for ids, _ in batch)
        return [padded([item for batch in drawn for item in batch], device)]

    def tell(step: int, loss: float) -> None:
        if (step + 1) % 50 == 0 or step + 1 == steps:
            curve.append([step + 1, round(loss / len(runs), 4)])
            print(
                f"{recipe.name}: step {step + 1} of {steps}: loss {loss / len(runs):.4f}, {time.time() - began:.0f} s",
                flush=True,
            )

    same = max(len(kept[domain]) for domain in DOMAINS)
    held = padded([kept[domain][i % len(kept[domain])] for domain in DOMAINS for i in range(same)], device)
    before = held_losses(objective, held)
    words = {"steps": steps, "rate": recipe.rate_at, "device": device.split(":")[0]}
    train(objective, batch_of, optimiser, hooks=ClippedApart(objective, tell), **words)
    after = held_losses(objective, held)
    for number, run in enumerate(runs):
        folder = out / run.recipe.name / run.domain
        objective.save(number, folder, str(base))
        record = {
            "name": run.domain,
            "recipe": asdict(run.recipe),
            "examples": len(run.items),
            "steps": steps,
            "tokens": run.seen,
            "seed": 0,
            "held_out_loss": {"base": round(before[number], 4), "adapter": round(after[number], 4)},
            "trained_with": len(runs) - 1,
            "curve_of_all": curve,
            "seconds_of_all": round(time.time() - began, 1),
            "device": torch.cuda.get_device_name() if device.startswith("cuda") else "cpu",
            "torch": torch.__version__,
        }
        (folder / "training.json").write_text(json.dumps(record, indent=1) + "\n")


def run_of(recipe: Recipe, domain: str, known: dict[str, list[Item]], steps: int) -> Run:
    """One more pool than is needed: what does not fill a batch is left out."""
    items = mixture(domain, known, recipe.share, (steps + 1) * recipe.batch)
    return Run(recipe, domain, items, batches(items, recipe.batch, seed=0))


@torch.no_grad()
def held_losses(objective: AdaptersTogether, held: dict[str, Any]) -> list[float]:
    """The loss of each run on examples of its own domain that were kept out, over all of their answer tokens."""
    return objective.losses(**held).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recipe", action="append", help="only these")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--limit", type=int, help="examples of each domain")
    parser.add_argument("--steps", type=int, help="at most so many")
    given = parser.parse_args()
    words = {"device": given.device, "steps": given.steps, "limit": given.limit}
    train_all(given.base, given.data, given.out, recipes(given.recipe), **words)


if __name__ == "__main__":
    main()
