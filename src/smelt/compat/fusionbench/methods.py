"""What each of FusionBench's methods is in Smelt's words: the stages that compute the same thing, and their data.

The functions below are named and called as FusionBench's configs are; their defaults stand in those configs
(`configs/method`). Only words that FusionBench came to later have one here too, so that users' configs stay whole.
Every other method of Smelt is offered under its own name, with its own words, straight from the registry.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, validate_call

from smelt.compat.fusionbench.names import method_of_class, refuse
from smelt.errors import RecipeError, did_you_mean, listed, unknown
from smelt.files.schema import faults_of, given_in, place_of, reason_of

__all__ = ["Cosine", "Meaning", "meaning_of", "own_methods"]

Weights: TypeAlias = float | list[float] | dict[str, float]
Percent: TypeAlias = Annotated[float, Field(gt=0, le=100)]
Share: TypeAlias = Annotated[float, Field(ge=0, lt=1)]
Count: TypeAlias = Annotated[int, Field(gt=0)]
Text: TypeAlias = Annotated[str | None, BeforeValidator(lambda value: None if value is False else value)]
MergeFunction: TypeAlias = Literal["sum", "mean", "max"]


@dataclass(frozen=True)
class Cosine:
    """The one analysis among the methods: the cosine similarity of the models' changes, and where it goes."""

    csv: Path | None
    picture: Path | None


@dataclass(frozen=True)
class Meaning:
    """Stages to merge by, tensors that stay the base's, or an analysis. No stages: the base as it is."""

    merge: list[dict[str, Any]] = field(default_factory=list)
    skip: list[str] = field(default_factory=list)
    analysis: Cosine | None = None
    data: dict[str, Any] | None = None
    """What a method with data may look at."""
    learned: Path | None = None
    """A file with what was learned before: then nothing is learned."""
    save: Path | None = None
    """A file for what is learned."""
    include: list[str] | None = None
    """The tensors that are merged, where not all of the pool's are."""
    out: str | None = None
    """The folder that the method itself saves the model in; {log_dir} stands for a folder that a run may name."""
    ensemble: dict[str, Any] | None = None
    """The models are asked together: words of `smelt.ensemble`."""


def meaning_of(method: Mapping[str, Any]) -> Meaning:
    """The meaning of a composed `method`: a name and its parameters."""
    parameters = dict(method)
    target, name = parameters.pop("_target_", None), parameters.pop("name", None)
    if target is not None:
        name = method_of_class(str(target))
        parameters.pop("_recursive_", None)
    if not isinstance(name, str):
        raise RecipeError("method.name is missing" if name is None else f"method.name is a text, got {name!r}")
    own = own_methods()
    if name in _METHODS:
        try:
            return _validated(_METHODS[name])(**parameters)
        except ValidationError as error:
            known = list(inspect.signature(_METHODS[name]).parameters)
            faults = faults_of(error, lambda fault: _fault(name, fault, known))
            raise RecipeError(listed(faults, f"{name} has faults:")) from None
    if name in own:
        return Meaning([{name: {key: value for key, value in parameters.items() if value != own[name].get(key)}}])
    refuse("method", f"method.name={name}", name)
    raise RecipeError(unknown("method", str(name), [*_METHODS, *own]))


def _validated(function: Callable[..., Meaning]) -> Callable[..., Meaning]:
    """The function with its parameters checked against their types."""
    return validate_call(config=ConfigDict(strict=True))(function)


def own_methods() -> dict[str, dict[str, Any]]:
    """Smelt's methods, and the names that other tools have for them: {name: {parameter: default, or ??? for none}}."""
    from smelt.methods import stages
    from smelt.methods.aliases import ALIASES, Composition

    own: dict[str, Composition] = {name: [(name, {})] for name, stage in stages.items() if stage.kind == "method"}
    return {name: _defaults(parts) for name, parts in (own | ALIASES).items() if name not in _METHODS}


def _defaults(composition: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """A parameter belongs to the first stage that has it and whose value the name does not fix."""
    from smelt.methods import stages

    found: dict[str, Any] = {}
    for stage, fixed in composition:
        for parameter in stages[stage].parameters.values():
            if parameter.name not in fixed:
                found.setdefault(parameter.name, "???" if parameter.required else parameter.default)
    return found


def _fault(name: str, fault: Any, known: Sequence[str]) -> str:
    key = place_of(fault)
    if fault["type"] == "unexpected_keyword_argument":
        return f"{name} has no parameter {key!r}{did_you_mean(key, known)}; it has: {', '.join(known) or 'none'}"
    if fault["type"] == "missing_keyword_only_argument":
        return f"method.{key} is missing"
    return f"method.{key}: {reason_of(fault).lower()}, got {given_in(fault)}"


def _dummy() -> Meaning:
    return Meaning()


def _simple_average() -> Meaning:
    return Meaning([{"average": {}}])


def _weighted_average(*, weights: Weights, normalize: bool) -> Meaning:
    return Meaning([{"average": {"weights": weights, "normalize": normalize}}])


def _slerp(*, t: float, DOT_THRESHOLD: float = 0.9995, epsilon: float = 1e-8) -> Meaning:  # noqa: N803 - their name
    if DOT_THRESHOLD != 0.9995:
        raise RecipeError("method.DOT_THRESHOLD: above a cosine of 0.9995 the way is straight here; leave it out")
    return Meaning([{"slerp": {"t": t}}])


def _slerp_lm(*, t: float, model_save_path: Text, show_pbar: bool) -> Meaning:
    return Meaning([{"slerp": {"t": t}}], out=model_save_path)


def _linear_interpolation(*, t: float) -> Meaning:
    return Meaning([{"average": {"weights": [1 - t, t], "normalize": False}}])


def _expo(*, extrapolation_factor: float) -> Meaning:
    """M + a (m - base), m the mean of the models, is base + (1 + a) (m - base)."""
    return Meaning([{"task_arithmetic": {"scale": 1 + extrapolation_factor, "normalize": True}}])


def _magmax(*, scaling_factor: float, inplace: bool) -> Meaning:
    return Meaning([{"magmax": {"scale": scaling_factor}}])


def _model_stock(*, ignore_keys: list[str] | None, model_save_path: Text, model_save_kwargs: None) -> Meaning:
    return Meaning([{"model_stock": {}}], list(ignore_keys or ()), out=model_save_path)


def _tsv(*, alpha: float, exclude_keys: None, return_single_task_models: Literal[False]) -> Meaning:
    return Meaning([{"tsv": {"scale": float(alpha)}}])


def _wudi(*, iter_num: Count, exclude_keys: None) -> Meaning:
    return Meaning([{"wudi": {"solver": "adam", "steps": iter_num, "lr": 1e-5}}])


def _calibrated(
    *,
    alpha: float,
    accelerator: str | None,
    base_method: dict[str, Any] | None = None,
    scaling_factor: float | None = None,
) -> Meaning:
    """Singular value calibration of what another method gives; task arithmetic where only its scale is given."""
    if base_method is None:
        first = _task_arithmetic(scaling_factor=1.0 if scaling_factor is None else scaling_factor)
    else:
        first = meaning_of(base_method)
    if not first.merge or first.data:
        raise RecipeError(f"method.base_method: calibration comes after a merge without data, got {base_method!r}")
    return Meaning([*first.merge, {"svc": {"alpha": alpha}}], first.skip)


_LAYERS = ["model.layers.*"]


def _for_causallm(
    first: Callable[..., Meaning],
    *,
    merge_backbone: bool,
    model_save_path: Text,
    show_pbar: bool,
    **parameters: Any,
) -> Meaning:
    """`merge_backbone` merges the layers alone: embeddings and head stay the pre-trained model's."""
    return replace(
        _validated(first)(**parameters), out=model_save_path, include=list(_LAYERS) if merge_backbone else None
    )


def _weighted_average_for_llama(
    *,
    weights: Weights,
    normalize: bool,
    backbone_only: bool,
    merged_model_save_path: Text,
    save_tokenizer: Literal[True],
    push_to_hub: Literal[False],
) -> Meaning:
    average = _weighted_average(weights=weights, normalize=normalize)
    return replace(average, out=merged_model_save_path, include=["model.*"] if backbone_only else None)


def _simple_ensemble(*, device_map: None) -> Meaning:
    return Meaning(ensemble={"kind": "mean"})


def _weighted_ensemble(*, normalize: Literal[True], weights: list[float] | dict[str, float] | None) -> Meaning:
    return Meaning(ensemble={"kind": "mean", **({"weights": weights} if weights else {})})


def _max_model_predictor() -> Meaning:
    return Meaning(ensemble={"kind": "max"})


def _task_arithmetic(*, scaling_factor: float) -> Meaning:
    return Meaning([{"task_arithmetic": {"scale": scaling_factor}}])


def _ties_merging(
    *, scaling_factor: float, threshold: Percent, remove_keys: list[str] | None, merge_func: MergeFunction
) -> Meaning:
    # FusionBench reads a threshold up to 1 as a share, above as percent.
    density = threshold / 100 if threshold > 1 else threshold
    ties = {"density": density, "scale": scaling_factor, "merge": merge_func}
    return Meaning([{"ties": ties}], list(remove_keys or ()))


def _dare(sparsity_ratio: float, rescale: bool, then: Meaning) -> Meaning:
    dare = {"density": 1 - sparsity_ratio, "rescale": "density" if rescale else "none"}
    return Meaning([{"dare": dare}, *then.merge], then.skip)


def _dare_simple_average(*, sparsity_ratio: Share, rescale: bool, only_on_linear_weights: Literal[False]) -> Meaning:
    return _dare(sparsity_ratio, rescale, _simple_average())


def _dare_task_arithmetic(
    *, sparsity_ratio: Share, rescale: bool, only_on_linear_weights: Literal[False], scaling_factor: float
) -> Meaning:
    return _dare(sparsity_ratio, rescale, _task_arithmetic(scaling_factor=scaling_factor))


def _dare_ties_merging(
    *,
    sparsity_ratio: Share,
    rescale: bool,
    only_on_linear_weights: Literal[False],
    scaling_factor: float,
    threshold: Percent,
    remove_keys: list[str] | None,
    merge_func: MergeFunction,
) -> Meaning:
    ties = _ties_merging(
        scaling_factor=scaling_factor, threshold=threshold, remove_keys=remove_keys, merge_func=merge_func
    )
    return _dare(sparsity_ratio, rescale, ties)


def _iso_c(*, scaling_factor: float, exclude_keys: list[str] | None) -> Meaning:
    return Meaning([{"iso_c": {"scale": scaling_factor}}], list(exclude_keys or ()))


def _iso_cts(*, scaling_factor: float, common_space_fraction: float, exclude_keys: list[str] | None) -> Meaning:
    iso_cts = {"scale": scaling_factor, "common": common_space_fraction}
    return Meaning([{"iso_cts": iso_cts}], list(exclude_keys or ()))


def _clip_fisher_merging(
    *,
    normalize_fisher_weight: bool,
    minimal_fisher_weight: float,
    num_fisher_examples: Count,
    devices: Count,
    estimator: Literal["exact", "sampled", "empirical", "batched_sqrt"],
    data_split: str,
    batch_size: Count,
    num_workers: int,
    exclude_param_names_regex: list[str] | None,
) -> Meaning:
    fisher = {"floor": minimal_fisher_weight, "balance": "norm" if normalize_fisher_weight else "none"}
    data = {"split": data_split, "examples": num_fisher_examples, "estimator": estimator, "batch": batch_size}
    return Meaning([{"fisher": fisher}], _regexes(exclude_param_names_regex), data=data)


def _clip_regmean(
    *,
    num_regmean_examples: Count,
    devices: Count,
    reduce_non_diagonal_ratio: float,
    weight_transpose: Literal[True] = True,
    data_split: str,
    batch_size: Count,
    num_workers: int,
    exclude_param_names_regex: list[str] | None,
) -> Meaning:
    data = {"split": data_split, "examples": num_regmean_examples}
    merge = [{"regmean": {"reduction": reduce_non_diagonal_ratio}}]
    return Meaning(merge, _regexes(exclude_param_names_regex), data=data)


def _clip_regmean_plusplus(**parameters: Any) -> Meaning:
    """FusionBench solves block by block, as the authors' code does."""
    found = _validated(_clip_regmean)(**parameters)
    reduction = found.merge[0]["regmean"]["reduction"]
    return replace(found, merge=[{"regmean_pp": {"reduction": reduction, "step": "block"}}])


def _regexes(given: list[str] | None) -> list[str]:
    """FusionBench leaves tensors out by regular expressions, Smelt by shell patterns."""
    if given:
        raise RecipeError(
            "method.exclude_param_names_regex: name tensors that are not merged in `modelpool.skip`, by shell patterns"
        )
    return []


def _adamerging(
    level: str,
    *,
    weights: Text,
    init_values: float,
    clamp_weights: bool,
    tie_weights: bool,
    strict: bool,
    cache_dir: str | None,
    optimizer: Literal["adam"],
    lr: float,
    batch_size: Count,
    max_steps: Count,
    save_merging_weights: Text,
    data_split: str,
    devices: Count,
    num_workers: int,
    fast_dev_run: bool,
) -> Meaning:
    learn = {
        "level": level,
        "init": init_values,
        "clamp": clamp_weights,
        "lr": lr,
        "batch": batch_size * devices,  # theirs is the batch of one device
        "steps": 1 if fast_dev_run else max_steps,
    }
    return Meaning(
        [{"adamerging": learn}],
        data={"split": data_split},
        learned=Path(weights) if weights else None,
        save=Path(save_merging_weights) if save_merging_weights else None,
    )


def _weight_ensembling_moe(
    *,
    checkpoint: Text,
    save_checkpoint: Text,
    cache_dir: str | None = None,
    router_hidden_layers: Literal[2],
    batch_reduce: bool,
    init_lambda: float,
    optimizer: Literal["adam"],
    lr: float,
    batch_size: Count,
    max_steps: Count,
    use_grad_accumulate: bool,
    data_split: str,
    devices: Count,
    num_workers: int,
    fast_dev_run: bool,
) -> Meaning:
    if batch_reduce:
        raise RecipeError(
            "method.batch_reduce=true averages the gates over a batch, so that results depend on the batch size; "
            "here every picture has its own"
        )
    batch = batch_size * devices
    learn = {"scale": init_lambda, "lr": lr, "batch": batch, "steps": 1 if fast_dev_run else max_steps}
    # How the routers route is looked at too, on as many examples as they learned from: for one step, one batch.
    few = {"examples": batch} if fast_dev_run else {}
    return Meaning(
        [{"wemoe": learn}],
        data={"split": data_split, **few},
        learned=Path(checkpoint) if checkpoint else None,
        save=Path(save_checkpoint) if save_checkpoint else None,
    )


def _pipeline(*, merge: Any) -> Meaning:
    return Meaning(merge if isinstance(merge, list) else [merge])


COSINES = "task_vector_cos_similarity"


def _cosine(
    *,
    save_to_csv: str | None,
    output_path: Text = None,
    plot_heatmap: bool,
    trainable_only: bool,
    max_points_per_model: int | None,
) -> Meaning:
    """FusionBench names the files in `output_path`; of a CSV file elsewhere the drawing is a neighbour."""
    csv = save_to_csv or (f"{output_path}/{COSINES}.csv" if output_path else None)
    picture = Path(csv).with_suffix(".svg") if csv else Path(f"{{log_dir}}/{COSINES}.svg")
    return Meaning(analysis=Cosine(Path(csv) if csv else None, picture if plot_heatmap else None))


_METHODS: dict[str, Callable[..., Meaning]] = {
    "dummy": _dummy,
    "simple_average": _simple_average,
    "weighted_average": _weighted_average,
    "slerp": _slerp,
    "slerp/slerp_lm": _slerp_lm,
    "linear/linear_interpolation": _linear_interpolation,
    "linear/expo": _expo,
    "linear/simple_average_for_causallm": functools.partial(_for_causallm, _simple_average),
    "linear/task_arithmetic_for_causallm": functools.partial(_for_causallm, _task_arithmetic),
    "linear/ties_merging_for_causallm": functools.partial(_for_causallm, _ties_merging),
    "linear/weighted_average_for_llama": _weighted_average_for_llama,
    "magmax/magmax": _magmax,
    "model_stock/model_stock": _model_stock,
    "task_singular_vector/TaskSingularVectorMerging": _tsv,
    "wudi/wudi": _wudi,
    "singular_value_calibration": _calibrated,
    "regmean_plusplus/clip_regmean_plusplus": _clip_regmean_plusplus,
    "ensemble/simple_ensemble": _simple_ensemble,
    "ensemble/weighted_ensemble": _weighted_ensemble,
    "ensemble/max_model_predictor": _max_model_predictor,
    "task_arithmetic": _task_arithmetic,
    "ties_merging": _ties_merging,
    "dare/simple_average": _dare_simple_average,
    "dare/task_arithmetic": _dare_task_arithmetic,
    "dare/ties_merging": _dare_ties_merging,
    "isotropic_merging/iso_c": _iso_c,
    "isotropic_merging/iso_cts": _iso_cts,
    "clip_fisher_merging": _clip_fisher_merging,
    "clip_regmean": _clip_regmean,
    "clip_task_wise_adamerging": functools.partial(_adamerging, "task"),
    "clip_layer_wise_adamerging": functools.partial(_adamerging, "tensor"),
    "clip_weight_ensembling_moe": _weight_ensembling_moe,
    "pipeline": _pipeline,
    COSINES: _cosine,
}
