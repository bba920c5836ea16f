"""Merge five adapters of one language model by TIES, as `smelt merge` does it: seconds and memory of the whole process.

    python benchmarks/language_merge.py                          # the zoo's base and its five specialists
    python benchmarks/language_merge.py --base DIR --rank 4      # five random adapters over any causal model
    python benchmarks/language_merge.py --method average --repeat 5 --json OUT

Random adapters adapt every linear layer of the blocks, in bfloat16 or as 8-bit floats (`--dtype`); their numbers do not
matter to the work that a merge does. Memory is anonymous memory (benchmarks/measure.py): pages of mapped files do not
count. The quickest run counts; how busy the rest of the machine was stands beside it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from measure import measure
from provenance import provenance

DOMAINS = ("instruction", "maths", "multilingual", "coding", "safety")
BASE = "zoo:smollm2-135m-instruct"
ALPHA = 2
SPREAD = 0.02
"""Of random factors: about what training leaves."""


@dataclass(frozen=True)
class Versions:
    """What `provenance` wants to know about a tool."""

    name: str

    def versions(self) -> dict[str, str]:
        from importlib.metadata import version

        return {package: version(package) for package in (self.name, "torch", "safetensors")}


def random_adapters(base: str, rank: int, dtype: str, into: Path) -> dict[str, str]:
    """Five adapters of every linear layer in the base's blocks, written as PEFT writes them."""
    import torch
    from safetensors.torch import save_file

    from smelt.formats.architecture.layout import Layout
    from smelt.models.references import open_ref

    source = open_ref(base)
    shapes = {
        key.removesuffix(".weight"): info.shape
        for key, info in source.tensors.items()
        if Layout.block(key) and Layout.is_matrix(key, info.shape)
    }
    source.close()
    lift = 64.0 if dtype.startswith("float8") else 1.0  # 8-bit floats are coarse near zero; the scaling undoes it
    refs = {}
    for number, domain in enumerate(DOMAINS):
        draw = torch.Generator().manual_seed(number)
        tensors = {}
        for name, (rows, columns) in shapes.items():
            for part, shape in (("A", (rank, columns)), ("B", (rows, rank))):
                values = torch.randn(shape, generator=draw).mul_(SPREAD * lift).to(getattr(torch, dtype))
                tensors[f"base_model.model.{name}.lora_{part}.weight"] = values
        folder = into / domain
        folder.mkdir()
        save_file(tensors, folder / "adapter_model.safetensors")
        config = {
            "peft_type": "LORA",
            "r": rank,
            "lora_alpha": ALPHA * rank / lift**2,
            "target_modules": sorted(shapes),
        }
        (folder / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": base}))
        refs[domain] = f"{base}+{folder}"
    return refs


def run(refs: dict[str, str], base: str, method: str, threads: int | None, repeat: int) -> list[dict[str, Any]]:
    """Each run in a process of its own."""
    words = [f"--model={name}={ref}" for name, ref in refs.items()] + ([f"--threads={threads}"] if threads else [])
    runs = []
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "merged"
        start = [sys.executable, "-c", "from smelt.cli import process; process()"]
        command = [*start, "merge", "-m", method, "--base", base, *words, "-o", str(out), "--quiet"]
        for _ in range(repeat):
            runs.append(asdict(measure(command, output=out)))
            if runs[-1]["error"]:
                raise SystemExit(f"the merge failed: {runs[-1]['error']}")
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="another base than the zoo's, with random adapters")
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32", "float8_e4m3fn"))
    parser.add_argument("--method", default="ties")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        if given.base:
            base, refs = given.base, random_adapters(given.base, given.rank, given.dtype, Path(place))
            what = {"adapters": "random", "rank": given.rank, "dtype": given.dtype}
        else:
            base, refs = BASE, {domain: f"zoo:llm5-{domain}" for domain in DOMAINS}
            what = {"adapters": "zoo:llm5"}
        runs = run(refs, base, given.method, given.threads, given.repeat)
    best = min(runs, key=lambda one: one["wall_s"])
    found = {
        "provenance": provenance([Versions("smelt")], seed=0),
        "method": given.method,
        "models": len(refs),
        **what,
        "wall_s": round(best["wall_s"], 2),
        "cpu_s": round(best["user_s"] + best["system_s"], 2),
        "other_cpu_s": round(best["other_cpu_s"], 2),
        "peak_anon_mb": round(max(one["peak_anon_bytes"] for one in runs) / 1e6, 1),
        "runs": runs,
    }
    text = json.dumps(found, indent=2)
    if given.json:
        given.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
