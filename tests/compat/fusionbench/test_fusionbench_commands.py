"""Every command line of FusionBench's paper, with the program's name replaced."""

import shlex
import socket
from pathlib import Path

import pytest
from paper_commands import commands

from smelt.compat.fusionbench.experiment import prepare, run
from smelt.errors import RecipeError

LINES = (Path(__file__).parents[2] / "data" / "fusionbench_commands.txt").read_text().splitlines()
WORDS = [tuple(shlex.split(line)[1:]) for line in LINES]

NEEDS_DATA = {"clip_fisher_merging", "clip_regmean", "adamerging", "weight_ensembling_moe"}
"""Methods that look at data before they merge or mix."""

TYPO = next(words for words in WORDS if "tsakpool=dummy" in words)


def _method(words):
    return next(word.partition("=")[2] for word in words if word.startswith("method="))


DATA_FREE = [words for words in WORDS if _method(words) not in NEEDS_DATA and words is not TYPO]
SWAP = {
    "modelpool=clip-vit-base-patch32_TA8": "modelpool=clip-tiny_TA8",
    "modelpool=clip-vit-large-patch14_TA8": "modelpool=clip-tiny_TA8",
    "taskpool=clip-vit-classification_TA8": "taskpool=clip-tiny_TA8",
}


@pytest.fixture(autouse=True)
def _no_network(monkeypatch, tmp_path):
    """Nothing here needs the network, and nothing is written outside of the test's folder."""

    def refuse(*_, **__):
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.chdir(tmp_path)


def test_of_the_papers_41_commands_27_need_no_data_13_do_and_one_is_misspelt():
    assert len(WORDS) == 41
    assert len(DATA_FREE) == 2 + 12 + 12 + 1
    assert {_method(words) for words in WORDS} - {_method(words) for words in DATA_FREE} == NEEDS_DATA


def test_commands_are_read_as_the_shell_reads_them():
    paper = "text\n```bash\n# a comment\nfor x in 1 2\ndo\n  fusion_bench a=$x\\\n    b='c d' # why\ndone\n"
    paper += "fusion_bench e &&\n\n# next\nfusion_bench f\n\n# results\n{\n  no: 1\n}\n```\n"
    assert commands(paper) == [
        r"fusion_bench a=1 b=c\ d",
        r"fusion_bench a=2 b=c\ d",
        "fusion_bench e",
        "fusion_bench f",
    ]


@pytest.mark.parametrize("words", [words for words in WORDS if words is not TYPO], ids=" ".join)
def test_a_command_composes_and_runs_dry(words, tmp_path):
    (outcome,) = run(*words, "dry_run=true")
    assert outcome.error is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", DATA_FREE, ids=" ".join)
def test_a_data_free_command_means_what_it_says(words):
    (prepared,) = prepare(words)
    one = prepared.experiment
    size = next(size for size in ("base-patch32", "large-patch14") if f"modelpool=clip-vit-{size}_TA8" in words)
    assert one.pool.base == f"hf:openai/clip-vit-{size}"
    assert one.pool.models["stanford_cars"] == f"hf:tanganke/clip-vit-{size}_stanford-cars"
    assert list(one.pool.models) == "sun397 stanford_cars resisc45 eurosat svhn gtsrb mnist dtd".split()
    given = dict(word.split("=", 1) for word in words)
    if one.recipe is not None:
        (stage,) = one.recipe.merge
        assert stage.name == {"simple_average": "average", "ties_merging": "ties"}.get(one.method, one.method)
        assert stage.parameters.get("scale") == (float(s) if (s := given.get("method.scaling_factor")) else None)
        assert stage.parameters.get("density") == (0.2 if "method.threshold" in given else None)
        assert one.recipe.include == ["vision_model.*"]
    if given["taskpool"] == "dummy":
        assert one.evaluation is None
    else:
        assert one.evaluation.text_from == one.pool.base
    assert (str(one.report) if one.report else None) == given.get("save_report")
    assert (str(one.cosine.csv) if one.cosine else None) == given.get("method.save_to_csv")


def test_the_typo_of_the_paper_is_answered_with_the_word_that_was_meant():
    with pytest.raises(RecipeError, match=r"no setting named 'tsakpool'.*did you mean 'taskpool'") as error:
        run(*TYPO, "dry_run=true")
    assert error.value.exit_code == 2


WITH_DATA = [words for words in WORDS if _method(words) in NEEDS_DATA]


@pytest.mark.parametrize("words", WITH_DATA, ids=" ".join)
def test_a_command_with_data_means_what_it_says(words):
    (prepared,) = prepare(words)
    one, given = prepared.experiment, dict(word.split("=", 1) for word in words)
    ((name, parameters),) = [(call.name, call.parameters) for call in one.recipe.merge]
    use = one.recipe.data
    if given["method"] == "clip_fisher_merging":
        assert (name, parameters) == ("fisher", {"floor": 1e-6, "balance": "norm"})
        batch = int(given.get("method.batch_size", 32))
        assert (use.split, use.examples, use.estimator, use.batch) == ("train", 256, "batched_sqrt", batch)
    elif given["method"] == "clip_regmean":
        assert (name, parameters) == ("regmean", {"reduction": 0.95})
        assert (use.split, use.examples) == ("train", 256)
    else:
        level = {"clip_task_wise_adamerging": "task", "clip_layer_wise_adamerging": "tensor"}
        assert name == ("wemoe" if "moe" in given["method.name"] else "adamerging")
        assert parameters.get("level") == level.get(given["method.name"])
        assert (parameters["batch"], parameters["steps"]) == (16, 1000)  # four devices of four pictures are sixteen
        assert use.split == "val"
    places = {given.get(word) for word in ("method.save_merging_weights", "method.save_checkpoint")} - {None}
    assert {str(one.save)} - {"None"} == places
    places = {given.get(word) for word in ("method.weights", "method.checkpoint")} - {None}
    assert {str(one.learned)} - {"None"} == places
    assert (one.evaluation is None) == (given["taskpool"] == "dummy")


def _for_the_zoo():
    """The same commands with the zoo's pools; of the loops over scales the default run takes one value."""
    for words in DATA_FREE:
        small = tuple(SWAP.get(word, word) for word in words if not word.startswith("taskpool.clip_model="))
        in_loop = any(word.startswith("save_report=") for word in words) and "method.scaling_factor=0.3" not in words
        yield pytest.param(small, marks=[pytest.mark.slow] if in_loop else [], id=" ".join(words))


RAN = {}


def _ran(words, tmp_path_factory):
    """What a command gave, and the folder that it ran in: commands for two sizes of models are one here, run once."""
    if words not in RAN:
        folder = tmp_path_factory.mktemp("ran")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            RAN[words] = run(*words, "limit=20"), folder
    return RAN[words]


@pytest.mark.parametrize("words", [*_for_the_zoo()])
def test_with_the_zoos_pool_in_place_of_the_public_one_it_runs(words, tmp_path_factory):
    pytest.importorskip("smelt_zoo", reason="THE ZOO IS NOT INSTALLED (pip install ./zoo): no command is run for real")
    import smelt_zoo

    if "clip-tiny-photos" not in smelt_zoo.models():
        pytest.skip("THE ZOO HAS NO WEIGHTS: no command is run for real")
    (outcome,), folder = _ran(words, tmp_path_factory)
    if "taskpool=dummy" in words:
        assert len(outcome.report["task_vector_cos_similarity"]["names"]) == 8
        csv = next(w for w in words if "csv" in w).partition("=")[2]
        assert (folder / csv).read_text().count("\n") == 9
    else:
        assert {"photos", "icons", "average", "provenance"} <= outcome.report.keys()
        assert outcome.report["provenance"]["tasks"]["photos"]["n"] == 20


SHORT = {"adamerging": "method.max_steps=2", "weight_ensembling_moe": "method.fast_dev_run=true"}


def _small(words):
    small = tuple(SWAP.get(word, word) for word in words if not word.startswith("taskpool.clip_model="))
    more = {
        "clip_fisher_merging": ("method.num_fisher_examples=8",),
        "clip_regmean": ("method.num_regmean_examples=16",),
    }
    two = ("method.batch_size=2", "method.devices=1")
    short = (SHORT[_method(words)], *two) if _method(words) in SHORT else more[_method(words)]
    return (*[word for word in small if word.partition("=")[0] not in ("method.batch_size", "method.devices")], *short)


STAGES = [
    words for words in WITH_DATA if not any(w.startswith(("method.weights=", "method.checkpoint=")) for w in words)
]
"""Commands that need nothing of another."""


def _once():
    """The paper's commands for two sizes of models are one on the zoo: of each kind the default run takes one."""
    seen = set()
    for words in STAGES:
        kind = (_method(words), "taskpool=dummy" in words)
        wanted = kind not in seen and kind not in {("adamerging", False), ("weight_ensembling_moe", False)}
        seen.add(kind)
        yield pytest.param(words, marks=[] if wanted else [pytest.mark.slow], id=" ".join(words))


@pytest.mark.parametrize("words", [*_once()])
def test_with_the_zoos_pool_a_command_with_data_runs_and_so_does_the_second_of_two(words, monkeypatch, tmp_path):
    """Learn with no tasks and save; then the paper's second command loads what the first one saved, and evaluates."""
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "cache"))
    (outcome,) = run(*_small(words), "limit=10")
    if "taskpool=dummy" not in words:
        assert outcome.report["provenance"]["tasks"]["photos"]["n"] == 10
        return
    saved = next(Path(w.partition("=")[2]) for w in words if ".save_" in w)
    assert saved.stat().st_size > 100
    loads = {f"method.weights={saved}", f"method.checkpoint={saved}"}
    (second,) = [other for other in WITH_DATA if loads & set(other)]
    (outcome,) = run(*_small(second), "limit=10")
    assert {"photos", "icons", "average"} <= outcome.report.keys()
