"""Two kinds of harm: which ways to choose leave harmful experts out, from results/mllm10 and results/mllm10-noisy.

Blocks for docs/results/mllm10.md (tables, and what the rule for a default makes of them) and docs/how-to/select.md
(what to expect). `blocks(folders)` takes any folders that `smelt bench mllm10` wrote, by family. A family that was not
measured is named with the command that does it.
"""

from __future__ import annotations

import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = {"confident": RESULTS / "mllm10", "noisy": RESULTS / "mllm10-noisy"}
KINDS = {"confident": "over-confident", "noisy": "noisy"}
"""What the families of mllm10.yaml call their harm, where there is no run that says it."""
READ = runpy.run_path(str(Path(__file__).with_name("mllm10.py")))["read"]


def blocks(folders: Mapping[str, Path] = FOLDERS) -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    from smelt.suites.selection.report.harm_kinds import default_setting, harm_run

    read = {family: READ(folder) for family, folder in folders.items()}
    missing = [_missing(family) for family, found in read.items() if found is None]
    there = {family: found for family, found in read.items() if found is not None}
    runs = [harm_run(found.scores, found.selection) for found in there.values()]
    defaults = [default_setting(found.selection) for found in there.values()]
    if not runs:
        return {
            "results/mllm10.md": {"mllm10-harm": _list(missing)},
            "how-to/select.md": {"select-harm": _list(missing)},
        }
    parts = [found_by(runs, defaults[0], missing), *(one_kind(run, defaults[0]) for run in runs)]
    told = [expected(run, defaults[0]) for run in runs]
    page, told = "\n\n".join(parts), "\n\n".join([*told, *missing, verdict(runs, defaults[0], missing)])
    return {"results/mllm10.md": {"mllm10-harm": page}, "how-to/select.md": {"select-harm": told}}


def found_by(runs: Sequence[Any], default: Any, missing: Sequence[str]) -> str:
    """One table over all kinds of harm, and what the rule makes of it."""
    from smelt.suites.selection.report.harm_kinds import RULE

    settings = list(dict.fromkeys(one.setting for run in runs for one in run.outcomes))
    heads = [f"{run.harm.kind} ({', '.join(run.harm.models)})" for run in runs]
    lines = [[*_words(one, default), *(_cell(run, one) for run in runs)] for one in settings]
    text = (
        "Of the experts that were made to harm, how many a setting leaves out, and of the others how many it keeps. "
        "Bold: the harm is found. The default of `smelt select uq` is marked with a star."
    )
    return "\n\n".join(
        [
            "### Which perturbation finds which kind",
            _table(["perturbed", "order", "step", *heads], lines),
            text,
            f"The rule: {RULE}",
            *([_list(missing)] if missing else []),
            verdict(runs, default, missing),
        ]
    )


def one_kind(run: Any, default: Any) -> str:
    """Every setting of a run with what it leaves out and what its merge is worth, beside the references."""
    lines = []
    for one in run.outcomes:
        left = [f"**{name}**" if name in one.harmful else name for name in one.left_out]
        lines.append([*_words(one.setting, default), ", ".join(left) or "nobody", *_numbers(one.accuracy)])
    for what, accuracy in run.references.items():
        lines.append([f"*{what}*", "", "", "", *_numbers(accuracy)])
    heads = ["perturbed", "order", "step", "left out", "held-in", "held-out"]
    return "\n\n".join(
        [
            f"### {run.harm.kind.capitalize()} harm: {' and '.join(run.harm.models)}",
            " ".join(_said(run, default)),
            _table(heads, lines),
            "Accuracy in %, means over sets; in bold who was made to harm.",
        ]
    )


def expected(run: Any, default: Any) -> str:
    """What a kind of harm looks like, and the commands that found it."""
    commands = [
        f"- `{_command(one.setting)}` leaves out {', '.join(one.left_out)}" for one in run.outcomes if one.finds
    ]
    text = f"**{run.harm.kind.capitalize()} harm.** {' '.join(_said(run, default))}"
    return "\n\n".join([text, *(["\n".join(commands)] if commands else [])])


def verdict(runs: Sequence[Any], default: Any, missing: Sequence[str]) -> str:
    """What the rule says, or why it says nothing yet."""
    from smelt.suites.selection.report.harm_kinds import recommended

    if missing:
        return "The rule speaks of both kinds together, so nothing is recommended before both are measured."
    found = recommended(runs, default)
    both = "; ".join(one.text for one in found.of_all)
    said = f"Both kinds are found by {both}." if both else "No setting finds both kinds."
    if found.stays:
        said += f" By the rule the default ({default.text}) stays: no other setting finds what it finds, and more."
    else:
        said += f" By the rule another default would be better here: {found.best.text}, instead of {default.text}."
    return f"{said} These are two pools over one small model: it says what to try, not what to trust."


def _said(run: Any, default: Any) -> list[str]:
    from smelt.suites.selection.report.harm_kinds import harm_sentences

    return harm_sentences(run, default)


def _missing(family: str) -> str:
    command = f"smelt bench mllm10 --family {family} -o {FOLDERS[family].relative_to(RESULTS.parent)} --device cuda"
    return f"{KINDS[family].capitalize()} harm. Not measured yet: `{command}`"


def _command(setting: Any) -> str:
    """`smelt select uq RECIPE.yaml --no-model --choose first_local_min`."""
    from smelt.select.uq import CHOOSING
    from smelt.suites.find import find_suite

    how = next(one for one in find_suite("mllm10").perturbations.values() if one.label == setting.perturbation)
    flags = [f"--no-{what}" for what in ("image", "text", "model") if not getattr(how, what)]
    for word in ("order", "choose"):
        flags += [f"--{word} {getattr(setting, word)}"] if getattr(setting, word) != CHOOSING[word] else []
    return " ".join(["smelt select uq RECIPE.yaml", *flags])


def _words(setting: Any, default: Any) -> list[str]:
    from smelt.suites.selection.report.tables import choice_text

    star = " \\*" if setting == default else ""
    return [setting.perturbation, setting.order, f"{choice_text(setting.choose)}{star}"]


def _cell(run: Any, setting: Any) -> str:
    one = run.outcome(setting)
    if one is None:
        return "–"
    text = f"{len(one.harmful)} of {len(run.harm.models)} out, keeps {one.kept} of {run.others}"
    return f"**{text}**" if one.finds else text


def _numbers(accuracy: Mapping[str, Any]) -> list[str]:
    return [f"{100 * cell.accuracy:.1f}" if cell else "–" for cell in accuracy.values()]


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, ["---"] * len(heads), *lines])


def _list(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {one}" for one in sentences)
