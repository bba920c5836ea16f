"""`device: auto` takes what is estimated to take less time, says why, and loads torch only for a GPU."""

import json
import subprocess
import sys

import pytest
import torch

import smelt
from smelt.engine.merge import planned
from smelt.engine.plan.plan import Plan
from smelt.engine.request import read_request
from smelt.engine.run.device import check_word, choose, data_device, found_device, resolved
from smelt.engine.run.estimate import Matrices, estimate, matrices_of, shown_seconds
from smelt.system.hardware import Gpu, Gpus, usable_gpus

H200 = Gpu("H200", 150_000_000_000)
TWO = {"a": "shape:llama-3.2-3b", "b": "shape:llama-3.2-3b@float32"}


@pytest.fixture
def with_gpus(monkeypatch):
    """This machine with so many GPUs, as far as anyone can tell without torch."""

    def put(*found):
        there = Gpus("570", list(found), None if found else "no driver")
        monkeypatch.setattr("smelt.system.hardware.usable_gpus", lambda: there)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(found))
        monkeypatch.setattr("smelt.engine.run.device.begin", lambda *_, **__: None)

    return put


def plan_of(method, models=TWO, base="shape:llama-3.2-3b"):
    recipe, relative_to, pool = read_request(models, base, method, {})
    with planned(recipe, relative_to=relative_to, pool=pool, shapes=True) as ready:
        return ready.plan


@pytest.mark.parametrize("word", ["cpu", "cuda", "cuda:1", "auto"])
def test_four_words_name_a_device(word):
    assert check_word(word) == word


@pytest.mark.parametrize(
    ("word", "said"),
    [("cdua", "did you mean 'cuda'?"), ("aut", "did you mean 'auto'?"), ("cuda:x", "write cpu, cuda, cuda:1 or auto")],
)
def test_another_word_is_refused_before_a_model_is_opened(word, said):
    with pytest.raises(smelt.RecipeError, match="no device named") as refused:
        smelt.merge(["dir:there/is/none"], method="average", device=word)
    assert said in str(refused.value)


def test_elements_stay_on_the_cpu_and_matrices_go_to_the_gpu(with_gpus):
    with_gpus(H200)
    elements, matrices = (choose(plan_of(method), threads=16) for method in ("ties", "tsv"))
    assert (elements.device, matrices.device) == ("cpu", "cuda")
    assert elements.seconds.cpu < elements.seconds.cuda
    assert matrices.seconds.cuda < matrices.seconds.cpu / 5
    assert "estimated about" in matrices.note
    assert "on 16 cores" in matrices.note
    assert "on H200" in matrices.note


def test_without_a_gpu_it_is_the_cpu_and_says_what_is_missing(with_gpus):
    with_gpus()
    choice = choose(plan_of("tsv"))
    assert choice.note == "device auto: cpu, no GPU can be used (no driver)"


def test_a_matrix_that_does_not_fit_a_gpu_stays_on_the_cpu(with_gpus):
    with_gpus(Gpu("small", 1_000_000_000))
    choice = choose(plan_of("tsv"), threads=16)
    assert choice.device == "cpu"
    assert "GB of a GPU's memory" in choice.note


def test_a_gpu_that_torch_cannot_use_after_all_is_left_alone(with_gpus, monkeypatch):
    with_gpus(H200)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    device, said = resolved("auto", plan_of("tsv"), 16)
    assert device == "cpu"
    assert "torch cannot use the GPU" in said[0]


def test_a_device_that_is_named_is_taken_without_a_word():
    assert resolved("cuda:3", None) == ("cuda:3", ())


def test_a_number_that_no_gpu_has_is_refused(with_gpus, monkeypatch):
    with_gpus(H200)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(smelt.RecipeError, match="there is one GPU here, counted from 0"):
        found_device("cuda:1")


def test_data_is_looked_at_on_a_gpu_wherever_there_is_one(with_gpus):
    with_gpus(H200)
    assert [data_device(one) for one in ("auto", "cpu", "cuda:1")] == ["cuda", "cpu", "cuda:1"]
    with_gpus()
    assert data_device("auto") == "cpu"


def test_a_matrix_costs_one_factorisation_for_each_model_and_one_more():
    models = {name: {"layers.0.mlp.w": torch.randn(8, 4)} for name in ("a", "b")}
    base = {"layers.0.mlp.w": torch.zeros(8, 4)}
    (item,) = plan_of("tsv", models, base).items
    assert matrices_of(item) == Matrices(3, 3 * 4, 3 * 9 * 4**3, 3 * 3 * 2 * 4 * 4 * 8)
    (item,) = plan_of("ties", models, base).items
    assert matrices_of(item) == Matrices()


def test_more_cores_and_more_gpus_are_never_estimated_to_take_longer():
    plan = plan_of("tsv")
    by_cores = [estimate(plan, cores).cpu for cores in (1, 2, 8, 64)]
    by_gpus = [estimate(plan, 16, gpus).cuda for gpus in (1, 2, 8)]
    assert by_cores == sorted(by_cores, reverse=True)
    assert by_gpus == sorted(by_gpus, reverse=True)


def test_seconds_have_no_more_digits_than_an_estimate_has():
    assert [shown_seconds(one) for one in (1.26, 12.3, 1200.5)] == ["about 1.3 s", "about 13 s", "about 21 min"]


def test_a_plan_tells_both_estimates_and_what_auto_takes(with_gpus, cli):
    with_gpus(H200)
    words = ["plan", "-m", "tsv", "--base", TWO["a"], "--model", TWO["a"], "--model", TWO["b"], "--threads", "16"]
    said = json.loads(cli(*words, "--device", "auto", "--json").out)
    assert said["seconds"]["cpu"] > said["seconds"]["cuda"] > 0
    assert (said["auto"], said["device"]) == ("cuda", "cuda")
    shown = cli(*words).out
    assert "estimated: about" in shown
    assert "device auto takes cuda" in shown


def test_auto_is_resolved_before_the_fingerprint_and_leaves_no_trace_in_the_output(
    two, tmp_path, with_gpus, monkeypatch
):
    with_gpus()
    base, cars, birds = two
    kinds, real = [], Plan.fingerprint
    monkeypatch.setattr(Plan, "fingerprint", lambda self, kind: (kinds.append(kind), real(self, kind))[1])
    (tmp_path / "auto").mkdir()
    (tmp_path / "cpu").mkdir()
    done = {
        device: smelt.merge([cars, birds], base=base, method="ties", out=tmp_path / device / "out", device=device)
        for device in ("auto", "cpu")
    }
    assert kinds == ["cpu", "cpu"]
    assert done["auto"].notes == (*done["cpu"].notes, "device auto: cpu, no GPU can be used (no driver)")
    one, other = ((tmp_path / name / "out" / "manifest.json").read_text() for name in ("auto", "cpu"))
    assert one == other


def test_auto_loads_no_torch_where_the_merge_needs_none(two, tmp_path):
    base, cars, birds = map(str, two)
    script = "import sys\nfrom smelt.cli import main\ntry:\n main()\nexcept SystemExit:\n print('torch' in sys.modules)"
    words = ["merge", "-m", "ties", "--base", base, "--model", cars, "--model", birds, "--device", "auto"]
    ran = subprocess.run(
        [sys.executable, "-c", script, *words, "-o", str(tmp_path / "out")], capture_output=True, text=True, check=True
    )
    assert "device auto: cpu" in ran.stdout + ran.stderr
    assert ran.stdout.endswith("False\n")


@pytest.mark.parametrize(
    ("visible", "found"),
    [(None, ["a", "b", "c"]), ("", []), ("-1", []), ("2,0", ["c", "a"]), ("1,9,0", ["b"]), ("GPU-1f2e", ["a"])],
)
def test_gpus_that_are_hidden_from_cuda_are_not_counted(monkeypatch, visible, found):
    monkeypatch.setattr("smelt.system.hardware.torch_built_for", lambda: "CUDA 12.8")
    three = Gpus("570", [Gpu(name, 1) for name in "abc"], None)
    monkeypatch.setattr("smelt.system.hardware.gpus", lambda: three)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    told = usable_gpus()
    assert [one.name for one in told.found] == found
    assert bool(told.fault) == (not found)


def test_a_torch_for_processors_has_no_gpus(monkeypatch):
    monkeypatch.setattr("smelt.system.hardware.torch_built_for", lambda: None)
    assert usable_gpus().found == []
