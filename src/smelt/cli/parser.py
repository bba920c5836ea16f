"""What the command line's parser cannot read, told in the words of every other error, with the nearest name."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from typer.core import TyperGroup

from smelt.errors import RecipeError, SmeltError, did_you_mean, unknown

__all__ = ["CommandGroup", "complaint"]


class CommandGroup(TyperGroup):
    """Commands under one name. An unknown one is a RecipeError, and Ctrl-C in any of them a SmeltError.

    The parser would turn Ctrl-C into an exit without a word. Here everything that a command had open is closed already.
    `default` is the command that is meant where none is named.
    """

    default: str | None = None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if self.default is not None and (not args or (args[0].startswith("-") and args[0] != "--help")):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            what = "command" if ctx.parent is None else f"command of `{ctx.command_path}`"
            raise RecipeError(f"{unknown(what, name, self.list_commands(ctx))}; see `{ctx.command_path} --help`")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise SmeltError("interrupted") from None


def complaint(error: Exception, words: Sequence[str] = ()) -> str | None:
    """What to print where the parser cannot read a command line; nothing if the error is none of its own.

    Told by what it has, not by its class: that is private to typer, and which one it is depends on typer's version.
    """
    if not hasattr(error, "format_message"):
        return None
    kind, context, said = type(error).__name__, getattr(error, "ctx", None), str(error.format_message())
    if kind == "NoArgsIsHelpError":
        return said
    said = f"{said[:1].lower()}{said[1:].rstrip('.')}"
    if context is None:
        return f"smelt: {said}"
    command = context.command_path
    if kind == "NoSuchOption" and hasattr(error, "option_name"):
        flags = [flag for param in context.command.params for flag in (*param.opts, *param.secondary_opts)]
        if "--set" in flags and (meant := _as_setting(error.option_name)):
            return f"smelt: `{command}` has no flag {error.option_name!r}; a method's parameter is given with `{meant}`"
        said = f"`{command}` has no flag {error.option_name!r}{did_you_mean(error.option_name, flags)}"
    elif "unexpected extra argument" in said and (meant := _with_models(context.command, words)):
        said = "models are given with --model, once per model, and a base with --base"
        return f"smelt: `{command}`: {said}. Meant is perhaps\n  {meant}"
    else:
        said = f"`{command}`: {said}"
    return f"smelt: {said}; see `{command} --help`"


def _as_setting(flag: str) -> str | None:
    """How a flag is written that is a parameter of some method: `--density` is `--set density=VALUE`."""
    from smelt.methods import stages

    name = flag.lstrip("-").replace("-", "_")
    return f"--set {name}=VALUE" if any(name in stage.parameters for stage in stages.values()) else None


def _with_models(command: Any, words: Sequence[str]) -> str | None:
    """The command line with --model before every word that stands alone; none where a command takes no models so."""
    flags = {flag: param for param in command.params for flag in (*param.opts, *param.secondary_opts)}
    if "--model" not in flags:
        return None
    made, rest = list(words[:2]), list(words[2:])
    while rest:
        word = rest.pop(0)
        param = flags.get(word.partition("=")[0])
        made += [word] if word.startswith("-") else ["--model", word]
        if param is not None and rest and not getattr(param, "is_flag", False) and "=" not in word:
            made.append(rest.pop(0))
    return shlex.join(made)
