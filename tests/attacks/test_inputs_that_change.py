"""An input that is written to while it is used: the run fails and names it, and nothing it made is published.

The change happens when the first tensor of the output is written: headers are read by then, most numbers are not.
"""

import hashlib
import json
import os
import threading

import pytest
import torch
from blake3 import blake3

import smelt
from checkpoints import random_state, snapshot, write_model
from smelt.engine.sink.sink import MemorySink
from smelt.errors import InputChanged, OutputError
from writes import full_after, on_every_write

SHAPES = {f"layers.{number}.weight": (60, 60) for number in range(20)}


@pytest.fixture
def models(tmp_path):
    """Three models of twenty tensors."""
    names = ("first", "cars", "birds")
    return {name: write_model(tmp_path / name, random_state(seed, SHAPES)) for seed, name in enumerate(names)}


def overwrite(path, content):
    """Other bytes in the same file."""
    with open(path, "r+b") as file:
        file.write(content)
        file.truncate()


def overwrite_and_put_the_time_back(path, content):
    before = os.stat(path)
    overwrite(path, content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(path, content):
    """Another file under the same name, as most programs save."""
    path.with_name("new").write_bytes(content)
    os.replace(path.with_name("new"), path)


WAYS = [overwrite, overwrite_and_put_the_time_back, replace]


@pytest.fixture
def while_written(monkeypatch):
    """`while_written(change)` has a change happen once, when the first tensor of an output is written."""
    lock = threading.Lock()

    def plan(change):
        todo = [change]

        def changing(write):
            with lock:
                if todo:
                    assert write.position > 0, "a tensor: the header comes last"
                    todo.pop()()

        on_every_write(monkeypatch, changing)
        return todo

    return plan


def other(seed=7):
    """The bytes of a model of the same size."""
    from safetensors.torch import save

    return save(random_state(seed, SHAPES))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("which", ["first", "birds"])
def test_weights_that_change_while_they_are_merged(tmp_path, models, cli, while_written, which, way):
    base, *others = models.values()
    weights = models[which] / "model.safetensors"
    todo = while_written(lambda: way(weights, other()))
    given = [word for model in others for word in ("--model", model)]
    ran = cli("merge", "-m", "task_arithmetic", "--base", base, *given, "-o", tmp_path / "out")
    assert todo == []
    assert ran.code == 1
    assert ran.err.startswith("smelt: an input changed while it was being used: ")
    assert str(weights) in ran.err
    assert "Traceback" not in ran.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["birds", "cars", "first"]


def test_an_unchanged_input_is_not_named(tmp_path, models, while_written):
    while_written(lambda: overwrite(models["birds"] / "model.safetensors", other()))
    with pytest.raises(InputChanged) as caught:
        smelt.merge(models, out=tmp_path / "out")
    assert "cars" not in str(caught.value)


def test_a_config_that_changes_while_weights_are_merged(tmp_path, models, while_written):
    config = models["cars"] / "config.json"
    while_written(lambda: config.write_text('{"model_type": "pico", "hidden_size": 5}'))
    with pytest.raises(InputChanged, match=r"cars/config\.json \(it was written to\)"):
        smelt.merge(models, out=tmp_path / "out")


def test_the_old_output_outlives_an_input_that_changes(tmp_path, models, while_written):
    smelt.merge(models, out=tmp_path / "out")
    old = snapshot(tmp_path / "out")
    while_written(lambda: overwrite(models["birds"] / "model.safetensors", other()))
    with pytest.raises(InputChanged):
        smelt.merge(models, out=tmp_path / "out", force=True, method=("average", {"weights": [1, 2, 3]}))
    assert snapshot(tmp_path / "out") == old


def test_a_resume_after_it_does_not_mix_old_and_new(tmp_path, models, while_written, monkeypatch):
    todo = while_written(lambda: overwrite(models["birds"] / "model.safetensors", other()))
    with pytest.raises(InputChanged):
        smelt.merge(models, out=tmp_path / "out")
    assert todo == []
    assert smelt.merge(models, out=tmp_path / "out", resume=True).resumed == 0
    smelt.merge(models, out=tmp_path / "clean" / "out")
    assert snapshot(tmp_path / "out") == snapshot(tmp_path / "clean" / "out")


def test_an_input_edited_between_two_runs_is_not_continued_though_its_time_is_put_back(tmp_path, models, monkeypatch):
    with monkeypatch.context() as patch:
        on_every_write(patch, full_after(6))
        with pytest.raises(OutputError, match="disk is full"):
            smelt.merge(models, out=tmp_path / "out", threads=1)
    overwrite_and_put_the_time_back(models["birds"] / "model.safetensors", other())
    assert smelt.merge(models, out=tmp_path / "out", resume=True).resumed == 0
    smelt.merge(models, out=tmp_path / "clean" / "out")
    assert snapshot(tmp_path / "out") == snapshot(tmp_path / "clean" / "out")


def test_a_remembered_hash_is_not_believed_of_an_edited_file_whose_time_is_put_back(tmp_path, models):
    weights = models["birds"] / "model.safetensors"
    smelt.merge(models, out=tmp_path / "before")
    overwrite_and_put_the_time_back(weights, other())
    smelt.merge(models, out=tmp_path / "after")
    said = json.loads((tmp_path / "after" / "manifest.json").read_text())["parents"]["birds"]["files"]
    assert said == {"model.safetensors": {"blake3": blake3(weights.read_bytes()).hexdigest()}}
    assert said["model.safetensors"]["blake3"] == blake3(other()).hexdigest()


def test_files_of_the_hugging_face_cache_are_looked_at_too(tmp_path, models, while_written):
    """They are known by their names, so that nothing else would notice."""
    blob = tmp_path / "blobs" / hashlib.sha256(other(2)).hexdigest()
    blob.parent.mkdir()
    (models["birds"] / "model.safetensors").rename(blob)
    (models["birds"] / "model.safetensors").symlink_to(blob)
    while_written(lambda: overwrite(blob, other()))
    with pytest.raises(InputChanged, match=r"birds/model\.safetensors"):
        smelt.merge(models, out=tmp_path / "out")


def test_a_hard_link_to_an_input_is_no_change(tmp_path, models, while_written):
    """As the hub's store makes one when a model with the same file is added."""
    todo = while_written(lambda: os.link(models["birds"] / "model.safetensors", tmp_path / "second name"))
    smelt.merge(models, out=tmp_path / "out")
    assert todo == []


def test_a_merge_in_memory_looks_too(models, monkeypatch):
    write, todo = MemorySink.write, [1]

    def changing(self, *arguments):
        if todo:
            todo.pop()
            overwrite(models["birds"] / "model.safetensors", other())
        write(self, *arguments)

    monkeypatch.setattr(MemorySink, "write", changing)
    with pytest.raises(InputChanged, match="birds"):
        smelt.merge(models)


def test_statistics_are_inputs_too(tmp_path, models, while_written):
    from smelt.formats.statistics import ExampleRun, StatisticsNote, write_statistics

    places = {}
    for name, model in models.items():
        used = ExampleRun(task=name, examples=4, hash=name)
        words = {"model": str(model), "model_hash": name, "data": (used,), "examples": 4}
        note = StatisticsNote(kind="fisher", estimator="exact", **words)
        write_statistics(tmp_path / "of" / name, note, {key: torch.ones(shape) for key, shape in SHAPES.items()})
        places[name] = str(tmp_path / "of" / name)
    values = tmp_path / "of" / "cars" / "statistics.safetensors"
    while_written(lambda: overwrite_and_put_the_time_back(values, values.read_bytes()[::-1]))
    with pytest.raises(InputChanged, match=r"of/cars/statistics\.safetensors"):
        smelt.merge(models, method="fisher", statistics=places, out=tmp_path / "out")


@pytest.mark.parametrize("which", ["adapter_config.json", "adapter_model.safetensors"])
def test_an_adapter_that_changes_while_it_is_merged(tmp_path, models, while_written, which):
    from safetensors.torch import save_file

    place = tmp_path / "lora"
    place.mkdir()
    factors = {"lora_A": torch.ones(2, 60), "lora_B": torch.ones(60, 2)}
    save_file(
        {f"base_model.model.layers.0.{name}.weight": factor for name, factor in factors.items()},
        place / "adapter_model.safetensors",
    )
    words = {"peft_type": "LORA", "r": 2, "lora_alpha": 2, "target_modules": ["0"]}
    (place / "adapter_config.json").write_text(json.dumps(words))
    given = {"tuned": f"{models['cars']}+{place}", "birds": str(models["birds"])}
    todo = while_written(lambda: overwrite_and_put_the_time_back(place / which, (place / which).read_bytes()))
    with pytest.raises(InputChanged, match=f"lora/{which}"):
        smelt.merge(given, out=tmp_path / "out")
    assert todo == []


@pytest.mark.parametrize("which", ["first", "cars"])
def test_a_model_that_changes_while_it_is_packed(tmp_path, models, monkeypatch, which):
    from smelt.formats.packs.writer import Packer

    write = Packer.write

    def changing(self, *arguments):
        overwrite(models[which] / "model.safetensors", other())
        return write(self, *arguments)

    monkeypatch.setattr(Packer, "write", changing)
    with pytest.raises(InputChanged, match=which):
        smelt.pack(models["cars"], base=models["first"], out=tmp_path / "pack")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["birds", "cars", "first"]


def test_a_pack_that_changes_while_it_is_unpacked(tmp_path, models, while_written):
    smelt.pack(models["cars"], base=models["first"], out=tmp_path / "pack")
    note = tmp_path / "pack" / "delta.json"
    while_written(lambda: overwrite(note, note.read_bytes()))
    with pytest.raises(InputChanged, match=r"pack/delta\.json"):
        smelt.unpack(tmp_path / "pack", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_numbers_that_turn_odd_are_blamed_on_the_change(tmp_path, models, while_written):
    """A file that shrinks, or whose new bytes are no numbers, fails for another reason first; the true one is told."""
    while_written(lambda: overwrite(models["birds"] / "model.safetensors", b"\xff" * 100))
    with pytest.raises(InputChanged, match="birds"):
        smelt.merge(models, out=tmp_path / "out", threads=1)
    assert not list(tmp_path.glob(".out*"))


@pytest.mark.parametrize("there", [False, True], ids=["no output", "an output"])
def test_an_input_that_shrinks_before_a_run_is_resumed_is_named(tmp_path, models, monkeypatch, there):
    """With an output that may be this very merge's, inputs are hashed before anything is merged."""
    from smelt.engine.plan import ready

    make = ready.make_ready
    if there:
        smelt.merge(models, out=tmp_path / "out", method=("average", {"weights": [1, 2, 3]}))
        overwrite(models["birds"] / "model.safetensors", other())

    def shrinking(*words):
        made = make(*words)
        os.truncate(models["birds"] / "model.safetensors", 1000)
        return made

    monkeypatch.setattr(ready, "make_ready", shrinking)
    with pytest.raises(InputChanged, match="birds"):
        smelt.merge(models, out=tmp_path / "out", resume=True, force=True)
