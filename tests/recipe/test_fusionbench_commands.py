"""Every command line of FusionBench's paper, with the program's name replaced."""

import shlex
import socket
from pathlib import Path

import pytest
from paper_commands import commands

from smelt.errors import RecipeError
from smelt.experiment import prepare, run

LINES = (Path(__file__).parents[1] / "data" / "fusionbench_commands.txt").read_text().splitlines()
WORDS = [tuple(shlex.split(line)[1:]) for line in LINES]

NEEDS_DATA = {"clip_fisher_merging", "clip_regmean", "adamerging", "weight_ensembling_moe"}
"""Methods of the next issue. One that exists must leave this list, and its commands then run below."""

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


@pytest.mark.parametrize("words", DATA_FREE, ids=" ".join)
def test_a_data_free_command_composes_and_runs_dry(words, tmp_path):
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


@pytest.mark.parametrize("method", sorted(NEEDS_DATA))
def test_a_method_that_needs_data_is_not_there_yet(method):
    for words in [words for words in WORDS if _method(words) == method]:
        with pytest.raises(RecipeError, match=f"no method named '{method}'"):
            run(*words, "dry_run=true")


def _for_the_zoo():
    """The same commands with the zoo's pools; of the loops over scales the default run takes one value."""
    for words in DATA_FREE:
        small = tuple(SWAP.get(word, word) for word in words if not word.startswith("taskpool.clip_model="))
        in_loop = any(word.startswith("save_report=") for word in words) and "method.scaling_factor=0.3" not in words
        yield pytest.param(small, marks=[pytest.mark.slow] if in_loop else [], id=" ".join(words))


@pytest.mark.parametrize("words", [*_for_the_zoo()])
def test_with_the_zoos_pool_in_place_of_the_public_one_it_runs(words):
    pytest.importorskip("smelt_zoo", reason="THE ZOO IS NOT INSTALLED (pip install ./zoo): no command is run for real")
    import smelt_zoo

    if "clip-tiny-photos" not in smelt_zoo.models():
        pytest.skip("THE ZOO HAS NO WEIGHTS: no command is run for real")
    (outcome,) = run(*words, "limit=20")
    if "taskpool=dummy" in words:
        assert len(outcome.report["task_vector_cos_similarity"]["names"]) == 8
        assert Path(next(w for w in words if "csv" in w).partition("=")[2]).read_text().count("\n") == 9
    else:
        assert {"photos", "icons", "average", "provenance"} <= outcome.report.keys()
        assert outcome.report["provenance"]["tasks"]["photos"]["n"] == 20
