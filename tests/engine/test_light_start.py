"""Torch takes longer to load than many merges take to run: what reads no numbers loads neither it nor its like.

Each test is a process of its own that says at its end which of the heavy libraries it has loaded.
"""

import json
import subprocess
import sys

import pytest

import smelt
from checkpoints import write_yaml
from smelt.engine.run.cpu.machine import library
from smelt.engine.sink.verify import verify_folder
from smelt.methods import stages
from smelt.testing import variants
from smelt.testing.trial import pipeline_of

HEAVY = ("torch", "transformers", "datasets", "numpy.testing", "huggingface_hub", "hydra", "jinja2", "safetensors")
REPORT = f"\nimport sys\nprint('LOADED', *[name for name in {HEAVY} if name in sys.modules])"
COMMAND = """
from smelt.cli import main
try:
    main()
except SystemExit as end:
    print("ENDED", end.code)
"""


def ran(script, *words):
    """What a process printed, and the heavy libraries that it loaded."""
    command = [sys.executable, "-c", script + REPORT, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *printed, last = done.stdout.splitlines()
    return "\n".join(printed) + done.stderr, last.split()[1:]


def recipe_of(two, **words):
    base, cars, birds = map(str, two)
    merge = [{"dare": {"density": 0.5}}, {"ties": {"density": 0.5}}]
    return {"pool": {"base": base, "models": {"cars": cars, "birds": birds}}, "merge": merge, **words}


@pytest.mark.parametrize("words", [{}, {"dtype": "bfloat16", "skip": "head.*"}, {"lora": 2}], ids=str)
def test_a_plan_is_made_from_headers_alone(two, tmp_path, words):
    recipe = write_yaml(tmp_path / "recipe.yaml", recipe_of(two, **words))
    said, loaded = ran(COMMAND, "plan", recipe)
    assert "stages   dare + ties" in said
    assert loaded == []


def test_commands_that_read_no_numbers_load_none_of_it(two, tmp_path):
    base, cars, birds = two
    smelt.merge([cars, birds], out=tmp_path / "mean")
    pool = ("--base", base, "--model", cars, "--model", birds)
    for words, says in [
        (("verify", tmp_path / "mean"), "all as the manifest says"),
        (("models", *pool), "these models can be merged"),
        (("methods",), "task_arithmetic"),
        (("methods", "adamerging", "--json"), "2310.02575"),
        (("tasks",), ""),
    ]:
        said, loaded = ran(COMMAND, *words)
        assert says in said
        assert loaded == [], words


def test_a_refusal_comes_before_anything_heavy(two, tmp_path):
    base, cars, birds = two
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.txt").write_text("mine")
    for words, says in [
        (("-m", "tise", "--base", base, "--model", cars, "-o", tmp_path / "out"), "did you mean 'ties'"),
        (("-m", "ties", "--base", base, "--model", cars, "--model", birds, "-o", tmp_path / "there"), "already exists"),
    ]:
        said, loaded = ran(COMMAND, "merge", *words)
        assert says in said
        assert loaded == [], words


FOLDS = """
import json, sys
from smelt.methods import stages
for name, given in json.loads(sys.argv[1]):
    stage = stages[name]
    values = {p.name: given.get(p.name, p.default) for p in stage.parameters.values()}
    values |= {p.name: [values[p.name]] * 2 for p in stage.parameters.values() if p.per_model}
    stage.unit_for(values), stage.space_for(values), stage.fold_for(values)
print(len(stages))
"""


def test_every_method_with_every_option_can_be_planned():
    """Its parameters are checked, and the fold that it needs is made, before a number is read."""
    calls = [
        call
        for stage in stages.values()
        for variant in ({}, *variants(stage))
        for call in pipeline_of(stage, variant)
        if call[0] == stage.name
    ]
    said, loaded = ran(FOLDS, json.dumps(calls))
    assert said == str(len(stages))
    assert loaded == []


AROUND = """
import json, sys
from pathlib import Path
from smelt.engine.run.backends import run_limits
from smelt.engine.merge import planned
from smelt.engine.sink.output import OutputFolder, check_output
from smelt.engine.sink.sink import FolderSink
from smelt.engine.request import read_request
from smelt.files.hashing.input_hashes import FileDigest

recipe, _, _ = read_request(sys.argv[1], None, None, {})
out = Path(sys.argv[2])
with planned(recipe) as ready:
    plan = ready.plan
    run_limits(plan, None, None)
    files = ready.files(out.name)
    check_output(out, [], force=False, needed=plan.bytes_out)
    folder = OutputFolder(out, plan.fingerprint("cpu"), inputs=plan.inputs, resume=False, force=False)
    placeholders = {path: FileDigest("0" * 64) for source in plan.parents.values() for path in source.files}
    sink = FolderSink(folder, plan, ready.metadata(placeholders))
    for item in plan.items:
        sink.done(item)
    hashes = {path: FileDigest("1" * 64) for path in placeholders}
    known = sink.complete(ready.metadata(hashes))
    folder.complete({**files, **sink.files()}, known, lambda known: ready.manifest(known, hashes))
    sink.close()
    folder.close()
"""


def test_all_before_and_after_the_numbers_of_a_merge_loads_none_of_it(two, tmp_path):
    """The plan, the limits, the small files, the folder and its manifest, around a merge that writes zeros."""
    import torch

    recipe = write_yaml(tmp_path / "recipe.yaml", recipe_of(two, shard_size="100B"))
    _, loaded = ran(AROUND, recipe, tmp_path / "out")
    assert loaded == []
    assert verify_folder(tmp_path / "out").ok
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["torch"] == torch.__version__
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "float32"


LISTED = "\nimport sys\nprint(*sorted(sys.modules))"


def loaded_by_merging(two, tmp_path, **words):
    """Everything that a process has loaded at the end of a merge."""
    base, cars, birds = map(str, two)
    recipe = write_yaml(tmp_path / "recipe.yaml", {"pool": {"base": base, "models": [cars, birds]}, **words})
    command = [sys.executable, "-c", COMMAND + LISTED, "merge", str(recipe), "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert verify_folder(tmp_path / "out").ok
    return set(done.stdout.splitlines()[-1].split())


def test_a_merge_loads_its_own_command_and_its_own_method(two, tmp_path):
    loaded = loaded_by_merging(two, tmp_path, merge="task_arithmetic")
    assert {"smelt.cli.merging.merge", "smelt.methods.task_vectors.task_arithmetic"} <= loaded
    others = {
        "smelt.cli.hub.commands",
        "smelt.cli.merging.plan",
        "smelt.methods.task_vectors.ties",
        "smelt.methods.subspace.tsv",
        "smelt.prepare.prepare",
    }
    assert not loaded & {
        *others,
        "smelt.formats.gguf.source",
        "smelt.models.families.clip.family",
        "smelt.models.families.causal_lm.family",
    }


@pytest.mark.skipif(library() is None, reason="the vector machine is not compiled")
def test_a_fused_merge_that_nobody_watches_loads_nothing_for_people_or_networks(two, tmp_path):
    loaded = loaded_by_merging(two, tmp_path, merge="average")
    assert not loaded & {"torch", "rich", "asyncio", "http", "ssl", "multiprocessing", "unittest", *HEAVY}
