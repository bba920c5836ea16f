"""JSON and YAML that no tool writes gets one short line: endless, deep, half characters, dates that do not exist."""

import json
import struct

import pytest
import torch
from safetensors.torch import save_file

import smelt
from bounded_time import within
from checkpoints import read_weights, write_model, write_yaml
from smelt.errors import CorruptFile, RecipeError, SmeltError

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 7)
)
YAML = {
    "date": "pool: 2024-13-45\n",
    "digits": "pool: 0b_\n",
    "list as key": "? [a, b]\n: 1\n",
    "deep": "pool: " + "[" * 3000 + "\n",
    "deep and closed": "pool: " + "[" * 500 + "]" * 500 + "\n",
    "holds itself": "pool: &a {models: *a}\nmerge: average\n",
    "bomb": BOMB + "pool: {models: *a6}\nmerge: *a6\n",
    "many wrong keys": "\n".join(f"k{number}: 1" for number in range(3000)),
    "long value": f"pool: {{models: [{'x' * 90_000}]}}\nmerge: {'y' * 90_000}\n",
}


@pytest.fixture(autouse=True)
def _ends_soon():
    """What takes minutes on a quiet machine has not been bounded."""
    with within(120):
        yield


def refused(ran, *words):
    assert ran.code == 2
    assert ran.err.startswith("smelt: ")
    assert len(ran.err) < 25_000
    assert "Traceback" not in ran.err
    for word in words:
        assert word in ran.err


@pytest.mark.parametrize("case", YAML)
def test_a_recipe_that_no_tool_writes_is_refused(tmp_path, cli, case):
    recipe = write_yaml(tmp_path / "recipe.yaml", YAML[case])
    refused(cli("plan", recipe))
    with pytest.raises(RecipeError) as caught:
        smelt.merge(recipe, out=tmp_path / "out")
    assert len(str(caught.value)) < 25_000


@pytest.mark.parametrize("case", ["date", "digits", "list as key", "deep", "bomb"])
def test_pools_tasks_suites_and_settings_are_read_alike(tmp_path, two, cli, case):
    _, cars, birds = two
    for name in ("pool", "task", "questions", "harness", "suite", "graph"):
        write_yaml(tmp_path / f"{name}.yaml", YAML[case])
    models = ["--model", cars, "--model", birds]
    refused(cli("models", tmp_path / "pool.yaml"), "pool.yaml")
    for name in ("task", "questions", "harness"):
        (tmp_path / name).mkdir()
        write_yaml(tmp_path / name / f"{name}.yaml", YAML[case])
        refused(cli("eval", cars, "--tasks", tmp_path / name), f"{name}.yaml")
    refused(cli("bench", tmp_path / "suite.yaml", "-o", tmp_path / "out"), "suite.yaml")
    if case in ("date", "digits"):
        value = YAML[case].split()[1]
        refused(cli("plan", *models, "-m", "average", "--set", f"weights={value}"), "--set weights")
    (tmp_path / "configs" / "modelpool").mkdir(parents=True)
    write_yaml(tmp_path / "configs" / "modelpool" / "mine.yaml", YAML[case])
    refused(cli("run", "--config-dir", tmp_path / "configs", "method=simple_average", "modelpool=mine"), "mine.yaml")


@pytest.mark.parametrize("content", ["", "- a", "just words", "5"])
def test_a_suite_that_is_no_table_is_refused(tmp_path, cli, content):
    suite = write_yaml(tmp_path / "suite.yaml", content)
    refused(cli("bench", suite, "-o", tmp_path / "out"), "suite.yaml", "a suite is a table")


@pytest.mark.parametrize(
    "config",
    [
        '{"a": ' * 900 + "1" + "}" * 900,
        "[" * 100_000,
        '{"model_type": "x\\ud800"}',
        '{"\\udfff": 1}',
        '{"hidden_size": 1' + "0" * 8000 + "}",
        "[]",
        "5",
        '{"a": 1',
    ],
)
def test_a_config_that_no_tool_writes_is_refused(tmp_path, two, cli, config):
    _, cars, birds = two
    (cars / "config.json").write_text(config)
    models = ["--model", cars, "--model", birds]
    refused(cli("merge", *models, "-m", "average", "-o", tmp_path / "out"), "config.json")
    refused(cli("models", *models), "config.json")
    refused(cli("pack", cars, "--base", birds, "-o", tmp_path / "pack"), "config.json")
    with pytest.raises(CorruptFile):
        smelt.merge([cars, birds], method="average", out=tmp_path / "out")


def weights(path, header, data=b""):
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


@pytest.mark.parametrize(
    "header",
    [
        b'{"a\\ud800": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [1%s], "data_offsets": [0, 4]}}' % (b"0" * 8000),
        b'{"a": {"dtype": "F32", "shape": [%s, %s], "data_offsets": [0, 4]}}' % (2 * (b"1" + b"0" * 4200,)),
        b'{"a": {"dtype": "F32", "shape": [0, %d, %d], "data_offsets": [0, 0]}}' % (2**62, 2**62),
        b'{"a": {"dtype": "F32", "shape": [%s], "data_offsets": [0, 4]}}' % b",".join([b"9" * 60] * 20_000),
        b'{"a": {"dtype": "F32", "shape": ' + b"[" * 900 + b"]" * 900 + b', "data_offsets": [0, 4]}}',
        b'{"__metadata__": {"format": 5}, "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}',
        b'{"' + b"n" * 50_000 + b'": {"dtype": "NO", "shape": [1], "data_offsets": [0, 4]}}',
    ],
)
def test_a_header_that_no_tool_writes_is_refused(tmp_path, two, cli, header):
    _, cars, birds = two
    for model in (cars, birds):
        weights(model / "model.safetensors", header, b"\0" * (0 if b"[0, 0]" in header else 4))
    refused(cli("merge", "--model", cars, "--model", birds, "-m", "average", "-o", tmp_path / "out"))
    with pytest.raises(SmeltError) as caught:
        smelt.merge([cars, birds], method="average", out=tmp_path / "out")
    assert len(str(caught.value)) < 5000


def adapter(folder, **settings):
    folder.mkdir(exist_ok=True)
    content = {"peft_type": "LORA", "r": 2, "lora_alpha": 2, **settings}
    (folder / "adapter_config.json").write_text(json.dumps(settings.get("whole", content)))
    name = "base_model.model.layers.0.mlp"
    save_file(
        {f"{name}.lora_A.weight": torch.zeros(2, 3), f"{name}.lora_B.weight": torch.zeros(4, 2)},
        folder / "adapter_model.safetensors",
    )
    return folder


@pytest.mark.parametrize("whole", [[], 5, None, "words", {}])
def test_an_adapter_whose_config_is_no_table_of_one_is_refused(tmp_path, two, cli, whole):
    base, cars, _ = two
    mine = adapter(tmp_path / "adapter", whole=whole)
    for ref in (mine, f"{base}+{mine}"):
        refused(cli("merge", "--model", cars, "--model", ref, "-m", "average", "-o", tmp_path / "out"), "adapter")


@pytest.mark.parametrize("named", [5, ["a"], {"a": 1}, True, "itself", "one another", "over itself"])
def test_an_adapter_without_a_base_of_its_own_is_refused(tmp_path, two, cli, named):
    _, cars, _ = two
    mine, other = tmp_path / "adapter", tmp_path / "other"
    bases = {"itself": str(mine), "one another": str(other), "over itself": f"{mine}+{mine}"}
    adapter(mine, base_model_name_or_path=bases.get(named, named) if isinstance(named, str) else named)
    adapter(other, base_model_name_or_path=str(mine))
    ran = cli("merge", "--model", cars, "--model", mine, "-m", "average", "-o", tmp_path / "out")
    refused(ran, "base", "BASE+")


def test_a_pattern_that_can_be_matched_in_endless_ways_is_matched_at_once(tmp_path, cli):
    name = "model.layers.0.self_attn.projection_of_all_queries"
    base = write_model(tmp_path / "base", {f"{name}.weight": torch.zeros(4, 3)})
    other = write_model(tmp_path / "other", {f"{name}.weight": torch.ones(4, 3)})
    ranks, alphas = {"([a-z0-9_.]+)+X": 4, "([a-z]|[a-z_.])*X": 4}, {"(.*)*(.*)*Y": 1.0, ".*projection.*": 6.0}
    mine = adapter(tmp_path / "adapter", rank_pattern=ranks, alpha_pattern=alphas)
    halves = {f"base_model.model.{name}.lora_A.weight": torch.ones(2, 3)}
    halves[f"base_model.model.{name}.lora_B.weight"] = torch.ones(4, 2)
    save_file(halves, mine / "adapter_model.safetensors")
    ran = cli("merge", "--model", other, "--model", f"{base}+{mine}", "-m", "average", "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    # B @ A is 2 everywhere, its scaling alpha / rank is 6 / 2, and the mean with 1 is 3.5.
    assert read_weights(tmp_path / "out")[f"{name}.weight"].unique().tolist() == [3.5]


def test_patterns_that_an_automaton_cannot_match_are_refused(tmp_path, two, cli):
    base, cars, _ = two
    for pattern in (r"(m)lp\1", "(?i)mlp", "mlp(", "a{100000}"):
        mine = adapter(tmp_path / "adapter", rank_pattern={pattern: 4})
        ran = cli("merge", "--model", cars, "--model", f"{base}+{mine}", "-m", "average", "-o", tmp_path / "out")
        refused(ran, "rank_pattern", "no regular expression")


def test_a_single_file_after_a_plus_must_fit_its_base(tmp_path, two, cli):
    base, cars, _ = two
    save_file({"lora_unet_x.lora_down.weight": torch.zeros(2, 3)}, tmp_path / "kohya.safetensors")
    ref = f"{base}+{tmp_path / 'kohya.safetensors'}"
    ran = cli("merge", "--model", cars, "--model", ref, "-m", "average", "-o", tmp_path / "out")
    refused(ran, "kohya.safetensors", "matches no module of the base")


def test_a_config_that_asks_for_endless_layers_is_refused(tmp_path, two, cli):
    _, cars, _ = two
    clip = {"model_type": "clip", "vision_config": {"num_hidden_layers": 2**31}, "text_config": {}}
    llama = {"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2**31}
    for config, words in ((clip, ["digits"]), (llama, ["llm5-val", "--split", "val"])):
        (cars / "config.json").write_text(json.dumps(config))
        refused(cli("eval", cars, "--tasks", *words), "2,147,483,648 layers")
