"""Python that comes with a model or a task never runs unasked: not in any command, and not after a `y` on stdin."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import smelt
from checkpoints import write_yaml
from pico_clip import COLOURS, colour_pictures, conv_pool, write_task
from pico_language import FOLLOWS, write_language_model, write_language_task
from smelt.files.remote_code import CodeNotTrusted, is_trusted, permit_code, trusting
from smelt.tasks.language.prepare import harness_task
from smelt.tasks.language.task import LanguageTask
from smelt.tasks.pictures.mosaic import write_mosaic

FLAG = "--trust-remote-code"
TASKS = ["--tasks", "colours", "--limit", "3"]
LOCAL = ["--executor", "local"]
COMMANDS = {
    "eval": ["eval", "base", *TASKS],
    "eval of a recipe": ["eval", "average.yaml", *TASKS, "--text-from", "base"],
    "merge that looks at data": ["merge", "fisher.yaml", "-o", "out"],
    "learn": ["learn", "learn.yaml", "-o", "out"],
    "measure fisher": "measure fisher base --task colours --split val --examples 3".split(),
    "measure gram": "measure gram words --task followed --examples 2".split(),
    "neulig": "neulig --base base --model one=one --model two=two --task one=colours --task two=colours --examples 6 "
    "--validation 3 --epochs 1 --batch 3 -o out".split(),
    "tune": ["tune", "tune.yaml", *TASKS, "-o", "out", "--executor", "inline"],
    "tune in other processes": ["tune", "tune.yaml", *TASKS, "-o", "out", *LOCAL],
    "select soup": ["select", "soup", "average.yaml", *TASKS, "--text-from", "base", "-o", "out"],
    "select uq": [
        "select",
        "uq",
        "average.yaml",
        *TASKS,
        "--text-from",
        "base",
        "--no-text",
        "--no-model",
        "-o",
        "out",
    ],
    "bench": ["bench", "suite.yaml", "-o", "out", "--no-tune", "--limit", "3", "--executor", "inline"],
    "run": "run --config-dir configs modelpool=mine taskpool=mine method=simple_average".split(),
    "analyse scales": ["analyse", "scales", "tune.yaml", "--scales", "1", *TASKS],
    "analyse path": ["analyse", "path", "one", "two", "--points", "2", *TASKS],
}


MARK = "import os\nopen(os.environ['TEST_MARKER'], 'a').write('ran')\n"
"""What code does first when it is run."""


def with_code(folder: Path) -> Path:
    """Give a model's tokenizer a class in a Python file of its own, which leaves a marker when it is run."""
    file = folder / "tokenizer_config.json"
    own = {"tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": [None, "own.OwnTokenizer"]}}
    file.write_text(json.dumps({**json.loads(file.read_text()), **own}))
    imports = "from transformers import PreTrainedTokenizerFast\n"
    (folder / "own.py").write_text(f"{MARK}{imports}class OwnTokenizer(PreTrainedTokenizerFast):\n    pass\n")
    return folder


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What code writes when it runs. Somebody says yes to every question; transformers' copies of code stay here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 100))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setenv("TEST_MARKER", str(tmp_path / "ran"))
    monkeypatch.setattr("smelt.files.remote_code._told", set())
    return tmp_path / "ran"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models whose tokenizer transformers has no class for, a task, and recipes."""
    root = tmp_path_factory.mktemp("models")
    conv_pool(root)
    write_language_model(root / "words", FOLLOWS["up"])
    write_language_task(root / "followed", [("a", "b"), ("c", "d")], splits=("train",))
    for name in ("base", "one", "two", "words"):
        with_code(root / name)
    pictures, labels = colour_pictures(dict.fromkeys(COLOURS, 10))
    mosaics = {"train": "train.png", "val": "val.png", "test": "test.png"}
    task = write_task(root / "colours", data={"mosaics": mosaics, "labels": "all.npz"})
    write_mosaic(task / "train.png", pictures, compress_level=1)
    with np.load(task / "labels.npz") as found:
        np.savez(task / "all.npz", train=labels, **found)
    pool = {"pool": {"base": "base", "models": {"one": "one", "two": "two"}}}
    data = {"data": {"tasks": dict.fromkeys(("one", "two"), "colours"), "split": "val", "examples": 3}}
    write_yaml(root / "average.yaml", {**pool, "merge": "average"})
    write_yaml(root / "fisher.yaml", {**pool, "merge": "fisher", **data})
    write_yaml(root / "learn.yaml", {**pool, "merge": {"adamerging": {"steps": 1, "batch": 3}}, **data})
    for group, content in (
        ("modelpool", {"type": "huggingface_clip_vision", **pool["pool"]}),
        ("taskpool", {"type": "clip_vit_classification", "tasks": "colours"}),
    ):
        (root / "configs" / group).mkdir(parents=True)
        write_yaml(root / "configs" / group / "mine.yaml", content)
    grid = {"tune": {"task_arithmetic.scale": [0.5]}}
    write_yaml(root / "tune.yaml", {**pool, "merge": "task_arithmetic", **grid})
    entries = {"entries": {"average": {"label": "Average", "merge": "average"}}, "scales": [0.5], "curve_limit": 3}
    about = {"name": "mine", "version": 1, "title": "Mine", "tasks": ["colours"]}
    write_yaml(root / "suite.yaml", {**about, **pool, **entries})
    return root


@pytest.fixture
def scene(models: Path, tmp_path: Path, marker: Path) -> Path:
    """A copy of them in the working folder."""
    shutil.copytree(models, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_code_of_a_model_runs_when_the_flag_is_given_and_only_then(
    cli: Any, scene: Path, marker: Path, words: list[str]
) -> None:
    refused = cli(*words)
    assert not marker.exists()
    assert refused.code == 2
    assert "own.py" in refused.err
    assert FLAG in refused.err
    done = cli(*words, FLAG)
    assert done.code == 0, done.err
    assert marker.exists()


def test_every_command_that_runs_models_has_the_flag_and_no_other_has_it() -> None:
    """`hub` has it not on purpose; `mix` needs more of a model than those above."""
    from typer.main import get_command

    from smelt.cli.app import app

    def flags(command: Any, name: str) -> dict[str, bool]:
        inner = getattr(command, "commands", None)
        if inner is not None:
            return {
                key: one for word, sub in inner.items() for key, one in flags(sub, f"{name} {word}".strip()).items()
            }
        return {name: any(FLAG in option.opts for option in command.params)}

    having = {name for name, has in flags(get_command(app), "").items() if has}
    tested = {
        " ".join(words[: 2 if words[0] in ("measure", "select", "analyse") else 1]) for words in COMMANDS.values()
    }
    assert having == tested | {"mix", "finetune"}


def test_a_process_that_is_told_y_does_not_run_it_either(tmp_path: Path, marker: Path) -> None:
    model = with_code(write_language_model(tmp_path / "model", FOLLOWS["up"]))
    task = write_language_task(tmp_path / "letters", [("a", "b")])
    program = "from smelt.cli import process; process()"
    command = [sys.executable, "-c", program, "eval", str(model), "--tasks", str(task)]
    words: dict[str, Any] = {"text": True, "capture_output": True, "env": {**os.environ, "COLUMNS": "200"}}
    asked = subprocess.run(command, input="y\ny\n", **words)
    assert (asked.returncode, marker.exists()) == (2, False)
    assert asked.stderr.startswith("smelt: ")
    assert "[y/N]" not in asked.stdout + asked.stderr
    done = subprocess.run([*command, FLAG], stdin=subprocess.DEVNULL, **words)
    assert (done.returncode, marker.exists()) == (0, True)
    assert "smelt: warning: " in done.stderr
    assert "own.py" in done.stderr


def test_a_model_of_its_own_class_runs_with_the_flag_alone(cli: Any, tmp_path: Path, marker: Path) -> None:
    """Its code says that it is a Llama under another name, so it answers as that Llama does."""
    plain = write_language_model(tmp_path / "plain", FOLLOWS["up"])
    model = write_language_model(tmp_path / "model", FOLLOWS["up"])
    file = model / "config.json"
    own = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    file.write_text(json.dumps({**json.loads(file.read_text()), "model_type": "own-type", "auto_map": own}))
    (model / "own.py").write_text(
        MARK + "from transformers import LlamaConfig, LlamaForCausalLM\n"
        "class OwnConfig(LlamaConfig):\n    model_type = 'own-type'\n"
        "class OwnModel(LlamaForCausalLM):\n    config_class = OwnConfig\n"
    )
    task = write_language_task(tmp_path / "letters", [("a", "b"), ("c", "c")])
    refused = cli("eval", model, "--tasks", task)
    assert (refused.code, FLAG in refused.err, marker.exists()) == (2, True, False)
    done = cli("eval", model, "--tasks", task, FLAG, "--json")
    assert done.code == 0, done.err
    (row,) = json.loads(done.out)["rows"]
    (like,) = smelt.evaluate(str(plain), str(task))
    assert (row["accuracy"], row["model_hash"]) == (like.accuracy, like.model_hash)
    assert row["command"].endswith(FLAG)


def test_code_is_not_run_where_transformers_has_a_class_of_its_own(cli: Any, tmp_path: Path, marker: Path) -> None:
    """The flag allows what is needed; it changes no number that comes without it."""
    model = write_language_model(tmp_path / "model", FOLLOWS["up"])
    file = model / "config.json"
    own = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel", "AutoModel": "own.OwnModel"}
    file.write_text(json.dumps({**json.loads(file.read_text()), "auto_map": own}))
    (model / "own.py").write_text(MARK)
    task = write_language_task(tmp_path / "letters", [("a", "b")])
    for words in ([], [FLAG]):
        assert cli("eval", model, "--tasks", task, *words).code == 0
    assert not marker.exists()


def test_a_hub_takes_no_model_that_needs_code(cli: Any, scene: Path, marker: Path) -> None:
    from pico_hub import new_hub

    new_hub(scene / "hub").close()
    added = cli("hub", "add", "base", "--hub", "hub")
    assert (added.code, marker.exists()) == (2, False)
    assert "own.py is of a kind that the hub does not keep" in added.err
    assert "--trust" not in cli("hub", "add", "--help").out


@pytest.mark.parametrize("file", ["recipe", "suite"])
def test_no_file_can_allow_it(cli: Any, scene: Path, marker: Path, file: str) -> None:
    name = {"recipe": "fisher.yaml", "suite": "suite.yaml"}[file]
    write_yaml(scene / name, {**yaml.safe_load((scene / name).read_text()), "trust_remote_code": True})
    ran = cli(*COMMANDS["merge that looks at data" if file == "recipe" else "bench"])
    assert (ran.code, marker.exists()) == (2, False)
    assert "trust_remote_code" in ran.err


def test_a_permission_holds_inside_its_call_and_nowhere_else() -> None:
    import threading

    seen: list[bool] = []
    with trusting(True):
        with trusting(False):
            assert is_trusted()
        other = threading.Thread(target=lambda: seen.append(is_trusted()))
        other.start()
        other.join()
    assert (is_trusted(), seen) == (False, [False])
    with pytest.raises(CodeNotTrusted, match=r"a folder needs Python code that comes with it \(some\.py\)"):
        permit_code("a folder", "some.py")


def task_with(folder: Path, **words: Any) -> Path:
    """A language task whose YAML has these words, as they are, and a Python file that leaves a marker."""
    task = write_language_task(folder, [("a", "b"), ("c", "c")])
    (task / "checks.py").write_text(MARK + "def score(doc, results):\n    return {'acc': 1.0}\n")
    with open(task / "harness.yaml", "a") as file:
        file.writelines(f"{word}: {value}\n" for word, value in words.items())
    return task


@pytest.mark.parametrize(
    "words",
    [
        {"process_results": "!function checks.score"},
        {"process_docs": "!function os.listdir"},
        {"process_docs": "!function ../task/checks.score"},
        {"process_results": "!function smelt.tasks.sandbox.execution.run"},
        {"process_results": "!function smelt.tasks.language.scoring.numbers.re"},
        {"filter_list": "[{name: own, filter: [{function: custom, filter_fn: !function checks.score}]}]"},
        {"fewshot_config": "{sampler: !function checks.score}"},
        {"doc_to_text": "!function checks.score"},
        {"use_prompt": "promptsource:any"},
    ],
    ids=lambda words: " ".join(f"{word} {value}" for word, value in words.items())[:60],
)
def test_python_of_a_task_is_refused_before_anything_is_asked(
    cli: Any, tmp_path: Path, marker: Path, words: dict[str, str]
) -> None:
    model = write_language_model(tmp_path / "model", FOLLOWS["up"])
    other = write_language_task(tmp_path / "letters", [("a", "b")])
    task = task_with(tmp_path / "task", **words)
    refused = cli("eval", model, "--tasks", f"{other},{task}", "-o", tmp_path / "rows.jsonl")
    assert (refused.code, marker.exists(), (tmp_path / "rows.jsonl").exists()) == (2, False, False)
    assert FLAG in refused.err


@pytest.mark.parametrize("metric", ["./checks.py", "accuracy"])
def test_a_metric_that_is_a_script_is_refused(cli: Any, tmp_path: Path, marker: Path, metric: str) -> None:
    """What the harness does not know it asks the evaluate library for, which loads scripts, from folders too."""
    model = write_language_model(tmp_path / "model", FOLLOWS["up"])
    metrics = [{"metric": metric, "aggregation": "mean", "higher_is_better": True}]
    task = write_language_task(tmp_path / "task", [("a", "b")], metric_list=metrics)
    refused = cli("eval", model, "--tasks", task)
    assert (refused.code, FLAG in refused.err) == (2, True)


def test_python_of_a_task_runs_with_the_flag_and_a_warning(cli: Any, tmp_path: Path, marker: Path) -> None:
    model = write_language_model(tmp_path / "model", FOLLOWS["up"])
    task = task_with(tmp_path / "task", process_results="!function checks.score")
    done = cli("eval", model, "--tasks", task, "--json", FLAG)
    assert (done.code, marker.exists()) == (0, True)
    assert json.loads(done.out)["rows"][0]["accuracy"] == 1.0
    assert "smelt: warning: " in done.err
    assert "!function checks.score" in done.err


def test_a_file_cannot_take_the_name_of_one_of_our_scorings(cli: Any, tmp_path: Path, marker: Path) -> None:
    model = write_language_model(tmp_path / "model", FOLLOWS["up"])
    name = "smelt.tasks.language.scoring.numbers"
    task = task_with(tmp_path / "task", process_results=f"!function {name}.score")
    (task / f"{name}.py").write_text((task / "checks.py").read_text())
    assert (cli("eval", model, "--tasks", task).code, marker.exists()) == (2, False)


def test_tasks_of_ours_and_others_that_name_our_scorings_need_no_flag(cli: Any, tmp_path: Path) -> None:
    model = write_language_model(tmp_path / "model", FOLLOWS["up"])
    metrics = [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}]
    generated = {"output_type": "generate_until", "doc_to_target": "{{answer}}", "metric_list": metrics}
    task = write_language_task(tmp_path / "sums", [("a", "b")], **generated, generation_kwargs={"max_gen_toks": 1})
    with open(task / "harness.yaml", "a") as file:
        file.write("process_results: !function smelt.tasks.language.scoring.numbers.score\n")
    ran = cli("eval", model, "--tasks", task)
    assert ran.code == 0, ran.err
    for shipped in (one for one in smelt.list_tasks().values() if isinstance(one, LanguageTask)):
        if not shipped.data_sets():  # the others' data come over the network
            harness_task(shipped, shipped.splits[0])


def test_one_module_opens_what_transformers_reads_and_says_no_first() -> None:
    """A new call beside it would ask on standard input again."""
    home = Path(smelt.__file__).parent
    calls = {
        path.relative_to(home).as_posix(): path.read_text()
        for path in home.rglob("*.py")
        if ".from_pretrained(" in path.read_text() or "SentenceTransformer(" in path.read_text()
    }
    assert set(calls) == {
        "models/families/guarded_loading.py",
        "formats/gguf/inside.py",
        "hub/matching/embed.py",
        "models/vocabulary/files.py",
    }  # the last: a hint
    assert "trust_remote_code=False" in calls["hub/matching/embed.py"]
    assert "trust_remote_code=False" in calls["formats/gguf/inside.py"]
    assert "AutoTokenizer.from_pretrained" in calls["models/vocabulary/files.py"]
    assert "trust_remote_code" in str(smelt.merge.__doc__)
