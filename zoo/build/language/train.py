"""Train the specialists of llm5: one LoRA adapter per domain over SmolLM2-135M-Instruct, and one on all domains.

    python zoo/build/language/train.py --base FOLDER --data FOLDER --out FOLDER [--only maths] [--device cuda]

`--data` holds a `<domain>.jsonl[.gz]` of prompts and answers for each domain (the build scripts beside this one write
them). The loss is that of the answer alone, the loop `smelt.training.loop.train`. All six run at once, each in a process of its own: a model this small
leaves most of a GPU idle. `--limit 16 --steps 2 --device cpu` goes the whole way in a minute on a laptop.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from examples import DOMAINS, HELD, find, padded, read, tokens

MULTITASK = "multitask"
RANK = {MULTITASK: 8}
"""4 for all others: the mixture has five skills to learn."""
EPOCHS = {"instruction": 3, "maths": 2, "multilingual": 2, "coding": 4, "safety": 4, MULTITASK: 2}
MIXED = 25_000
"""Examples of each domain in the mixture, at most."""
BATCHES = {"maths": 128, "multilingual": 256, MULTITASK: 128}
"""64 for all others: these are many, and short."""
RATES = {"multilingual": 2e-3}
"""1e-3 for all others: fewer and larger steps."""
WARMUP, LONGEST = 0.03, 512
LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def examples(data: Path, name: str, limit: int | None) -> tuple[list[dict], list[dict]]:
    """(trained on, kept out), in an order that is the same for all time."""
    trained, held = [], []
    for domain in DOMAINS if name == MULTITASK else (name,):
        rows = read(find(data, domain))
        random.Random(f"{domain} order").shuffle(rows)
        rows = rows[: limit + HELD] if limit else rows
        held += rows[:HELD][: limit or HELD]
        trained += rows[HELD:][: MIXED if name == MULTITASK else None]
    return trained, held


def batches(items: list, size: int, seed: int) -> Iterator[list]:
    """Examples of similar length together, the batches in random order."""
    draw = random.Random(seed)
    order = items.copy()
    draw.shuffle(order)
    pools = [sorted(order[i : i + 50 * size], key=lambda one: len(one[0])) for i in range(0, len(order), 50 * size)]
    cut = [pool[i : i + size] for pool in pools for i in range(0, len(pool), size)]
    draw.shuffle(cut)
    yield from cut


def answers(model, device: str):
    """The mean loss over the answer tokens of a batch. Scores are computed where an answer is, only."""
    import torch
    from torch import Tensor, nn
    from torch.nn import functional as F

    class Answers(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids: Tensor, mask: Tensor, wanted: Tensor) -> Tensor:
            return self.total(ids, mask, wanted) / int(wanted.sum())

        def total(self, ids: Tensor, mask: Tensor, wanted: Tensor) -> Tensor:
            whole = self.model.get_base_model()
            with torch.autocast(device.split(":")[0], dtype=torch.bfloat16):
                hidden = whole.model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
                scores = whole.lm_head(hidden[:, :-1][wanted[:, 1:]])
                return F.cross_entropy(scores.float(), ids[:, 1:][wanted[:, 1:]], reduction="sum")

    return Answers()


def specialise(name: str, base: Path, data: Path, out: Path, device: str, limit: int | None, steps: int | None) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from smelt.training.loop import Hooks, train

    began, size, peak = time.time(), BATCHES.get(name, 64), RATES.get(name, 1e-3)
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16, attn_implementation="sdpa").to(device)
    rank = RANK.get(name, 4)
    config = LoraConfig(r=rank, lora_alpha=4 * rank, target_modules=LAYERS, task_type="CAUSAL_LM")
    model = get_peft_model(model, config)
    learned = [tensor for tensor in model.parameters() if tensor.requires_grad]
    for tensor in learned:
        tensor.data = tensor.data.float()
    rows, held = examples(data, name, limit)
    items, kept = tokens(rows, tokenizer, LONGEST), tokens(held, tokenizer, LONGEST)
    total = min(steps or 10**9, EPOCHS[name] * math.ceil(len(items) / size))
    optimiser = torch.optim.AdamW(learned, lr=peak, weight_decay=0.0, betas=(0.9, 0.99), fused=device == "cuda")
    objective = answers(model, device)

    def rate(step: int) -> float:
        up = min(1.0, (step + 1) / max(1, WARMUP * total))
        return peak * (up * (0.5 + 0.5 * math.cos(math.pi * step / total)))

    def held_loss() -> float:
        objective.eval()
        with torch.no_grad():
            parts = [padded(kept[i : i + size], device) for i in range(0, len(kept), size)]
            sums = [(objective.total(**part), int(part["wanted"].sum())) for part in parts]
        return float(sum(one for one, _ in sums)) / sum(n for _, n in sums)

    order = (batch for epoch in range(EPOCHS[name]) for batch in batches(items, size, seed=epoch))
    curve, seen = [], [0]

    def batch_of(step: int) -> list[dict]:
        batch = next(order)
        seen[0] += sum(len(ids) for ids, _ in batch)
        return [padded(batch, device)]

    class Told(Hooks):
        def after_step(self, step: int, loss: float) -> bool:
            if (step + 1) % 100 == 0:
                curve.append([step + 1, round(loss, 4)])
                print(f"{name}: step {step + 1} of {total}, loss {loss:.4f}, {time.time() - began:.0f} s", flush=True)
            return False

    before = held_loss()
    words = {"steps": total, "rate": rate, "clip": 1.0, "device": device.split(":")[0]}
    done = len(train(objective, batch_of, optimiser, hooks=Told(), **words))
    model.save_pretrained(out / name)
    record = {
        "name": name,
        "examples": len(items),
        "epochs": EPOCHS[name],
        "steps": done,
        "tokens": seen[0],
        "rank": rank,
        "batch": size,
        "learning_rate": peak,
        "seed": 0,
        "held_out_loss": {"base": before, "adapter": held_loss()},
        "curve": curve,
        "seconds": round(time.time() - began, 1),
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else "cpu",
        "torch": torch.__version__,
    }
    (out / name / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    print(f"{name}: {record['held_out_loss']}, {record['seconds']} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=(*DOMAINS, MULTITASK))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--limit", type=int, help="examples of each domain")
    parser.add_argument("--steps", type=int, help="at most so many")
    words = parser.parse_args()
    if words.only:
        specialise(words.only, words.base, words.data, words.out, words.device, words.limit, words.steps)
        return
    command = [sys.executable, __file__, *sys.argv[1:]]
    running = {name: subprocess.Popen([*command, "--only", name]) for name in (*DOMAINS, MULTITASK)}
    failed = [name for name, process in running.items() if process.wait()]
    if failed:
        raise SystemExit(f"{', '.join(failed)} failed")


if __name__ == "__main__":
    main()
