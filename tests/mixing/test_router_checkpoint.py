from __future__ import annotations

from pathlib import Path

import pytest
import torch

from smelt.errors import CorruptFile, IncompatibleModels, RecipeError
from smelt.mixing.checkpoint import load_routers, router_state, save_routers
from smelt.mixing.router import Router


def _routers(seed: int, experts: int = 2) -> dict[str, Router]:
    names = ("vision_model.encoder.layers.1.mlp", "vision_model.encoder.layers.11.mlp")
    return {name: Router.begin(3, experts, scale=0.3, seed=seed, place=name) for name in names}


def _same(one: dict[str, Router], other: dict[str, Router]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(router_state(one).values(), router_state(other).values(), strict=True))


@pytest.mark.parametrize("suffix", ["safetensors", "ckpt", "pt"])
def test_routers_come_back_from_their_file(tmp_path: Path, suffix: str) -> None:
    saved, other = _routers(0), _routers(1)
    assert not _same(saved, other)
    load_routers(other, save_routers(saved, tmp_path / "deep" / f"routers.{suffix}"))
    assert _same(saved, other)


@pytest.mark.parametrize("prefix", ["", "vision_model."])
def test_routers_are_found_in_a_whole_mixture_of_fusionbench(tmp_path: Path, prefix: str) -> None:
    saved, other = _routers(0), _routers(1)
    state = {f"{prefix}encoder.layers.1.mlp.base_model.fc1.weight": torch.zeros(2)}
    for name, router in saved.items():
        short = prefix + name.removeprefix("vision_model.")
        for ours, theirs in (("first", "fc1"), ("last", "fc2")):
            layer = getattr(router, ours)
            state[f"{short}.gate.{theirs}.weight"], state[f"{short}.gate.{theirs}.bias"] = (
                layer.weight.detach(),
                layer.bias.detach(),
            )
    torch.save({"model": state}, tmp_path / "theirs.ckpt")
    load_routers(other, tmp_path / "theirs.ckpt")
    assert _same(saved, other)


def test_routers_of_another_number_of_experts_are_refused(tmp_path: Path) -> None:
    path = save_routers(_routers(0, experts=3), tmp_path / "routers.safetensors")
    with pytest.raises(IncompatibleModels, match=r"last.weight' is \(3, 3\) .* but \(2, 3\) in this mixture"):
        load_routers(_routers(1), path)


def test_routers_of_other_modules_are_refused(tmp_path: Path) -> None:
    path = save_routers({"mlp": Router(3, 2)}, tmp_path / "routers.pt")
    with pytest.raises(IncompatibleModels, match=r"'mlp.first.weight' of .* belongs to no router"):
        load_routers(_routers(1), path)


def test_files_that_hold_no_routers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="there are no routers at"):
        load_routers(_routers(0), tmp_path / "none.pt")
    with pytest.raises(RecipeError, match=r"saved as .safetensors, .pt or .ckpt"):
        save_routers(_routers(0), tmp_path / "routers.json")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(CorruptFile, match="does not hold a plain table of tensors"):
        load_routers(_routers(0), tmp_path / "list.pt")
    (tmp_path / "torn.ckpt").write_bytes(b"not a pickle")
    with pytest.raises(CorruptFile, match="cannot be read with weights_only"):
        load_routers(_routers(0), tmp_path / "torn.ckpt")
