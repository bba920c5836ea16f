"""Every registered stage keeps every law that it does not declare itself exempt from, and every law can fail."""

import importlib

import pytest
import torch

from smelt.engine.run.cpu import backend
from smelt.engine.run.cpu.backend import VectorBackend
from smelt.engine.run.eager import EagerBackend
from smelt.engine.run.pipeline import PipelineRunner
from smelt.formats.architecture.layout import Matrices, Orientation
from smelt.formats.safetensors import FileSource
from smelt.methods import merge_method, stages
from smelt.testing import (
    EXAMPLES,
    LAWS,
    applicable,
    check_stage,
    digest,
    load,
    pico,
    save,
    unneeded_exemptions,
    variants,
)
from smelt.testing.pico import BUFFER

# Law by law: what a law keeps for all stages, such as its processes, is then needed by few of the test workers.
CASES = [(name, law) for law in LAWS for name, stage in sorted(stages.items()) if law in applicable(stage)]

# What may not depend on a parameter. `wudi: {solver: adam}` takes seconds a merge and differs only inside a matrix.
OF_ANY_PARAMETERS = ("order", "blocks", "zero", "finite", "scale", "transposed", "stacked")
VARIANTS = [
    (name, variant, law)
    for name, stage in sorted(stages.items())
    for variant in variants(stage)
    for law in OF_ANY_PARAMETERS
    if law in applicable(stage) and not (variant == {"solver": "adam"} and law != "finite")
]


@pytest.mark.parametrize(("name", "law"), CASES, ids=lambda value: str(value))
def test_every_stage_keeps_every_law(name, law):
    LAWS[law](stages[name])


@pytest.mark.parametrize(("name", "variant", "law"), VARIANTS, ids=str)
def test_every_option_keeps_the_laws_that_hold_for_any_parameters(name, variant, law):
    LAWS[law](stages[name], **variant)


@pytest.mark.parametrize("name", sorted(name for name, stage in stages.items() if stage.exempt))
def test_every_exemption_is_needed(name):
    assert unneeded_exemptions(stages[name]) == []


def test_every_exemption_gives_a_reason():
    for stage in stages.values():
        assert all(len(reason) > 10 for reason in stage.exempt.values()), stage.name


@pytest.fixture
def broken():
    """The registry with the broken stages in it, for one test."""
    before = dict(stages)
    module = importlib.import_module("broken_stages")
    importlib.reload(module)
    yield stages
    stages.clear()
    stages.update(before)


BREAKABLE_BY_A_STAGE = {
    "broken_order": "order",
    "broken_copies": "copies",
    "broken_blocks": "blocks",
    "broken_threads": "threads",
    "broken_hash_seeds": "hash_seeds",
    "broken_zero": "zero",
    "broken_finite": "finite",
    "broken_single": "single",
    "broken_seed": "seed",
    "broken_seed_of_its_own": "seed",
    "broken_pure": "pure",
    "broken_scale": "scale",
    "broken_scale_after": "scale",
}


@pytest.mark.parametrize(("name", "law"), BREAKABLE_BY_A_STAGE.items())
def test_a_broken_stage_breaks_its_law(broken, name, law):
    with pytest.raises(AssertionError, match=name):
        LAWS[law](broken[name])


@pytest.mark.parametrize("name", ["broken_order", "broken_copies", "broken_pure"])
def test_a_broken_stage_keeps_the_laws_that_it_does_not_break(broken, name):
    """So that a law says what is wrong: each of these breaks its own law and none of the quick others."""
    others = set(applicable(broken[name])) - {BREAKABLE_BY_A_STAGE[name], "hash_seeds"}
    for law in sorted(others):
        LAWS[law](broken[name])


def test_every_law_is_seen_to_fail():
    by_engine = {"dtype", "disk", "integers", "transposed", "stacked"}
    assert set(BREAKABLE_BY_A_STAGE.values()) | by_engine == set(LAWS)


def test_dtype_fails_where_half_precision_is_cut_off_instead_of_rounded(monkeypatch):
    whole = PipelineRunner.merge

    def cut_off(self, item, block, folds):
        merged = whole(self, item, block, folds)
        return (merged.view(torch.int32) & -(1 << 16)).view(torch.float32) if item.info.dtype == "BF16" else merged

    monkeypatch.setattr(PipelineRunner, "merge", cut_off)
    monkeypatch.setattr(backend, "library", lambda: None)
    with pytest.raises(AssertionError, match="bfloat16 is not its float32 result rounded once"):
        LAWS["dtype"](stages["average"])


def test_disk_fails_where_files_are_read_wrongly(monkeypatch):
    read = FileSource.read_bytes

    def wrongly(self, key, start, out):
        read(self, key, start, out)
        out[0] ^= 1

    monkeypatch.setattr(FileSource, "read_bytes", wrongly)
    with pytest.raises(AssertionError, match="other bytes from disk"):
        LAWS["disk"](stages["average"])


def test_integers_fail_where_a_buffer_is_not_copied(monkeypatch):
    def forgetful(self, item, span):
        self._write(item, span.start, memoryview(bytearray(8 * (span.stop - span.start))))

    monkeypatch.setattr(EagerBackend, "copy_span", forgetful)
    monkeypatch.setattr(VectorBackend, "copy_span", forgetful)
    with pytest.raises(AssertionError, match="changed the integers"):
        LAWS["integers"](stages["average"])


@pytest.mark.parametrize("name", ["wudi", "della", "dare"])
def test_transposed_fails_where_the_orientation_is_not_known(monkeypatch, name):
    monkeypatch.setattr(Orientation, "_transposed", lambda self, name, shape: False)
    with pytest.raises(AssertionError, match=r"stored as \[in, out\] is not its transposed merge"):
        LAWS["transposed"](stages[name])


@pytest.mark.parametrize(("name", "parameters"), [("tsv", {}), ("model_stock", {"over": "row"}), ("regmean", {})])
def test_stacked_fails_where_a_stack_is_one_tensor(monkeypatch, name, parameters):
    monkeypatch.setattr(Orientation, "_experts", lambda self, name, shape: Matrices(1, shape))
    with pytest.raises(AssertionError, match="stack"):
        LAWS["stacked"](stages[name], **parameters)


def test_an_exemption_that_is_not_needed_is_reported(broken):
    assert unneeded_exemptions(broken["broken_exemption"]) == [
        "broken_exemption is exempt from 'copies' (no reason at all) but keeps it; remove the exemption"
    ]
    assert "which is no law" in unneeded_exemptions(broken["broken_exemption_name"])[0]


def test_check_stage_lists_everything_at_once(monkeypatch):
    @merge_method("doubly_broken", exempt={"integers": "just so"})
    def doubly_broken(deltas):
        return deltas[0] + 0.01

    stage = stages.pop("doubly_broken")
    monkeypatch.delitem(LAWS, "hash_seeds")  # no import finds a stage that is defined inside a test
    with pytest.raises(AssertionError) as caught:
        check_stage(stage)
    message = str(caught.value)
    assert message.startswith("doubly_broken breaks 4 laws:")
    for law in ("- order:", "- copies:", "- zero:", "exempt from 'integers'"):
        assert law in message


def test_check_stage_is_silent_on_a_good_stage():
    check_stage(stages["magmax"])


def test_a_law_needs_no_registration_and_leaves_none():
    @merge_method("passing_by")
    def passing_by(deltas):
        return deltas.mean(0)

    stage = stages.pop("passing_by")
    LAWS["copies"](stage)
    assert "passing_by" not in stages


def test_a_method_of_one_model_has_no_order_and_one_of_two_cannot_stand_alone():
    assert "order" not in applicable(stages["passthrough"])
    assert "single" in applicable(stages["passthrough"])
    assert "order" in applicable(stages["nuslerp"])
    assert "single" not in applicable(stages["nuslerp"])
    assert "order" not in applicable(stages["slerp"])


def test_a_required_parameter_gets_a_value_that_its_type_accepts(monkeypatch):
    seen = []

    @merge_method("needs_values")
    def needs_values(deltas, *, share: float, count: int, how: str):
        seen.append((share, count, how))
        return deltas.mean(0)

    stage = stages.pop("needs_values")
    LAWS["zero"](stage)
    assert set(seen) == {(0.5, 1, "red")}
    monkeypatch.setitem(EXAMPLES, "needs_values.share", 0.25)
    LAWS["zero"](stage)
    assert seen[-1] == (0.25, 1, "red")


def test_pico_models_are_the_same_for_the_same_seed():
    assert digest(pico(2).models["green"]) == digest(pico(2).models["green"])
    assert digest(pico(2).base) != digest(pico(2, seed=1).base)
    assert list(pico(3).models) == ["red", "green", "blue"]


def test_pico_models_move_a_little_and_not_everywhere():
    pool = pico(3)
    for state in pool.models.values():
        assert not torch.equal(state[BUFFER], pool.base[BUFFER])
        moved = state["lm_head.weight"] - pool.base["lm_head.weight"]
        assert 0.02 < float((moved == 0).float().mean()) < 0.2
        assert 0 < float(moved.std()) < 0.01


def test_a_saved_model_loads_as_it_was(tmp_path):
    state = pico(1, dtype=torch.float16).base
    assert digest(load(save(state, tmp_path / "model"))) == digest(state)
