from by_hand import merge_rows


def test_of_each_entry_the_largest_change_wins():
    assert merge_rows("magmax", [1, -3, 0], [2, 2, -1]).tolist() == [2, -3, -1]


def test_changes_count_not_weights():
    """From a base of 10 the first moved by 1, the second by -4."""
    assert merge_rows("magmax", [11], [6], base=[10]).tolist() == [6]


def test_of_opposites_the_positive_one_wins():
    assert merge_rows("magmax", [-2], [2]).tolist() == [2]
    assert merge_rows("magmax", [2], [-2]).tolist() == [2]


def test_scale_multiplies_the_change():
    assert merge_rows("magmax", [11], [6], base=[10], scale=0.5).tolist() == [8]
