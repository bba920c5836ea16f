"""mergekit's parameter values: scopes in order of precedence, gradients over layers, filters that are substrings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.errors import Faults, RecipeError, unknown

__all__ = ["REQUIRED", "MergekitSettings", "ModelTable"]

REQUIRED = object()
"""The default of a parameter that mergekit wants written."""


_WEIGHT = "weight"
"""Written beside models out of habit, also where a method has no use for it; mergekit's own configurations do so."""


class ModelTable(dict[str, Any]):
    """Values by model, as opposed to a value that varies over depth."""


class MergekitSettings:
    """The parameters that a list of models sees: each model's own, then those of the scopes around it."""

    def __init__(self, method: str, own: Mapping[str, Any], scopes: Sequence[Any]):
        self._method = method
        self.faults = Faults()
        """What is wrong, told by `finish`; until then a value that cannot be read is taken for its default."""
        self._own = {name: self._table(values) for name, values in own.items()}
        self._scopes = [self._table(values) for values in scopes]
        self._asked: set[str] = set()
        self._of_models: set[str] = set()
        self.notes: list[str] = []
        """What a reader of the configuration should know of it."""

    def shared(self, name: str, default: Any) -> Any:
        """A parameter of the whole merge, as a native value."""
        self._asked.add(name)
        return self.faults.attempt(lambda: self._value(name, self._scopes, default, where=""), default)

    def flag(self, name: str, default: bool) -> Any:
        """A shared yes or no, which may vary by filter."""
        value = self.shared(name, default)
        return self.faults.attempt(lambda: _mapped(value, lambda one: _truth(name, one)), default)

    def choice(self, name: str, default: bool, yes: str, no: str) -> Any:
        """A shared yes or no, as the native words for them."""
        return _mapped(self.flag(name, default), lambda value: yes if value else no)

    def fixed(self, name: str, default: bool) -> bool:
        """A shared yes or no that decides over the others, so that it cannot vary."""
        value = self.flag(name, default)
        if not isinstance(value, bool):
            self.faults.found.append(f"{name} of {self._method} cannot vary by filter here; write true or false")
            return default
        return value

    def each(self, name: str, models: Sequence[str], default: Any, change: Callable[[Any], Any] | None = None) -> Any:
        """A parameter of every model: a native table by name, or one value where all have the same."""
        self._asked.add(name)
        self._of_models.add(name)
        table = ModelTable()
        for model in models:
            table[model] = default
            with self.faults.gathering():
                value = self._value(name, [self._own.get(model, {}), *self._scopes], default, where=f" of {model}")
                table[model] = _mapped(value, change) if change else value
        first, *others = table.values()
        return first if all(value == first for value in others) else table

    def ignore(self, *names: str) -> None:
        """Parameters that mergekit accepts and that make no difference here."""
        self._asked.update(names)
        self._of_models.update(names)

    def finish(self) -> None:
        """Refuse what is wrong, and what nobody asked for: a misspelt parameter must not vanish."""
        self.ignore("int8_mask")
        if _WEIGHT not in self._asked and any(_WEIGHT in table for table in [*self._own.values(), *self._scopes]):
            self.ignore(_WEIGHT)
            self.notes.append(f"`{_WEIGHT}` means nothing to {self._method}, in mergekit neither; it is not used")
        for table in [*self._own.values(), *self._scopes]:
            for name in table:
                if name not in self._asked:
                    self.faults.found.append(unknown(f"parameter of {self._method}", name, self._asked))
        for model, table in self._own.items():
            for name in table:
                if name in self._asked and name not in self._of_models:
                    self.faults.found.append(
                        f"{name} belongs to the whole merge, and mergekit ignores it beside a model ({model}); write "
                        "it under the parameters of the slice or of the configuration"
                    )
        self.faults.refuse()

    def _table(self, values: Any) -> Mapping[str, Any]:
        if values is None or isinstance(values, Mapping):
            return values or {}
        self.faults.found.append(f"parameters must be a table, got {values!r}")
        return {}

    def _value(self, name: str, scopes: Sequence[Mapping[str, Any]], default: Any, where: str) -> Any:
        entries: list[dict[str, Any]] = []
        for scope in scopes:
            if name not in scope:
                continue
            found = _entries(scope[name])
            entries += found
            if any("filter" not in entry for entry in found):
                break
        else:
            if default is REQUIRED:
                raise RecipeError(f"{self._method} needs a value for {name!r}{where}")
            entries.append({"value": default})
        last = next(i for i, entry in enumerate(entries) if "filter" not in entry)
        entries = entries[: last + 1]
        return entries[0]["value"] if len(entries) == 1 else entries


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A native value with every scalar in it changed, whatever its shape."""
    if isinstance(value, list):
        return [{**entry, "value": _mapped(entry["value"], change)} for entry in value]
    if isinstance(value, Mapping):
        return {"depth": [change(one) for one in value["depth"]], "outside": change(value["outside"])}
    return change(value)


def _truth(name: str, value: Any) -> bool:
    words = {"true": True, "false": False}
    if isinstance(value, str):
        value = words.get(value.lower(), value)
    if isinstance(value, bool) or value in (0, 1):
        return bool(value)
    raise RecipeError(f"{name} must be true or false, got {value!r}")


def _entries(setting: Any) -> list[dict[str, Any]]:
    """A setting as a list of {filter, value}; a setting without a filter is an entry without one."""
    if isinstance(setting, Mapping):
        setting = [setting]
    if isinstance(setting, list) and any(isinstance(one, Mapping) for one in setting):
        entries = []
        for one in setting:
            if not isinstance(one, Mapping) or "value" not in one or set(one) - {"value", "filter"}:
                raise RecipeError(f"a conditional value has `value` and `filter`, got {one!r}")
            pattern = one.get("filter")
            value = _gradient(one["value"])
            entries.append(
                {"value": value} if pattern in (None, "*") else {"filter": _substring(pattern), "value": value}
            )
        return entries
    return [{"value": _gradient(setting)}]


def _gradient(value: Any) -> Any:
    """A list is a gradient over layers; outside the layers its first element holds."""
    if not isinstance(value, list):
        return _number(value)
    numbers = [_number(one) for one in value]
    if not numbers or not all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
        raise RecipeError(f"only numbers can vary over layers, got {value!r}")
    return {"depth": numbers, "outside": numbers[0]} if len(numbers) > 1 else numbers[0]


def _number(value: Any) -> Any:
    """YAML reads 1e-3 as text; mergekit takes it for a number."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _substring(pattern: Any) -> str:
    """Mergekit's filters are substrings of names; as a shell pattern that is the text between two stars."""
    escaped = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(pattern))
    return f"*{escaped}*"
