"""`smelt analyse`: the analyses in a terminal, as files and as JSON."""

import inspect
import json

import pytest

import smelt.analyse
from checkpoints import write_yaml
from smelt.cli.evaluation.analyse import app
from smelt.evaluation.row import Row, read_rows

FUNCTIONS = {
    "cosine": "cosine_similarity",
    "norms": "delta_norms",
    "signs": "sign_conflicts",
    "scales": "scale_curve",
    "path": "interpolation_path",
}
COMMANDS = {command.name: command.callback for command in app.registered_commands}


@pytest.fixture
def words(two):
    base, cars, birds = two
    return ["--base", base, "--model", cars, "--model", birds]


@pytest.fixture
def judged(monkeypatch):
    """An evaluation in place of the real one: the loss is the first weight's distance from 2."""
    asked = []

    def fake(like, tasks, **words):
        asked.append({"tasks": tasks, "folder": like.folder, **words})

        def run(state):
            loss = abs(float(state["embed.weight"][0, 0]) - 2)
            return [
                Row(
                    entry="x", label="x", task="photos", task_version=1, split=words["split"], n=10, correct=5,
                    accuracy=1 / (1 + loss), low=0, high=1, loss=loss, model="x", model_hash="", code="", device="cpu",
                    dtype="float32", command="", when="",
                )
            ]  # fmt: skip

        return run

    monkeypatch.setattr("smelt.analyse.scales.evaluator", fake)
    monkeypatch.setattr("smelt.analyse.interpolation.evaluator", fake)
    return asked


def test_every_command_is_a_documented_public_function():
    assert COMMANDS.keys() == FUNCTIONS.keys()
    for name, function in FUNCTIONS.items():
        assert function in smelt.analyse.__all__
        assert inspect.getdoc(getattr(smelt.analyse, function))
        assert inspect.getdoc(COMMANDS[name])
        assert "as_json" in inspect.signature(COMMANDS[name]).parameters


@pytest.mark.parametrize("name", ["cosine", "norms", "signs"])
def test_json_is_what_the_function_gives(name, cli, words, two):
    base, cars, birds = two
    ran = cli("analyse", name, *words, "--json")
    found = getattr(smelt.analyse, FUNCTIONS[name])([cars, birds], base=base)
    assert (ran.code, json.loads(ran.out)) == (0, found.to_json())


def test_cosine_prints_a_table_and_writes_csv(tmp_path, cli, words):
    ran = cli("analyse", "cosine", *words, "-o", tmp_path / "cos.csv")
    assert ran.code == 0
    title, heads, _, *rows = ran.out.splitlines()
    assert title == "cosine similarity of task vectors"
    assert [line.split() for line in (heads, *rows)] == [
        ["cars", "birds"],
        ["cars", "1.000", "1.000"],
        ["birds", "1.000", "1.000"],
    ]
    assert (tmp_path / "cos.csv").read_text().splitlines()[0] == ",cars,birds"


def test_norms_print_shares_of_the_base(cli, words):
    """embed.weight of the base is 12 zeros, so its share is nan; head.weight is 12 fives."""
    out = cli("analyse", "norms", *words).out
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line}
    assert lines["embed"] == ["nan", "nan"]
    assert lines["head"] == ["0.2000", "0.6000"]
    assert "layers.0" in lines


def test_signs_say_shares_in_words(cli, words):
    out = cli("analyse", "signs", *words, "--density", "0.5").out
    assert "entries    0.0%" in out
    assert "cancelled" in out


def test_a_pool_file_serves_as_well_as_flags(tmp_path, cli, two):
    pool = write_yaml(tmp_path / "pool.yaml", {"base": "models/base", "models": ["models/cars", "models/birds"]})
    assert json.loads(cli("analyse", "cosine", pool, "--json").out)["names"] == ["cars", "birds"]
    ran = cli("analyse", "cosine", pool, "--model", two[1])
    assert (ran.code, "not both" in ran.err) == (2, True)


def test_quiet_prints_nothing(tmp_path, cli, words):
    ran = cli("analyse", "cosine", *words, "--quiet", "-o", tmp_path / "deep" / "cos.json")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert json.loads((tmp_path / "deep" / "cos.json").read_text())["names"] == ["cars", "birds"]


def test_bad_requests_exit_with_2(tmp_path, cli, words, two):
    for given, message in [
        (["cosine"], "nothing to compare"),
        (["cosine", *words[2:]], "`--base REF`"),
        (["cosine", *words, "--keys", "visoin.*"], "matches no tensor"),
        (["cosine", *words, "-o", tmp_path / "cos.png"], ".csv or .json"),
        (["signs", *words, "--density", "2"], "density"),
        (["scales", *words, "-m", "average"], "no scale"),
        (["scales", *words, "-m", "ties", "--scales", "0.1,x"], "numbers with commas"),
        (["scales", "-m", "ties"], "nothing to merge"),
        (["path", two[0], two[0]], "two models"),
    ]:
        ran = cli("analyse", *given)
        assert (ran.code, message in ran.err) == (2, True), (given, ran)


def test_scales_follow_accuracy_and_append_rows(tmp_path, cli, words, judged):
    """The changes add up to 4, so that 2 is reached at scale 0.5."""
    rows = tmp_path / "rows.jsonl"
    ran = cli(
        "analyse", "scales", *words, "-m", "task_arithmetic", "--scales", "0.25,0.5,1", "--tasks", "photos", "--limit",
        50, "-o", rows,
    )  # fmt: skip
    assert (ran.code, "best on val: 0.5" in ran.out) == (0, True)
    assert ["0.25", "0.500", "0.500", "1.000"] in [line.split() for line in ran.out.splitlines()]
    assert [(row.variant, row.setting["scale"], row.loss, row.split) for row in read_rows(rows)] == [
        ("curve", 0.25, 1.0, "val"),
        ("curve", 0.5, 0.0, "val"),
        ("curve", 1.0, 2.0, "val"),
    ]
    assert [(one["tasks"], one["limit"]) for one in judged] == [("photos", 50)]
    assert (
        json.loads(cli("analyse", "scales", *words, "-m", "task_arithmetic", "--scales", "1", "--json").out)["best"]
        == 1
    )


def test_a_path_prints_its_barrier(tmp_path, cli, two, judged):
    """From weight 0 to 3 over 2: the loss is 2, 0.5 and 1, below the line of its ends."""
    rows = tmp_path / "rows.jsonl"
    ran = cli("analyse", "path", two[0], two[2], "--points", "3", "-o", rows)
    assert (ran.code, "barrier of the mean loss: 0.0000 at t = 0" in ran.out) == (0, True)
    assert [row.loss for row in read_rows(rows)] == [2, 0.5, 1]
    assert judged[0]["folder"] == two[0]
    found = json.loads(cli("analyse", "path", two[0], two[2], "--points", "3", "--json").out)
    assert (found["t"], found["from"], found["to"]) == ([0, 0.5, 1], "base", "birds")
