"""The parity table of docs/how-to/mergekit.md, from results/parity.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results" / "parity.json"


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    return {"how-to/mergekit.md": {"parity": table(json.loads(RESULTS.read_text(encoding="utf-8")))}}


def table(results: dict[str, Any]) -> str:
    """One line per method; then every case that is not plainly the same, with its reason."""
    rows = results["rows"]
    theirs, ours = results["versions"]["mergekit"], results["versions"]["smelt"]
    lines = [
        f"mergekit {theirs['mergekit']} (torch {theirs['torch']}) and Smelt {ours['smelt']} (torch {ours['torch']}), "
        f"{len(rows)} comparisons.",
        "",
        "| method | compared number by number | largest difference | relative to the tensor | in distribution |",
        "|---|---|---|---|---|",
    ]
    for method in dict.fromkeys(row["method"] for row in rows if row["kind"] != "refused"):
        exact = [r for r in rows if r["method"] == method and r["kind"] == "exact" and r["tolerance"] is not None]
        float32 = [r for r in exact if r["tolerance"] < 1e-4]
        chance = [r for r in rows if r["method"] == method and r["kind"] == "distribution"]
        absolute, relative = (max((r[key] for r in float32), default=None) for key in ("max_absolute", "max_relative"))
        lines.append(f"| {method} | {_score(exact)} | {_number(absolute)} | {_number(relative)} | {_score(chance)} |")
    lines += [
        "",
        "Cases with a remark:",
        "",
        "| method | case | models | relative difference | outcome |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        if row["note"] or row["verdict"] not in ("same", "refused by both", "refused by Smelt alone"):
            outcome = row["verdict"] + (f": {row['note']}" if row["note"] else "")
            lines.append(
                f"| {row['method']} | {row['case']} | {row['models']} | {_number(row['max_relative'])} | {outcome} |"
            )
    for verdict in ("refused by Smelt alone", "refused by both"):
        cases = [f"{row['case']} ({row['method']})" for row in rows if row["verdict"] == verdict]
        lines += ["", f"{verdict.replace('refused', 'Refused', 1)}: {'; '.join(cases)}."]
    return "\n".join(lines)


def _score(rows: list[dict[str, Any]]) -> str:
    return f"{sum(row['verdict'] == 'same' for row in rows)} of {len(rows)} the same" if rows else ""


def _number(value: float | None) -> str:
    return "" if value is None else "0" if value == 0 else f"{value:.0e}"
