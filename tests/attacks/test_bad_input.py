"""Every command with what goes wrong most: an unknown name, a damaged file, no permission, a full disk, no network.

The answer is one text that begins with `smelt:`, the exit code is the one that is promised, and nothing half-written
is left. The table below has every command; a test holds that none is missing.
"""

import os
import re
import shutil
import subprocess

import pytest
import torch
import yaml

from pico_clip import random_clip, save_clip, write_task
from pico_hub import full_hub
from pico_llama import write_llama
from restricted_user import run

READS = {
    "merge": "merge -m average --model BAD --model two -o OUT",
    "plan": "plan -m average --model BAD --model two",
    "methods": "methods BAD",
    "learn": "learn RECIPE -o OUT",
    "mix": "mix RECIPE -o OUT",
    "finetune": "finetune BAD --tasks colours --set split=val --steps 1 --batch 2 --lr 0.001 -o OUT",
    "neulig": "neulig --base base --model one=BAD --model two=two --task one=colours --task two=colours -o OUT",
    "tune": "tune RECIPE --tasks colours --trials 1 -o OUT",
    "run": "run method=simple_average modelpool=BAD merged_model_save_path=OUT",
    "eval": "eval BAD --tasks colours --split val --limit 4 -o OUT.jsonl",
    "bench": "bench BAD -o OUT",
    "report": "report BAD",
    "advise": "advise --base llama --model one=BAD --model two=llama -o OUT.yaml",
    "pack": "pack BAD --base base --bits 4 -o OUT",
    "unpack": "unpack BAD -o OUT",
    "convert": "convert BAD -o OUT",
    "average": "average BAD --last 2 -o OUT",
    "export": "export BAD -o OUT.gguf",
    "models": "models --model BAD --model two",
    "tasks": "tasks BAD",
    "verify": "verify BAD",
    "inspect": "inspect BAD",
    "diff": "diff BAD two",
    "measure fisher": "measure fisher BAD --task colours --split val --examples 4 -o OUT",
    "measure gram": "measure gram BAD --task colours --split val --examples 4 -o OUT",
    "measure combine": "measure combine BAD BAD -o OUT",
    "select uq": "select uq RECIPE --tasks colours -o OUT",
    "select soup": "select soup RECIPE --tasks colours --split val -o OUT",
    "analyse cosine": "analyse cosine --base base --model BAD --model two -o OUT.json",
    "analyse norms": "analyse norms --base base --model BAD --model two -o OUT.json",
    "analyse signs": "analyse signs --base base --model BAD --model two -o OUT.json",
    "analyse scales": "analyse scales RECIPE --tasks colours --split val -o OUT.json",
    "analyse path": "analyse path BAD two --tasks colours --split val --points 2 -o OUT.json",
    "cache ls": "cache ls --kind BAD",
    "cache clean": "cache clean --kind BAD --yes",
    "hub init": "hub init --hub OUT --graph BAD",
    "hub add": "hub add BAD --hub hub",
    "hub ls": "hub ls --hub BAD",
    "hub show": "hub show BAD --hub hub",
    "hub label": "hub label BAD --hub hub",
    "hub select": "hub select --like-task BAD --hub hub",
    "hub predict": "hub predict BAD --classes red,blue --hub hub",
    "hub serve": "hub serve --hub BAD --port 0",
    "hub graph": "hub graph BAD -o OUT",
    "hub node": "hub node gadget.x.01 BAD --name gadget --definition thing --hub hub",
    "hub rm": "hub rm BAD --hub hub",
    "hub backup": "hub backup OUT --hub BAD",
    "hub restore": "hub restore BAD OUT",
    "hub job ls": "hub job ls --hub BAD",
    "hub job cancel": "hub job cancel 7 --hub BAD",
    "hub token new": "hub token new someone --hub BAD",
    "hub token ls": "hub token ls --hub BAD",
    "hub token revoke": "hub token revoke BAD --hub hub",
}
"""Every command that is told a name of something: BAD is that name, RECIPE a recipe with it, OUT what is written."""

NO_NAMES = {"info"}
"""Commands that are told none."""
NAMES_ALONE = {
    "methods",
    "cache ls",
    "cache clean",
    "hub show",
    "hub label",
    "hub select",
    "hub rm",
    "hub token revoke",
}
"""What these are told the name of is no file."""
MAKES_IT = {"hub serve"}
"""Makes a hub where there is none."""
NEEDS_NO_WEIGHTS = {"advise"}
"""Reads configs alone, of models that are on this machine."""
NO_MODELS = {"run", "bench", "report", "average", "tasks", "verify", "measure combine", "hub predict", "hub node"}
HUBS = {name for name, line in READS.items() if name.startswith("hub") and name != "hub add"}
OF_MODELS = sorted(set(READS) - NAMES_ALONE - NEEDS_NO_WEIGHTS - NO_MODELS - HUBS)
"""Commands that read the weights of a model."""
GOOD = {"run": "clip-tiny_TA8", "bench": "suite.yaml", "average": "run", "advise": "llama", "hub backup": "hub"}
"""What a command could do something with; for all others `one`."""
TRIED_ELSEWHERE = {"export", "neulig", "measure combine", "hub init", "hub graph", "hub restore"}
"""Would need more than the small models here. All write by `smelt.files.writing`, whose tests fill the disk."""
WRITERS = sorted(name for name, line in READS.items() if "OUT" in line and name not in TRIED_ELSEWHERE)
RESUMED = {"bench", "tune", "select uq", "select soup", "learn"}
"""Keep the folder of a run, which the same command goes on in."""


def commands():
    """Every command as one types it."""
    import typer

    from smelt.cli.app import app

    def inside(group, before):
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from inside(command, (*before, name))
            else:
                yield " ".join((*before, name))

    return set(inside(typer.main.get_command(app), ()))


def test_the_table_has_every_command():
    assert set(READS) | NO_NAMES == commands()


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A folder with small models, a task, a hub, a suite and the checkpoints of a run; `bad` is damaged all over."""
    folder = tmp_path_factory.mktemp("room")
    base = random_clip(0)
    save_clip(base, folder / "base")
    for seed, name in enumerate(("one", "two"), 1):
        torch.manual_seed(seed)
        with torch.no_grad():
            for tensor in base.parameters():
                tensor.add_(0.01 * torch.randn_like(tensor))
        save_clip(base, folder / name)
        shutil.copytree(folder / name, folder / "run" / f"checkpoint-{seed}")
    write_task(folder / "colours")
    write_llama(folder / "llama")
    full_hub(folder / "hub")
    suite = {
        "name": "mine",
        "version": 1,
        "title": "Mine",
        "pool": {"base": str(folder / "base"), "models": {name: str(folder / name) for name in ("one", "two")}},
        "tasks": [str(folder / "colours")],
        "scales": [0.5],
        "curve_limit": 3,
        "entries": {"average": {"label": "Simple averaging", "merge": "average"}},
    }
    (folder / "suite.yaml").write_text(yaml.safe_dump(suite))
    _damage(folder)
    shutil.copytree(folder / "one", folder / "unreadable")
    (folder / "unreadable" / "model.safetensors").chmod(0)
    return folder


def _damage(folder):
    bad = folder / "bad"
    shutil.copytree(folder / "one", bad)
    for name in ("manifest.json", "statistics.json", "graph.json", "task.yaml", "rows.jsonl"):
        (bad / name).write_text('{"half": ')
    weights = bad / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    for number in (1, 2):
        shutil.copytree(bad, folder / "bad-run" / f"checkpoint-{number}")
    shutil.copytree(folder / "hub", folder / "bad-hub")
    for database in (folder / "bad-hub").glob("*.db*"):
        database.write_bytes(b"no database")
    (folder / "bad.yaml").write_text("half: [")
    (folder / "bad.png").write_bytes(b"\x89PNG\r\n")


def damaged(name):
    """The damaged thing that a command is told the name of."""
    files = {"bench": "bad.yaml", "hub graph": "bad.yaml", "hub predict": "bad.png", "hub node": "bad.png"}
    hubs = dict.fromkeys(
        ("hub ls", "hub serve", "hub backup", "hub job ls", "hub job cancel", "hub token new", "hub token ls"),
        "bad-hub",
    )
    return {"run": "bad.yaml", "average": "bad-run", **files, **hubs}.get(name, "bad")


class Sweep:
    """Every command with one fault, all in one process: what each of them said and left."""

    def __init__(self, room, folder, names, told, outs=None):
        """`told` gives the name that a command is told, from the command's own; outputs go below `outs`."""
        self.room, self.folder, self.told = room, folder, told
        outs = outs or folder / "outs"
        outs.mkdir(exist_ok=True)
        self.outs = {name: outs / name.replace(" ", "-") for name in names}
        before = os.getcwd()
        os.chdir(room)
        try:
            self.said = dict(zip(names, run(*map(self.words, names)), strict=True))
        finally:
            os.chdir(before)

    def words(self, name):
        recipe = self.folder / f"{name.replace(' ', '-')}.yaml"
        method = {"learn": {"adamerging": {"steps": 1}}, "mix": {"wemoe": {"steps": 1}}}.get(name, "task_arithmetic")
        data = {"tasks": dict.fromkeys(("one", "two"), str(self.room / "colours")), "split": "val"}
        told = self.told(name)
        model = told if ":" in told else str(self.room / told)
        content = {"pool": {"base": str(self.room / "base"), "models": {"one": model, "two": str(self.room / "two")}}}
        content |= {"merge": method} | ({"data": data} if name in ("learn", "mix") else {})
        recipe.write_text(yaml.safe_dump(content))
        changed = {"BAD": told, "RECIPE": str(recipe), "OUT": str(self.outs[name])}
        return [re.sub("BAD|RECIPE|OUT", lambda found: changed[found[0]], word) for word in READS[name].split()]

    def check(self, name, code, *words):
        """One text, after what was told on the way; the code; nothing left, but for a run that can be gone on with."""
        ended, said = self.said[name]
        error = said[said.find("smelt: ") :]
        assert said.startswith("smelt: ") or "\nsmelt: " in said, (ended, said)
        assert "Traceback" not in said
        assert "Errno" not in error
        for word in words:
            assert word in error
        assert ended == code, (ended, said)
        left = [one for one in self.outs[name].parent.rglob("*") if one.is_file() and self._made(one, name)]
        assert left == [] or name in RESUMED, "something half-written is left"

    def _made(self, path, name):
        first = path.relative_to(self.outs[name].parent).parts[0].lstrip(".")
        return first.split(".")[0] == self.outs[name].name


@pytest.fixture(scope="module")
def sweep(room, tmp_path_factory, request):
    """The sweep of a fault; each is made once."""
    made = {}

    def of(fault, names, told, outs=None):
        if fault not in made:
            made[fault] = Sweep(room, tmp_path_factory.mktemp(fault), sorted(names), told, outs)
        return made[fault]

    return of


@pytest.fixture(scope="module", autouse=True)
def _no_network_and_a_cache_of_its_own(tmp_path_factory):
    """For child processes: nobody answers at this address, as where there is no network; nothing is waited for."""
    import datasets.config
    import huggingface_hub.constants  # this process, which has read its own address by now, keeps it

    assert datasets.config.HF_ENDPOINT == huggingface_hub.constants.ENDPOINT
    words = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path_factory.mktemp("hf"))}
    before = {name: os.environ.get(name) for name in words}
    os.environ.update(words)
    yield
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.mark.parametrize("name", sorted(set(READS) - MAKES_IT - NEEDS_NO_WEIGHTS))
def test_an_unknown_name(sweep, name):
    sweep("unknown", set(READS) - MAKES_IT - NEEDS_NO_WEIGHTS, lambda _: "nothinglikethis").check(
        name, 2, "nothinglikethis"
    )


@pytest.mark.parametrize("name", OF_MODELS)
def test_an_unknown_model_of_the_zoo_gets_the_nearest_name(sweep, name):
    pytest.importorskip("smelt_zoo")
    found = sweep("zoo", OF_MODELS, lambda _: "zoo:clip-tinny")
    found.check(name, 2, "no zoo model named 'clip-tinny' (did you mean 'clip-tiny'?)")


DAMAGED = sorted(set(READS) - NAMES_ALONE - NEEDS_NO_WEIGHTS)


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file(sweep, name):
    said = {"verify": "manifest.json"}  # the folder is the one that was given
    sweep("damaged", DAMAGED, damaged).check(name, 1 if name == "verify" else 2, said.get(name, "bad"))


@pytest.mark.parametrize("name", [*OF_MODELS, "hub add"])
def test_a_file_that_this_user_may_not_read(sweep, name):
    found = sweep("unreadable", [*OF_MODELS, "hub add"], lambda _: "unreadable")
    found.check(name, 2, "model.safetensors", "ermission denied")


@pytest.mark.parametrize("name", [*OF_MODELS, "hub add"])
def test_no_network(sweep, name):
    found = sweep("network", [*OF_MODELS, "hub add"], lambda _: "hf:org/name")
    found.check(name, 2, "hf:org/name is not in the local cache", "the network")


@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_that_this_user_may_not_write_to(sweep, name, tmp_path_factory):
    locked = tmp_path_factory.mktemp("locked")
    locked.chmod(0o555)
    sweep("locked", WRITERS, lambda one: GOOD.get(one, "one"), locked).check(name, 1)


@pytest.fixture(scope="module")
def full_disk(tmp_path_factory):
    """A file system of 4 kB that has not one byte free."""
    folder = tmp_path_factory.mktemp("full")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "smelt-test", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"NOT TESTED: no small disk can be mounted here ({mounted.stderr.decode().strip()})")
    (folder / "filler").write_bytes(bytes(4096))
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk(sweep, name, full_disk):
    sweep("full", WRITERS, lambda one: GOOD.get(one, "one"), full_disk).check(name, 1)
