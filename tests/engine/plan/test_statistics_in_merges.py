"""Statistics are one more Source per model: paired by name, checked before a weight is read, streamed beside it."""

import json

import pytest
import torch

import smelt
from checkpoints import read_weights, snapshot, state, write_yaml
from smelt.engine.plan.build import make_plan
from smelt.engine.pool import ModelPool
from smelt.engine.run.work_memory import eager_thread_memory as work_memory
from smelt.errors import CorruptFile, IncompatibleModels, NumericalError, RecipeError, SmeltError
from smelt.files.hashing.blake3 import blake3_of
from smelt.files.identity import hash_file
from smelt.formats.source import MemorySource
from smelt.formats.statistics import StatisticsNote, open_statistics, write_statistics
from smelt.methods import merge_method, merge_step, stages
from smelt.ops.fold import Sum
from smelt.recipe.schema import Recipe
from smelt.testing.trial import block_size

MODELS = {"cars": {"w": torch.tensor([1.0])}, "birds": {"w": torch.tensor([5.0])}}
FISHER = {"cars": {"w": torch.tensor([3.0])}, "birds": {"w": torch.tensor([1.0])}}


def known(value, layers=2):
    return {name: torch.full_like(tensor, value) for name, tensor in state(layers=layers).items()}


def measured(folder, tensors, kind="fisher", examples=1, **words):
    about = {"kind": kind, "estimator": "exact", "model": folder.name, "model_hash": "", "data": (), **words}
    write_statistics(folder, StatisticsNote(**about, examples=examples), tensors, force=True)
    return folder


@pytest.fixture
def on_disk(tmp_path, two):
    """The models cars and birds, one and three above their base, with a Fisher of three and of one."""
    _, cars, birds = two
    refs = {"cars": str(cars), "birds": str(birds)}
    folders = {"cars": measured(tmp_path / "f-cars", known(3.0)), "birds": measured(tmp_path / "f-birds", known(1.0))}
    return refs, {name: str(folder) for name, folder in folders.items()}


def test_models_and_statistics_are_paired_by_name_whatever_their_order():
    turned = dict(reversed(FISHER.items()))
    for statistics in (FISHER, turned):
        assert smelt.merge(MODELS, method="fisher", statistics=statistics)["w"].tolist() == pytest.approx([2.0])


def test_disk_gives_what_memory_gives_and_sums_are_read_as_means(tmp_path, on_disk):
    refs, folders = on_disk
    measured(tmp_path / "f-cars", known(12.0), examples=4)
    smelt.merge(refs, method="fisher", statistics=folders, out=tmp_path / "out")
    for name, tensor in read_weights(tmp_path / "out").items():
        assert torch.allclose(tensor, state(1.5)[name], atol=1e-5), name  # (3*1 + 1*3) / 4 above the base


def test_the_manifest_names_the_statistics_with_their_hashes(tmp_path, on_disk):
    refs, folders = on_disk
    smelt.merge(refs, method="fisher", statistics=folders, out=tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert list(manifest["parents"]) == ["cars", "birds"]
    assert manifest["statistics"]["birds"] == {
        "ref": folders["birds"],
        "files": {
            name: {"blake3": blake3_of(tmp_path / "f-birds" / name)}
            for name in ("statistics.safetensors", "statistics.json")
        },
    }
    assert smelt.verify(tmp_path / "out").ok


def test_a_merge_without_statistics_has_none_in_its_manifest(tmp_path, on_disk):
    smelt.merge(on_disk[0], method="average", out=tmp_path / "out")
    assert "statistics" not in json.loads((tmp_path / "out" / "manifest.json").read_text())


def test_a_finished_output_is_kept_by_resume_until_its_statistics_change(tmp_path, on_disk):
    refs, folders = on_disk
    words = {"method": "fisher", "statistics": folders, "out": tmp_path / "out"}
    smelt.merge(refs, **words)
    before = snapshot(tmp_path / "out")
    assert smelt.merge(refs, **words, resume=True).resumed == 6
    assert snapshot(tmp_path / "out") == before
    measured(tmp_path / "f-birds", known(2.0))
    with pytest.raises(SmeltError, match="exists"):
        smelt.merge(refs, **words, resume=True)


def test_other_statistics_make_another_fingerprint(tmp_path, on_disk):
    def fingerprint():
        recipe = Recipe.parse({"pool": {"models": on_disk[0]}, "merge": "fisher", "statistics": on_disk[1]})
        with smelt.engine.merge.planned(recipe) as ready:
            return ready.plan.fingerprint("cpu")

    first = fingerprint()
    assert fingerprint() == first
    measured(tmp_path / "f-birds", known(2.0), examples=2)
    assert fingerprint() != first


def test_a_recipe_names_statistics_relative_to_its_file(tmp_path, on_disk):
    pool = {"models": {"cars": "models/cars", "birds": "models/birds"}}
    statistics = {"cars": "f-cars", "birds": "dir:f-birds"}
    recipe = write_yaml(tmp_path / "r.yaml", {"pool": pool, "merge": "fisher", "statistics": statistics})
    merged = smelt.merge(recipe)
    assert torch.allclose(merged["head.weight"], state(1.5)["head.weight"], atol=1e-5)


def test_models_in_memory_may_have_statistics_in_folders_or_open(tmp_path, on_disk):
    models = {"cars": state(1.0), "birds": state(3.0)}
    with_paths = smelt.merge(models, method="fisher", statistics=on_disk[1])
    opened = {name: open_statistics(folder) for name, folder in on_disk[1].items()}
    with_sources = smelt.merge(models, method="fisher", statistics=opened)
    for name, tensor in with_paths.items():
        assert torch.allclose(tensor, state(1.5)[name], atol=1e-5)
        assert torch.equal(tensor, with_sources[name])


def test_statistics_in_memory_do_not_go_with_models_in_folders(on_disk):
    with pytest.raises(RecipeError, match="statistics in memory go with models in memory"):
        smelt.merge(on_disk[0], method="fisher", statistics={"cars": known(1.0), "birds": on_disk[1]["birds"]})


def plan_of(models, statistics, **words):
    pool = ModelPool(
        None,
        {name: MemorySource(name, one) for name, one in models.items()},
        {name: MemorySource(f"s-{name}", one) for name, one in statistics.items()},
    )
    return make_plan(Recipe.parse({"pool": {"models": dict.fromkeys(models, "x")}, **words}), pool)


def test_the_plan_counts_the_bytes_and_the_memory_of_statistics():
    layers = {name: {"w": torch.ones(4, 8), "b": torch.ones(4)} for name in ("cars", "birds")}
    grams = {name: {"w": torch.eye(8, dtype=torch.float64)} for name in layers}
    plain = plan_of(layers, {}, merge="average")
    made = plan_of(layers, grams, merge="regmean")
    assert made.bytes_in - plain.bytes_in == 2 * 64 * 8
    assert made.notes == ("gram statistics are read beside cars, birds",)
    from smelt.engine.plan.plan import Blocking

    bias, weight = made.items
    blocking = Blocking.for_device("cpu")
    assert work_memory(bias, blocking) == work_memory(plain.items[0], blocking)
    assert work_memory(weight, blocking) >= 4 * 2 * 64 + 8 * 64


def test_the_plan_tells_of_statistics(on_disk):
    report = smelt.plan(on_disk[0], method="fisher", statistics=on_disk[1])
    assert "fisher statistics are read beside cars, birds" in report.notes
    assert report.bytes_in == 2 * (4 + 8) * (4 * 12 + 2 * 4)  # float32 weights, float64 sums


def test_a_block_is_read_with_its_own_part_of_the_statistics():
    draw = torch.Generator().manual_seed(0)
    models = {name: {"w": torch.randn(41, 3, generator=draw)} for name in ("cars", "birds")}
    fisher = {name: {"w": torch.rand(41, 3, generator=draw)} for name in models}
    whole = smelt.merge(models, method="fisher", statistics=fisher)["w"]
    for size in (1, 10, 64):
        with block_size(size):
            cut = smelt.merge(models, method="fisher", statistics=fisher, threads=2)["w"]
        assert torch.equal(cut, whole)


def test_a_step_before_works_on_changes_and_the_statistics_stay_with_their_models():
    """Trimming leaves the larger of both changes, then (3*4 + 1*0) / 4 and (1*0 + 3*8) / 4 above the base of one."""
    base = {"w": torch.tensor([1.0, 1.0])}
    models = {"cars": {"w": torch.tensor([5.0, 2.0])}, "birds": {"w": torch.tensor([2.0, 9.0])}}
    fisher = {"cars": {"w": torch.tensor([3.0, 1.0])}, "birds": {"w": torch.tensor([1.0, 3.0])}}
    method = [("trim", {"density": 0.5}), ("fisher", {"floor": 1e-12})]
    merged = smelt.merge(models, base=base, method=method, statistics=fisher)["w"]
    assert torch.allclose(merged, torch.tensor([4.0, 7.0]))


def test_one_statistic_may_serve_several_names():
    gram = {"cars": torch.diag(torch.tensor([3.0, 1.0])), "birds": torch.eye(2)}
    models = {
        name: {key: torch.full((2, 2), value) for key in ("q", "k")} for name, value in (("cars", 1.0), ("birds", 5.0))
    }
    shared = {name: {"q": one, "k": one} for name, one in gram.items()}  # one tensor under two names
    merged = smelt.merge(models, method="regmean", statistics=shared, ridge=0.0)
    assert torch.allclose(merged["k"], torch.tensor([[2.0, 3.0], [2.0, 3.0]]))
    assert torch.equal(merged["q"], merged["k"])


def test_the_statistic_of_a_tied_weight_is_found_under_either_name():
    def tied(value):
        weight = torch.full((2, 2), value)
        return {"embed": weight, "head": weight}

    models = {"cars": tied(1.0), "birds": tied(5.0)}
    for name in ("embed", "head"):
        fisher = {"cars": {name: torch.full((2, 2), 3.0)}, "birds": {name: torch.ones(2, 2)}}
        merged = smelt.merge(models, method="fisher", statistics=fisher)
        assert torch.allclose(merged["head"], torch.full((2, 2), 2.0))


def test_a_layer_slice_takes_the_statistics_of_the_layer_it_takes():
    models = {"cars": {f"layers.{n}.w": torch.tensor([float(n)]) for n in range(2)}}
    models["birds"] = {f"layers.{n}.w": torch.tensor([4.0 + n]) for n in range(2)}
    fisher = {name: {f"layers.{n}.w": torch.tensor([float(n + 1)]) for n in range(2)} for name in models}
    slices = [{"models": {"cars": [0, 1], "birds": [1, 2]}}]
    merged = smelt.merge(models, method="fisher", statistics=fisher, slices=slices, floor=1e-12)
    assert merged["layers.0.w"].tolist() == pytest.approx([(1 * 0 + 2 * 5) / 3])


def test_a_part_may_read_statistics_that_the_rest_does_not():
    models = {name: {**one, "v": one["w"]} for name, one in MODELS.items()}
    models = {name: {key: tensor.clone() for key, tensor in one.items()} for name, one in models.items()}
    parts = [{"keys": "w", "merge": "fisher"}]
    merged = smelt.merge(models, method="average", statistics=FISHER, parts=parts)
    assert (merged["v"].tolist(), merged["w"].tolist()) == ([3.0], pytest.approx([2.0]))


def refused(models=MODELS, kind=RecipeError, **words):
    with pytest.raises(kind) as caught:
        smelt.plan(models, **words)
    return str(caught.value)


def test_a_stage_without_its_statistics_says_how_to_get_them():
    message = refused(method="fisher")
    assert "fisher needs fisher statistics of cars, birds" in message
    assert "smelt measure fisher MODEL --task" in message
    assert "`data:`" in message
    base = {"w": torch.zeros(1)}
    assert "smelt learn" in refused(base=base, method="stitch")


def test_strangers_and_models_left_out_are_refused_together():
    message = refused(method="fisher", statistics={"cars": FISHER["cars"], "bird": FISHER["birds"], "x": {}})
    assert "no model named 'bird' (did you mean 'birds'?)" in message
    assert "no model named 'x'" in message
    assert "fisher needs fisher statistics of birds" in message


def test_statistics_that_no_stage_reads_are_refused():
    message = refused(method="average", statistics=FISHER)
    assert "statistics are given, but average reads none" in message
    assert "fisher, regmean" in message


def test_statistics_of_another_kind_are_refused_by_name(tmp_path, on_disk):
    grams = {"cars": on_disk[1]["cars"], "birds": str(measured(tmp_path / "g", {"head.weight": torch.eye(3)}, "gram"))}
    message = refused(on_disk[0], method="fisher", statistics=grams)
    assert "fisher reads fisher statistics, but those of birds (" in message
    assert message.endswith("are gram")


def test_statistics_of_another_model_are_refused(tmp_path, on_disk, two):
    refs, folders = on_disk
    own = {path.name: hash_file(path) for path in two[1].glob("*.safetensors")}
    measured(tmp_path / "f-cars", known(3.0), model_files=own)
    smelt.plan(refs, method="fisher", statistics=folders)
    measured(tmp_path / "f-birds", known(3.0), model_files=own, model="the wrong one")
    message = refused(refs, IncompatibleModels, method="fisher", statistics=folders)
    assert "the statistics of birds (" in message
    assert "were measured on the wrong one, whose files differ from those of" in message
    assert "cars" not in message


@pytest.mark.parametrize("in_memory", [True, False])
def test_statistics_with_a_flipped_bit_are_refused(tmp_path, on_disk, in_memory):
    refs, folders = on_disk
    path = tmp_path / "f-birds" / "statistics.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    models = {"cars": state(1.0), "birds": state(3.0)} if in_memory else refs
    words = {} if in_memory else {"out": tmp_path / "out"}
    with pytest.raises(CorruptFile, match=r"the statistics of birds \(.*\) are damaged or were replaced") as caught:
        smelt.merge(models, method="fisher", statistics=folders, **words)
    assert "cars" not in str(caught.value).replace(str(tmp_path), "")
    assert not (tmp_path / "out").exists()
    path.write_bytes(whole)
    smelt.merge(models, method="fisher", statistics=folders, **words)


def test_statistics_are_hashed_once_for_the_check(tmp_path, on_disk, monkeypatch):
    """By SHA-256, which their notes speak of. The manifest's BLAKE3 is made of what is merged."""
    hashed = []
    monkeypatch.setattr("smelt.files.identity.hash_file", lambda path: (hashed.append(path), hash_file(path))[1])
    for out in ("out", "again"):
        smelt.merge(on_disk[0], method="fisher", statistics=on_disk[1], out=tmp_path / out)
        assert sorted(f"{path.parent.name}/{path.name}" for path in hashed) == [
            "f-birds/statistics.safetensors",
            "f-cars/statistics.safetensors",
        ]


def test_statistics_of_tensors_that_the_model_lacks_are_refused():
    strange = {name: {f"model.{key}": one[key] for key in one} for name, one in FISHER.items()}
    message = refused(kind=IncompatibleModels, method="fisher", statistics=strange)
    assert message.count("'model.w', which state dict") == 2


def test_statistics_of_another_shape_are_refused_all_at_once():
    wide = {name: {"w": torch.ones(2)} for name in MODELS}
    message = refused(kind=IncompatibleModels, method="fisher", statistics=wide)
    assert message.count("the fisher of 'w' is (2,)") == 2
    layers = {name: {"w": torch.ones(4, 3)} for name in MODELS}
    turned = {name: {"w": torch.eye(4)} for name in MODELS}
    message = refused(layers, IncompatibleModels, method="regmean", statistics=turned)
    assert "the gram of 'w' is (4, 4) in the statistics of cars, but a tensor of (4, 3) has one of (3, 3)" in message


def test_a_statistic_that_some_models_lack_is_refused_and_one_that_all_lack_is_not():
    models = {name: {**one, "v": one["w"] + 1} for name, one in MODELS.items()}
    partly = {"cars": {**FISHER["cars"], "v": torch.ones(1)}, "birds": FISHER["birds"]}
    message = refused(models, IncompatibleModels, method="fisher", statistics=partly)
    assert "the statistics of birds lack 'v', which those of the other models have" in message
    assert (
        "1 tensors have no statistics and are merged plainly: v"
        in smelt.plan(models, method="fisher", statistics=FISHER).notes
    )


def test_statistics_of_nothing_that_is_merged_are_refused():
    message = refused(kind=IncompatibleModels, method="fisher", statistics={name: {} for name in MODELS})
    assert "the statistics are of no tensor that is merged ('w', ...)" in message


def test_everything_that_cannot_be_opened_is_named(tmp_path, on_disk):
    (tmp_path / "empty").mkdir()
    message = refused(on_disk[0], method="fisher", statistics={"cars": "nowhere", "birds": str(tmp_path / "empty")})
    assert "statistics of cars: there are no statistics at 'nowhere'" in message
    assert "statistics of birds:" in message
    assert "not a folder of statistics" in message


def test_statistics_have_no_place_in_another_basis():
    models = {name: {"w": torch.eye(2)} for name in MODELS}
    masks = {name: {"w": torch.ones(2, 2)} for name in MODELS}
    message = refused(models, base={"w": torch.zeros(2, 2)}, method=["knots", "stitch"], statistics=masks)
    assert "stitch reads statistics of the models' own weights, which have no place in another basis" in message


def test_a_number_that_is_none_is_refused_with_its_place():
    broken = {**FISHER, "birds": {"w": torch.tensor([float("nan")])}}
    with pytest.raises(NumericalError, match=r"the statistics of birds \(.*\) hold nan for 'w' at element 0"):
        smelt.merge(MODELS, method="fisher", statistics=broken)


@pytest.fixture
def registry():
    before = dict(stages)
    yield
    stages.clear()
    stages.update(before)


def test_a_stage_says_both_that_it_reads_statistics_and_where(registry):
    with pytest.raises(SmeltError, match="says both which"):
        merge_method("halfway", statistics="fisher")(lambda deltas: deltas[0])
    with pytest.raises(SmeltError, match="says both which"):
        merge_method("halfway")(lambda deltas, statistics: deltas[0])


def test_a_step_may_read_statistics_and_its_fold_sees_them(registry):
    """The step keeps changes whose statistic is above the mean of all: (1 + 2 + 3 + 10) / 4 over both tensors."""

    def _mean():
        return Sum(
            lambda block: torch.stack([block.statistics.sum(), torch.tensor(float(block.statistics.numel()))]),
            lambda total: float(total[0] / total[1]),
            scope="model",
        )

    @merge_step("above_mean", statistics="fisher", prepare=_mean)
    def above_mean(deltas, statistics, mean):
        return deltas * (statistics > mean)

    models = {"m": {"a": torch.tensor([5.0, 6.0]), "b": torch.tensor([7.0, 8.0]), "c": torch.tensor([9.0])}}
    base = {name: torch.zeros_like(tensor) for name, tensor in models["m"].items()}
    fisher = {"m": {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([3.0, 10.0])}}
    method = ["above_mean", ("task_arithmetic", {"scale": 1.0})]
    with block_size(1):
        merged = smelt.merge(models, base=base, method=method, statistics=fisher)
    assert {name: tensor.tolist() for name, tensor in merged.items()} == {"a": [0, 0], "b": [0, 8], "c": [9]}
