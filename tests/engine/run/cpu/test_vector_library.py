"""The compiled machine is there where it can be, is used where it fits, and nobody needs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import smelt
from checkpoints import read_weights, write_yaml
from smelt.engine.run.cpu import backend
from smelt.engine.run.cpu.backend import VectorBackend
from smelt.engine.run.cpu.machine import library
from smelt.errors import NumericalError
from smelt.formats.safetensors import FileSource

needs_machine = pytest.mark.skipif(library() is None, reason="the vector machine was not compiled")
_SCRIPT = """
import sys
from smelt.cli import main
try:
    main()
finally:
    print("torch" in sys.modules)
"""


def merged(recipe: Path, out: Path, **environment: str) -> str:
    """The last word of a merge by the command: whether it has loaded torch."""
    command = [sys.executable, "-c", _SCRIPT, "merge", str(recipe), "-o", str(out), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    return done.stdout.split()[-1] if done.stdout else done.stderr


@pytest.fixture
def recipe(two: tuple[Path, Path, Path], tmp_path: Path) -> Path:
    base, cars, birds = map(str, two)
    pool = {"base": base, "models": {"cars": cars, "birds": birds}}
    merge = [{"dare": {"density": 0.5}}, {"ties": {"density": 0.5}}]
    return write_yaml(tmp_path / "recipe.yaml", {"pool": pool, "merge": merge})


def test_there_is_a_machine_where_there_was_a_compiler() -> None:
    if os.environ.get("SMELT_REQUIRE_FUSED") != "1":
        pytest.skip("nobody says that there is a C compiler")
    assert library() is not None


@needs_machine
def test_a_merge_of_stored_models_loads_no_torch_and_one_without_the_machine_gives_the_same(
    recipe: Path, tmp_path: Path
) -> None:
    assert merged(recipe, tmp_path / "fused") == "False"
    assert merged(recipe, tmp_path / "eager", SMELT_FUSED="0") == "True"
    ours, theirs = read_weights(tmp_path / "fused"), read_weights(tmp_path / "eager")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert (tmp_path / "fused" / "model.safetensors").read_bytes() == (
        tmp_path / "eager" / "model.safetensors"
    ).read_bytes()


_WITHOUT = """
import sys
import smelt
import smelt.system.process
smelt.system.process.native_library = lambda folder, name: None
for number in "12":
    smelt.merge(sys.argv[1], out=sys.argv[2] + number)
"""


@pytest.mark.parametrize(("fused", "times"), [("1", 1), ("0", 0)])
def test_a_machine_that_is_missing_is_told_of_once_unless_it_is_not_wanted(
    recipe: Path, tmp_path: Path, fused: str, times: int
) -> None:
    command = [sys.executable, "-c", _WITHOUT, str(recipe), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "SMELT_FUSED": fused})
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("merges run in torch") == times
    assert (tmp_path / "out1" / "model.safetensors").read_bytes() == (
        tmp_path / "out2" / "model.safetensors"
    ).read_bytes()


@needs_machine
def test_what_is_not_finite_is_named_as_torch_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = {"w": torch.ones(3000)}
    bad = {"w": torch.ones(3000).index_fill_(0, torch.tensor([2047]), float("nan"))}
    told = []
    for machine in (library, lambda: None):
        monkeypatch.setattr(backend, "library", machine)
        with pytest.raises(NumericalError) as error:
            smelt.merge({"good": good, "bad": bad}, method="average")
        told.append(str(error.value))
    assert "bad" in told[0]
    assert "element 2,047" in told[0]
    assert told[0] == told[1]


@needs_machine
@pytest.mark.parametrize(("dtype", "large"), [("float16", 60000.0), ("bfloat16", 3e38)])
def test_a_result_that_the_format_cannot_hold_is_refused(dtype: str, large: float) -> None:
    model = {"w": torch.full((5,), large).to(getattr(torch, dtype))}
    with pytest.raises(NumericalError, match="can hold it"):
        smelt.merge([model, model], method={"average": {"weights": [1.0, 1.0], "normalize": False}})


@needs_machine
def test_every_half_is_read_and_written_as_it_is() -> None:
    """All numbers of both sixteen-bit formats, subnormal ones and signed zeros too, through the machine and back."""
    bits = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16)
    for dtype in (torch.float16, torch.bfloat16):
        values = bits.view(dtype)
        values = values[values.isfinite()]
        out: Any = smelt.merge([{"w": values}], method="average")
        assert torch.equal(out["w"].view(torch.int16), values.view(torch.int16))


@needs_machine
def test_numbers_are_rounded_to_the_nearest_half_and_ties_to_even() -> None:
    draw = torch.Generator().manual_seed(0)
    spread = torch.randn(200_000, generator=draw) * torch.exp2(torch.randint(-40, 12, (200_000,), generator=draw))
    for dtype in ("float16", "bfloat16"):
        out: Any = smelt.merge([{"w": spread}], method="average", dtype=dtype)
        assert torch.equal(out["w"], spread.to(getattr(torch, dtype)))


@needs_machine
def test_what_has_no_rule_or_no_stored_bytes_is_left_to_torch(two: tuple[Path, Path, Path]) -> None:
    taken = []

    class Watched(VectorBackend):
        def supports(self, item: Any) -> bool:
            taken.append(super().supports(item))
            return taken[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "VectorBackend", Watched)
        smelt.merge(list(two[1:]), base=two[0], method="ties")
        assert all(taken)
        taken.clear()
        smelt.merge(list(two[1:]), base=two[0], method="tsv")  # which leaves vectors to the average
        assert {True, False} == set(taken)
        taken.clear()
        patch.setattr(FileSource, "has_bytes", lambda self, key: False)
        smelt.merge(list(two[1:]), base=two[0], method="ties")
        assert not any(taken)
