"""Block weights: 26 or 25 numbers for an SD1.5, 20 for an SDXL, 61 for a Flux, in the usual order."""

import pytest
import torch
from diffusers import FluxTransformer2DModel, UNet2DConditionModel
from safetensors.torch import load_file

import smelt
from diffusion_files import flux_state, sd15_state, write_file
from pipelines import component_states, write_pipeline
from smelt.errors import RecipeError
from smelt.formats.diffusion.blocks import blocks_of
from smelt.formats.diffusion.unet_names import file_names
from smelt.recipe.patterns import matches

pytestmark = pytest.mark.filterwarnings("ignore")

SMALL = ["BASE", "IN00", "IN01", "IN02", "IN03", "M00", "OUT00", "OUT01", "OUT02", "OUT03"]
NUMBERS = [0.5, 0, 0.25, 0.5, 0.75, 1, 0.25, 0.5, 0.75, 0.125]
NET = "model.diffusion_model."


def block_of(blocks, name):
    return next((block for pattern, block in blocks.patterns.items() if matches(pattern, name)), "BASE")


@pytest.mark.parametrize(
    ("config", "order"),
    [
        ({"cross_attention_dim": 768}, [26, 25]),
        (
            {
                "block_out_channels": (320, 640, 1280),
                "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
                "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
            },
            [20, 19],
        ),
    ],
)
def test_unets_of_the_real_shape_take_as_many_numbers_as_people_write(config, order):
    with torch.device("meta"):
        own = list(UNet2DConditionModel(**config).state_dict())
    single = {f"unet.{name}": NET + other for name, other in file_names(own).items()}
    ours, theirs = blocks_of(single), blocks_of(single.values())
    assert [len(one) for one in ours.orders] == [len(one) for one in theirs.orders] == order
    assert all(block_of(ours, name) == block_of(theirs, other) for name, other in single.items())
    assert block_of(theirs, f"{NET}input_blocks.8.1.norm.weight") == "IN08"
    assert block_of(theirs, f"{NET}out.2.weight") == ours.orders[0][-1] == ours.orders[1][-1]
    assert block_of(theirs, f"{NET}time_embed.0.weight") == "IN00"
    assert block_of(theirs, "cond_stage_model.transformer.x") == "BASE"


def test_a_flux_of_the_real_shape_takes_61_or_58_numbers():
    single = list(flux_state(0, double=19, single=38))
    assert [len(order) for order in blocks_of(single).orders] == [61, 58, 57]
    with torch.device("meta"):
        folder = [f"transformer.{name}" for name in FluxTransformer2DModel(num_attention_heads=1).state_dict()]
    assert blocks_of(folder).orders == blocks_of(single).orders
    assert block_of(blocks_of(folder), "transformer.single_transformer_blocks.7.proj_mlp.weight") == "S07"
    assert block_of(blocks_of(single), "double_blocks.18.img_mod.lin.bias") == "D18"


@pytest.fixture
def two_files(tmp_path):
    return [write_file(tmp_path / f"{seed}.safetensors", sd15_state(seed)[0]) for seed in (0, 1)]


@pytest.mark.parametrize("given", [NUMBERS, ", ".join(map(str, NUMBERS))])
def test_every_tensor_moves_by_the_number_of_its_block(two_files, given):
    first, second = (load_file(file) for file in two_files)
    made = smelt.merge(two_files[1:], base=two_files[0], method="task_arithmetic", scale={"blocks": given})
    blocks, by_block = blocks_of(first), dict(zip(SMALL, NUMBERS, strict=True))
    for name, ours in first.items():
        if ours.is_floating_point() and not name.startswith(("first_stage_model.", "betas")):
            share = by_block[block_of(blocks, name)]
            torch.testing.assert_close(made[name], ours + share * (second[name] - ours), msg=name)
    assert torch.equal(made[f"{NET}input_blocks.0.0.weight"], first[f"{NET}input_blocks.0.0.weight"])
    assert torch.equal(made[f"{NET}time_embed.0.weight"], first[f"{NET}time_embed.0.weight"])


def test_numbers_without_base_go_with_a_number_outside(two_files):
    words = {"base": two_files[0], "method": "task_arithmetic"}
    one = smelt.merge(two_files[1:], scale={"blocks": NUMBERS[1:], "outside": NUMBERS[0]}, **words)
    other = smelt.merge(two_files[1:], scale={"blocks": NUMBERS}, **words)
    assert all(torch.equal(one[name], other[name]) for name in other)


def test_each_model_may_have_numbers_of_its_own(two_files):
    first, second = (load_file(file) for file in two_files)
    weights = [{"blocks": [1 - n for n in NUMBERS]}, {"blocks": NUMBERS}]
    made = smelt.merge(two_files, method="average", weights=weights)
    name = f"{NET}output_blocks.2.0.in_layers.2.weight"
    torch.testing.assert_close(made[name], 0.25 * first[name] + 0.75 * second[name])


def test_a_folder_has_the_same_blocks_as_the_file(tmp_path, two_files):
    folders = [write_pipeline("sd15", seed, tmp_path / f"folder{seed}") for seed in (0, 1)]
    words = {"method": "task_arithmetic", "scale": {"blocks": NUMBERS}}
    smelt.merge(folders[1:], base=folders[0], out=tmp_path / "out", **words)
    file = smelt.merge(two_files[1:], base=two_files[0], **words)
    unet = component_states(tmp_path / "out")["unet"]
    names = file_names(unet)
    assert all(torch.equal(tensor, file[NET + names[name]]) for name, tensor in unet.items())


def test_the_plan_tells_the_number_of_every_block(two_files):
    plan = smelt.plan(two_files[1:], base=two_files[0], method="task_arithmetic", scale={"blocks": [0, *[0.5] * 9]})
    state = load_file(two_files[0])
    inside = sum(block_of(blocks_of(state), name) != "BASE" for name in state)
    text = sum(name.startswith("cond_stage_model.") for name in state) - 1  # without positions
    told = f"BASE 0 ({text} tensors), IN00 to OUT03 0.5 ({inside} tensors)"
    assert f"task_arithmetic.scale by block: {told}" in plan.notes


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ([0.5] * 8, r"10 numbers \(BASE, IN00 to IN03, M00, OUT00 to OUT03\) or 9 numbers .*, got 8"),
        ([0.5] * 9, r"9 numbers \(IN00 .*\) leave 36 tensors outside of the blocks, cond_stage_model.*outside: NUMBER"),
        ("0, a, 1", "are numbers, as a list or a text with commas, got '0, a, 1'"),
        (3, "are numbers"),
        ([True] * 10, "are numbers"),
        ([*[0.5] * 9, "inf"], "are numbers"),
    ],
)
def test_what_are_no_block_weights_is_refused(two_files, numbers, reason):
    with pytest.raises(RecipeError, match=reason):
        smelt.plan(two_files[1:], base=two_files[0], method="task_arithmetic", scale={"blocks": numbers})


def test_models_without_known_blocks_are_refused(tmp_path):
    files = [write_file(tmp_path / f"{seed}.safetensors", {"a.weight": torch.ones(2, 2) * seed}) for seed in (0, 1)]
    with pytest.raises(RecipeError, match="no diffusion model whose blocks are known"):
        smelt.plan(files[1:], base=files[0], method="task_arithmetic", scale={"blocks": [1]})
