"""What passes hold lies in the same memory every time."""

from smelt.engine.run.cpu.machine import PassScratch


def test_every_pass_gets_the_same_again() -> None:
    slab = PassScratch(10)
    first = [slab.take(size).ctypes.data for size in (3, 7)]
    assert first[0] != first[1]
    slab.begin()
    assert [slab.take(size).ctypes.data for size in (10, 2)] == first


def test_more_than_expected_is_given_too_and_is_as_long_as_asked() -> None:
    slab = PassScratch(4)
    assert len(slab.take(3)) == 3
    slab.begin()
    assert len(slab.take(100)) == 100
    assert len(slab.take(1)) == 1
