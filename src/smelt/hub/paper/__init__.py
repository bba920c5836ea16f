"""The hub of the paper as a configuration: its models, data sets and published numbers. Nothing is downloaded here.

    models.yaml   the 49 models of open_clip (Table 6)         tasks.yaml    5 sample and 17 target sets (Table 5)
    words.yaml    names of classes                             tables.yaml   averages as printed (Tables 3 and 4)

Tan et al. 2025, Model Label Learning. Where weights and pictures can be had, `refs()` and `tasks()` say what to fetch.
"""

from __future__ import annotations

from smelt.hub.paper.hub import PaperHub, PaperModel, PaperTask, paper_hub

__all__ = ["PaperHub", "PaperModel", "PaperTask", "paper_hub"]
