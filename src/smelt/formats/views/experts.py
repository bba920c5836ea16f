"""A mixture of experts with every expert's matrices one by one, however its files store them.

Experts that lie in one tensor per layer and experts that lie one by one are then the same model under the same names,
and every method sees an expert as matrices, gate and up apart. The view remembers the layout (`stored_as`), so that a
result comes out in the layout of the model that it is made after.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from smelt.errors import CorruptFile
from smelt.formats.architecture.expert_names import ONE_EXPERT
from smelt.formats.architecture.expert_stacks import stack_form
from smelt.formats.folder_files import read_config
from smelt.formats.source import Source, TensorInfo
from smelt.formats.views.joined import JoinedSource
from smelt.formats.views.renamed import Piece, RenamedSource
from smelt.formats.views.view import views

__all__ = ["EXPERTS_APART", "ExpertsApart", "in_module_layout", "with_experts_apart"]

_NOTE = "the experts of a layer lie in one tensor; they are read one by one"


class ExpertsApart:
    """Experts in one tensor per layer, known by the tensors' names and shapes; any type of model may have them."""

    model_types = ()
    prefixes = ()
    suffixes = (".experts.gate_up_proj", ".input_linear.weight")
    frozen = None

    def recognises(self, config: Mapping[str, Any] | None, names: Collection[str]) -> bool:
        """By names alone; whether the stacks can be cut is seen when it is asked for."""
        return any(name.endswith(self.suffixes) for name in names)

    def of(self, source: Source) -> Source:
        """The view, or the source itself where its stacks cannot be cut."""
        return with_experts_apart(source, read_config(source.folder))


def with_experts_apart(source: Source, config: Mapping[str, Any] | None) -> Source:
    """A model with its experts one by one; itself where they are, or where it has none."""
    try:
        form = stack_form(source.tensors, config)
    except CorruptFile as error:
        raise CorruptFile(f"{source.label}: {error}") from None
    if form is None:
        return source
    pieces = {name: Piece(stored, start, info) for name, (stored, start, info) in form.split(source.tensors).items()}
    view = RenamedSource(source, pieces, _NOTE)
    view.tied = {form.common(name): form.common(twin) for name, twin in source.tied.items()}
    view.stored_as = form
    return view


def in_module_layout(source: Source, wanted: Mapping[str, tuple[int, ...]], config: Mapping[str, Any] | None) -> Source:
    """A model under the names of a module with these tensors, where that holds experts in one tensor per layer."""
    form = stack_form({name: TensorInfo("F32", shape) for name, shape in wanted.items()}, config)
    if form is None or any(name.endswith(form.leaves) for name in source.tensors):
        return source
    apart = with_experts_apart(source, config)
    if not any(ONE_EXPERT.match(name) for name in apart.tensors):
        return source
    return JoinedSource.of(apart, form.joined(apart.tensors), form.naming.to_module)


EXPERTS_APART = ExpertsApart()
views["experts"] = EXPERTS_APART
