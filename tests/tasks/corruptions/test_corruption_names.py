from __future__ import annotations

import pytest

from smelt.errors import RecipeError
from smelt.tasks.corruptions.corruption import Corruption, read_corruptions
from smelt.tasks.corruptions.parameters import KINDS, SEVERITIES


def test_there_are_seven_kinds_and_five_severities() -> None:
    assert KINDS == ("motion_blur", "impulse_noise", "gaussian_noise", "pixelate", "spatter", "contrast", "jpeg")
    assert SEVERITIES == (1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("name", "corruption"),
    [
        ("motion_blur@3", Corruption("motion_blur", 3)),
        ("jpeg@1:imagenet_c", Corruption("jpeg", 1, "imagenet_c")),
        ("spatter@5:seed=7", Corruption("spatter", 5, seed=7)),
        ("contrast@2:imagenet_c:seed=7", Corruption("contrast", 2, "imagenet_c", 7)),
        ("motion_blur@stored", Corruption("motion_blur", "stored")),
    ],
)
def test_a_name_reads_as_it_is_written(name: str, corruption: Corruption) -> None:
    assert Corruption.parse(name) == corruption
    assert corruption.name == name


def test_the_usual_set_and_seed_are_not_in_the_name() -> None:
    assert Corruption.parse("pixelate@4:cifar_c:seed=0").name == "pixelate@4"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("motion_blurr@3", r"no corruption named 'motion_blurr' \(did you mean 'motion_blur'\?\)"),
        ("fog@3", r"no corruption named 'fog' \(there is: contrast, gaussian_noise, "),
        ("motion_blur", r"without a severity \(1 to 5\); write for example motion_blur@3"),
        ("motion_blur@6", "a severity is 1 to 5; got 6"),
        ("motion_blur@0", "a severity is 1 to 5; got 0"),
        ("motion_blur@high", "a severity is 1 to 5; got 'high'"),
        ("motion_blur@3:cifar", r"no parameter set named 'cifar' \(did you mean 'cifar_c'\?\)"),
        ("motion_blur@3:cifar_c:imagenet_c", "then :SET and :seed=N"),
        ("motion_blur@3:seed=1:seed=2", "then :SET and :seed=N"),
        ("motion_blur@stored:imagenet_c", "stored pictures are as they are; leave the set and the seed out"),
    ],
)
def test_a_name_that_is_none_is_refused(name: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message) as refused:
        Corruption.parse(name)
    assert refused.value.exit_code == 2


def test_one_several_or_none_can_be_asked_for() -> None:
    blur = Corruption("motion_blur", 3)
    assert read_corruptions(None) == read_corruptions("clean") == read_corruptions([]) == [None]
    assert read_corruptions("motion_blur@3") == read_corruptions(blur) == [blur]
    assert read_corruptions(["clean", "motion_blur@3", None, blur]) == [None, blur, None, blur]


def test_a_set_for_all_yields_to_the_one_in_a_name() -> None:
    words = ["jpeg@1", "jpeg@1:cifar_c"]
    assert read_corruptions(words, "imagenet_c") == [Corruption("jpeg", 1, "imagenet_c"), Corruption("jpeg", 1)]
    with pytest.raises(RecipeError, match="no parameter set named 'imagenet'"):
        read_corruptions(None, "imagenet")  # type: ignore[arg-type]
