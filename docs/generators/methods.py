"""The pages of docs/reference/methods/, from the registry: one per stage, and an index.

Only Smelt's own stages get a page, so that plug-ins which happen to be installed do not show up.
"""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "reference" / "methods"

_KINDS = {
    "method": ("Methods", "The merge itself. A recipe has exactly one."),
    "step": ("Steps", "Stand before a method and change what each model brings to it."),
    "basis": ("Bases", "Stand before a method, which then works in other coordinates. At most one."),
    "wrapper": ("Wrappers", "Stand after a method and change the merged delta."),
}
_UNITS = {
    "element": "any run of elements",
    "row": "whole rows",
    "tensor": "whole tensors",
    "matrix": "whole matrices",
}
_WITH_DATA = (
    "Named under `merge` like a method; data is looked at first ([Merging with data](../../how-to/data.md)). "
    "So it is for the methods `fisher`, `regmean`, `stitch` and `adarank` unless the recipe gives `statistics`."
)


def _maker(name: str) -> dict[str, Any]:
    """Another maker of this folder."""
    return runpy.run_path(str(Path(__file__).with_name(f"{name}.py")))


_HEAD = "<!-- Written by docs/generate.py from the docstring in src/smelt/methods/. Change it there. -->\n"


def pages() -> dict[str, str]:
    """Every page by file name."""
    stages, learned = own_stages(), with_data()
    plain = {f"{stage.name}.md": _page(stage) for stage in stages}
    return {"index.md": _index(stages)} | plain | {f"{stage.name}.md": _learned_page(stage) for stage in learned}


def own_stages() -> list[Any]:
    """Smelt's stages by name, without those of plug-ins."""
    from smelt.methods import stages

    return [stages[name] for name in sorted(stages) if stages[name].function.__module__.startswith("smelt.methods.")]


def with_data() -> list[Any]:
    """What else a recipe may name under `merge`, and is no stage: it looks at data first."""
    from smelt.methods import stages
    from smelt.prepare.prepare import stages_with_data

    found = stages_with_data()
    return [found[name] for name in sorted(found) if name not in stages]


def write() -> None:
    """Write the pages, and remove those of stages that are gone."""
    fresh = pages()
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        if path.name not in fresh:
            path.unlink()
    for name, text in fresh.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def _index(stages: list[Any]) -> str:
    from smelt.methods.aliases import ALIASES
    from smelt.recipe.pipeline import describe

    lines = [_HEAD, "# Methods\n"]
    lines.append(
        "A recipe names one or several stages. `smelt methods` lists them, `smelt methods NAME` explains one.\n"
    )
    for kind, (heading, meaning) in _KINDS.items():
        lines += [f"## {heading}\n", f"{meaning}\n", "| name | what it does | parameters | paper |"]
        lines.append("|---|---|---|---|")
        for stage in stages:
            if stage.kind == kind:
                names = ", ".join(f"`{name}`" for name in stage.parameters) or "none"
                what = _prose(stage.summary.partition(": ")[2] or stage.summary).replace("|", r"\|")
                lines.append(f"| [{stage.name}]({stage.name}.md) | {what} | {names} | {_paper(stage)} |")
        lines.append("")
    lines += ["## With data\n", f"{_WITH_DATA}\n", "| name | what it does | parameters | paper |", "|---|---|---|---|"]
    for stage in with_data():
        names = ", ".join(f"`{name}`" for name in stage.parameters) or "none"
        what = _prose(stage.summary.partition(": ")[2] or stage.summary).replace("|", r"\|")
        lines.append(f"| [{stage.name}]({stage.name}.md) | {what} | {names} | {_paper(stage)} |")
    lines.append("")
    lines += ["## Names from other tools\n", "Each resolves to a composition, and the run says so in a note.\n"]
    lines += ["| name | is |", "|---|---|"]
    lines += [f"| `{alias}` | `{describe(composition)}` |" for alias, composition in sorted(ALIASES.items())]
    return "\n".join(lines) + "\n"


def _page(stage: Any) -> str:
    from smelt.methods.aliases import ALIASES
    from smelt.prepare.prepare import stages_with_data
    from smelt.recipe.pipeline import describe

    learner = stages_with_data().get(stage.name)
    lines = [*_opening(stage), "## Parameters\n", *_parameters(stage)]
    if learner:
        lines += ["", "Where the recipe gives no `statistics` they are learned first, with these parameters:\n"]
        lines += _parameters(learner)
    lines += ["", *_results(stage), "## At a glance\n"]
    lines += [
        f"| kind | {stage.kind} |",
        "|---|---|",
        f"| works on | {_works_on(stage)} |",
        f"| smallest piece | {_unit(stage)} |",
        f"| models | {_models(stage)} |",
        f"| base | {_base(stage)} |",
        f"| paper | {_paper(stage)} |",
        f"| file | `{_file(stage)}` |",
        "",
        "## Laws\n",
    ]
    if stage.exempt:
        lines.append("Keeps the laws of `smelt.testing`, except:\n")
        lines += [f"- **{law}**: {_prose(why)}." for law, why in stage.exempt.items()]
    else:
        lines.append("Keeps all laws of `smelt.testing` that apply to its kind and its number of models.")
    aliases = [(alias, comp) for alias, comp in sorted(ALIASES.items()) if any(name == stage.name for name, _ in comp)]
    if aliases:
        lines += ["", "## Other names\n", *(f"- `{alias}` is `{describe(comp)}`" for alias, comp in aliases)]
    return "\n".join(lines) + "\n"


def _learned_page(stage: Any) -> str:
    lines = [*_opening(stage), "## Parameters\n", *_parameters(stage), "", *_results(stage), "## At a glance\n"]
    lines += [
        f"| used by | {_command(stage)} |",
        "|---|---|",
        "| needs | the base, and data of each model's task ([Merging with data](../../how-to/data.md)) |",
        f"| paper | {_paper(stage)} |",
        f"| file | `{_file(stage)}` |",
    ]
    return "\n".join(lines) + "\n"


def _command(stage: Any) -> str:
    """What a user calls to have it."""
    room = stage.function.__module__.split(".")[1]
    learned = "`smelt merge`, or `smelt learn` to keep what is learned"
    return {"mixing": "`smelt mix`", "learning": learned}.get(room, "`smelt merge`")


def _opening(stage: Any) -> list[str]:
    """What it is, when to use it, and an example."""
    from smelt.methods.explanation import example_recipe, explain

    said = explain(stage)
    command = "mix" if _command(stage) == "`smelt mix`" else "merge"
    return [
        _HEAD,
        f"# {stage.name}\n",
        _body(said.text, stage.latex),
        "",
        "## When to use it\n",
        f"{_linked(said.use)}\n",
        f"{_linked(said.avoid)}\n",
        "## Example\n",
        f"```yaml\n{example_recipe(stage)}\n```\n",
        f"Saved as `recipe.yaml`, it runs as it is: `smelt {command} recipe.yaml -o merged`.\n",
    ]


def _parameters(stage: Any) -> list[str]:
    """A list, since a table with sentences in it is wider than a telephone."""
    from smelt.methods.explanation import explain

    said = explain(stage).parameters
    return [
        f"- **`{p.name}`** ({_type(p)}, {_default(p)}{', each model may have its own' if p.per_model else ''}): "
        f"{_linked(said[p.name].text)}"
        for p in stage.parameters.values()
    ] or ["None."]


def _linked(text: str) -> str:
    """Prose in which the names of other methods lead to their pages."""
    from smelt.methods import stages

    names = {*stages, *(stage.name for stage in with_data())}
    return re.sub(r"`(\w+)`", lambda m: f"[`{m[1]}`]({m[1]}.md)" if m[1] in names else m[0], _prose(text))


def _file(stage: Any) -> str:
    return "src/" + stage.function.__module__.replace(".", "/") + ".py"


def _results(stage: Any) -> list[str]:
    """Where it stood in our suites, and what it costs."""
    return ["## In our suites\n", _standing(stage), "", "## What it costs\n", _costs(stage), ""]


_standing = _maker("standings")["standing"]
_costs = _maker("costs")["costs"]


def _body(text: str, latex: str) -> str:
    """What a docstring says of a method, in Markdown. The indented lines are its equations, which `latex` has too."""
    parts = []
    for chunk in re.split(r"\n\s*\n", text):
        if all(line.startswith("    ") for line in chunk.splitlines()):
            parts.append(_equations(latex))
        else:
            parts.append(_prose(chunk))
    return "\n\n".join(parts)


def _equations(latex: str) -> str:
    """One below the other; names of several letters are upright."""
    texts = re.split(r"(\\text\{[^}]*\})", latex)
    texts[::2] = [re.sub(r"(?<![\\A-Za-z])([A-Za-z][A-Za-z0-9]+)", r"\\mathrm{\1}", text) for text in texts[::2]]
    lines = "".join(texts).split(r" \\ ")
    return "$$\n\\begin{aligned}\n" + " \\\\\n".join(f"& {line}" for line in lines) + "\n\\end{aligned}\n$$"


def _prose(text: str) -> str:
    """Plain text whose signs mean nothing to Markdown, except backticks; arXiv numbers become links."""
    pieces = re.split(r"(`[^`]*`)", text)
    for index in range(0, len(pieces), 2):
        plain = re.sub(r"([*\[\]])", r"\\\1", pieces[index]).replace("<", "&lt;")
        pieces[index] = re.sub(r"arXiv:(\d{4}\.\d{5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", plain)
    return "".join(pieces)


def _paper(stage: Any) -> str:
    return f"[arXiv:{stage.paper}](https://arxiv.org/abs/{stage.paper})" if stage.paper else ""


def _works_on(stage: Any) -> str:
    if callable(stage.space):
        return f"weights or changes from the base, as {_asked(stage.space)} says"
    return "weights" if stage.space == "weight" else "changes from the base"


def _unit(stage: Any) -> str:
    if callable(stage.unit):
        return f"as {_asked(stage.unit)} says"
    text = _UNITS[stage.unit]
    if stage.unit != "matrix":
        return text
    rest = f"get the {stage.elsewhere} of the changes" if stage.kind == "method" else "pass unchanged"
    return f"{text} of linear layers; other tensors {rest}"


def _asked(function: Any) -> str:
    return " and ".join(f"`{name}`" for name in inspect.signature(function).parameters)


def _models(stage: Any) -> str:
    low, high = stage.models
    return f"exactly {low}" if low == high else f"{low} or more" if high is None else f"{low} to {high}"


def _base(stage: Any) -> str:
    if callable(stage.space):
        return "needed when it works on changes"
    return "needed" if stage.needs_base({}) else "not used"


def _type(parameter: Any) -> str:
    """The type as the command line prints it."""
    return " or ".join(f"`{option}`" for option in parameter.type_name.split(" | "))


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = "none" if parameter.default is None else parameter.default
    return f"default `{str(default).lower() if isinstance(default, bool) else default}`"
