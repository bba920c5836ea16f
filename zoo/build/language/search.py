"""Which recipe the shipped specialists are trained by: every one on the five validation tasks, and the criteria on that.

    python zoo/build/language/search.py --trained FOLDER --base REF [--device cuda] [--workers 8]

`--trained` is what train_recipes.py wrote. Each adapter is rounded as it would be shipped (lowrank.py), the plain average of the
five is made, and base, specialists and average answer `llm5-val`. Writes FOLDER/search.json: scores, what the criteria
of recipes.yaml say of each recipe, and which is chosen.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import mean
from typing import Any

import yaml

sys.path.append(str(Path(__file__).resolve().parents[1]))

from examples import DOMAINS
from lowrank import place_adapter
from train_recipes import RECIPES, recipes

Scores = dict[str, dict[str, float]]
"""Model → validation task → share."""
TASKS = tuple(f"{domain}-val" for domain in DOMAINS)


def judged(scores: Scores, limits: dict[str, float]) -> dict[str, Any]:
    """What the criteria say of one recipe; `scores` has `base`, the five domains and `average`.

    >>> flat = {task: 0.0 for task in TASKS}
    >>> better = {"base": flat, **{one: {**flat, f"{one}-val": 0.4} for one in DOMAINS}, "average": dict.fromkeys(TASKS, 0.1)}
    >>> judged(better, {"own": 0.1, "mean_own": 0.2, "others": 0.1, "worst": 0.1, "kept": 0.5})["fails"]
    ['kept']
    """
    base = scores["base"]
    own = {one: scores[one][f"{one}-val"] - base[f"{one}-val"] for one in DOMAINS}
    lost = {one: {task: base[task] - scores[one][task] for task in TASKS if task != f"{one}-val"} for one in DOMAINS}
    gain = mean(own.values())
    of_average = mean(scores["average"][task] - base[task] for task in TASKS)
    kept = of_average / gain if gain > 0 else 0.0
    tests = {
        "own": min(own.values()) >= limits["own"],
        "mean_own": gain >= limits["mean_own"],
        "others": max(mean(each.values()) for each in lost.values()) <= limits["others"],
        "worst": max(max(each.values()) for each in lost.values()) <= limits["worst"],
        "kept": kept >= limits["kept"],
    }
    return {
        "own_gain": {one: round(value, 4) for one, value in own.items()},
        "mean_gain": round(gain, 4),
        "others_loss": {one: round(mean(each.values()), 4) for one, each in lost.items()},
        "worst_loss": {one: round(max(each.values()), 4) for one, each in lost.items()},
        "average_gain": round(of_average, 4),
        "kept": round(kept, 4),
        "meets": all(tests.values()),
        "fails": [name for name, passed in tests.items() if not passed],
    }


def chosen_of(judgements: dict[str, dict[str, Any]]) -> str | None:
    """Of the recipes that meet all criteria the one that gains most."""
    meeting = {name: found["mean_gain"] for name, found in judgements.items() if found["meets"]}
    return max(meeting, key=lambda name: meeting[name]) if meeting else None


def asked(ref: str, device: str, dtype: str, limit: int | None) -> dict[str, float]:
    import smelt

    words = {"split": "val", "device": device, "dtype": dtype, "limit": limit}
    return {row.task: row.accuracy for row in smelt.evaluate(ref, tasks=list(TASKS), **words)}


def averaged(folder: Path, base: str) -> str:
    """The plain average of the five placed specialists."""
    import smelt

    models = {one: str(folder / f"placed-{one}") for one in DOMAINS}
    out = folder / "average"
    smelt.merge(models, base=base, method="average", include=["model.layers.*"], out=out, force=True)
    return str(out)


def search(
    trained: Path, base: str, names: list[str], device: str, dtype: str, workers: int, limit: int | None
) -> dict:
    refs: dict[tuple[str, str], str] = {("", "base"): base}
    for name in names:
        folder = trained / name
        for domain in DOMAINS:
            place_adapter(folder / domain, folder / f"placed-{domain}", base, task_type="CAUSAL_LM")
            refs[name, domain] = str(folder / f"placed-{domain}")
        refs[name, "average"] = averaged(folder, base)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        running = {who: pool.submit(asked, ref, device, dtype, limit) for who, ref in refs.items()}
        found = {who: future.result() for who, future in running.items()}
    content = yaml.safe_load(RECIPES.read_text(encoding="utf-8"))
    lines, judgements = [], {}
    for recipe in recipes(names):
        scores = {"base": found["", "base"], **{who: found[recipe.name, who] for who in (*DOMAINS, "average")}}
        judgements[recipe.name] = judged(scores, content["criteria"])
        words = {"name": recipe.name, "share": recipe.share, "steps": recipe.steps, "batch": recipe.batch}
        words |= {"learning_rate": recipe.rate, "rank": recipe.rank, "scores": scores}
        lines.append({**words, **judgements[recipe.name]})
    return {"criteria": content["criteria"], "recipes": lines, "chosen": chosen_of(judgements)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trained", type=Path, required=True)
    parser.add_argument("--base", default="zoo:smollm2-135m-instruct")
    parser.add_argument("--recipe", action="append", help="only these")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--limit", type=int, help="examples of each task, to try it out")
    given = parser.parse_args()
    names = given.recipe or [one.name for one in recipes() if (given.trained / one.name).is_dir()]
    words = (given.device, given.dtype, given.workers, given.limit)
    found = search(given.trained, given.base, names, *words)
    (given.trained / "search.json").write_text(json.dumps(found, indent=1) + "\n")
    for line in found["recipes"]:
        print(
            f"{line['name']}: gain {line['mean_gain']:.3f}, kept {line['kept']:.2f}, fails {line['fails']}", flush=True
        )
    print(f"chosen: {found['chosen']}", flush=True)


if __name__ == "__main__":
    main()
