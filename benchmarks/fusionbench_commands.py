"""Every command line of FusionBench's documentation, tried against `smelt run`: which resolve, which do not and why.

    python benchmarks/fusionbench_commands.py CHECKOUT [-o results/fusionbench_commands.json]

CHECKOUT is a checkout of FusionBench's repository (README.md, docs/, config/). The bash blocks of its pages run in a
restricted shell without programs, in which `fusion_bench` prints its words: loops, comments and continued lines are
what a shell makes of them. Each command is composed and checked as `dry_run=true` does, and nothing is loaded or
downloaded. A command in a loop counts once; `runs` says how many it stands for.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import subprocess
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from result_file import save, say
from smelt.compat.fusionbench.compose import compose_jobs
from smelt.compat.fusionbench.experiment import prepare
from smelt.compat.fusionbench.names import RefusedName
from smelt.errors import SmeltError, shortened
from smelt.evaluation.row import code_version, now

BLOCK = re.compile(r"^ *```(?:bash|shell|sh|console)\b[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
MARK = "\x01"
SHELL = (
    'fusion_bench() { printf "\\001%s\\001" "${BASH_LINENO[0]}"; printf "%q " "$@"; echo; }\n'
    'seq() { printf "%s " "$1"; }\n'  # of a loop over many numbers the first will do
)
GAP = re.compile(r"^(\.\.\.|#.*)$|=(\.\.\.|<.*>|'')$")
"""A word that stands for one to fill in."""
MADE_UP = re.compile(
    r"your_|<|path_to|/path/to|(^|[=./])my_|custom_|\[--|=value|_param\b|hyperparam|my_field|method_name"
)
"""Names that a page makes up to explain the grammar."""
MADE_UP_NAMES = "names that the page makes up"
OWN_FLAGS = {"--help", "--info", "-sc", "-h"}


class Written(NamedTuple):
    """A command as a page has it: where, and the words of each run that a loop makes of it."""

    page: str
    place: int
    runs: tuple[tuple[str, ...], ...]


def written_commands(root: Path) -> Iterator[Written]:
    """Every command of the documentation, page by page."""
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            if "fusion_bench" not in block[1]:
                continue
            first = text[: block.start(1)].count("\n") + 1
            found: dict[int, list[tuple[str, ...]]] = {}
            for line, words in _words_in(textwrap.dedent(block[1])):
                found.setdefault(line, []).append(words)
            for line, runs in found.items():
                yield Written(path.relative_to(root).as_posix(), first + line, tuple(runs))


def _words_in(block: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The commands that a block runs, by line, one after the other. What is to be filled in (<...>) is a word."""
    block = re.sub(r"(?<!&)&[ \t]*$", "", block, flags=re.MULTILINE)
    block = re.sub(r"(<[^<>\n]+>)", r"'\1'", block).replace("| source", "").split("\n# results", 1)[0]
    ran = subprocess.run(
        [shutil.which("bash") or "bash", "--norc", "-r", "-c", f"{SHELL}{block}\nwait\n"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": "/nowhere", "PWD": os.getcwd()},
    )
    for line in ran.stdout.splitlines():
        if line.startswith(MARK):
            number, words = line[1:].split(MARK, 1)
            yield int(number) - SHELL.count("\n"), tuple(shlex.split(words))


def flags_of(words: tuple[str, ...]) -> tuple[argparse.Namespace, list[str]]:
    """Hydra's flags, which `smelt run` has too, and the settings."""
    parser = argparse.ArgumentParser(exit_on_error=False, add_help=False, allow_abbrev=False)
    parser.add_argument("-m", "--multirun", action="store_true")
    parser.add_argument("-c", "--cfg")
    parser.add_argument("-p", "--package")
    parser.add_argument("--resolve", action="store_true")
    for flag in ("--config-name", "--config-path", "--config-dir"):
        parser.add_argument(flag)
    known, rest = parser.parse_known_args(list(words))
    return known, rest


def tried(words: tuple[str, ...]) -> tuple[str, str]:
    """Why a command does not resolve: the reason in general and in particular. Empty where it does."""
    if OWN_FLAGS & set(words):
        return "about Hydra itself", f"{words[0]}: `smelt run --help` and `smelt completion` are the counterparts"
    flags, rest = flags_of(words)
    strange = [word for word in rest if word.startswith("-")]
    if strange:
        return (
            "no option of FusionBench's either",
            f"{strange[0]}: Hydra has no such option; write {strange[0][2:]}=true",
        )
    where = {
        word: getattr(flags, word) for word in ("config_name", "config_path", "config_dir") if getattr(flags, word)
    }
    try:
        if flags.cfg:
            compose_jobs(rest, sweep=flags.multirun, **where)
        else:
            prepare([*rest, "dry_run=true"], multirun=flags.multirun, **where)
    except RefusedName as refused:
        return refused.kind, str(refused)
    except SmeltError as error:
        return "other", str(error)
    return "", ""


def composes_there(words: tuple[str, ...]) -> bool:
    """Whether FusionBench's own configs, in the folder `config`, make a config of a command at all."""
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    flags, rest = flags_of(words)
    folder = Path(flags.config_path or "config").resolve()
    try:
        with initialize_config_dir(str(folder), version_base="1.3"):
            if any(word.startswith("-") for word in rest):
                return False
            each = [word.split(",")[0] if flags.multirun else word for word in rest]
            compose((flags.config_name or "fabric_model_fusion").removesuffix(".yaml"), overrides=each)
    except (HydraException, OmegaConfBaseException, OSError):
        return False
    return True


def judged(command: Written) -> dict[str, Any]:
    """One line of the result: a command, and what became of it."""
    reasons = []
    outline = any(GAP.search(word) for run in command.runs for word in run)
    made_up = any(MADE_UP.search(word) for run in command.runs for word in run)
    for run in command.runs:
        kind, why = tried(tuple(word for word in run if not GAP.search(word)))
        if kind:
            reasons.append((kind, why))
    there = composes_there(tuple(word for word in command.runs[0] if not GAP.search(word)))
    written = shlex.join(command.runs[0]).replace(os.getcwd(), "$PWD")
    shown: dict[str, Any] = {"page": command.page, "line": command.place, "runs": len(command.runs), "words": written}
    shown["composes_there"] = there
    if not reasons:
        return {**shown, "status": "outline resolves" if outline or made_up else "resolves"}
    kind, why = reasons[0]
    if kind == "other":
        kind = MADE_UP_NAMES if made_up else "other" if there else "FusionBench's own configs refuse it too"
    why = shortened(" ".join(why.replace(os.getcwd(), "$PWD").split()), 200)
    return {**shown, "status": "refused", "kind": kind, "why": why}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--revision", default="unknown", help="FusionBench's commit, for the result's head")
    parser.add_argument("-o", "--out", type=Path)
    given = parser.parse_args()
    out = given.out.resolve() if given.out else None
    with contextlib.chdir(given.checkout):  # where $PWD/config is
        lines = [judged(one) for one in written_commands(Path())]
    counts = Counter(line["status"] for line in lines)
    kinds = Counter(line["kind"] for line in lines if line["status"] == "refused")
    there = Counter(line["status"] for line in lines if line["composes_there"])
    runs = {status: sum(line["runs"] for line in lines if line["status"] == status) for status in counts}
    head = {"fusion_bench": given.revision, "smelt": code_version(), "date": now()}
    save(
        out,
        {
            **head,
            "written": len(lines),
            "counts": counts,
            "compose_there": there,
            "runs": runs,
            "kinds": kinds,
            "lines": lines,
        },
    )
    say(f"{len(lines)} commands: {dict(counts)}; {sum(runs.values())} runs: {runs}")
    say(f"of those that FusionBench's own configs compose: {dict(there)}")
    for kind, count in kinds.most_common():
        say(f"  {count:4d} {kind}")


if __name__ == "__main__":
    main()
