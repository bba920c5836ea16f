"""What a model folder needs to load comes along; what does not belong to the output stays behind."""

import json

import pytest
import torch

import smelt
from checkpoints import CONFIG, snapshot, state, write_model

CARRIED = [
    "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "vocab.txt", "merges.txt", "tokenizer.model", "spiece.model", "preprocessor_config.json",
    "processor_config.json", "video_preprocessor_config.json", "chat_template.json", "chat_template.jinja",
]  # fmt: skip
LEFT = ["training_args.bin", "optimizer.pt", "README.md", "trainer_state.json", "model.onnx", ".gitattributes", "x.py"]


def merged(tmp_path, config=CONFIG, names=(), **words):
    for name, value in (("first", 1.0), ("second", 2.0)):
        folder = write_model(tmp_path / name, state(value), config)
        for file in names:
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_text(json.dumps({"from": name}) if file.endswith(".json") else f"from {name}")
    smelt.merge([tmp_path / "first", tmp_path / "second"], out=tmp_path / "out", **words)
    return tmp_path / "out"


def test_tokenizer_processor_generation_config_and_templates_come_along_unchanged(tmp_path):
    names = [*CARRIED, "additional_chat_templates/tools.jinja"]
    out = merged(tmp_path, names=names)
    for name in names:
        assert (out / name).read_bytes() == (tmp_path / "first" / name).read_bytes(), name
    assert smelt.verify(out).ok


def test_training_left_overs_and_the_old_card_stay_behind(tmp_path):
    out = merged(tmp_path, names=LEFT)
    names = {"README.md", "config.json", "manifest.json", "model.safetensors"}
    assert snapshot(out).keys() == names
    assert b"from first" not in (out / "README.md").read_bytes()


def test_code_of_the_models_own_comes_along_where_its_config_names_it(tmp_path):
    out = merged(tmp_path, {**CONFIG, "auto_map": {"AutoModel": "modeling_x.X"}}, names=["modeling_x.py"])
    assert (out / "modeling_x.py").exists()


def test_code_on_the_hub_is_not_needed(tmp_path):
    config = {**CONFIG, "auto_map": {"AutoModel": "org/repo--modeling_x.X"}}
    assert not (merged(tmp_path, config, names=["modeling_x.py"]) / "modeling_x.py").exists()


@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
def test_the_config_says_the_new_dtype_under_the_key_it_used(tmp_path, key):
    out = merged(tmp_path, {**CONFIG, key: "float32"}, dtype="bf16")
    config = json.loads((out / "config.json").read_text())
    assert config == {**CONFIG, key: "bfloat16"}


def test_models_without_a_config_give_an_output_without_one(tmp_path):
    assert not (merged(tmp_path, None) / "config.json").exists()


def test_the_card_has_tags_the_recipe_and_the_parents(tmp_path):
    import yaml

    out = merged(tmp_path, method="linear", weights=[1, 2])
    text = (out / "README.md").read_text()
    head = yaml.safe_load(text.split("---")[1])
    assert head["tags"] == ["merge", "smelt", "average"]
    recipe = smelt.Recipe.parse(yaml.safe_load(text.split("```yaml\n")[1].split("```")[0]))
    assert recipe.merge[0].parameters == {"weights": [1, 2]}
    assert "`smelt verify OUT`" in text


def test_the_recipe_on_the_card_makes_the_same_model_again(tmp_path):
    import yaml

    out = merged(tmp_path, method="linear", weights=[1, 2])
    text = (out / "README.md").read_text()
    smelt.merge(yaml.safe_load(text.split("```yaml\n")[1].split("```")[0]), out=tmp_path / "again" / "out")
    assert snapshot(tmp_path / "again" / "out") == snapshot(out)


def test_a_chat_template_can_be_chosen(tmp_path):
    out = merged(tmp_path, names=["tokenizer_config.json", "chat_template.jinja"], chat_template="{{ mine }}")
    assert not (out / "chat_template.jinja").exists()
    assert json.loads((out / "tokenizer_config.json").read_text())["chat_template"] == "{{ mine }}"


def test_float_buffers_left_out_follow_the_output_dtype(tmp_path):
    from checkpoints import read_weights

    out = merged(tmp_path, dtype="float16", skip="head.*")
    assert {tensor.dtype for tensor in read_weights(out).values()} == {torch.float16}


def test_what_is_left_behind_is_named_in_one_note(tmp_path):
    left = ["LICENSE", "eval/scores.csv", "onnx/model.onnx", "optimizer.pt", "pytorch_model.bin", "tf_model.h5", "x.py"]
    out = merged(tmp_path, names=[*left, "README.md", ".gitattributes"])
    assert json.loads((out / "manifest.json").read_text())["notes"] == [
        "beside the weights of first, and left behind: LICENSE, eval/, onnx/, optimizer.pt, pytorch_model.bin, "
        "tf_model.h5, x.py"
    ]


def test_the_list_of_names_is_bounded_and_a_plan_says_the_same(tmp_path):
    out = merged(tmp_path, names=[f"{number:02}.log" for number in range(20)])
    (note,) = json.loads((out / "manifest.json").read_text())["notes"]
    assert note.endswith("06.log, 07.log and 12 more")
    assert smelt.plan([tmp_path / "first", tmp_path / "second"]).notes == [note]


def test_code_that_comes_along_is_named(tmp_path):
    out = merged(tmp_path, {**CONFIG, "auto_map": {"AutoModel": "modeling_x.X"}}, names=["modeling_x.py"])
    (note,) = json.loads((out / "manifest.json").read_text())["notes"]
    assert note.startswith("code of first, carried because its config asks for it")
    assert note.endswith(": modeling_x.py")


def test_the_weights_of_the_other_models_are_not_left_behind(tmp_path):
    """Several models as files of one folder, around one config."""
    from safetensors.torch import save_file

    for name, value in (("a", 1.0), ("b", 2.0)):
        save_file(state(value), tmp_path / f"{name}.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert smelt.plan([tmp_path / "a.safetensors", tmp_path / "b.safetensors"]).notes == []
