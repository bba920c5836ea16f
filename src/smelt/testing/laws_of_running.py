"""Laws about how a merge is run: disk or memory, blocks, threads and hash seeds change nothing, seeds what they may."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from smelt.methods import Stage
from smelt.prepare.merge import merge
from smelt.testing.compare import assert_equal, assert_near
from smelt.testing.law import law
from smelt.testing.made_up import save_made_up
from smelt.testing.pico import digest, load, save
from smelt.testing.trial import block_size, merged_by, pipeline_of, pool_for, registered, sums_over_blocks

__all__: list[str] = []


@law
def law_disk(stage: Stage, **parameters: Any) -> None:
    """Merging folders gives the same bytes as merging the state dicts in them."""
    pool = pool_for(stage).to(torch.bfloat16)
    expected = merged_by(stage, pool, **parameters)
    with tempfile.TemporaryDirectory(prefix="smelt-law-") as room, registered(stage):
        folder = Path(room)
        base = save(pool.base, folder / "base")
        models = {name: str(save(state, folder / name)) for name, state in pool.models.items()}
        words: dict[str, Any] = {}
        if stage.statistics:
            words["statistics"] = save_made_up(stage.statistics, pool, folder / "statistics")
        merge(models, base=str(base), method=pipeline_of(stage, parameters), out=folder / "out", **words)
        assert_equal(load(folder / "out"), expected, f"{stage.name} gives other bytes from disk than from memory")


@law
def law_blocks(stage: Stage, **parameters: Any) -> None:
    """A tensor may be cut into blocks anywhere its unit allows. Only sums over a tensor may round differently."""
    pool = pool_for(stage)
    with block_size(1 << 30):
        expected = merged_by(stage, pool, **parameters)
    with block_size(37):
        got = merged_by(stage, pool, **parameters)
    message = f"{stage.name} sees block borders (blocks of 37 elements against whole tensors)"
    if sums_over_blocks(stage, parameters):
        assert_near(got, expected, message, ulps=2)
    else:
        assert_equal(got, expected, message)


@law
def law_threads(stage: Stage, **parameters: Any) -> None:
    """The same bytes come out of 1, 2 and 4 threads."""
    pool = pool_for(stage)
    with block_size(64):
        expected = merged_by(stage, pool, words={"threads": 1}, **parameters)
        for threads in (2, 4):
            got = merged_by(stage, pool, words={"threads": threads}, **parameters)
            assert_equal(got, expected, f"{stage.name} gives other bytes with {threads} threads than with one")


@law
def law_hash_seeds(stage: Stage, **parameters: Any) -> None:
    """The same bytes come out whatever Python's hash seed. The stage's module must register it when imported."""
    from smelt.testing.hash_seeds import HASH_SEEDS, digest_under

    found = {seed: digest_under(seed, stage, parameters) for seed in HASH_SEEDS}
    assert len(set(found.values())) == 1, (
        f"{stage.name} depends on PYTHONHASHSEED; does it walk over a set or call hash()? "
        + ", ".join(f"{seed}: {value[:12]}" for seed, value in found.items())
    )


@law
def law_seed(stage: Stage, **parameters: Any) -> None:
    """A stage that asks for `rng` changes with the recipe's seed and with nothing else; any other stage never does."""
    pool = pool_for(stage)
    first, again, other = (digest(merged_by(stage, pool, words={"seed": s}, **parameters)) for s in (0, 0, 1))
    assert first == again, f"{stage.name} differs from run to run; draw random numbers from `rng` alone"
    if "rng" in stage.asks:
        assert first != other, f"{stage.name} asks for rng, but its result is the same under another seed"
    else:
        assert first == other, f"{stage.name} changes with the seed but does not ask for rng"


@law
def law_pure(stage: Stage, **parameters: Any) -> None:
    """A stage leaves the tensors that it is given as they are: later stages and other threads read them too."""
    changed: set[str] = set()

    @functools.wraps(stage.function)
    def watched(*args: Any, **keywords: Any) -> Any:
        given = [*enumerate(args), *keywords.items()]
        before = [(name, value, value.clone()) for name, value in given if isinstance(value, Tensor)]
        result = stage.function(*args, **keywords)
        changed.update(str(name) for name, value, copy in before if not torch.equal(value, copy))
        return result

    merged_by(replace(stage, function=watched), pool_for(stage), words={"threads": 1}, **parameters)
    assert not changed, f"{stage.name} writes into its arguments ({', '.join(sorted(changed))}); work on a copy"
