"""What diffusion models consist of, by the headers of their files: components of a pipeline, parts of a single file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from smelt.files.reading import read_json_table
from smelt.formats.diffusion.layouts import layout_of, part_of
from smelt.formats.diffusion.pipeline_folder import pipeline_components
from smelt.formats.part_folders import MODEL_INDEX
from smelt.formats.source import Source, TensorInfo
from smelt.inspection.model_facts import PartFacts

__all__ = ["file_layout", "file_parts", "folder_parts", "pipeline_config", "with_layout"]


def with_layout(format: str, layout: str) -> str:  # noqa: A002 - the field's word
    """What a model is stored as: the format, and the layout where it has a name."""
    return layout if format == "diffusers" else f"{format}, {layout}" if layout else format


def file_layout(tensors: Mapping[str, TensorInfo]) -> str:
    """The layout of a single file; empty where it is no diffusion model."""
    known = layout_of(tensors)
    return f"{known.name} single file" if known else ""


def file_parts(tensors: Mapping[str, TensorInfo]) -> dict[str, PartFacts]:
    """The parts of a single file; none where it is no diffusion model."""
    return _counted({name: part_of(name) for name in tensors}, tensors) if layout_of(tensors) else {}


def folder_parts(source: Source) -> dict[str, PartFacts]:
    """The components of a pipeline that have weights."""
    assert source.folder is not None
    classes = pipeline_components(source.folder)
    found = _counted({name: name.split(".")[0] for name in source.tensors}, source.tensors)
    return {part: replace(facts, kind=classes.get(part, "unknown")) for part, facts in found.items()}


def pipeline_config(folder: Path) -> dict[str, Any]:
    """The class of the pipeline, in the words of a config."""
    return {"model_type": "diffusers", "architectures": [str(read_json_table(folder / MODEL_INDEX).get("_class_name"))]}


def _counted(parts: Mapping[str, str], tensors: Mapping[str, TensorInfo]) -> dict[str, PartFacts]:
    counts: dict[str, list[int]] = {}
    for name, part in parts.items():
        counts.setdefault(part, []).append(tensors[name].count)
    return {part: PartFacts(len(numbers), sum(numbers)) for part, numbers in counts.items()}
