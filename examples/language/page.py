"""One page that needs nothing else: the table, a chart of what each model gained or lost, and the recipes."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

__all__ = ["write_page"]

_TITLES = {"prose": "English prose", "python": "Python source", "cpp": "C++ headers", "mean": "Mean"}
_GROUPS = {"base": "Base", "expert": "Experts", "control": "Control", "merge": "Merges"}

_STYLE = """
:root { color-scheme: light dark; --paper: #fbfaf8; --card: #fff; --ink: #22252b; --soft: #6b7280; --line: #e4e1db;
  --better: #1f8a70; --worse: #c4573a; --mark: #e8f4f0; }
@media (prefers-color-scheme: dark) { :root { --paper: #15171b; --card: #1d2026; --ink: #e7e8ea; --soft: #9aa1ac;
  --line: #31353d; --better: #45c2a0; --worse: #ee8765; --mark: #1d332d; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, "Segoe UI", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.1rem; margin: 2.4rem 0 .7rem; }
p, li { max-width: 46rem; } .soft { color: var(--soft); } ul { padding-left: 1.2rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .42rem .9rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { font-weight: 600; border-bottom: 1px solid var(--line); }
tr.group th { text-align: left; color: var(--soft); font-size: .78rem; font-weight: 600; padding-top: .85rem;
  padding-bottom: .1rem; text-transform: uppercase; letter-spacing: .06em; }
tr.best td { background: var(--mark); } td small { color: var(--soft); font-weight: 400;
  margin-left: .3rem; }
td.top { font-weight: 700; }
.chart { padding: 1rem; } svg { display: block; width: 100%; min-width: 44rem; height: auto; }
svg text { fill: var(--ink); font: 12px system-ui, "Segoe UI", sans-serif; }
svg .soft { fill: var(--soft); } svg .head { font-weight: 600; } svg .axis { stroke: var(--line); }
svg .zero { stroke: var(--soft); } svg .better { fill: var(--better); } svg .worse { fill: var(--worse); }
svg .whisker { stroke: var(--ink); stroke-width: 1.2; } svg .mark { fill: var(--mark); }
.key { display: inline-block; width: .75em; height: .75em; border-radius: 2px; margin: 0 .3em 0 .8em; }
details { border-bottom: 1px solid var(--line); } summary { cursor: pointer; padding: .5rem 0; }
pre { margin: 0 0 .8rem; padding: .8rem 1rem; overflow-x: auto; font-size: .85rem; background: var(--card);
  border: 1px solid var(--line); border-radius: .5rem; }
"""


def write_page(results: dict[str, Any], file: Path) -> None:
    """Draw the results that `demo.py` gathered; nothing is computed here but positions."""
    rows: dict[str, dict[str, Any]] = {}
    for row in results["rows"]:
        rows.setdefault(row["model"], {})[row["task"]] = row
    data, settings = results["data"], results["settings"]
    findings = "".join(f"<li>{escape(sentence)}</li>" for sentence in results["findings"])
    recipes = "".join(_recipe(name, text, results["chosen"].get(name)) for name, text in results["recipes"].items())
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Smelt demo</title><style>{_STYLE}</style></head><body><main>
<h1>Three experts, one model</h1>
<p class="soft">A small byte-level Llama was trained on three kinds of text, then three experts were trained from it,
one on each kind. Smelt merged the experts. Numbers are bits per byte on documents that no model was trained on:
fewer is better.</p>
<ul>{findings}</ul>
<h2>Bits per byte on test text</h2>
<div class="card">{_table(rows, results["best_merge"])}</div>
<p class="soft">± is half of the 95% interval over {rows["base"]["prose"]["documents"]} documents per kind of text.
Bold: the fewest bits in the column. Shaded: the best merge on validation text.</p>
<h2>Change from the base, in bits per byte</h2>
<div class="card chart">{_chart(rows, results["best_merge"])}</div>
<p class="soft"><span class="key" style="background:var(--better);margin-left:0"></span>fewer bits than the base
<span class="key" style="background:var(--worse)"></span>more bits than the base. Whiskers: 95% interval of the
difference on the same documents.</p>
<h2>The recipes, with the values chosen on validation text</h2>
{recipes}
<h2>How it was made</h2>
<p class="soft">{settings["layers"]} layers of width {settings["hidden"]}; {settings["base_steps"]} steps for the base,
{settings["expert_steps"]} for each expert and for the control, which trains on all three kinds of text;
{settings["batch"]} windows of 128 bytes a step. Test text: {data["test_bytes_per_domain"]:,} bytes per kind; validation
text: {data["validation_bytes_per_domain"]:,}; no document is in two splits. Seed {settings["seed"]}; text
{data["digest"][:12]}; {escape(versions)}.</p>
</main></body></html>
"""
    file.write_text(page, encoding="utf-8")


def _table(rows: dict[str, dict[str, Any]], best: str) -> str:
    fewest = {task: min(entry[task]["score"] for entry in rows.values()) for task in _TITLES}
    lines, kind = [], None
    for name, entry in rows.items():
        if entry["mean"]["kind"] != kind:
            kind = entry["mean"]["kind"]
            lines.append(f'<tr class="group"><th colspan="{len(_TITLES) + 1}">{_GROUPS[kind]}</th></tr>')
        cells = "".join(_cell(entry[task], fewest[task]) for task in _TITLES)
        lines.append(f"<tr{' class=best' if name == best else ''}><td>{escape(name)}</td>{cells}</tr>")
    heads = "".join(f"<th>{title}</th>" for title in _TITLES.values())
    return f"<table><thead><tr><th>Model</th>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _cell(row: dict[str, Any], fewest: float) -> str:
    half = (row["interval"][1] - row["interval"][0]) / 2
    top = ' class="top"' if row["score"] == fewest else ""
    return f"<td{top}>{row['score']:.3f}<small>±{half:.2f}</small></td>"


def _chart(rows: dict[str, dict[str, Any]], best: str) -> str:
    """One panel per column of the table; bars leave the base's line to the left (fewer bits) or the right (more)."""
    names = [name for name in rows if name != "base"]
    reach = max(abs(edge) for name in names for task in _TITLES for edge in rows[name][task]["minus_base"])
    left, panel, gap, top, step = 125, 185, 16, 34, 25
    unit = panel / 2 / (reach * 1.05)
    height = top + step * len(names)
    parts = []
    if best in names:
        y = top + step * names.index(best)
        parts.append(f'<rect class="mark" x="0" y="{y}" width="{left + 4 * (panel + gap)}" height="{step}" rx="4"/>')
    for row, name in enumerate(names):
        parts.append(f'<text x="8" y="{top + step * row + 17}">{escape(name)}</text>')
    tick = next(t for t in (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.0) if t < reach)
    for column, (task, title) in enumerate(_TITLES.items()):
        centre = left + column * (panel + gap) + panel / 2
        parts.append(f'<text class="head" x="{centre}" y="16" text-anchor="middle">{title}</text>')
        for value in (-tick, 0.0, tick):
            x, label = centre + value * unit, f"{value:+.2g}" if value else "0"
            parts.append(
                f'<line class="{"axis" if value else "zero"}" x1="{x}" x2="{x}" y1="{top - 8}" y2="{height}"/>'
            )
            parts.append(f'<text class="soft" x="{x}" y="{height + 16}" text-anchor="middle">{label}</text>')
        for row, name in enumerate(names):
            change = rows[name][task]["score"] - rows["base"][task]["score"]
            low, high = (centre + edge * unit for edge in rows[name][task]["minus_base"])
            y = top + step * row
            parts.append(
                f'<rect class="{"better" if change < 0 else "worse"}" x="{centre + min(0.0, change) * unit:.1f}" '
                f'y="{y + 5}" width="{abs(change) * unit:.1f}" height="{step - 10}" rx="2">'
                f"<title>{escape(name)}, {title}: {change:+.3f}</title></rect>"
                f'<line class="whisker" x1="{low:.1f}" x2="{high:.1f}" y1="{y + step / 2}" y2="{y + step / 2}"/>'
            )
    width = left + 4 * (panel + gap)
    return (
        f'<svg viewBox="0 0 {width} {height + 24}" role="img" aria-label="Change from the base">{"".join(parts)}</svg>'
    )


def _recipe(name: str, text: str, chosen: dict[str, Any] | None) -> str:
    note = f" — {escape(chosen['parameter'])} = {chosen['value']:g}" if chosen else " — taken as it is"
    return (
        f"<details><summary>{escape(name)}<span class=soft>{note}</span></summary><pre>{escape(text)}</pre></details>"
    )
