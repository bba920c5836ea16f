"""The loop of a collaboration suite: it goes on where it was, a failing step costs its line, figures are drawn."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import smelt
from collaboration_suite import ALONE, BASELINES, EXPERTS, Together
from pico_clip import save_clip
from smelt.errors import IncompatibleModels, NumericalError, RecipeError, SmeltError
from smelt.evaluation.row import Row
from smelt.suites.collaboration import units

TURNED = "Turned, 2 experts"


def essence(rows: Any) -> list[str]:
    """Rows without the moment of their making and the last digits of their loss, in one order."""
    words = [row.model_dump(mode="json", exclude={"when"}) for row in rows]
    return sorted(json.dumps({**one, "loss": f"{one['loss']:.4f}"}, sort_keys=True) for one in words)


@pytest.fixture
def copy(together: Together, tmp_path: Path) -> Path:
    """The finished run's folder, to be written to."""
    return Path(shutil.copytree(together.done.folder, tmp_path / "copy"))


@pytest.fixture
def no_units(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**words: Any) -> None:
        raise AssertionError("something was computed")

    for name in units.__all__:
        monkeypatch.setattr(units, name, refuse)


def test_the_run_tells_a_line_for_each_step_with_both_levels(together: Together) -> None:
    assert len(together.told) == 27
    assert together.told[0].startswith(f"[ 1/27] {TURNED}: base and experts (")
    assert together.told[1].startswith(f"[ 2/27] {TURNED}: Simple averaging: Mer. 50.0 %, Ens. 50.0 % (")
    assert together.told[3].startswith(f"[ 4/27] {TURNED}: TIES: Mer. 50.0 % (")
    assert together.told[-1].startswith(f"[27/27] {TURNED}: shares of the data (")


def test_a_second_run_computes_nothing_and_changes_no_byte(together: Together, copy: Path, no_units: None) -> None:
    before, told = (copy / "rows.jsonl").read_bytes(), []
    done = smelt.bench(together.suite, out=copy, tell=told.append)
    assert done.computed == 0
    assert (copy / "rows.jsonl").read_bytes() == before
    assert len(told) == 27
    assert all(line.endswith("(there already)") for line in told)


def test_a_killed_run_goes_on_with_the_steps_that_it_lacks(together: Together, copy: Path) -> None:
    """Steps are there, lacking, and half there: a kill while a step's rows were written leaves some of them."""
    lines = (copy / "rows.jsonl").read_text().splitlines(keepends=True)
    rows = [json.loads(line) for line in lines]
    cut = next(i for i, row in enumerate(rows) if row["entry"] == "ties") - 3  # one of four rows of task arithmetic
    (copy / "rows.jsonl").write_text("".join(lines[:cut]) + lines[cut][:40])
    told: list[str] = []
    done = smelt.bench(together.suite, out=copy, tell=told.append)
    assert done.computed == len(rows) - cut
    assert [line.endswith("(there already)") for line in told] == [True, True, *[False] * 25]
    assert (copy / "rows.jsonl").read_text().startswith("".join(lines[:cut]))
    assert essence(done.rows) == essence(together.rows())


def test_some_methods_are_computed_first_and_the_others_later(together: Together, changed: Any, tmp_path: Path) -> None:
    suite, out = changed(**ALONE), tmp_path / "out"
    first = smelt.bench(suite, out=out, methods=["average"])
    assert {row.entry for row in first.rows} == {"pretrained", "expert-plain", "expert-turned", "average"}
    assert not (out / "analyses").exists()
    second = smelt.bench(suite, out=out)
    assert second.computed == 4
    assert {row.entry for row in second.rows[first.computed :]} == {"neulig-semi"}


def test_a_baseline_with_another_setting_is_computed_again(together: Together, changed: Any, tmp_path: Path) -> None:
    words = {**ALONE, "boosting": [], "baselines": {"task_arithmetic": BASELINES["task_arithmetic"]}}
    smelt.bench(changed(**words), out=tmp_path / "out")
    words["baselines"] = {
        "task_arithmetic": {**BASELINES["task_arithmetic"], "merge": {"task_arithmetic": {"scale": 0.9}}}
    }
    done = smelt.bench(changed(**words), out=tmp_path / "out")
    assert done.computed == 4
    assert [row.setting["scale"] for row in done.rows[-8:]] == [0.3] * 4 + [0.9] * 4


def test_other_shares_and_epochs_are_computed_and_the_same_ones_are_not(
    together: Together, copy: Path, changed: Any
) -> None:
    shares = {"groups": [TURNED], "fractions": [0.1, 0.5]}
    epochs = {"group": TURNED, "to": "Second", "epochs": [0, 2]}
    done = smelt.bench(changed(fractions=shares, transfer=epochs), out=copy)
    new = done.rows[-done.computed :]
    assert {row.setting.get("fraction") for row in new if "fraction" in row.setting} == {0.5}
    assert {row.setting.get("epoch") for row in new if "epoch" in row.setting} == {0}
    assert done.computed == 4 + 8


def test_a_failing_step_costs_its_line_only(
    together: Together, changed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = units.baseline

    def fails(*, about: Any, **words: Any) -> Any:
        if about["entry"] == "ties":
            raise NumericalError("NaN in ties\nand more about it")
        return real(about=about, **words)

    monkeypatch.setattr(units, "baseline", fails)
    told: list[str] = []
    words = {**ALONE, "baselines": {name: BASELINES[name] for name in ("average", "ties", "task_arithmetic")}}
    with pytest.raises(NumericalError, match="NaN in ties"):
        smelt.bench(changed(**words), out=tmp_path / "out", tell=told.append)
    assert [line.split("(")[0].strip() for line in told if "FAILED" in line] == [
        f"[ 3/5] {TURNED}: TIES: FAILED, NaN in ties"
    ]
    rows = (tmp_path / "out" / "rows.jsonl").read_text()
    assert all(f'"entry":"{entry}"' in rows for entry in ("average", "task_arithmetic", "neulig-semi"))
    assert '"entry":"ties"' not in rows
    assert (tmp_path / "out" / "report.html").exists()
    monkeypatch.setattr(units, "baseline", real)
    assert smelt.bench(changed(**words), out=tmp_path / "out").computed == 2


def test_where_every_step_fails_all_of_them_are_told(
    together: Together, changed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(**words: Any) -> None:
        raise NumericalError("NaN everywhere")

    for name in units.__all__:
        monkeypatch.setattr(units, name, fails)
    with pytest.raises(SmeltError, match="3 steps failed; the others are done") as caught:
        smelt.bench(changed(**ALONE), out=tmp_path / "out")
    assert str(caught.value).count("NaN everywhere") == 3


@pytest.mark.parametrize("which", ["limit", "fit"])
def test_another_protocol_is_refused_in_the_same_folder(
    together: Together, copy: Path, changed: Any, which: str
) -> None:
    words: dict[str, Any] = {"limit": 13} if which == "limit" else {}
    suite = together.suite if which == "limit" else changed(fit={"examples": 20, "validation": 9, "epochs": 2})
    with pytest.raises(RecipeError, match="was begun with " + ("limit 12 instead of 13" if words else "another")):
        smelt.bench(suite, out=copy, **words)


def test_the_suites_own_limit_is_the_same_protocol_as_saying_it(together: Together, copy: Path, no_units: None) -> None:
    assert smelt.bench(together.suite, out=copy, limit=12).computed == 0


def test_force_begins_anew(together: Together, changed: Any, tmp_path: Path) -> None:
    suite = changed(**ALONE)
    smelt.bench(suite, out=tmp_path / "out", methods=["neulig-semi"])
    assert list((tmp_path / "out" / "analyses").iterdir())
    done = smelt.bench(suite, out=tmp_path / "out", limit=6, methods=["average"], force=True)
    assert {(row.n, row.variant) for row in done.rows} == {(6, "reference"), (6, "published")}
    assert not (tmp_path / "out" / "analyses").exists()


def test_a_model_that_was_written_to_the_same_place_is_seen(together: Together, changed: Any, tmp_path: Path) -> None:
    """In one process: what was loaded for the first run is not taken for the model that is there now."""
    from pico_suite import turned_clip

    own = tmp_path / "own"
    pool = together.pools["Turned"]
    suite = changed(**ALONE, pools={"Turned": {**pool, "models": {**pool["models"], "plain": str(own)}}})

    def expert() -> float:
        done = smelt.bench(suite, out=tmp_path / "out", methods=["average"], force=True)
        (row,) = (row for row in done.rows if row.entry == "expert-plain")
        return row.accuracy

    save_clip(turned_clip(0), own)
    assert expert() == 1.0
    other = turned_clip(1)
    with torch.no_grad():
        other.vision_model.post_layernorm.bias.add_(0.1)
    save_clip(other, own)
    assert expert() == 0.0


def test_the_map_and_its_diagonal_are_written_and_shown(together: Together) -> None:
    folder = together.done.folder / "analyses"
    slug = "turned-2-experts-neulig-supervised"
    heat, lines = (json.loads((folder / f"{kind}-{slug}.json").read_text()) for kind in ("heat", "lines"))
    assert (heat["rows"], heat["columns"], heat["title"]) == (
        EXPERTS,
        EXPERTS,
        f"CoopVec Map: {TURNED}: NeuLig (supervised)",
    )
    assert [sum(line) for line in heat["matrix"]] == pytest.approx([1, 1])
    assert lines["x"] == [0, 1, 2]
    (chosen,) = {row.setting["chosen_epoch"] for row in together.rows(part=TURNED, entry="neulig-supervised")}
    diagonal = {name: heat["matrix"][place][place] for place, name in enumerate(EXPERTS)}
    assert {name: values[chosen] for name, values in lines["lines"].items()} == pytest.approx(diagonal)
    assert f"epoch {chosen} was chosen" in lines["note"]
    page = together.done.report.read_text()
    assert heat["title"] in page
    assert lines["title"] in page
    kinds = {path.name.rsplit("-2-experts-", 1)[0] for path in folder.glob("heat-*.json")}
    assert {"heat-turned", "heat-linear", "heat-conv"} <= kinds


def test_the_map_of_test_pictures_stands_beside_it(together: Together) -> None:
    folder = together.done.folder / "analyses"
    tested = json.loads((folder / "heat-tested-turned-2-experts-neulig-supervised.json").read_text())
    learned = json.loads((folder / "heat-turned-2-experts-neulig-supervised.json").read_text())
    assert [sum(line) for line in tested["matrix"]] == pytest.approx([1, 1])
    assert tested["matrix"] != learned["matrix"]


def test_the_report_has_a_table_for_every_group_and_both_series(together: Together) -> None:
    table = (together.done.folder / "table.md").read_text()
    for text in (TURNED, "Linear, 2 experts", "Conv, 2 experts", "Mer.", "Ens.", "Gap", "Other experts"):
        assert text in table


def test_two_processes_give_the_rows_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On models and tasks of the zoo, which other processes find by name."""
    from smelt.suites.find import find_suite

    experts = ["photos", "digits"]
    shipped = find_suite("neulig")
    words = {
        **shipped.model_dump(mode="json", exclude_unset=True),
        "name": "two",
        "limit": 10,
        "pools": {"ViT": {"base": "zoo:clip-tiny", "models": {name: f"zoo:clip-tiny-{name}" for name in experts}}},
        "groups": {"ViT, 2 experts": {"pool": "ViT", "experts": experts}},
        "baselines": {"average": BASELINES["average"]},
        "fit": {"examples": 30, "validation": 10, "epochs": 2, "batch": 10},
        "variants": [],
        "batch_norm": [],
        "transfer": None,
        "fractions": None,
    }
    suite = type(shipped).model_validate(words)
    found = {}
    for executor, workers in (("inline", 1), ("local", 2)):
        monkeypatch.setenv("SMELT_CACHE", str(tmp_path / f"cache-{workers}"))
        done = smelt.bench(suite, out=tmp_path / str(workers), executor=executor, workers=workers)
        assert done.computed == 4 + 3 * 4
        found[workers] = essence(row for row in done.rows if isinstance(row, Row))
        assert len(list((tmp_path / str(workers) / "analyses").glob("*.json"))) == 11
    assert found[1] == found[2]


def test_models_of_different_shapes_are_refused_before_anything(
    together: Together, changed: Any, tmp_path: Path, no_units: None
) -> None:
    from transformers import CLIPModel

    from pico_clip import clip_config, tokenizer

    config = clip_config(tokenizer())
    config.vision_config.intermediate_size = 24
    wide = save_clip(CLIPModel(config), tmp_path / "wide")
    pool = together.pools["Turned"]
    suite = changed(**ALONE, pools={"Turned": {**pool, "models": {**pool["models"], "turned": str(wide)}}})
    with pytest.raises(IncompatibleModels, match=r"cannot collaborate") as caught:
        smelt.bench(suite, out=tmp_path / "out")
    assert "(16, 8)" in str(caught.value)
    assert "(24, 8)" in str(caught.value)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "out").exists()
