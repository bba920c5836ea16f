"""The laws that every stage keeps, published for the authors of plug-ins.

    from smelt.testing import check_stage
    check_stage(smelt.methods()["my_method"])

A law is a function `law_<name>(stage, **parameters)` that raises AssertionError and says what went wrong. It merges
small models (`smelt.testing.pico`) through the whole engine, with the stage's own defaults unless parameters are
given. A step or basis stands before the plain mean of the changes, a wrapper after it. A stage that cannot keep a
law says so in its record, `exempt={"copies": "why"}`, and is then held to it: an exemption that it does not need
is a fault too.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args, get_origin
from unittest.mock import patch

import torch
from pydantic import ValidationError
from torch import Tensor

from smelt.api import merge
from smelt.engine.blocks import Blocking
from smelt.merge import Stage, stages
from smelt.merge.method import Parameter
from smelt.ops.order import Largest
from smelt.testing.pico import BUFFER, Pico, State, digest, load, pico, save

__all__ = [
    "EXAMPLES",
    "LAWS",
    "Law",
    "applicable",
    "check_stage",
    "merged_by",
    "unneeded_exemptions",
    "variants",
]

Law: TypeAlias = Callable[..., None]

EXAMPLES: dict[str, Any] = {"nearswap.t": 0.002, "slerp.t": 0.3}
"""Values by `stage.parameter` that the laws use instead of the default, where there is none or where it hides what
the law asks (slerp looks the same from both ends at 0.5). A parameter without default that is not listed gets the
first plain value that its type accepts."""

LAWS: dict[str, Law] = {}
"""Every law by the name that a record's `exempt` uses."""

_MEAN = ("task_arithmetic", {"scale": 1.0, "normalize": True})
_EPS = torch.finfo(torch.float32).eps


def applicable(stage: Stage) -> dict[str, Law]:
    """The laws that a stage must keep: all but those that it is exempt from or that say nothing about it."""
    low, high = stage.models
    silent = {name for name, says in (("order", high != 1), ("single", low == 1)) if not says}
    return {name: law for name, law in LAWS.items() if name not in stage.exempt and name not in silent}


def check_stage(stage: Stage, **parameters: Any) -> None:
    """Hold a stage to every law that applies to it; raises one AssertionError with all that it breaks."""
    faults = []
    for name, law in applicable(stage).items():
        try:
            law(stage, **parameters)
        except AssertionError as fault:
            faults.append(f"{name}: {fault}")
    faults += unneeded_exemptions(stage, **parameters)
    assert not faults, f"{stage.name} breaks {len(faults)} laws:" + "".join(f"\n  - {fault}" for fault in faults)


def unneeded_exemptions(stage: Stage, **parameters: Any) -> list[str]:
    """Exemptions that a stage declares although it keeps the law, or from laws that do not exist."""
    faults = []
    for name, reason in stage.exempt.items():
        if name not in LAWS:
            faults.append(f"{stage.name} is exempt from {name!r}, which is no law; there is: {', '.join(LAWS)}")
            continue
        try:
            LAWS[name](stage, **parameters)
        except AssertionError:
            continue
        faults.append(f"{stage.name} is exempt from {name!r} ({reason}) but keeps it; remove the exemption")
    return faults


def variants(stage: Stage) -> list[dict[str, Any]]:
    """Parameters that take each other path through a stage: every option of a choice that is not its default."""
    return [
        {parameter.name: option}
        for parameter in stage.parameters.values()
        for option in _options(parameter)
        if option != parameter.default
    ]


def merged_by(stage: Stage, pool: Pico, /, *, words: Mapping[str, Any] | None = None, **parameters: Any) -> State:
    """A pool merged by a stage and its companion; `words` go to `smelt.merge` (threads, seed, ...)."""
    with _registered(stage):
        try:
            state = merge(pool.models, base=pool.base, method=_pipeline(stage, parameters), **(words or {}))
        except Exception as error:
            raise AssertionError(f"{stage.name} could not merge: {type(error).__name__}: {error}") from error
    assert isinstance(state, dict)
    return state


def _law(function: Law) -> Law:
    LAWS[function.__name__.removeprefix("law_")] = function
    return function


@_law
def law_order(stage: Stage, **parameters: Any) -> None:
    """The order of the models does not matter, up to the rounding of sums."""
    pool = _pool(stage)
    expected = merged_by(stage, pool, **parameters)
    for other in (pool.reversed, pool.rotated):
        got = merged_by(stage, other, **parameters)
        _assert_near(got, expected, f"{stage.name} depends on the order of the models")


@_law
def law_copies(stage: Stage, **parameters: Any) -> None:
    """Copies of one model give that model back, however many there are."""
    pool = _pool(stage)
    first = next(iter(pool.models.values()))
    low, high = stage.models
    for count in sorted({low, high or 4}):
        copies = Pico(pool.base, {f"copy-{number}": dict(first) for number in range(count)})
        expected = {**first, BUFFER: pool.base[BUFFER]}
        got = merged_by(stage, copies, **parameters)
        _assert_near(got, expected, f"{stage.name} of {count} equal models is not that model", ulps=32)


@_law
def law_dtype(stage: Stage, **parameters: Any) -> None:
    """The format of the numbers is kept, and half precision is rounded once, at the end of float32 arithmetic."""
    exact = {torch.float32: merged_by(stage, _pool(stage), **parameters)}
    exact[torch.float64] = exact[torch.float32]  # pico numbers are drawn in float32, so float64 holds the same ones
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        pool = _pool(stage).to(dtype)
        got = merged_by(stage, pool, **parameters)
        for name, tensor in got.items():
            wanted = pool.base[name].dtype
            assert tensor.dtype == wanted, f"{stage.name} turned {name!r} from {wanted} into {tensor.dtype}"
        same_numbers = exact.get(dtype) or merged_by(stage, pool.to(torch.float32), **parameters)
        rounded = Pico(same_numbers, {}).to(dtype).base
        _assert_equal(got, rounded, f"{stage.name} in {dtype} is not its float32 result rounded once")


@_law
def law_disk(stage: Stage, **parameters: Any) -> None:
    """Merging folders gives the same bytes as merging the state dicts in them."""
    pool = _pool(stage).to(torch.bfloat16)
    expected = merged_by(stage, pool, **parameters)
    with tempfile.TemporaryDirectory(prefix="smelt-law-") as room, _registered(stage):
        folder = Path(room)
        base = save(pool.base, folder / "base")
        models = {name: str(save(state, folder / name)) for name, state in pool.models.items()}
        merge(models, base=str(base), method=_pipeline(stage, parameters), out=folder / "out")
        _assert_equal(load(folder / "out"), expected, f"{stage.name} gives other bytes from disk than from memory")


@_law
def law_blocks(stage: Stage, **parameters: Any) -> None:
    """A tensor may be cut into blocks anywhere its unit allows. Only sums over a tensor may round differently."""
    pool = _pool(stage)
    with block_size(1 << 30):
        expected = merged_by(stage, pool, **parameters)
    with block_size(37):
        got = merged_by(stage, pool, **parameters)
    message = f"{stage.name} sees block borders (blocks of 37 elements against whole tensors)"
    if _sums(stage, parameters):
        _assert_near(got, expected, message, ulps=2)
    else:
        _assert_equal(got, expected, message)


@_law
def law_threads(stage: Stage, **parameters: Any) -> None:
    """The same bytes come out of 1, 2 and 4 threads."""
    pool = _pool(stage)
    with block_size(64):
        expected = merged_by(stage, pool, words={"threads": 1}, **parameters)
        for threads in (2, 4):
            got = merged_by(stage, pool, words={"threads": threads}, **parameters)
            _assert_equal(got, expected, f"{stage.name} gives other bytes with {threads} threads than with one")


@_law
def law_hash_seeds(stage: Stage, **parameters: Any) -> None:
    """The same bytes come out whatever Python's hash seed. The stage's module must register it when imported."""
    from smelt.testing.hash_seeds import HASH_SEEDS, digest_under

    found = {seed: digest_under(seed, stage, parameters) for seed in HASH_SEEDS}
    assert len(set(found.values())) == 1, (
        f"{stage.name} depends on PYTHONHASHSEED; does it walk over a set or call hash()? "
        + ", ".join(f"{seed}: {value[:12]}" for seed, value in found.items())
    )


@_law
def law_zero(stage: Stage, **parameters: Any) -> None:
    """Models that did not move from the base give the base back."""
    pool = _pool(stage)
    still = Pico(pool.base, {name: dict(pool.base) for name in pool.models})
    got = merged_by(stage, still, **parameters)
    _assert_near(got, pool.base, f"{stage.name} of models equal to the base is not the base")


@_law
def law_finite(stage: Stage, **parameters: Any) -> None:
    """Tensors that are zero, untouched, opposite, of rank one, tiny or huge give numbers, not NaN or infinity."""
    pool = _difficult(_pool(stage))
    for name, tensor in merged_by(stage, pool, **parameters).items():
        assert bool(torch.isfinite(tensor).all()), f"{stage.name} gives NaN or infinity in {name!r}"


@_law
def law_single(stage: Stage, **parameters: Any) -> None:
    """One model alone can be merged, and the result has its tensors."""
    pool = pico(1)
    got = merged_by(stage, pool, **parameters)
    shapes = {name: tuple(tensor.shape) for name, tensor in got.items()}
    wanted = {name: tuple(tensor.shape) for name, tensor in pool.base.items()}
    assert shapes == wanted, f"{stage.name} of one model has other tensors than the model"


@_law
def law_integers(stage: Stage, **parameters: Any) -> None:
    """Integers are the base's: a step counter or a table of positions has no mean."""
    pool = _pool(stage)
    got = merged_by(stage, pool, **parameters)[BUFFER]
    assert torch.equal(got, pool.base[BUFFER]), f"{stage.name} changed the integers of {BUFFER!r}: {got.tolist()}"


@_law
def law_seed(stage: Stage, **parameters: Any) -> None:
    """A stage that asks for `rng` changes with the recipe's seed and with nothing else; any other stage never does."""
    pool = _pool(stage)
    first, again, other = (digest(merged_by(stage, pool, words={"seed": s}, **parameters)) for s in (0, 0, 1))
    assert first == again, f"{stage.name} differs from run to run; draw random numbers from `rng` alone"
    if "rng" in stage.asks:
        assert first != other, f"{stage.name} asks for rng, but its result is the same under another seed"
    else:
        assert first == other, f"{stage.name} changes with the seed but does not ask for rng"


@_law
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

    merged_by(replace(stage, function=watched), _pool(stage), words={"threads": 1}, **parameters)
    assert not changed, f"{stage.name} writes into its arguments ({', '.join(sorted(changed))}); work on a copy"


@contextmanager
def block_size(elements: int) -> Iterator[None]:
    """Cut tensors into blocks of this many elements, two to a span."""
    with patch.object(Blocking, "for_device", lambda kind: Blocking(elements, 2)):
        yield


@contextmanager
def _registered(stage: Stage) -> Iterator[None]:
    """The registry with this very stage under its name."""
    before = stages.get(stage.name)
    stages[stage.name] = stage
    try:
        yield
    finally:
        if before is None:
            del stages[stage.name]
        else:
            stages[stage.name] = before


def _pipeline(stage: Stage, parameters: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    call = (stage.name, {**_examples(stage), **parameters})
    if stage.kind == "method":
        return [call]
    return [_MEAN, call] if stage.kind == "wrapper" else [call, _MEAN]


def _examples(stage: Stage) -> dict[str, Any]:
    values = {}
    for name, parameter in stage.parameters.items():
        place = f"{stage.name}.{name}"
        if place in EXAMPLES:
            values[name] = EXAMPLES[place]
        elif parameter.required:
            accepted = [value for value in (*_options(parameter), 0.5, 1, True, "red") if _accepts(parameter, value)]
            assert accepted, f"no example for {place} ({parameter.type_name}); add smelt.testing.EXAMPLES[{place!r}]"
            values[name] = accepted[0]
    return values


def _accepts(parameter: Parameter, value: Any) -> bool:
    try:
        parameter.adapter.validate_python(value)
    except ValidationError:
        return False
    return True


def _options(parameter: Parameter) -> Sequence[Any]:
    return get_args(parameter.annotation) if get_origin(parameter.annotation) is Literal else ()


def _count(stage: Stage) -> int:
    """As many models as the stage takes, three where it may choose."""
    low, high = stage.models
    return min(max(3, low), high or max(3, low))


def _pool(stage: Stage) -> Pico:
    return pico(_count(stage))


def _sums(stage: Stage, parameters: Mapping[str, Any]) -> bool:
    """Whether the stage adds up numbers over a tensor, which rounds differently in other blocks."""
    values = {p.name: p.default for p in stage.parameters.values()} | dict(_pipeline(stage, parameters))[stage.name]
    columns = {
        name: [value] * _count(stage) if stage.parameters[name].per_model and isinstance(value, int | float) else value
        for name, value in values.items()
    }
    fold = stage.fold_for(columns)
    return fold is not None and not isinstance(fold, Largest)


def _difficult(pool: Pico) -> Pico:
    """What real checkpoints hold now and then, one tensor each."""
    base, models = dict(pool.base), {name: dict(state) for name, state in pool.models.items()}
    block = "model.layers.0"
    shape = base[f"{block}.mlp.up_proj.weight"].shape
    for number, state in enumerate(models.values()):
        sign = -1.0 if number % 2 else 1.0
        for zero in (f"{block}.self_attn.q_proj.bias", f"{block}.mlp.gate_proj.weight"):
            base[zero] = state[zero] = torch.zeros_like(base[zero])
        for still in (f"{block}.self_attn.k_proj.weight", f"{block}.input_layernorm.weight"):
            state[still] = base[still]
        if number:
            state[f"{block}.self_attn.v_proj.weight"] = base[f"{block}.self_attn.v_proj.weight"]
        opposite = f"{block}.self_attn.o_proj.weight"
        state[opposite] = base[opposite] + sign * 2.0**-10
        rank_one = torch.outer(torch.linspace(-1, 1, shape[0]), torch.linspace(0, 1, shape[1])) * (number + 1) / 64
        state[f"{block}.mlp.up_proj.weight"] = base[f"{block}.mlp.up_proj.weight"] + rank_one
        tiny = f"{block}.mlp.down_proj.weight"
        base[tiny], state[tiny] = torch.zeros_like(base[tiny]), torch.full_like(base[tiny], 1e-42)
        state["lm_head.weight"] = state["lm_head.weight"] * 1e6
    return Pico(base, models)


def _assert_equal(got: State, expected: State, message: str) -> None:
    _assert_same_names(got, expected, message)
    for name, tensor in expected.items():
        if got[name].dtype != tensor.dtype or not torch.equal(got[name], tensor):
            raise AssertionError(f"{message}: {_worst(name, got[name], tensor)}")


def _assert_near(got: State, expected: State, message: str, ulps: float = 8) -> None:
    """Within a few roundings of the tensor's largest number."""
    _assert_same_names(got, expected, message)
    for name, tensor in expected.items():
        limit = ulps * _EPS * float(tensor.abs().max())
        if float((got[name].double() - tensor.double()).abs().max()) > limit:
            raise AssertionError(f"{message}: {_worst(name, got[name], tensor)}")


def _assert_same_names(got: State, expected: State, message: str) -> None:
    strange = sorted(got.keys() ^ expected.keys())
    assert not strange, f"{message}: {strange[0]!r} is in one result and not in the other"


def _worst(name: str, got: Tensor, expected: Tensor) -> str:
    off = (got.double() - expected.double()).abs().flatten()
    where = int(off.argmax())
    pair = f"{float(got.flatten()[where])!r} instead of {float(expected.flatten()[where])!r}"
    return f"{name!r} at element {where} is {pair} ({int((off > 0).sum())} of {off.numel()} elements differ)"
