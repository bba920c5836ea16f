"""Every example that the documentation shows is a file under docs/examples, and runs here on small models."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import smelt
from adapted_models import write_adapted_models
from made_up_diffusion import write_folder, write_single_file
from pico_llama import pairs, write_chat_task, write_llama
from pico_texts import write_classifier, write_embedder
from smelt.evaluation.row import Row, read_rows
from smelt.methods import stages
from smelt.methods.explanation import example_recipe
from smelt.prepare.prepare import stages_with_data
from smelt.testing import pico, save
from smelt.testing.pico_llava import llava_config, llava_tokenizer, save_llava
from tiny_experts import made, saved
from training_shards import write_zero

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS / "examples"
PLUGIN = EXAMPLES / "plugin"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if "adr" not in page.parts and EXAMPLES not in page.parents]
METHODS_OWN = {f"{example_recipe(one)}\n" for one in (*stages.values(), *stages_with_data().values())}
"""The recipes of the methods' pages, which tests/methods/test_explanations.py plans."""
RUN_BY_TESTS = {"python", "yaml", "bash", "toml"}


def examples(pattern: str) -> list[Any]:
    return [pytest.param(path, id=path.stem) for path in sorted(EXAMPLES.glob(pattern))]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models that the examples name, and the recipes beside them."""
    room = tmp_path_factory.mktemp("examples")
    pool = pico(3)
    words = [f"word-{number}" for number in range(24)]
    named = dict(zip(("cars", "birds", "chess"), pool.models.values(), strict=True))
    for name, state in {"base": pool.base, **named}.items():
        write_tokenizer(save(state, room / name), words)
    chat = dict(named["birds"])
    for key in ("model.embed_tokens.weight", "lm_head.weight"):
        chat[key] = torch.cat([chat[key], torch.ones(2, 16)])
    write_tokenizer(save(chat, room / "chat"), [*words, "<user>", "<bot>"])
    write_adapter(room / "cars-lora", rank=4)
    write_quantised(room / "cars-fp8", named["cars"])
    write_adapter(room / "birds-lora", rank=2)
    (room / "old").mkdir()
    torch.save(named["birds"], room / "old" / "pytorch_model.bin")
    for recipe in (EXAMPLES / "recipes").glob("*.yaml"):
        shutil.copy(recipe, room)
    shutil.copy(EXAMPLES / "pool.yaml", room)
    for folder in ("tasks", "suites", "configs", "data"):
        shutil.copytree(EXAMPLES / folder, room / folder)
    draw_shapes(room / "tasks" / "shapes" / "pictures" / "test")
    write_language_models(room)
    write_seeing_models(room)
    write_mixtures_of_experts(room)
    for seed, name in enumerate(("portraits", "drawings")):
        write_folder(room / name, seed)
        write_single_file(room / f"{name}.safetensors", seed)
    write_models_of_texts(room)
    write_adapted_models(room)
    write_training_runs(room)
    return room


@pytest.fixture
def room(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the models in it, to work in."""
    copy = tmp_path / "room"
    shutil.copytree(models, copy)
    monkeypatch.chdir(copy)
    return copy


def write_tokenizer(folder: Path, tokens: list[str]) -> None:
    model = {
        "type": "WordLevel",
        "vocab": {token: number for number, token in enumerate(tokens)},
        "unk_token": "word-0",
    }
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))


def write_quantised(folder: Path, state: Mapping[str, torch.Tensor]) -> None:
    """A model whose matrices are 8-bit floats with a scale for each row."""
    stored: dict[str, torch.Tensor] = {}
    for name, tensor in state.items():
        if tensor.ndim != 2:
            stored[name] = tensor
            continue
        scales = tensor.abs().amax(1, keepdim=True) / 448
        stored[name], stored[f"{name}_scale"] = (tensor / scales).to(torch.float8_e4m3fn), scales
    folder.mkdir()
    save_file(stored, folder / "model.safetensors")


def write_adapter(folder: Path, rank: int) -> None:
    folder.mkdir()
    draw = torch.Generator().manual_seed(rank)
    stem = "base_model.model.model.layers.0.mlp.up_proj"
    factors = {
        f"{stem}.lora_A.weight": torch.randn(rank, 16, generator=draw) / 64,
        f"{stem}.lora_B.weight": torch.randn(20, rank, generator=draw) / 64,
    }
    save_file(factors, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": ["up_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))


def write_language_models(room: Path) -> None:
    """What docs/how-to/language.md names: a base, two specialists with their tasks, a training run, one with a BPE."""
    write_llama(room / "small")
    for name, change, task, offset in (("maths", 0.01, "sums", 0), ("coding", 0.02, "lines", 40)):
        write_llama(room / f"small-{name}", change=change)
        write_chat_task(room / "tasks" / task, pairs(6, offset))
    for step in (100, 200, 300):
        write_llama(room / "run" / f"checkpoint-{step}", change=step / 1000)
    write_byte_level(room / "talk")


def write_training_runs(room: Path) -> None:
    """What docs/how-to/merge-in-training.md names: a run of FSDP, one of DeepSpeed, and a state with an average."""
    import torch.distributed.checkpoint as dcp

    for step in (100, 200, 300):
        state = pico(1, seed=step).base
        saved = {"model": state, "optimizer": {"state": {"norm": torch.zeros(3)}}}
        place = room / "fsdp-run" / f"checkpoint-{step}" / "pytorch_model_fsdp_0"
        dcp.save(saved, checkpoint_id=str(place), no_dist=True)
        write_zero(room / "zero-run" / f"checkpoint-{step}", [state], stage=3, ranks=2, step=step)
    shutil.copy(room / "base" / "config.json", room / "fsdp-run")
    torch.save({"state_dict": pico(1).base, "state_dict_ema": pico(1, seed=1).base, "epoch": 3}, room / "state.pt")


def write_seeing_models(room: Path) -> None:
    """What docs/how-to/multimodal.md and docs/how-to/select.md name: a base and three fine-tunes that see and read."""
    for name, change in (("", 0.0), ("-animals", 0.1), ("-numbers", 0.2), ("-flags", 0.3)):
        save_llava(room / f"seer{name}", change=change)
    write_reader(room / "reader")


def write_reader(folder: Path) -> None:
    """What docs/how-to/graft.md names: a model of texts with the tokenizer and the sizes of a seer's language model."""
    from transformers import LlamaForCausalLM

    torch.manual_seed(1)
    words = llava_tokenizer()
    LlamaForCausalLM(llava_config(len(words)).text_config).save_pretrained(folder)
    words.save_pretrained(folder)


def write_mixtures_of_experts(room: Path) -> None:
    """What docs/how-to/mixture-of-experts.md names: a base and two fine-tunes."""
    for seed, name in enumerate(("moe", "moe-maths", "moe-coding")):
        saved(made("Qwen2Moe", seed), room / name)


def write_models_of_texts(room: Path) -> None:
    """What docs/how-to/embedders.md names: embedders, a cross-encoder, classifiers, a reward model."""
    for seed, name in enumerate(("", "-news", "-law")):
        write_embedder(room / f"sentences{name}", seed, prompts={"query": "query: ", "document": ""})
    write_classifier(room / "reranker", labels=("score",))
    write_classifier(room / "helpful", labels=("helpful",))
    for seed, name in enumerate(("hotels", "trains")):
        write_classifier(room / f"moods-{name}", seed, labels=("bad", "good"))


def write_byte_level(folder: Path) -> None:
    """A model whose tokenizer cuts text as those of GGUF files do."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(["some words"], trainers.BpeTrainer(initial_alphabet=alphabet, show_progress=False))
    write_llama(folder, vocab_size=bpe.get_vocab_size())
    PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="!").save_pretrained(folder)


def draw_shapes(folder: Path) -> None:
    """The pictures of the task that docs/how-to/evaluation.md shows."""
    from PIL import Image, ImageDraw

    for name in ("circle", "square"):
        (folder / name).mkdir(parents=True)
        for number in range(3):
            picture = Image.new("RGB", (40, 40), "white")
            draw = ImageDraw.Draw(picture)
            (draw.ellipse if name == "circle" else draw.rectangle)((6 + number, 6, 32, 32 - number), fill="black")
            picture.save(folder / name / f"{number}.png")


@pytest.mark.parametrize("path", examples("recipes/*.yaml"))
def test_recipe_can_be_planned_and_merged(path: Path, room: Path) -> None:
    assert smelt.plan(path.name).merged > 0
    smelt.merge(path.name, out="out")
    assert smelt.verify("out").ok


@pytest.mark.parametrize("path", examples("python/*.py"))
@pytest.mark.usefixtures("room")
def test_python_example_runs(path: Path) -> None:
    runpy.run_path(str(path), run_name="__main__")


@pytest.mark.parametrize("path", examples("commands/*.sh"))
@pytest.mark.usefixtures("room")
def test_commands_succeed(path: Path, cli: Callable[..., Any]) -> None:
    run_commands(path, cli)


def test_the_first_tutorial_runs_and_gives_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Any]
) -> None:
    folder = EXAMPLES / "tutorials" / "first-merge"
    monkeypatch.chdir(tmp_path)
    shutil.copy(folder / "two-experts.yaml", tmp_path)
    for path in sorted(folder.glob("*.sh")):
        run_commands(path, cli)
    rows = [row for row in read_rows(tmp_path / "two-experts" / "rows.jsonl") if isinstance(row, Row)]
    made = {row.label: row.accuracy for row in rows if row.task == "clothing"}
    page = (DOCS / "tutorials" / "first-merge.md").read_text()
    shown = dict(re.findall(r"^(Pre-trained|Simple averaging|TIES|WUDI) +[\d.]+ +([\d.]+)", page, re.MULTILINE))
    assert len(shown) == 4
    assert {name: 100 * made[name] for name in shown} == pytest.approx({n: float(s) for n, s in shown.items()}, abs=2)


def run_commands(path: Path, cli: Callable[..., Any]) -> None:
    for line in path.read_text().replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        assert words[0] == "smelt", f"{path.name} shows {words[0]}, which this test does not run"
        ran = cli(*words[1:])
        assert ran.code == 0, f"{line}\n{ran.err}"


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The worked example of docs/how-to/write-a-method.md, found through its entry point like an installed one."""
    monkeypatch.syspath_prepend(PLUGIN)
    # the law of hash seeds starts an interpreter per seed and asks for all stages at once; here one of each is enough
    monkeypatch.setattr("smelt.testing.hash_seeds.stages", {})
    monkeypatch.setattr("smelt.testing.hash_seeds.HASH_SEEDS", (0,))
    before = set(stages)
    declared = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]["entry-points"]["smelt.methods"]
    for name, value in declared.items():
        EntryPoint(name, value, "smelt.methods").load()
    yield runpy.run_path(str(PLUGIN / "test_balanced.py"))
    for name in set(stages) - before:
        del stages[name]
    sys.modules.pop("balanced", None)


def test_the_plug_in_of_the_documentation_works(plugin: dict[str, Any]) -> None:
    plugin["test_a_large_change_does_not_drown_a_small_one"]()


def test_the_suite_of_the_documentation_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The worked example of docs/how-to/write-a-suite.md."""
    from smelt.suites.kind import suite_kinds

    monkeypatch.syspath_prepend(EXAMPLES / "suite_plugin")
    tests = runpy.run_path(str(EXAMPLES / "suite_plugin" / "test_quorum.py"))
    try:
        tests["test_three_that_err_on_different_questions_are_right_together"](tmp_path)
    finally:
        del suite_kinds["quorum"]
        for name in [name for name in sys.modules if name.partition(".")[0] == "quorum"]:
            del sys.modules[name]


def test_the_plug_in_of_the_documentation_keeps_the_laws(plugin: dict[str, Any]) -> None:
    plugin["test_it_keeps_the_laws"]()


@pytest.mark.parametrize("page", [pytest.param(p, id=p.relative_to(DOCS).as_posix()) for p in PAGES])
def test_a_page_shows_code_only_from_files(page: Path) -> None:
    text = page.read_text()
    assert "--8<--" not in text, (
        f"{page.name}: write `<!-- example: FILE -->` before a block; a git host includes nothing"
    )
    blocks = r"^(?:<!-- example: (\S+) -->\n)?```(\w*)\n(.*?)^```"
    for name, language, block in re.findall(blocks, text, re.DOTALL | re.MULTILINE):
        assert language in RUN_BY_TESTS | {"text"}, f"{page.name} has a block of kind {language!r}"
        run = name or language == "text" or block in METHODS_OWN
        assert run, f"{page.name} shows {language} that no test runs:\n{block}"
        if name:
            assert block.rstrip() == (EXAMPLES / name).read_text().rstrip(), f"{name}: run `python docs/generate.py`"


def test_every_example_is_shown() -> None:
    pages = "".join(page.read_text() for page in PAGES)
    files = [path for path in EXAMPLES.rglob("*.*") if path.is_file() and "__pycache__" not in path.parts]
    hidden = [str(path.relative_to(EXAMPLES)) for path in files if str(path.relative_to(EXAMPLES)) not in pages]
    assert not hidden
