"""A merged model behind llama.cpp's server against the same model in torch: document by document.

    sh tests/install-llama-cpp.sh                                  # once: builds llama-server
    python benchmarks/served_models.py --json results/served_models.json

Two specialists of the zoo are merged, written as GGUF files and served; the folder of the merge is evaluated in torch
in float32, both on one thread. For every task: both scores, the share of documents on which both are right or both
wrong, the difference of the scores with its 95 % interval (a bootstrap over documents, paired), and how far
log-likelihoods lie apart.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provenance import provenance
from result_file import save, say

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from llama_server import INSTALL, llama_server, serving_gguf

BASE = "zoo:smollm2-135m-instruct"
MODELS = ("zoo:llm5-maths", "zoo:llm5-multilingual")
RECIPE: dict[str, Any] = {"base": BASE, "models": MODELS, "method": "task_arithmetic", "scale": 0.5}
TASKS = {"maths": 60, "general-openbookqa": 100, "multilingual-choice": 10}
"""Examples of each: sums answered in words; answers chosen by log-likelihood, plain and in a chat."""
TYPES = ("f16", "q8_0")


@dataclass(frozen=True)
class Program:
    """What `provenance` wants to know about a tool."""

    name: str
    version: str

    def versions(self) -> dict[str, str]:
        return {self.name: self.version}


def merged(into: Path) -> Path:
    """The merge of the two specialists."""
    import smelt

    smelt.merge(list(MODELS), base=BASE, method=RECIPE["method"], scale=RECIPE["scale"], out=into / "merged")
    return into / "merged"


def compared(here: Any, there: Any) -> dict[str, Any]:
    """Two evaluations of one task on the same documents."""
    from smelt.tasks.intervals import bootstrap

    (one,), (other,) = here.results, there.results
    differences = [b - a for a, b in zip(one.scores, other.scores, strict=True)]
    low, high = bootstrap(differences)
    found = {
        "n": len(differences),
        "metric": one.metric,
        "torch": one.accuracy,
        "torch_interval": list(here.rows[0].model_dump(include={"low", "high"}).values()),
        "served": other.accuracy,
        "served_interval": list(there.rows[0].model_dump(include={"low", "high"}).values()),
        "difference": statistics.fmean(differences),
        "difference_interval": [low, high],
        "same_verdict": sum(difference == 0 for difference in differences) / len(differences),
        "torch_seconds": round(one.seconds, 1),
        "served_seconds": round(other.seconds, 1),
    }
    replies = [[sample["filtered_resps"] for sample in result.samples] for result in (one, other)]
    if isinstance(replies[0][0][0], str):
        found["same_text"] = sum(a == b for a, b in zip(*replies, strict=True)) / len(differences)
    else:
        pairs = [pair for mine, theirs in zip(*replies, strict=True) for pair in zip(mine, theirs, strict=True)]
        apart = [abs(a[0] - b[0]) for a, b in pairs]
        found["log_likelihoods_apart"] = {"median": statistics.median(apart), "most": max(apart)}
    return found


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--json", type=Path, help="where the result goes")
    words.add_argument("--share", type=float, default=1.0, help="of the documents")
    given = words.parse_args()
    program = llama_server()
    if program is None:
        raise SystemExit(f"no llama-server is installed; run `{INSTALL}`")
    import smelt
    from smelt.prepare.evaluate import evaluate_model_or_recipe

    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    version = (told.stdout + told.stderr).strip().splitlines()[0]
    results: dict[str, Any] = {"provenance": provenance([Program("llama.cpp", version)], 0), "merge": RECIPE}
    with tempfile.TemporaryDirectory() as scratch:
        folder = merged(Path(scratch))
        limits = {task: max(1, int(given.share * limit)) for task, limit in TASKS.items()}
        here = {}
        for task, limit in limits.items():
            say(f"torch: {task}")
            here[task] = evaluate_model_or_recipe(str(folder), task, limit=limit, threads=1)
        for kind in TYPES:
            file = Path(scratch) / f"merged-{kind}.gguf"
            smelt.export(str(folder), out=file, type=kind)
            with serving_gguf(program, file, "merged") as url:
                for task, limit in limits.items():
                    say(f"{kind}: {task}")
                    there = evaluate_model_or_recipe(url, task, served_name="merged", limit=limit)
                    results.setdefault("served", {})[kind] = {
                        **there.rows[0].served,
                        "url": "http://127.0.0.1/v1",  # the port is another one each time
                    }
                    results.setdefault("types", {}).setdefault(kind, {})[task] = compared(here[task], there)
                    save(given.json, results)


if __name__ == "__main__":
    main()
