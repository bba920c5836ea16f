"""FusionBench's names as tables, from the configs in src/smelt/configs: blocks for docs/how-to/fusionbench.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CONFIGS = Path(__file__).parents[2] / "src" / "smelt" / "compat" / "fusionbench" / "configs"


def blocks() -> dict[str, dict[str, str]]:
    """By page and block; see pages.py."""
    return {
        "how-to/fusionbench.md": {
            "methods": methods(),
            "modelpools": pools("modelpool"),
            "taskpools": pools("taskpool"),
            "settings": settings(),
        }
    }


def methods() -> str:
    """Each method under FusionBench's name: what it is, its parameters, and the stages it stands for."""
    lines = ["| `method=` | what it does | parameters and defaults | in Smelt's words |", "|---|---|---|---|"]
    for name, path in _options("method"):
        config = _composed(name)
        given = ", ".join(f"`{key}={_value(value)}`" for key, value in config.items() if key != "name") or "none"
        lines.append(f"| `{name}` | {_about(path)} | {given} | {_meaning(config)} |")
    return "\n".join(lines)


def pools(group: str) -> str:
    """Each pool with what its file says of itself."""
    lines = [f"| `{group}=` | |", "|---|---|"]
    lines += [f"| `{name}` | {_about(path)} |" for name, path in _options(group)]
    return "\n".join(lines)


def settings() -> str:
    """The words that stand beside method, modelpool and taskpool, with their comments."""
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    known = re.findall(r"^(\w+): (\S+) *(?:# (.*))?$", (CONFIGS / "run.yaml").read_text(encoding="utf-8"), re.M)
    for name, default, meaning in known:
        lines.append(f"| `{name}` | `{default}` | {meaning or _TWIN[name]} |")
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
    return " + ".join(f"`{_call(stage)}`" for stage in meaning.merge) or "nothing is merged"


def _call(stage: dict[str, dict[str, Any]]) -> str:
    ((name, parameters),) = stage.items()
    inner = ", ".join(f"{key}: {_value(value)}" for key, value in parameters.items())
    return f"{name}: {{{inner}}}" if inner else name


def _value(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
