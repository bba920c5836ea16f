"""The zoo's tasks and models as tables: blocks for docs/reference/zoo.md.

From the cards, the records of the training runs (zoo/build/records), the packs, and the committed rows: results/clip8
for clip-tiny and its first experts, results/zoo for the other models.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
import runpy
import textwrap
from pathlib import Path
from typing import Any

import smelt_zoo

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "zoo" / "build" / "records"
FOLDERS = {**smelt_zoo.models(), **smelt_zoo.language_models(), **smelt_zoo.multimodal_models()}
RESULTS = ROOT / "results" / "zoo" / "rows.jsonl"
CLIP8: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("clip8.py")))
FAMILIES = {
    "`zoo:clip-tiny`": ("clip-tiny", "the base, a ViT"),
    "`zoo:clip-tiny-TASK`": ("clip-tiny-{}", "its experts"),
    "`zoo:clip-tiny-TASK-b`": ("clip-tiny-{}-b", "a second set of them, on other pictures"),
    "`zoo:clip-tiny-rn`": ("clip-tiny-rn", "a convolutional base, with BatchNorm"),
    "`zoo:clip-tiny-rn-TASK`": ("clip-tiny-rn-{}", "its experts"),
    "`zoo:clip-tiny-rn-TASK-own`": ("clip-tiny-rn-{}-own", "experts of other origin, for six tasks"),
    "`zoo:clip-mini`": ("clip-mini", "a smaller ViT, for the hub"),
    "`zoo:clip-mini-MIXTURE`": ("clip-mini-{}", "after more pictures of a few kinds"),
    "`zoo:clip-mini-TASK-expert`": ("clip-mini-{}-expert", "experts of the smaller ViT"),
    "`zoo:clip-small`": ("clip-small", "a ViT between the two; its text tower is clip-tiny's"),
    "`zoo:clip-small-TASK`": ("clip-small-{}", "its experts"),
    "`zoo:clip-tiny-reader`": ("clip-tiny-reader", "clip-tiny with a text tower that reads definitions"),
    "`zoo:clip-tiny-rn-reader`": ("clip-tiny-rn-reader", "the same for the convolutional base"),
}
MIXTURES = ("icons", "emoji", "sketches", "photos", "signs")
HELD_OUT = {
    "photos": "the official test split",
    "digits": "the official test split",
    "clothing": "the official test split",
    "sketches": "drawings",
    "emoji": "other vendors",
    "flags": "other drawings",
    "letters": "other font families",
    "icons": "icon sets of other authors",
}
DISTRIBUTIONS = ("smelt_zoo", "smelt_zoo_more")
QUESTIONS = ("mllm10", "mllm10-out", "mllm10-val")


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    made = {
        "families": families(),
        "models": models(),
        "second": second(),
        "convolutional": convolutional(),
        "sizes": by_size(),
        "packing": packing(),
        "tasks": tasks(),
        "specialists": specialists(),
        "language-tasks": language_tasks(),
        "seeing": seeing(),
        "question-sets": question_sets(),
    }
    return {"reference/zoo.md": made}


def tasks() -> str:
    """The zoo's tasks with what their cards say."""
    from smelt.tasks.pictures.splits import count
    from smelt.tasks.pictures.task import PictureTask

    lines = [
        "| task | classes | train / val / test | held out | source | licence |",
        "|---|---:|---:|---|---|---|",
    ]
    for name in CLIP8["grid"]().tasks:
        task = PictureTask.load(smelt_zoo.tasks()[name])
        sizes = " / ".join(f"{count(task, split):,}" for split in task.splits)
        facts = dict(re.findall(r"^- ([\w -]+): (.*)$", task.readme, re.M))
        cells = [name, str(len(task.classes)), sizes, HELD_OUT[name], facts["source"], facts["licence"]]
        lines.append(CLIP8["_row"](cells))
    return "\n".join(lines)


def specialists() -> str:
    """The adapters over the language model: how they were trained, and what rounding moved."""
    lines = [
        "| model | examples | steps | learning rate | rank | loss of the base | of the adapter | moved by rounding "
        "| size | time |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    trained = [path for path in RECORDS.glob("llm5*-*.json") if path.stem in FOLDERS]  # others are about all of them
    for path in sorted(trained, key=lambda path: ("multitask" in path.stem, path.stem)):
        kept = training(path.stem)
        loss = kept["held_out_loss"]
        cells = [
            f"`zoo:{path.stem}`",
            f"{kept['examples']:,}",
            f"{kept['steps']:,} of {kept['batch']}",
            f"{kept['learning_rate']:g}",
            f"{kept['rank']}",
            f"{loss['base']:.2f}",
            f"{loss['adapter']:.2f}",
            f"{100 * kept['rounding']['relative_error']:.1f} %",
            f"{megabytes(path.stem):.1f} MB",
            f"{kept['seconds'] / 60:.1f} min",
        ]
        lines.append(CLIP8["_row"](cells))
    return "\n".join(lines)


def language_tasks() -> str:
    """The language tasks with their sizes and scores."""
    from smelt.tasks.language.task import LanguageTask

    lines = ["| task | what | train / val / test | score |", "|---|---|---:|---|"]
    for folder in smelt_zoo.language().values():
        task = LanguageTask.load(folder)
        sizes = " / ".join(
            f"{task.count(split):,}" if split in task.splits else "–" for split in ("train", "val", "test")
        )
        lines.append(CLIP8["_row"]([task.name, task.title, sizes, f"`{task.metric}`"]))
    return "\n".join(lines)


def seeing() -> str:
    """The adapters over the tiny LLaVA: how they were trained, and mean accuracies on groups of question sets."""
    from smelt.evaluation.row import read_rows
    from smelt.tasks.groups import GROUPS

    rows: dict[str, dict[str, float]] = {}
    for row in read_rows(RESULTS.with_name("multimodal.jsonl")):
        rows.setdefault(str(row.model).removeprefix("zoo:"), {})[row.task] = row.accuracy
    lines = [
        "| model | questions | steps | learning rate | moved by rounding | size | held-in | held-out | validation |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name in sorted(rows, key=lambda name: (name != "llava-tiny", name.endswith("joint"), name)):
        means = [sum(rows[name][one] for one in GROUPS[group]) / len(GROUPS[group]) for group in QUESTIONS]
        made = ["", "", "", "", ""]
        if name != "llava-tiny":
            kept = training(name)
            made = [
                f"{kept['examples']:,}",
                f"{kept['steps']:,} of {kept['batch']}",
                f"{kept['learning_rate']:g}",
                f"{100 * kept['rounding']['relative_error']:.1f} %",
                f"{1000 * megabytes(name):.0f} kB",
            ]
        lines.append(CLIP8["_row"]([f"`zoo:{name}`", *made, *(f"{100 * mean:.1f} %" for mean in means)]))
    return "\n".join(lines)


def question_sets() -> str:
    """The question sets, and what guessing gets."""
    from smelt.tasks.groups import GROUPS
    from smelt.tasks.registry import find_task

    lines = ["| set | group | what | questions | guessing |", "|---|---|---|---:|---:|"]
    for group in QUESTIONS:
        for name in GROUPS[group]:
            task = find_task(name)
            found = task.questions(task.splits[0])
            chance = sum(1 / (len(one.options) + 2) for one in found) / len(found)
            lines.append(CLIP8["_row"]([name, f"`{group}`", task.title, f"{len(found)}", f"{100 * chance:.1f} %"]))
    return "\n".join(lines)


def families() -> str:
    """What there is, how it is stored, and how much room it takes."""
    lines = ["| name | what | models | stored as | size of one | of all |", "|---|---|---:|---|---:|---:|"]
    for name, (pattern, what) in FAMILIES.items():
        words = [*CLIP8["grid"]().tasks, *MIXTURES]
        members = [pattern.format(word) for word in words if pattern.format(word) in FOLDERS]
        if not members:  # not made yet
            continue
        sizes = [megabytes(member) for member in dict.fromkeys(members)]
        stored = f"{note(members[0])['bits']}-bit changes" if "{}" in pattern else "half precision"
        if (FOLDERS[members[0]] / "origin.json").is_file():
            stored += ", one tower"
        cells = [name, what, f"{len(sizes)}", stored, f"{sizes[0]:.1f} MB", f"{sum(sizes):.1f} MB"]
        lines.append(CLIP8["_row"](cells))
    zoo, more = (size_of(name) for name in DISTRIBUTIONS)
    lines.append(CLIP8["_row"](["`zoo/`, with pictures and the other files", "", "", "", "", f"{zoo:.0f} MB"]))
    lines.append(CLIP8["_row"](["`zoo-more/`, likewise", "", "", "", "", f"{more:.0f} MB"]))
    return "\n".join(lines)


def size_of(package: str) -> float:
    """Megabytes of all files that a distribution's lock names."""
    home = Path(str(importlib.import_module(package).__file__)).parent
    return sum((home / name).stat().st_size for name in json.loads((home / "lock.json").read_text())) / 1e6


def models() -> str:
    """Each expert on its own task before and after packing, the largest change on any task, and the pack itself."""
    lines = [
        "| model | before packing | packed | largest change on any task | error of the change | size | on `test` now |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    size = megabytes("clip-tiny")
    base = 100 * CLIP8["line"]("pretrained", "reference").average.accuracy
    lines.append(CLIP8["_row"](["`zoo:clip-tiny`, mean of all", "", "", "", "", f"{size:.1f} MB", f"{base:.1f}"]))
    for task in CLIP8["grid"]().tasks:
        change = packing_change(task)
        worst = max(change, key=lambda one: abs(change[one]))
        error = note(f"clip-tiny-{task}")["error"]["relative"]
        size = megabytes(f"clip-tiny-{task}")
        lines.append(
            CLIP8["_row"](
                [
                    f"`zoo:clip-tiny-{task}`",
                    f"{training()['accuracy'][task][task]:.1f}",
                    f"{training()['packed'][task][task]:.1f}",
                    f"{change[worst]:+z.2f} ({worst})",
                    f"{error:.3f}",
                    f"{size:.1f} MB",
                    f"{first_expert(task):.1f}",
                ]
            )
        )
    return "\n".join(lines)


def second() -> str:
    """The second set of experts beside the first, each on its own task."""
    lines = ["| task | end of training | as shipped | first expert, as shipped |", "|---|---:|---:|---:|"]
    shipped, first = [], []
    for task in CLIP8["grid"]().tasks:
        name = f"clip-tiny-{task}-b"
        shipped.append(on_test(name, task))
        first.append(first_expert(task))
        lines.append(CLIP8["_row"]([task, trained(name, task), f"{shipped[-1]:.2f}", f"{first[-1]:.2f}"]))
    means = [f"{sum(numbers) / len(numbers):.2f}" for numbers in (shipped, first)]
    lines.append(CLIP8["_row"](["mean", "", *means]))
    return "\n".join(lines)


def convolutional() -> str:
    """The convolutional base and its experts on each task, and those of other origin."""
    lines = [
        "| task | base | expert, end of training | as shipped | other origin, end of training | as shipped |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for task in CLIP8["grid"]().tasks:
        cells = [task, f"{on_test('clip-tiny-rn', task):.2f}"]
        for name in (f"clip-tiny-rn-{task}", f"clip-tiny-rn-{task}-own"):
            there = name in FOLDERS
            cells += [trained(name, task), f"{on_test(name, task):.2f}"] if there else ["", ""]
        lines.append(CLIP8["_row"](cells))
    return "\n".join(lines)


def by_size() -> str:
    """Base and expert of each of the three sizes on each task, as shipped."""
    families = {"clip-mini": "clip-mini-{}-expert", "clip-small": "clip-small-{}"}
    missing = [base for base, expert in families.items() if expert.format("photos") not in FOLDERS]
    if missing:
        return "\n\n".join(f"{base}: not made yet: `python zoo/build/sizes.py -o trained`." for base in missing)
    head = [cell for base in (*families, "clip-tiny") for cell in (base, "expert")]
    lines = [CLIP8["_row"](["task", *head]), CLIP8["_row"](["---", *["---:"] * len(head)])]
    tiny = {row.task: 100 * row.accuracy for row in CLIP8["rows"]() if row.entry == "pretrained"}
    rows = []
    for task in CLIP8["grid"]().tasks:
        pairs = [(on_test(base, task), on_test(expert.format(task), task)) for base, expert in families.items()]
        rows.append([number for pair in (*pairs, (tiny[task], first_expert(task))) for number in pair])
        lines.append(CLIP8["_row"]([task, *(f"{number:.2f}" for number in rows[-1])]))
    means = [f"{sum(numbers) / len(numbers):.2f}" for numbers in zip(*rows, strict=True)]
    return "\n".join([*lines, CLIP8["_row"](["mean", *means])])


def packing() -> str:
    """What packing did to models that were trained through the codes, in one sentence."""
    changes = {}
    for record in ("second", "resnet-experts", "resnet-others", "mini-experts", "sizes"):
        kept = training(record) if (RECORDS / f"{record}.json").is_file() else {"packed": {}}
        for name, after in kept["packed"].items():
            if after is not None:
                task = next(word for word in reversed(name.split("-")) if word in CLIP8["grid"]().tasks)
                packed = after[task] if isinstance(after, dict) else after
                changes[name] = packed - kept["accuracy"][name][task]
    worst = min(changes, key=lambda name: changes[name])
    error = max(note(name)["error"]["relative"] for name in changes)
    said = (
        f"Of the {len(changes)} models whose run kept both numbers, `{worst}` lost most by being packed: "
        f"{abs(changes[worst]):.2f} points. The error of the change is at most {error:.4f}."
    )
    return textwrap.fill(said, 120)


def on_test(name: str, task: str) -> float:
    """Accuracy in % of a model of results/zoo or of clip8 in other sizes, on all test pictures."""
    return zoo_rows()[f"zoo:{name}", task]


@functools.cache
def zoo_rows() -> dict[tuple[str, str], float]:
    """(model, task) → accuracy in %, of `smelt eval zoo:NAME --tasks clip8` and of clip8 in other sizes."""
    from smelt.evaluation.row import Row, read_rows

    suites = [RESULTS.parents[1] / suite / "rows.jsonl" for suite in ("clip8-mini", "clip8-small")]
    files = [RESULTS, *(file for file in suites if file.is_file())]
    rows = [row for file in files for row in read_rows(file) if isinstance(row, Row)]
    alone = [row for row in rows if row.variant in ("reference", "single") and row.split == "test"]
    return {(row.model, row.task): 100 * row.accuracy for row in alone}


def first_expert(task: str) -> float:
    """Accuracy in % of an expert of the first set on its own task, on today's test pictures."""
    rows = CLIP8["rows"]()
    return next(100 * row.accuracy for row in rows if (row.entry, row.task) == (f"expert-{task}", task))


def trained(name: str, task: str) -> str:
    """Accuracy in % at the end of the training run, before packing, where the run kept it."""
    record = "second" if name.endswith("-b") else "resnet-others" if name.endswith("-own") else "resnet-experts"
    kept = training(record)["accuracy"][name]
    return f"{kept[task]:.2f}" if kept else "not kept"


def note(name: str) -> dict[str, Any]:
    """What the pack of a model says of itself."""
    found: dict[str, Any] = json.loads((FOLDERS[name] / "delta.json").read_text())
    return found


def megabytes(name: str) -> float:
    """Of a model's weights, as they are stored: with a pack's note, as `smelt models` counts."""
    files = [*FOLDERS[name].glob("*.safetensors"), *FOLDERS[name].glob("delta.json")]
    return sum(path.stat().st_size for path in files) / 1e6


@functools.cache
def training(record: str = "training") -> dict[str, Any]:
    """What the run that made the models wrote down: `accuracy` before packing, `packed` after, on the same pictures."""
    found: dict[str, Any] = json.loads((RECORDS / f"{record}.json").read_text())
    return found


def packing_change(own: str) -> dict[str, float]:
    """Points by task that an expert gained by being packed."""
    before, after = training()["accuracy"][own], training()["packed"][own]
    return {task: after[task] - before[task] for task in before}
