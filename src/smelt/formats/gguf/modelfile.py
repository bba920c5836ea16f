"""An Ollama Modelfile: where the weights lie, how a conversation becomes a prompt, and where an answer ends.

In: the name of a GGUF file, a chat template (Jinja, as transformers has it) and the token that ends a text. Out: the
text of the Modelfile. Ollama's templates are in Go's language: a Jinja template is not translated but recognised, by
the marks around its messages. One that is not recognised gives a Modelfile without TEMPLATE, since Ollama reads the
template in the file itself then.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["modelfile"]


@dataclass(frozen=True)
class _Style:
    """A way to mark messages."""

    marks: tuple[str, ...]
    """All of these stand in a Jinja template of the style."""
    system: str
    user: str
    assistant: str
    """What stands around `{{ .System }}` and so on."""
    stops: tuple[str, ...]


def _message(before: str, role: str, after: str) -> str:
    return f"{before}{{{{ .{role} }}}}{after}"


def _chatml(role: str, field: str) -> str:
    return _message(f"<|im_start|>{role}\n", field, "<|im_end|>\n")


def _llama_3(role: str, field: str) -> str:
    return _message(f"<|start_header_id|>{role}<|end_header_id|>\n\n", field, "<|eot_id|>")


_STYLES = (
    _Style(
        ("<|im_start|>", "<|im_end|>"),
        _chatml("system", "System"),
        _chatml("user", "Prompt"),
        "<|im_start|>assistant\n{{ .Response }}<|im_end|>\n",
        ("<|im_start|>", "<|im_end|>"),
    ),
    _Style(
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        _llama_3("system", "System"),
        _llama_3("user", "Prompt"),
        "<|start_header_id|>assistant<|end_header_id|>\n\n{{ .Response }}<|eot_id|>",
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    ),
    _Style(
        ("<start_of_turn>", "<end_of_turn>"),
        "",
        "<start_of_turn>user\n{{ if .System }}{{ .System }}\n\n{{ end }}{{ .Prompt }}<end_of_turn>\n",
        "<start_of_turn>model\n{{ .Response }}<end_of_turn>\n",
        ("<start_of_turn>", "<end_of_turn>"),
    ),
    _Style(
        ("<|system|>", "<|user|>", "<|assistant|>"),
        _message("<|system|>\n", "System", "<|end|>\n"),
        _message("<|user|>\n", "Prompt", "<|end|>\n"),
        "<|assistant|>\n{{ .Response }}<|end|>\n",
        ("<|end|>", "<|user|>", "<|assistant|>"),
    ),
    _Style(
        ("[INST]", "[/INST]"),
        "",
        "[INST] {{ if .System }}{{ .System }}\n\n{{ end }}{{ .Prompt }} [/INST]",
        "{{ .Response }}</s>",
        ("[INST]", "[/INST]"),
    ),
)


def modelfile(file: str, template: str | None, end: str | None) -> tuple[str, bool]:
    """The text, and whether it has a TEMPLATE. `file` is the name of the GGUF file beside it."""
    style = _style(template) if template is not None else None
    lines = [f"FROM {_quoted(f'./{file}') if ' ' in file else f'./{file}'}"]
    stops = list(style.stops) if style is not None else []
    if end is not None and end not in stops:
        stops.append(end)
    if style is not None:
        text = (
            (f"{{{{ if .System }}}}{style.system}{{{{ end }}}}" if style.system else "") + style.user + style.assistant
        )
        lines.append(f'TEMPLATE """{text}"""')
    lines += [f"PARAMETER stop {_quoted(stop)}" for stop in stops if '"' not in stop]
    return "\n".join(lines) + "\n", style is not None


def _style(template: str) -> _Style | None:
    """The style of a Jinja template, where its marks are all there and none of another style's."""
    found = [style for style in _STYLES if all(mark in template for mark in style.marks)]
    fits = len(found) == 1 and (found[0].marks[0] != "<|system|>" or "<|end|>" in template)
    return found[0] if fits else None


def _quoted(text: str) -> str:
    return f'"{text}"'
