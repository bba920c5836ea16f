"""`smelt.export`: a language model as one GGUF file, the format of llama.cpp, with its tokenizer and chat template."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.caller import option
from smelt.display.blocks import Lines
from smelt.display.shown import Shown
from smelt.errors import MissingExtra, OutputError, RecipeError, unknown
from smelt.files.writing import atomic_file, write_file
from smelt.formats.gguf.fields import config_fields
from smelt.formats.gguf.modelfile import modelfile as modelfile_text
from smelt.formats.gguf.tokenizer_writer import vocabulary_fields
from smelt.formats.gguf.writer import TYPES, GGUFDraft

__all__ = ["ExportSummary", "export"]


@dataclass(frozen=True)
class ExportSummary(Shown):
    """What a finished export reports."""

    out: str
    architecture: str
    type: str
    tensors: int
    bytes: int
    seconds: float
    notes: tuple[str, ...]

    def shown(self) -> list[Lines]:
        made = (
            f"{self.out}: {self.tensors} tensors as {self.type} ({self.architecture}), {self.bytes / 1e6:,.1f} MB "
            f"in {self.seconds:.1f} s"
        )
        return [Lines([*(f"note: {note}" for note in self.notes), made])]


def export(
    model: str | Path,
    *,
    out: str | Path,
    type: str | None = None,  # noqa: A002 - the word of the command line
    pre: str | None = None,
    modelfile: bool = False,
    force: bool = False,
    quiet: bool = True,
    allow_pickle: bool = False,
) -> ExportSummary:
    """Write a language model as a GGUF file, which llama.cpp and its kin run.

    `model` is a reference and `out` the file. `type` is one of f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, mxfp4,
    tq2_0, tq1_0 (by default what the model is stored in). Quantised files keep the embedding and the head at q8_0,
    where rounding harms most. `pre` names the tokenizer's way to cut text in llama.cpp's words, where it is not found
    out. `modelfile` writes a Modelfile for Ollama beside the file.
    """
    began = time.monotonic()
    gguf = _library()
    place = Path(out)
    _check(place, type, force)
    beside = place.with_name("Modelfile") if modelfile else None
    if beside is not None and beside.exists() and not force:
        raise OutputError(
            f"{beside} already exists; it is kept. Move it away, or write {option('force')} to replace it"
        )
    from smelt.files.identity import check_unchanged
    from smelt.formats.folder_files import read_config
    from smelt.formats.source import files_of
    from smelt.formats.views.view import without_tied_copy
    from smelt.models.references import open_ref
    from smelt.system.progress import Progress

    source, notes = without_tied_copy(open_ref(str(model), allow_pickle=allow_pickle))
    try:
        config = read_config(source.folder)
        if config is None or source.folder is None:
            raise RecipeError(f"{source.label}: has no config.json beside its weights, which GGUF needs")
        draft = GGUFDraft(gguf, source, config, type)
        vocabulary = vocabulary_fields(source.folder, config, pre)
        if "tokenizer.ggml.tokens" not in vocabulary:
            notes.append("the model has no tokenizer.json, so the file has no tokenizer: llama.cpp cannot read text")
        fields = {"general.name": source.folder.name, **config_fields(config, source.label), **vocabulary}
        with atomic_file(place) as partial:
            with Progress(quiet) as progress:
                draft.write(partial, fields, progress)
            _read_back(partial, draft)
            check_unchanged(files_of([source]))
        if beside is not None:
            notes += _write_modelfile(beside, place.name, fields)
        return ExportSummary(
            str(out), draft.architecture, draft.type, len(draft.contents), place.stat().st_size,
            time.monotonic() - began, tuple(notes),
        )  # fmt: skip
    finally:
        source.close()


def _check(out: Path, type_: str | None, force: bool) -> None:
    if type_ is not None and type_ not in TYPES:
        raise RecipeError(unknown("GGUF type", type_, TYPES))
    if out.suffix != ".gguf":
        raise RecipeError(f"a GGUF file is called NAME.gguf, not {out.name!r}")
    if out.is_dir() or (out.exists() and not force):
        raise OutputError(
            f"{out} already exists; it is kept. Choose another name, or write {option('force')} to replace it"
        )
    if not out.resolve().parent.is_dir():
        raise OutputError(f"there is no folder {out.resolve().parent} to write {out.name} in")


def _read_back(path: Path, draft: GGUFDraft) -> None:
    """The file as our own reader sees it must have the tensors that were to be written, each with its shape."""
    from smelt.formats.gguf.parts import GGUFParts

    written = {name: tensor.shape for name, tensor in GGUFParts(path).tensors.items()}
    if {name: written.get(name) for name in draft.contents} != {n: one.shape for n, one in draft.contents.items()}:
        raise OutputError(f"{path.name} does not read back as the model it was made from; please report this")


def _write_modelfile(path: Path, file: str, fields: Mapping[str, Any]) -> list[str]:
    """What Ollama needs to know beside the weights; gives what there is to say about it."""
    template, end = fields.get("tokenizer.chat_template"), fields.get("tokenizer.ggml.eos_token_id")
    tokens = fields.get("tokenizer.ggml.tokens", ())
    text, has_template = modelfile_text(file, template, tokens[end] if end is not None and end < len(tokens) else None)
    write_file(path, text)
    if template is None or has_template:
        return []
    return [
        f"{path.name} has no TEMPLATE: the chat template's marks are not known here, so Ollama reads the file's own"
    ]


def _library() -> Any:
    try:
        import gguf
    except ImportError:
        raise MissingExtra("writing GGUF needs the gguf package: pip install 'smelt[llm]'") from None
    return gguf
