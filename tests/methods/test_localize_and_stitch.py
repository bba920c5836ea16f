import torch

import smelt
from by_hand import merge_rows


def test_where_k_masks_overlap_each_contributes_one_kth():
    """Each keeps its two largest of four. All three keep the first, (3 + 6 + 9) / 3; the others have one owner each."""
    merged = merge_rows(
        "localize_and_stitch", [3, 0.1, 0.2, 5], [6, 4, 0.1, 0.1], [9, 0.1, 8, 0.1], density=0.5
    )  # fmt: skip
    assert merged.tolist() == [6, 4, 8, 5]


def test_masks_rank_over_the_whole_model():
    model = {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([10.0, 20.0])}
    base = {name: torch.zeros(2) for name in model}
    merged = smelt.merge({"m": model}, base=base, method="localize_and_stitch", density=0.5)
    assert merged["a"].tolist() + merged["b"].tolist() == [0, 0, 10, 20]


def test_signs_may_cancel():
    assert merge_rows("localize_and_stitch", [4], [-4], base=[0], density=1.0).tolist() == [0]


def test_the_default_keeps_a_tenth():
    merged = merge_rows("localize_and_stitch", list(range(1, 31)))
    assert merged.nonzero().flatten().tolist() == [27, 28, 29]
