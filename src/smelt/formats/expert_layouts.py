"""The two layouts of a mixture of experts: one by one, as most files have them, and as a module of transformers 5.

experts_apart        mlp.experts.7.up_proj.weight
experts_together     mlp.experts.gate_up_proj, mlp.experts.down_proj: a layer's experts in one tensor
"""

from __future__ import annotations

from smelt.errors import RecipeError
from smelt.formats.architecture.expert_names import ONE_EXPERT, naming_of
from smelt.formats.architecture.expert_stacks import StackForm
from smelt.formats.folder_files import read_config
from smelt.formats.layouts import layouts
from smelt.formats.source import Source
from smelt.formats.views.renamed import renamed

__all__ = ["ExpertLayout"]


class ExpertLayout:
    """A model whose experts can be told apart, written in one of the layouts."""

    def __init__(self, name: str, *, together: bool):
        self._name, self._together = name, together

    def of(self, source: Source) -> Source:
        naming = naming_of(read_config(source.folder))
        form = StackForm(naming, module=True)
        if not any(_is_gated(name, form) for name in source.tensors):
            raise RecipeError(
                f"layout {self._name}: {source.label} has no experts that are stored in both ways (matrices "
                f"{naming.gate}, {naming.up} and {naming.down} of each); layout `same` keeps what it has"
            )
        if not self._together and not naming.known:
            raise RecipeError(
                f"layout {self._name}: no library reads the experts of {source.label} one by one; `same` and "
                "`experts_together` keep a layer's in one tensor"
            )
        view = renamed(source, str)
        view.stored_as = form if self._together else None
        return view


def _is_gated(name: str, form: StackForm) -> bool:
    match = ONE_EXPERT.match(name)
    return match is not None and match["rest"] == f"{form.naming.gate}.weight"


for _name, _together in (("experts_apart", False), ("experts_together", True)):
    layouts[_name] = ExpertLayout(_name, together=_together)
