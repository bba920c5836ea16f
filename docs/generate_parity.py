"""The parity table of docs/mergekit.md, from results/parity.json.

python docs/generate_parity.py            rewrites the block between the two comments
python docs/generate_parity.py --check    exit code 1 if the page is out of date
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE, RESULTS = ROOT / "docs" / "mergekit.md", ROOT / "results" / "parity.json"
BEGIN, END = "<!-- parity:begin (docs/generate_parity.py writes this) -->", "<!-- parity:end -->"


def main(arguments: list[str]) -> int:
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    new = f"{before}{BEGIN}\n\n{table(json.loads(RESULTS.read_text()))}\n{END}{after}"
    if "--check" in arguments:
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    return 0


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
    return "\n".join(lines) + "\n"


def _score(rows: list[dict[str, Any]]) -> str:
    return f"{sum(row['verdict'] == 'same' for row in rows)} of {len(rows)} the same" if rows else ""


def _number(value: float | None) -> str:
    return "" if value is None else "0" if value == 0 else f"{value:.0e}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
