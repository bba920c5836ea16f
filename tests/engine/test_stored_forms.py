"""Merges of checkpoints that store linear layers as [in, out], or all experts of a layer in one tensor."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import smelt
from smelt.engine.merge import Options, planned
from smelt.engine.request import read_request
from smelt.engine.run.backends import run_limits
from smelt.engine.run.cpu.rule_table import Support
from smelt.errors import IncompatibleModels, NumericalError
from smelt.formats.source import MemorySource, TensorInfo
from smelt.formats.views.renamed import Piece, RenamedSource

CONV1D = re.compile(r"(c_attn|c_proj|c_fc)\.weight$")
NAMES = ("red", "green", "blue")
ROW_AND_MATRIX: dict[str, Any] = {
    "wudi": {},
    "tsv": {},
    "iso_c": {},
    "iso_cts": {"common": 0.5},
    "model_stock": {"over": "row"},
    "knots": [("knots", {"rank": 3}), ("ties", {})],
    "core_space": [("core_space", {"rank": 3}), ("ties", {})],
    "svc": [("task_arithmetic", {}), ("svc", {})],
    "della": [("della", {}), ("task_arithmetic", {})],
    "della, l1": [("della", {"rescale": "l1"}), ("ties", {"trim": "tensor"})],
    "dare": [("dare", {"density": 0.5}), ("task_arithmetic", {})],
    "dare before a matrix": [("dare", {"density": 0.5}), ("tsv", {})],
}
OF_TWO = {"nuslerp rows": {"over": "row"}, "nuslerp columns": {"over": "column", "around": "base"}}


def turned(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.mT.contiguous() if CONV1D.search(name) else tensor for name, tensor in state.items()}


def gpt2(seed: int = 0, width: int = 24) -> Any:
    import transformers

    torch.manual_seed(seed)
    words: dict[str, Any] = {"n_embd": width, "n_layer": 2, "n_head": 2, "vocab_size": 40, "n_positions": 16}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**words, bos_token_id=0, eos_token_id=0))


def gpt2_pool(folder: Path, width: int = 24, *, config: bool = True) -> tuple[dict[str, str], str]:
    """A base and three fine-tunes as folders, with or without a config that says what they are."""
    draw = torch.Generator().manual_seed(1)
    for number, name in enumerate(("base", *NAMES)):
        model = gpt2(0, width)
        with torch.no_grad():
            for tensor in model.parameters():
                tensor += 0.01 * number * torch.randn(tensor.shape, generator=draw)
        model.save_pretrained(folder / name)
        if not config:
            (folder / name / "config.json").unlink()
    return {name: str(folder / name) for name in NAMES}, str(folder / "base")


def as_linear(folder: Path, out: Path) -> Path:
    """The same model with layers stored as [out, in], under the same names; its config does not say what it is."""
    out.mkdir(parents=True)
    save_file(turned(load_file(folder / "model.safetensors")), out / "model.safetensors", {"format": "pt"})
    (out / "config.json").write_text(json.dumps({"model_type": "linear-gpt"}))
    return out


def calls(case: Any, name: str) -> Any:
    return case if isinstance(case, list) else [(name.split(" ")[0].rstrip(","), case)]


@pytest.mark.parametrize("config", [True, False], ids=["with config", "without"])
@pytest.mark.parametrize("name", [*ROW_AND_MATRIX, *OF_TWO, "arcee_fusion"])
def test_gpt2_merges_as_if_its_layers_were_stored_the_other_way(tmp_path: Path, name: str, config: bool) -> None:
    models, base = gpt2_pool(tmp_path / "gpt2", config=config)
    count = 2 if name in OF_TWO else 1 if name == "arcee_fusion" else 3
    models = dict(list(models.items())[:count])
    others = {one: str(as_linear(Path(path), tmp_path / "linear" / one)) for one, path in models.items()}
    other = str(as_linear(Path(base), tmp_path / "linear" / "base"))
    method = calls({**ROW_AND_MATRIX, **OF_TWO, "arcee_fusion": {}}[name], name)
    smelt.merge(models, base=base, method=method, out=tmp_path / "a")
    smelt.merge(others, base=other, method=method, out=tmp_path / "b")
    got, expected = load_file(tmp_path / "a/model.safetensors"), load_file(tmp_path / "b/model.safetensors")
    assert got["transformer.h.0.mlp.c_fc.weight"].shape == (24, 96)
    for key, tensor in turned(expected).items():
        assert torch.equal(got[key], tensor), key


@pytest.mark.parametrize("name", ["model_stock", "della", "della, l1", "nuslerp rows", "arcee_fusion", "dare"])
def test_both_ways_of_running_agree_on_rows(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 72 numbers and more are run by the machine where they are stored as rows, and in torch where not."""
    models, base = gpt2_pool(tmp_path / "gpt2", 72)
    count = 2 if name in OF_TWO else 1 if name == "arcee_fusion" else 3
    models = dict(list(models.items())[:count])
    others = {one: str(as_linear(Path(path), tmp_path / "linear" / one)) for one, path in models.items()}
    other = str(as_linear(Path(base), tmp_path / "linear" / "base"))
    method = calls({**ROW_AND_MATRIX, **OF_TWO, "arcee_fusion": {}}[name], name)
    smelt.merge(models, base=base, method=method, out=tmp_path / "a")
    smelt.merge(others, base=other, method=method, out=tmp_path / "b")
    monkeypatch.setenv("SMELT_FUSED", "0")
    smelt.merge(others, base=other, method=method, out=tmp_path / "c")
    made = [load_file(tmp_path / one / "model.safetensors") for one in "abc"]
    for key, tensor in made[0].items():
        assert torch.equal(turned(made[1])[key], tensor), key
        assert torch.equal(made[1][key], made[2][key]), key


def test_starcoder_has_the_same_names_and_ordinary_layers(tmp_path: Path) -> None:
    """Row-wise model stock by hand: of each output unit its own step."""
    import transformers

    words: dict[str, Any] = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 40, "n_positions": 8}
    torch.manual_seed(0)
    for name in ("base", "a", "b"):
        transformers.GPTBigCodeForCausalLM(transformers.GPTBigCodeConfig(**words)).save_pretrained(tmp_path / name)
    pool = {name: str(tmp_path / name) for name in "ab"}
    smelt.merge(pool, base=str(tmp_path / "base"), method=[("model_stock", {"over": "row"})], out=tmp_path / "out")
    key = "transformer.h.0.attn.c_proj.weight"
    base, a, b, out = (
        load_file(tmp_path / name / "model.safetensors")[key].double() for name in ("base", "a", "b", "out")
    )
    cosine = torch.cosine_similarity(a - base, b - base, dim=1)
    expected = base + (2 * cosine / (1 + cosine))[:, None] * ((a + b) / 2 - base)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-6)


def expert_pool(
    *, transposed: bool = False, router: bool = True, inputs: int = 4, dtype: torch.dtype = torch.float32
) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Two experts with 4 inputs and 6 outputs in one tensor; the same one by one; their weights by model."""
    draw = torch.Generator().manual_seed(0)
    stacks = {name: torch.randn(2, 6, inputs, generator=draw).to(dtype) for name in ("base", *NAMES)}
    one_by_one, together = {}, {}
    for name, stack in stacks.items():
        extra = {"l.0.mlp.router.weight": torch.ones(2, inputs)} if router else {}
        one_by_one[name] = {f"l.0.mlp.experts.{n}.up_proj.weight": stack[n] for n in range(2)} | extra
        stored = stack.mT.contiguous() if transposed else stack
        together[name] = {"l.0.mlp.experts.up_proj": stored} | extra
    return together, one_by_one, stacks


@pytest.mark.parametrize("transposed", [False, True], ids=["[out, in]", "[in, out]"])
@pytest.mark.parametrize(
    "name", [name for name in ROW_AND_MATRIX if name not in ("della", "della, l1", "dare", "dare before a matrix")]
)
def test_experts_in_a_stack_are_merged_as_they_are_one_by_one(name: str, transposed: bool) -> None:
    together, one_by_one, _ = expert_pool(transposed=transposed)
    method = calls(ROW_AND_MATRIX[name], name)
    got = smelt.merge({n: together[n] for n in NAMES}, base=together["base"], method=method)["l.0.mlp.experts.up_proj"]
    alone = smelt.merge({n: one_by_one[n] for n in NAMES}, base=one_by_one["base"], method=method)
    for expert in range(2):
        merged = got[expert].mT if transposed else got[expert]
        assert torch.equal(merged, alone[f"l.0.mlp.experts.{expert}.up_proj.weight"])


def write_experts(folder: Path, states: dict[str, Any]) -> tuple[dict[str, str], str]:
    for name, state in states.items():
        (folder / name).mkdir(parents=True)
        save_file({key: tensor.contiguous() for key, tensor in state.items()}, folder / name / "model.safetensors")
    return {name: str(folder / name) for name in NAMES}, str(folder / "base")


@pytest.mark.parametrize("fused", ["1", "0"])
def test_rows_of_a_stack_are_run_by_the_machine_where_they_lie(
    tmp_path: Path, fused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Experts of 72 inputs on disk; in torch it comes out the same."""
    monkeypatch.setenv("SMELT_FUSED", fused)
    together, one_by_one, _ = expert_pool(inputs=72, dtype=torch.bfloat16)
    models, base = write_experts(tmp_path / "together", together)
    others, other = write_experts(tmp_path / "alone", one_by_one)
    method = [("model_stock", {"over": "row"})]
    recipe, _, pool = read_request(models, base, method, {})
    with planned(recipe, pool=pool) as ready:
        (stack,) = (item for item in ready.plan.items if len(item.info.shape) == 3)
        assert [Support()(part) for part in stack.matrix_items] == [True, True]
    smelt.merge(models, base=base, method=method, out=tmp_path / "a")
    smelt.merge(others, base=other, method=method, out=tmp_path / "b")
    got = load_file(tmp_path / "a/model.safetensors")["l.0.mlp.experts.up_proj"]
    alone = load_file(tmp_path / "b/model.safetensors")
    for expert in range(2):
        assert torch.equal(got[expert], alone[f"l.0.mlp.experts.{expert}.up_proj.weight"])


def test_a_view_of_what_lies_on_a_device_lies_there_too() -> None:
    class Resident(MemorySource):
        def on_device(self, key: str) -> Tensor:
            return self._state[key].view(-1)

    source = Resident("on a device", {"w": torch.arange(12.0).view(2, 2, 3)})
    info = TensorInfo("F32", (3, 2))
    view = RenamedSource(source, {"w[1]": Piece("w", 6, info, True), "flat": Piece("w", 6, info)})
    found = {name: there.tolist() for name in view.tensors if (there := view.on_device(name)) is not None}
    assert found == {"w[1]": [6, 9, 7, 10, 8, 11], "flat": [6, 7, 8, 9, 10, 11]}
    part = torch.empty(2)
    view.read("w[1]", 2, part)
    assert part.tolist() == [7, 10]


def test_a_stack_is_not_averaged_by_a_method_of_matrices() -> None:
    """Iso-C makes all singular values of each expert's change equal; the mean would not."""
    together, _, stacks = expert_pool()
    got = smelt.merge({n: together[n] for n in NAMES}, base=together["base"], method="iso_c")
    for expert in range(2):
        values = torch.linalg.svdvals(got["l.0.mlp.experts.up_proj"][expert] - stacks["base"][expert])
        torch.testing.assert_close(values, values.mean().expand(4), rtol=1e-4, atol=0)


def test_a_stack_of_which_nobody_knows_the_sides_is_refused_by_name_and_only_where_it_matters() -> None:
    together, _, stacks = expert_pool(router=False)
    models = {n: together[n] for n in NAMES}
    with pytest.raises(
        IncompatibleModels, match=r"tsv works on .*'l.0.mlp.experts.up_proj', but its experts are 6 by 4"
    ):
        smelt.merge(models, base=together["base"], method="tsv")
    merged = smelt.merge(models, base=together["base"], method="average")["l.0.mlp.experts.up_proj"]
    torch.testing.assert_close(merged, sum(stacks[n] for n in NAMES) / 3)
    smelt.merge(models, base=together["base"], method=[("dare", {}), ("ties", {})])


def test_a_stack_needs_the_memory_of_one_expert() -> None:
    def work(experts: int) -> int:
        state = {
            "l.0.mlp.router.weight": torch.ones(experts, 64),
            "l.0.mlp.experts.up_proj": torch.ones(experts, 96, 64),
        }
        recipe, _, pool = read_request(dict.fromkeys(NAMES, state), state, "tsv", {})
        with planned(recipe, pool=pool) as ready:
            return run_limits(ready.plan, 1, None).largest

    assert work(2) == work(16)


def test_an_expert_that_is_not_finite_is_named_with_its_place_in_the_file() -> None:
    """Element (0, 3) of the second expert as [out, in] is the 18th that is stored, since 6 outputs come first."""
    together, _, _ = expert_pool(transposed=True)
    together["red"]["l.0.mlp.experts.up_proj"][1, 3, 0] = float("nan")
    with pytest.raises(NumericalError, match=r"'l.0.mlp.experts.up_proj\[1\]' at element 18;"):
        smelt.merge({n: together[n] for n in NAMES}, base=together["base"], method="tsv")


def test_a_tensor_is_told_finished_once_all_its_experts_are() -> None:
    from smelt.engine.run.executor import PlanExecutor
    from smelt.engine.sink.sink import MemorySink
    from smelt.system.progress import Progress

    together, _, _ = expert_pool()
    recipe, _, pool = read_request({n: together[n] for n in NAMES}, together["base"], "tsv", {})
    with planned(recipe, pool=pool) as ready:
        sink, told = MemorySink(ready.plan), []
        sink.done = lambda item: told.append((item.key, item.info.shape))  # type: ignore[method-assign]
        PlanExecutor(ready.plan, sink, Progress(True), threads=2, room=1 << 30).run()
    assert sorted(told) == [("l.0.mlp.experts.up_proj", (2, 6, 4)), ("l.0.mlp.router.weight", (2, 4))]


def test_a_merge_of_gpt2_can_be_an_adapter(tmp_path: Path) -> None:
    """PEFT adds it to the base: rank 24 holds all that the layers changed."""
    import peft

    models, base = gpt2_pool(tmp_path / "gpt2")
    skip = ["*.bias", "*ln_*", "*wte*", "*wpe*"]
    smelt.merge(models, base=base, method="tsv", skip=skip, lora=24, out=tmp_path / "adapter")
    smelt.merge(models, base=base, method="tsv", skip=skip, out=tmp_path / "whole")
    assert json.loads((tmp_path / "adapter/adapter_config.json").read_text())["fan_in_fan_out"] is True
    import transformers

    wrapped = peft.PeftModel.from_pretrained(transformers.GPT2LMHeadModel.from_pretrained(base), tmp_path / "adapter")
    got = wrapped.merge_and_unload().state_dict()
    for key, tensor in load_file(tmp_path / "whole/model.safetensors").items():
        torch.testing.assert_close(got[key], tensor, rtol=1e-4, atol=1e-5)


def test_scales_of_one_change_are_those_of_whole_merges() -> None:
    together, _, _ = expert_pool(transposed=True)
    from smelt.engine.merge import plan_to_memory
    from smelt.engine.scales import Change

    recipe, _, pool = read_request({n: together[n] for n in NAMES}, together["base"], [("tsv", {"scale": 0.3})], {})
    with planned(recipe, pool=pool) as ready:
        change = Change.of(ready.plan, Options(), memory=1 << 30)
        got, expected = change.at(ready.plan, Options()), plan_to_memory(ready.plan, Options())
    assert all(torch.equal(got[key], tensor) for key, tensor in expected.items())
