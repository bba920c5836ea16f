"""FusionBench's names as tables, from the configs that ship, and what became of its documented command lines: blocks
for docs/how-to/fusionbench.md and docs/reproduce/fusionbench-commands.md.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results"
CONFIGS = Path(__file__).parents[2] / "src" / "smelt" / "compat" / "fusionbench" / "configs"


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    return {
        "how-to/fusionbench.md": {
            "methods": methods(),
            "modelpools": pools("modelpool"),
            "taskpools": pools("taskpool"),
            "settings": settings(),
        },
        "reproduce/fusionbench-commands.md": {"counts": counts(), "reasons": reasons(), "names": refused_names()},
    }


def methods() -> str:
    """Each method under FusionBench's name: what it is, its parameters, and the stages it stands for."""
    lines = ["| `method=` | what it does | parameters and defaults | in Smelt's words |", "|---|---|---|---|"]
    from smelt.compat.fusionbench.names import shipped

    calibrated = [(name, "Singular value calibration after the method that it names") for name in shipped("method")]
    for name, about in (*((name, _about(path)) for name, path in _options("method")), *calibrated):
        config = _composed(name)
        given = ", ".join(f"`{key}={_value(value)}`" for key, value in config.items() if key != "name") or "none"
        lines.append(f"| `{name}` | {about} | {given} | {_meaning(config)} |")
    return "\n".join(lines)


def pools(group: str) -> str:
    """Each pool with what its file says of itself, and those that follow from few words."""
    lines = [f"| `{group}=` | |", "|---|---|"]
    lines += [f"| `{name}` | {_about(path)} |" for name, path in _options(group)]
    return "\n".join([*lines, *_few_words(group)])


def _few_words(group: str) -> Iterator[str]:
    """Pools that no file holds: of families and sets a line each, of others one with their models."""
    from smelt.compat.fusionbench.names import _names, shipped

    known = _names(group)
    if group == "taskpool":
        for name, words in known["sets"].items():
            tasks = words["tasks"] if isinstance(words["tasks"], str) else ", ".join(words["tasks"])
            more = ", ".join(f"`{key}={value}`" for key, value in words.items() if key != "tasks")
            yield f"| `{name}` | {tasks}{f'; {more}' if more else ''} |"
        yield f"| `{known['single'].format('TASK')}` | one of the twenty tasks |"
        return
    families = ", ".join(f"`{family}`" for family in known["families"])
    for name, tasks in known["sets"].items():
        said = ", ".join(tasks) if isinstance(tasks, list) else f"the first {tasks} of the twenty tasks"
        yield f"| `FAMILY_{name}` | {said if tasks else 'the pre-trained model alone'} |"
    yield f"| | FAMILY is {families} |"
    for name, pool in shipped(group).items():
        if name in known["lists"] or name in known["series"]:
            models = ", ".join(pool["models"]) or "alone"
            yield f"| `{name}` | {pool['base'].removeprefix('hf:')}: {models} |"


def _found() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / "fusionbench_commands.json").read_text(encoding="utf-8"))
    return found


def counts() -> str:
    """How many of the documented command lines resolve."""
    found = _found()
    lines = [
        "| | commands | with loops unrolled | of those that FusionBench's own configs compose |",
        "|---|---|---|---|",
    ]
    said = {"resolves": "resolve", "outline resolves": "resolve, with what is to be filled in left out"}
    for status, count in sorted(found["counts"].items(), key=lambda one: (one[0] == "refused", -one[1])):
        there = found["compose_there"].get(status, 0)
        lines.append(f"| {said.get(status, 'are refused in one line')} | {count} | {found['runs'][status]} | {there} |")
    everything = sum(found["runs"].values()), sum(found["compose_there"].values())
    return "\n".join([*lines, f"| all | {found['written']} | {everything[0]} | {everything[1]} |"])


def reasons() -> str:
    """Why commands are refused, and which pages they stand on."""
    refused = [line for line in _found()["lines"] if line["status"] == "refused"]
    lines = ["| why | commands | an example of what is said | pages |", "|---|---|---|---|"]
    each = Counter(line["kind"] for line in refused)
    kinds = sorted(each, key=lambda kind: (-each[kind], kind))
    for kind in kinds:
        own = [line for line in refused if line["kind"] == kind]
        pages = list(dict.fromkeys(line["page"].removeprefix("docs/").removesuffix(".md") for line in own))
        said = own[0]["why"].replace("|", r"\|").replace("`", "'")
        lines.append(f"| {kind} | {len(own)} | `{said}` | {', '.join(pages)} |")
    return "\n".join(lines)


def refused_names() -> str:
    """Every name of FusionBench's that nothing serves, with what is said."""
    from smelt.compat.fusionbench.names import _names

    lines = ["| name | what is said |", "|---|---|"]
    for group in ("method", "modelpool", "taskpool", "program"):
        word = "--config-name " if group == "program" else f"{group}="
        for patterns in _names(group)["refused"].values():
            lines += [f"| `{word}{pattern}` | {why} |" for pattern, why in patterns.items()]
    return "\n".join(lines)


def settings() -> str:
    """The words that stand beside method, modelpool and taskpool, with their comments."""
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    known = re.findall(r"^( *)(\w+): (\S+) *(?:# (.*))?$", (CONFIGS / "run.yaml").read_text(encoding="utf-8"), re.M)
    for inner, name, default, meaning in known:  # what stands further in belongs to `path`
        lines.append(f"| `{'path.' if inner else ''}{name}` | `{default}` | {meaning or _TWIN[name]} |")
    return "\n".join(lines)


_TWIN = {"output": "the same as `merged_model_save_path`; give one of them"}


def _options(group: str) -> Iterator[tuple[str, Path]]:
    folder = CONFIGS / group
    for path in sorted(folder.rglob("*.yaml")):
        yield path.relative_to(folder).with_suffix("").as_posix(), path


def _about(path: Path) -> str:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    return first.removeprefix("# ").removesuffix(".").split(": '")[0].replace("|", r"\|")


def _composed(name: str) -> dict[str, Any]:
    from smelt.compat.fusionbench.compose import compose_jobs

    needed = ["method.merge={ties: {density: 0.2}}"] if name == "pipeline" else []
    (job,) = compose_jobs([f"method={name}", *needed])
    config: dict[str, Any] = job.config["method"]
    return config | ({"merge": "..."} if needed else {})


def _meaning(config: dict[str, Any]) -> str:
    from smelt.compat.fusionbench.methods import meaning_of

    if config["name"] == "pipeline":
        return "the stages that `merge` lists"
    meaning = meaning_of(config)
    if meaning.analysis:
        return "`smelt analyse cosine`"
    if meaning.ensemble:
        return f'`smelt.ensemble(..., kind="{meaning.ensemble["kind"]}")`'
    return " + ".join(f"`{_call(stage)}`" for stage in meaning.merge) or "nothing is merged"


def _call(stage: dict[str, dict[str, Any]]) -> str:
    ((name, parameters),) = stage.items()
    inner = ", ".join(f"{key}: {_value(value)}" for key, value in parameters.items())
    return f"{name}: {{{inner}}}" if inner else name


def _value(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
