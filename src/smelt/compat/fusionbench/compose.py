"""Composition: words on a command line -> one config per job, by Hydra's compose API and in its grammar.

In: overrides (`method=ties_merging`, `method.threshold=20`, `'method.scaling_factor=range(0.1,0.5,0.1)'`). Out: plain
tables. The configs are those that ship (`configs`, `names`), the registry's methods, and a user's: a folder of options,
or one whole config. Nothing else of Hydra is used: no folders are made, no logging is set up, the working directory
stays.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.compat.fusionbench.names import CONFIGS, GROUPS, RefusedName, respelled, settings_of_program, shipped
from smelt.errors import MissingExtra, RecipeError, listed, shortened, unknown
from smelt.files.yaml_reader import read_yaml

if TYPE_CHECKING:
    from hydra.core.config_loader import ConfigLoader
    from hydra.core.override_parser.types import Override

__all__ = ["GROUPS", "ComposedConfig", "compose_jobs"]

_TOP = "run"
_QUOTE = "text with commas, spaces or brackets needs quotes of its own: 'save_report=\"a,b.json\"'"


@dataclass(frozen=True)
class ComposedConfig:
    """One config, the overrides that made it, and those of them that set it apart in a sweep."""

    config: dict[str, Any]
    overrides: tuple[str, ...]
    swept: tuple[str, ...] = ()


def compose_jobs(
    overrides: Sequence[str],
    *,
    sweep: bool = False,
    config_dir: str | Path | None = None,
    config_name: str | None = None,
    config_path: str | Path | None = None,
) -> tuple[ComposedConfig, ...]:
    """The config that the overrides mean, or with `sweep` one for each combination of the values they list.

    `config_name` is a whole config to start from: one of FusionBench's, or a file in the folder `config_path`.
    """
    jobs, faults = [], []
    started = [] if config_path or not config_name else settings_of_program(config_name)
    overrides = [*started, *overrides]
    with _hydra(config_dir, config_path, config_name) as configs:
        parsed = _parse(overrides, configs.loader)
        listed = [one for one in parsed if one.is_sweep_override()]
        if listed and not sweep:
            line = listed[0].input_line
            raise RecipeError(f"{line}: several values; add --multirun to run each, or write key=[a,b] for one list")
        for words in itertools.product(*map(_values, parsed)):
            swept = tuple(word for word, one in zip(words, parsed, strict=True) if one.is_sweep_override())
            try:
                spelt = _parse(respelled(words, configs.options, configs.own_groups(words)), configs.loader)
                jobs.append(ComposedConfig(_compose(spelt, configs), words, swept))
            except RecipeError as error:
                if not swept:
                    raise
                faults.append(f"{' '.join(swept)}: {error}")
    if faults:
        raise RecipeError(_list(faults))
    return tuple(jobs)


@dataclass(frozen=True)
class _Configs:
    """What there is to choose from: the options of each group, and the override by which Hydra finds a user's."""

    loader: ConfigLoader
    options: Mapping[str, Sequence[str]]
    search: tuple[str, ...]
    mine: Mapping[str, Sequence[str]]
    """Options of the user's folder."""
    top: str = _TOP
    """The config that everything starts from."""
    own: tuple[str, ...] = ()
    """Groups that this config is the user's for."""

    def own_groups(self, words: Sequence[str]) -> tuple[str, ...]:
        """Groups whose settings are the user's, and so spelt as in the user's file."""
        chosen = {group: name for group, _, name in (word.partition("=") for word in words) if group in GROUPS}
        return (*self.own, *(group for group, name in chosen.items() if name in self.mine.get(group, ())))


@contextmanager
def _hydra(
    config_dir: str | Path | None, config_path: str | Path | None = None, config_name: str | None = None
) -> Iterator[_Configs]:
    """Hydra ready to compose. Its process-wide state is put back at the end."""
    try:
        from hydra import initialize_config_dir
        from hydra.core.config_store import ConfigStore
        from hydra.core.global_hydra import GlobalHydra
        from hydra.core.utils import setup_globals
    except ImportError:
        raise MissingExtra("composing configs needs hydra-core: pip install hydra-core") from None
    from smelt.compat.fusionbench.methods import own_methods

    setup_globals()  # ${now:...}
    own = own_methods()
    options = {group: [*_files(CONFIGS / group), *shipped(group)] for group in GROUPS}
    options["method"] += own
    mine = _add_folder(Path(config_dir), options) if config_dir is not None else {}
    search = (f"hydra.searchpath=['file://{Path(config_dir).resolve()}']",) if config_dir is not None else ()
    whole = _whole_config(Path(config_path), config_name) if config_path is not None else None
    store = ConfigStore.instance()
    before = store.repo
    store.repo = {group: content for group, content in before.items() if group not in GROUPS} | _stored(tuple(own))
    try:
        if whole is not None:
            store.store(name=_WHOLE, node=whole)
        with initialize_config_dir(str(CONFIGS), job_name="smelt", version_base="1.3"):
            loader = GlobalHydra.instance().config_loader()
            if whole is None:
                yield _Configs(loader, options, search, mine)
            else:
                theirs = tuple(group for group in GROUPS if group in whole)
                yield _Configs(loader, options, search, mine, _WHOLE, theirs)
    finally:
        store.repo = before


@cache
def _stored(methods: tuple[str, ...]) -> dict[str, Any]:
    """The registry's methods and the options that follow from few words, as Hydra's store keeps them: made once."""
    from hydra.core.config_store import ConfigStore

    from smelt.compat.fusionbench.methods import own_methods

    store = ConfigStore.instance()
    before, store.repo = store.repo, {}
    own = own_methods()
    try:
        for name in methods:
            store.store(group="method", name=name, node={"name": name, **own[name]})
        for group in GROUPS:
            for name, node in shipped(group).items():
                folder, _, last = f"{group}/{name}".rpartition("/")
                store.store(group=folder, name=last, node=node)
        return store.repo
    finally:
        store.repo = before


_WHOLE = "whole-config-of-the-user"


def _whole_config(folder: Path, name: str | None) -> dict[str, Any]:
    """A config of the user's that says everything, in FusionBench's form; settings that it leaves out are the usual."""
    if name is None:
        raise RecipeError(f"--config-path {folder}: --config-name says which config there")
    path = folder / f"{name.removesuffix('.yaml')}.yaml"
    if not path.is_file():
        raise RecipeError(f"--config-name: there is no file {str(path)!r}")
    content = read_yaml(path, kind=RecipeError)
    if not isinstance(content, dict) or "defaults" in content:
        what = "it is built from others (`defaults`)" if isinstance(content, dict) else "it is no table"
        raise RecipeError(f"{path}: {what}; write method, modelpool and taskpool in it, or give them as settings")
    if not GROUPS.keys() & content.keys():
        raise RefusedName(f"{path}: it has no method, modelpool or taskpool to run", "a program of one's own")
    usual: dict[str, Any] = read_yaml(CONFIGS / f"{_TOP}.yaml", kind=RecipeError)
    chosen = [entry for entry in usual.pop("defaults") if entry == "_self_" or not entry.keys() & content.keys()]
    said = {key: value for key, value in content.items() if key not in ("_target_", "_recursive_")}
    return {"defaults": chosen, **usual, **said}


def _add_folder(folder: Path, options: dict[str, list[str]]) -> dict[str, list[str]]:
    """A user's options join the shipped ones; a name that is taken is refused."""
    mine = {}
    if not folder.is_dir():
        raise RecipeError(f"--config-dir: there is no folder {str(folder)!r}")
    for group, known in options.items():
        own = list(_files(folder / group))
        for name in own:
            read_yaml(folder / group / f"{name}.yaml", kind=RecipeError)  # Hydra's own reader knows no bounds
        taken = [name for name in own if name in known]
        if taken:
            raise RecipeError(f"{folder / group / taken[0]}.yaml: Smelt has a config of this name; give it another")
        known += own
        mine[group] = own
    return mine


def _files(folder: Path) -> Iterator[str]:
    """The options that a group's folder holds: iso_c.yaml in isotropic_merging is isotropic_merging/iso_c."""
    return (path.relative_to(folder).with_suffix("").as_posix() for path in sorted(folder.rglob("*.yaml")))


def _parse(overrides: Sequence[str], loader: ConfigLoader) -> list[Override]:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser = OverridesParser.create(config_loader=loader)
    parsed, faults = [], []
    for text in overrides:
        if "=" not in text and not text.startswith("~"):
            faults.append(f"{text!r} is not a setting; write NAME=VALUE, e.g. method=ties_merging method.threshold=20")
            continue
        try:
            parsed += parser.parse_overrides([text])
        except (HydraException, RecursionError) as error:
            reason = " ".join(str(error).split("\nSee https", 1)[0].replace("^", " ").split())
            faults.append(f"{shortened(text)!r} cannot be read ({shortened(reason)}); {_QUOTE}")
    if faults:
        raise RecipeError(_list(faults))
    return parsed


def _values(override: Override) -> list[str]:
    from hydra.errors import HydraException

    if not override.is_sweep_override():
        return [override.input_line or ""]
    if not override.is_discrete_sweep():
        raise RecipeError(f"{override.input_line}: list the values, or write range(start,stop,step)")
    try:
        values = _exact_range(override.value()) or list(override.sweep_string_iterator())
    except HydraException as error:
        raise RecipeError(f"{override.input_line}: {error}") from None
    if not values:
        raise RecipeError(f"{override.input_line}: these are no values at all")
    return [f"{override.get_key_element()}={value}" for value in values]


def _exact_range(sweep: Any) -> list[str]:
    """A range of fractions in decimal numbers: 0.1, 0.2, 0.3 and never the stop, which binary sums may overshoot."""
    from hydra.core.override_parser.types import FloatRange, RangeSweep

    if not isinstance(sweep, RangeSweep) or sweep.shuffle or not isinstance(sweep.range(), FloatRange):
        return []
    return [str(value) for value in FloatRange(*(Decimal(str(n)) for n in (sweep.start, sweep.stop, sweep.step)))]


def _compose(overrides: Sequence[Override], configs: _Configs) -> dict[str, Any]:
    import yaml
    from hydra import compose
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    chosen = [one for one in overrides if one.key_or_group in GROUPS and not one.is_delete()]
    faults = [fault for one in chosen for fault in _choice_faults(one, configs.options[one.key_or_group])]
    faults += [f"{line}: Hydra's own settings have no use here" for line in _lines(overrides) if _is_hydras(line)]
    if faults:
        raise RecipeError(_list(faults))
    try:
        config = compose(configs.top, overrides=[*configs.search, *_lines(overrides)])
        absent = sorted(OmegaConf.missing_keys(config))
        if absent:
            raise RecipeError(_list([f"{key} needs a value: {key}=..." for key in absent]))
        plain = OmegaConf.to_container(config, resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise RecipeError(_list(_named_faults(overrides, chosen, configs) or [_first_line(error)])) from None
    except (yaml.YAMLError, OSError, UnicodeDecodeError, RecursionError) as error:  # OSError: a file that is no table
        raise RecipeError(f"a config is not readable as YAML ({shortened(' '.join(str(error).split()))})") from None
    assert isinstance(plain, dict)
    return _with_defaults({str(key): value for key, value in plain.items()})


def _with_defaults(config: dict[str, Any]) -> dict[str, Any]:
    """A method that a user's config names by FusionBench's class has what it leaves out from the shipped config."""
    from hydra import compose
    from omegaconf import OmegaConf

    from smelt.compat.fusionbench.names import method_of_class

    method = config.get("method")
    if not isinstance(method, dict) or "_target_" not in method:
        return config
    flat = {**method, **(method.get("dataloader_kwargs") or {})}
    words = {key: value for key, value in flat.items() if key not in ("_target_", "_recursive_", "dataloader_kwargs")}
    name = method_of_class(str(method["_target_"]))
    usual: Any = OmegaConf.to_container(compose(_TOP, overrides=[f"method={name}"]).method, resolve=True)
    return {**config, "method": {**usual, **words}}


def _named_faults(overrides: Sequence[Override], chosen: Sequence[Override], configs: _Configs) -> list[str]:
    """Which of the overrides do not fit the config that the choices alone make; where those fail, how they do."""
    from hydra import compose
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    rest = [one for one in overrides if one not in chosen]
    if not rest:
        return []
    try:
        ground = OmegaConf.to_container(compose(configs.top, overrides=[*configs.search, *_lines(chosen)]))
    except (HydraException, OmegaConfBaseException) as error:
        return [_first_line(error)]
    return _key_faults(rest, ground, addable=bool(configs.search))


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


def _lines(overrides: Sequence[Override]) -> list[str]:
    return [one.input_line or "" for one in overrides]


def _is_hydras(line: str) -> bool:
    return line.lstrip("+~").startswith(("hydra.", "hydra/", "hydra="))


def _choice_faults(override: Override, options: Sequence[str]) -> list[str]:
    group, value = override.key_or_group, override.value()
    if override.package is not None or override.is_add():
        return [f"{override.input_line}: write {group}={value}"]
    named = isinstance(value, str) and value in options
    return [] if named else [unknown(GROUPS[group], override.get_value_element_as_str(), options)]


def _key_faults(overrides: Sequence[Override], config: Any, *, addable: bool) -> list[str]:
    """Settings that the config does not have, or has as a table where a list is given. What `+` adds, because a
    user's own config leaves it out, is judged with the finished config.
    """
    faults = []
    for override in overrides:
        *path, last = override.get_key_element().lstrip("~").split(".")
        inner = config
        for word in path:
            inner = inner.get(word) if isinstance(inner, Mapping) else _item(inner, word)
        known = inner if isinstance(inner, Mapping) else {}
        if isinstance(known.get(last), Mapping) and isinstance(override.value(), list):
            key = override.get_key_element()
            faults.append(f"{override.input_line}: a table is needed, not a list; write '{key}={{NAME:VALUE,...}}'")
            continue
        if override.is_add() or last in known or _item(inner, last) is not None:
            continue
        where = ".".join(path)
        if path and not known:
            faults.append(f"there is no {where!r} to set {last!r} in")
        else:
            said = unknown(f"setting of {where!r}" if where else "setting", last, [*map(str, known)])
            faults.append(
                f"{said}; what a config leaves out is added by +{where}.{last}" if where and addable else said
            )
    return faults


def _item(inner: Any, word: str) -> Any:
    return inner[int(word)] if isinstance(inner, list) and word.isdecimal() and int(word) < len(inner) else None


def _list(faults: Sequence[str]) -> str:
    return listed(faults, "the request has faults:")
