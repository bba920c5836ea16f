import torch

import smelt


def merged(models, masks, base=0.0):
    tables = {f"m{number}": {"w": base + torch.tensor(model)} for number, model in enumerate(models)}
    masks = {name: {"w": torch.tensor(mask)} for name, mask in zip(tables, masks, strict=True)}
    zero = {"w": torch.full((len(models[0]),), base)}
    return smelt.merge(tables, base=zero, method="stitch", statistics=masks)["w"].tolist()


def test_a_change_counts_where_its_mask_says_so_and_k_overlaps_share():
    """All three own the first, two the second, one the third, nobody the fourth."""
    models = [[3.0, 4.0, 7.0, 1.0], [6.0, 8.0, 1.0, 1.0], [9.0, 1.0, 1.0, 1.0]]
    masks = [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]]
    assert merged(models, masks) == [6.0, 6.0, 7.0, 0.0]


def test_what_no_mask_owns_is_the_bases():
    assert merged([[3.0, 4.0]], [[0, 1]], base=10.0) == [10.0, 14.0]


def test_masks_may_be_stored_as_flags_or_bytes():
    for dtype in (torch.bool, torch.uint8, torch.float16):
        models, masks = {"m": {"w": torch.tensor([5.0, 6.0])}}, {"m": {"w": torch.tensor([1, 0]).to(dtype)}}
        got = smelt.merge(models, base={"w": torch.zeros(2)}, method="stitch", statistics=masks)
        assert got["w"].tolist() == [5.0, 0.0]


def test_tensors_without_masks_get_the_mean_change():
    models = {name: {"w": torch.ones(1), "b": torch.tensor([value])} for name, value in (("x", 2.0), ("y", 6.0))}
    base = {"w": torch.zeros(1), "b": torch.zeros(1)}
    got = smelt.merge(models, base=base, method="stitch", statistics={name: {"w": torch.ones(1)} for name in models})
    assert (got["w"].tolist(), got["b"].tolist()) == ([1.0], [4.0])
