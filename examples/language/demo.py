"""The whole tool on real models, in about three minutes on two cores, with nothing downloaded.

    1. read three kinds of text that this installation holds
    2. train a small base model on all of them, then one expert for each
    3. choose the scale of each merge on validation text (`smelt.merge` in memory)
    4. `smelt plan`, `smelt merge` and `smelt verify` every recipe of examples/language/recipes
    5. load the results with transformers, measure bits per byte on test text, write a table and a page

Run it with `make language`. Models stay in language-out/, so that a second run is much shorter; --fresh begins anew.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is downloaded, and nobody waits for a hub to say so
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin ruin each other on a busy machine

import torch
import transformers
import yaml
from transformers import AutoModelForCausalLM

import smelt
from corpus import DOMAINS, EXCERPT, Corpus, collect
from evaluate import Scores, interval, mean_over_domains, resample
from page import write_page
from train import Settings, load, train_once
from tune import GRIDS, Memory, choose, with_value

RECIPES = Path(__file__).resolve().parent / "recipes"
CONTROL = "mixture"  # the base trained on with all three kinds of text, for as many steps as one expert


def main() -> None:
    """Tell the story from text to table."""
    arguments = _arguments()
    out: Path = arguments.out
    if arguments.fresh:
        shutil.rmtree(out, ignore_errors=True)
    (out / "models").mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    transformers.utils.logging.disable_progress_bar()
    settings = Settings(40, 20, hidden=64, layers=2, heads=2) if arguments.quick else Settings(460, 120)
    start = time.monotonic()

    print("1. Text: held-out documents are never trained on")
    corpus = collect(*((200_000, 4, 8) if arguments.quick else (1_500_000, 16, 64)))
    for name, domain in corpus.domains.items():
        counts = ", ".join(f"{len(names)} {split}" for split, names in domain.documents.items())
        print(f"  {name:<8} {len(domain.train):>9,} bytes to train on; documents: {counts}")

    print(f"\n2. Models: {settings.layers} layers, width {settings.hidden}, bytes as tokens, seed {settings.seed}")
    train_all(out / "models", corpus, settings)

    print("\n3. Scales, chosen by mean bits per byte on validation text")
    memory = Memory(out / "scores.json")
    chosen = write_recipes(out, corpus, memory)

    print("\n4. Merges, by the command line")
    smelt_command(out, "plan", "recipes/ties.yaml")
    for recipe in sorted(p.stem for p in RECIPES.glob("*.yaml")):
        smelt_command(out, "merge", f"recipes/{recipe}.yaml", "-o", f"merged/{recipe}", "--force")
        smelt_command(out, "verify", f"merged/{recipe}")

    print("\n5. Bits per byte on test text (fewer is better), ± half of the 95% interval over documents")
    results = measure(out, corpus, memory, settings, chosen)
    (out / "results.json").write_text(json.dumps(results, indent=2))
    write_page(results, out / "report.html")
    print_table(results)
    for sentence in results["findings"]:
        print(f"- {sentence}")
    took = time.monotonic() - start
    print(f"\n{took:.0f} s. The page: {_short(out / 'report.html')}; the rows: results.json beside it.")


def train_all(folder: Path, corpus: Corpus, settings: Settings) -> None:
    """The base on everything, an expert per domain, and a control that trains on without choosing a domain."""
    everything = [domain.train for domain in corpus.domains.values()]
    pupils = {name: [domain.train] for name, domain in corpus.domains.items()} | {CONTROL: everything}
    base = folder / "base"
    trained = train_once(base, None, everything, settings.base_steps, settings.base_rate, settings)
    for name, texts in pupils.items():
        trained |= train_once(folder / name, base, texts, settings.expert_steps, settings.expert_rate, settings)
    if not trained:
        print("  all there from an earlier run (--fresh trains them again)")


def write_recipes(out: Path, corpus: Corpus, memory: Memory) -> dict[str, Any]:
    """Copy the recipes to where the models are, with the scales that validation text prefers."""
    texts = {name: domain.validation for name, domain in corpus.domains.items()}
    base = load(out / "models" / "base")
    experts = {name: load(out / "models" / name) for name in DOMAINS}
    (out / "recipes").mkdir(exist_ok=True)
    chosen: dict[str, Any] = {}
    for file in sorted(RECIPES.glob("*.yaml")):
        recipe = yaml.safe_load(file.read_text().replace("language-out/models/", "../models/"))
        if file.stem in GRIDS:
            stage, parameter, _ = GRIDS[file.stem]
            value, tried = choose(recipe["merge"], GRIDS[file.stem], experts, base, texts, memory)
            recipe["merge"] = with_value(recipe["merge"], stage, parameter, value)
            chosen[file.stem] = {"parameter": f"{stage}.{parameter}", "value": value, "tried": tried}
            grid = "   ".join(f"{v:g}: {score:.3f}" for v, score in tried.items())
            print(f"  {file.stem:<16} {parameter} = {value:<5g} of {grid}")
        (out / "recipes" / file.name).write_text(yaml.safe_dump(recipe, sort_keys=False))
    return chosen


def smelt_command(folder: Path, *words: str) -> None:
    """Show a command, run it in `folder` as a user would, and show what it says."""
    print(f"  $ smelt {' '.join(words)}")
    program = [sys.executable, "-c", "from smelt.cli import main; main()"]
    done = subprocess.run([*program, *words], cwd=folder, capture_output=True, text=True)
    print("".join(f"    {line}\n" for line in (done.stdout + done.stderr).splitlines()), end="", flush=True)
    if done.returncode:
        raise SystemExit(done.returncode)


def measure(out: Path, corpus: Corpus, memory: Memory, settings: Settings, chosen: dict[str, Any]) -> dict[str, Any]:
    """Score every model on test text; the best merge is named by validation text, so the table stays a fair test."""
    test = {name: domain.test for name, domain in corpus.domains.items()}
    validation = {name: domain.validation for name, domain in corpus.domains.items()}
    kinds = {"base": "base"} | dict.fromkeys(DOMAINS, "expert") | {CONTROL: "control"}
    kinds |= dict.fromkeys((p.stem for p in sorted((out / "recipes").glob("*.yaml"))), "merge")
    scores: dict[str, Scores] = {}
    on_validation: dict[str, float] = {}
    for name, kind in kinds.items():
        model = AutoModelForCausalLM.from_pretrained(_folder(out, name, kind), dtype=torch.float32).eval()
        scores[name] = memory.scores(model, test)
        if kind == "merge":
            on_validation[name] = mean_over_domains(memory.scores(model, validation))
    best = min(on_validation, key=lambda name: on_validation[name])
    draws = {name: resample(s, settings.seed) for name, s in scores.items()}
    rows = []
    for name, kind in kinds.items():
        weights = hashlib.sha256((_folder(out, name, kind) / "model.safetensors").read_bytes()).hexdigest()
        manifest = _folder(out, name, kind) / "manifest.json"
        recipe = json.loads(manifest.read_text())["recipe_hash"] if kind == "merge" else None
        for task, costs in (scores[name] | {"mean": [mean_over_domains(scores[name])]}).items():
            rows.append(
                {
                    "model": name,
                    "kind": kind,
                    "weights_sha256": weights,
                    "recipe_hash": recipe,
                    "task": task,
                    "score": sum(costs) / len(costs),
                    "interval": interval(draws[name][task]),
                    "minus_base": interval(draws[name][task] - draws["base"][task]),
                    "documents": len(costs) if task != "mean" else sum(len(s) for s in scores[name].values()),
                    "seed": settings.seed,
                    "code": smelt.__version__,
                }
            )
    differences = {name: interval(draws[best]["mean"] - draws[name]["mean"]) for name in ("base", CONTROL)}
    return {
        "rows": rows,
        "best_merge": best,
        "validation_mean": on_validation,
        "chosen": chosen,
        "findings": _findings(rows, best, differences),
        "settings": asdict(settings),
        "data": {
            "digest": corpus.digest,
            "test_bytes_per_domain": EXCERPT * len(next(iter(test.values()))),
            "validation_bytes_per_domain": EXCERPT * len(next(iter(validation.values()))),
            "train_bytes": {name: len(domain.train) for name, domain in corpus.domains.items()},
            "test_documents": {name: domain.documents["test"] for name, domain in corpus.domains.items()},
        },
        "recipes": {p.stem: p.read_text() for p in sorted((out / "recipes").glob("*.yaml"))},
        "versions": {
            "smelt": smelt.__version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "python": platform.python_version(),
        },
    }


def _findings(rows: list[dict[str, Any]], best: str, differences: dict[str, tuple[float, float]]) -> list[str]:
    """What the numbers say, in sentences that the numbers themselves choose."""
    score = {(row["model"], row["task"]): row["score"] for row in rows}
    at_home = sum(score[name, name] < score["base", name] for name in DOMAINS)
    abroad = [(e, d) for e in DOMAINS for d in DOMAINS if e != d]
    worse = sum(score[e, d] > score["base", d] for e, d in abroad)
    expert = min(DOMAINS, key=lambda name: score[name, "mean"])
    return [
        f"{at_home} of {len(DOMAINS)} experts beat the base at home; away from home they are worse than it in "
        f"{worse} of {len(abroad)} cases.",
        f"The best merge on validation text is {best}. On test text it needs {_against(differences['base'])} bits per "
        f"byte than the base in the mean of the domains (95% interval): {score[best, 'mean']:.3f} against "
        f"{score['base', 'mean']:.3f}, and {score[expert, 'mean']:.3f} for the best single expert ({expert}).",
        f"The control {CONTROL}, the base trained on with all three kinds of text for as many steps as one expert, has "
        f"{score[CONTROL, 'mean']:.3f}; the merge needs {_against(differences[CONTROL])} than that.",
    ]


def _against(difference: tuple[float, float]) -> str:
    low, high = difference
    if low > 0:
        return f"{low:.3f} to {high:.3f} more"
    if high < 0:
        return f"{-high:.3f} to {-low:.3f} fewer"
    return f"between {-low:.3f} fewer and {high:.3f} more"


def print_table(results: dict[str, Any]) -> None:
    """Rows are models, columns are kinds of text; a star marks the best merge."""
    tasks = [*DOMAINS, "mean"]
    table: dict[str, dict[str, Any]] = {}
    for row in results["rows"]:
        table.setdefault(row["model"], {"kind": row["kind"]})[row["task"]] = row
    print(f"  {'model':<18}{'kind':<9}" + "".join(f"{task:>16}" for task in tasks))
    previous = None
    for name, entry in table.items():
        if previous not in (None, entry["kind"]):
            print("  " + "-" * (27 + 16 * len(tasks)))
        previous = entry["kind"]
        label = f"{name} *" if name == results["best_merge"] else name
        cells = [(entry[t]["score"], (entry[t]["interval"][1] - entry[t]["interval"][0]) / 2) for t in tasks]
        print(f"  {label:<18}{entry['kind']:<9}" + "".join(f"{score:>10.3f} ±{half:.2f}" for score, half in cells))
    print("  * the best merge on validation text\n")


def _folder(out: Path, name: str, kind: str) -> Path:
    return out / ("merged" if kind == "merge" else "models") / name


def _short(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=lambda text: Path(text).resolve(), default=Path("language-out").resolve())
    parser.add_argument("--fresh", action="store_true", help="train and measure everything again")
    parser.add_argument("--quick", action="store_true", help="a few steps and little text, to see that it runs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
