"""What lies at the output is kept, or replaced as a whole and at the very end; inputs are never written over."""

import threading
import time

import pytest
import torch

import smelt
from checkpoints import random_state, read_weights, snapshot, state, write_model
from smelt.errors import NumericalError, OutputError, SmeltError
from smelt.files import writing
from writes import on_every_write


def leftovers(root):
    return sorted(path.name for path in root.iterdir() if path.name.startswith("."))


def test_an_existing_output_is_kept(tmp_path, two, cli):
    _base, cars, birds = two
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious.txt").write_text("mine")
    before = snapshot(tmp_path)
    ran = cli("merge", "--model", cars, "--model", birds, "-o", tmp_path / "out")
    assert ran.code == 1
    assert "already exists" in ran.err
    assert "--force" in ran.err
    assert snapshot(tmp_path) == before


def test_an_empty_folder_is_no_obstacle(tmp_path, two):
    (tmp_path / "out").mkdir()
    smelt.merge(list(two[1:]), out=tmp_path / "out")
    assert smelt.verify(tmp_path / "out").ok
    assert leftovers(tmp_path) == []


def test_force_replaces_the_whole_folder_so_that_no_old_shard_survives(tmp_path, two, cli):
    _base, cars, birds = two
    out = tmp_path / "out"
    smelt.merge([cars, birds], out=out, shard_size="40B")
    assert len(list(out.glob("model-*-of-*.safetensors"))) == 6
    (out / "pytorch_model.bin").write_bytes(b"old")
    ran = cli("merge", "--model", cars, "--model", birds, "-o", out, "--force")
    assert ran.code == 0
    assert sorted(p.name for p in out.iterdir()) == ["README.md", "config.json", "manifest.json", "model.safetensors"]
    assert smelt.verify(out).ok
    assert leftovers(tmp_path) == []


def test_a_failing_merge_leaves_the_old_output_intact_even_with_force(tmp_path, two):
    _base, cars, birds = two
    smelt.merge([cars, birds], out=tmp_path / "out")
    old = snapshot(tmp_path / "out")
    tensors = state(3.0)
    tensors["head.weight"][0, 0] = float("nan")
    write_model(birds, tensors)
    with pytest.raises(NumericalError):
        smelt.merge([cars, birds], out=tmp_path / "out", force=True)
    assert snapshot(tmp_path / "out") == old
    assert smelt.verify(tmp_path / "out").ok


def test_the_old_output_stands_until_the_new_one_is_complete(tmp_path, two, monkeypatch):
    base, cars, birds = two
    smelt.merge([cars, birds], out=tmp_path / "out")
    old, seen = snapshot(tmp_path / "out"), []
    on_every_write(monkeypatch, lambda _: seen.append(snapshot(tmp_path / "out") == old))
    smelt.merge([cars, birds], base=base, method="ties", out=tmp_path / "out", force=True)
    assert len(seen) > 6
    assert all(seen)
    assert snapshot(tmp_path / "out") != old


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("which", ["model", "base", "parent", "link", "dots"])
def test_an_output_that_holds_an_input_is_refused(tmp_path, two, cli, which, force):
    base, cars, birds = two
    (tmp_path / "link").symlink_to(birds)
    out = {
        "model": birds,
        "base": base,
        "parent": birds.parent,
        "link": tmp_path / "link",
        "dots": cars / ".." / "birds",
    }[which]
    before = snapshot(tmp_path)
    words = ["--force"] if force else []
    ran = cli("merge", "-m", "ties", "--base", base, "--model", cars, "--model", birds, "-o", out, *words)
    assert ran.code == 1
    assert "holds an input" in ran.err
    assert str(out) in ran.err
    assert snapshot(tmp_path) == before


def test_the_folder_of_an_adapter_is_an_input_too(tmp_path):
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    size = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "vocab_size": 8, "num_attention_heads": 2}
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**size)).save_pretrained(tmp_path / "base")
    model = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "base")
    peft.get_peft_model(model, peft.LoraConfig(target_modules=["q_proj"])).save_pretrained(tmp_path / "lora")
    before = snapshot(tmp_path)
    reference = f"{tmp_path / 'base'}+{tmp_path / 'lora'}"
    with pytest.raises(OutputError, match="holds an input"):
        smelt.merge(
            {"tuned": reference}, base=tmp_path / "base", method="task_arithmetic", out=tmp_path / "lora", force=True
        )
    assert snapshot(tmp_path) == before


def test_a_file_at_the_output_is_kept(tmp_path, two):
    (tmp_path / "out").write_text("mine")
    for force in (False, True):
        with pytest.raises(OutputError, match="is a file"):
            smelt.merge(list(two[1:]), out=tmp_path / "out", force=force)
    assert (tmp_path / "out").read_text() == "mine"


def test_a_link_at_the_output_can_be_replaced_again_and_again(tmp_path, two):
    smelt.merge(list(two[1:]), out=tmp_path / "elsewhere")
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    for _ in range(3):
        smelt.merge(list(two[1:]), out=tmp_path / "out", force=True)
        assert smelt.verify(tmp_path / "out").ok
    assert leftovers(tmp_path) == []


def test_the_folder_one_stands_in_can_be_the_output(tmp_path, two, monkeypatch):
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    try:
        smelt.merge(list(two[1:]), out=".")
    except SmeltError as error:
        assert "out" in str(error)  # noqa: PT017 - either it works or it is refused in words
        return
    assert smelt.verify(tmp_path / "out").ok


def test_parents_of_the_output_are_made(tmp_path, two):
    smelt.merge(list(two[1:]), out=tmp_path / "a" / "b" / "out")
    assert smelt.verify(tmp_path / "a" / "b" / "out").ok


def test_two_runs_into_one_output_are_refused(tmp_path, two, monkeypatch):
    """The first is held in the middle of its writing; the second must not touch what it has made."""
    _base, cars, birds = two
    reached, go_on, holder = threading.Event(), threading.Event(), []

    def slow(_):
        if threading.current_thread().name.startswith("smelt") and not holder:
            holder.append(threading.current_thread())
            reached.set()
            go_on.wait(240)

    on_every_write(monkeypatch, slow)
    monkeypatch.setattr(writing, "_PATIENCE", 0.2)  # the first goes on when it is told to, however long that takes
    results = []
    first = threading.Thread(target=lambda: results.append(smelt.merge([cars, birds], out=tmp_path / "out")))
    first.start()
    assert reached.wait(240)
    try:
        with pytest.raises(OutputError, match="another run is writing"):
            smelt.merge([cars, birds], out=tmp_path / "out")
        with pytest.raises(OutputError, match="another run is writing"):
            smelt.merge([cars, birds], out=tmp_path / "out", resume=True, force=True)
    finally:
        go_on.set()
        first.join()
    assert results[0].tensors == 6
    assert smelt.verify(tmp_path / "out").ok
    assert read_weights(tmp_path / "out")["embed.weight"][0, 0] == 2


def test_a_folder_that_appears_while_the_merge_runs_is_kept(tmp_path, two, monkeypatch):
    from smelt.engine.sink import output

    complete = output.OutputFolder.complete

    def appear(self, *arguments):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "other.txt").write_text("someone else's")
        return complete(self, *arguments)

    monkeypatch.setattr(output.OutputFolder, "complete", appear)
    with pytest.raises(OutputError, match="appeared while the merge ran; it is kept"):
        smelt.merge(list(two[1:]), out=tmp_path / "out")
    assert snapshot(tmp_path / "out") == {"other.txt": b"someone else's"}
    assert smelt.verify(tmp_path / ".out.smelt-partial" / "output").ok, "the message says that the result is there"


def test_the_same_merge_gives_the_same_bytes_whatever_the_threads(tmp_path):
    shapes = {f"layers.{n}.w": (300, 70) for n in range(12)}
    models = {n: write_model(tmp_path / n, random_state(i, shapes)) for i, n in enumerate(("base", "cars", "birds"))}
    base = models.pop("base")
    method = [("dare", {"density": 0.5}), ("ties", {"density": 0.3})]
    found = []
    for threads in (1, 2, 4):
        smelt.merge(
            models, base=base, method=method, out=tmp_path / str(threads) / "out", threads=threads, memory="64MB"
        )
        found.append(snapshot(tmp_path / str(threads) / "out"))
    assert found[0] == found[1] == found[2]


def test_many_shards_need_few_open_files_and_few_threads(tmp_path):
    """Systems allow a process 1,024 open files, some 256; a large model in small shards has more of them."""
    import resource

    shapes = {f"layers.{n}.w": (4,) for n in range(300)}
    models = [write_model(tmp_path / name, random_state(seed, shapes)) for seed, name in enumerate(("a", "b"))]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with pytest.MonkeyPatch.context() as patch:
            on_every_write(patch, lambda _: most.append(threading.active_count()))
            smelt.merge(models, out=tmp_path / "out", shard_size="16B")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert max(most) < 64
    assert len(list((tmp_path / "out").glob("*.safetensors"))) == 300


def test_nothing_of_the_output_depends_on_the_clock(tmp_path, two):
    smelt.merge(list(two[1:]), out=tmp_path / "1" / "out")
    time.sleep(1.1)
    smelt.merge(list(two[1:]), out=tmp_path / "2" / "out")
    assert snapshot(tmp_path / "1") == snapshot(tmp_path / "2")


def test_models_in_memory_are_not_written_by_mistake(tmp_path):
    with pytest.raises(SmeltError, match="memory"):
        smelt.merge([{"w": torch.ones(1)}, {"w": torch.ones(1)}], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
