"""The kind `language`: specialists of a language model merged, tuned, asked for skills and forgetting (MergeBench)."""

from __future__ import annotations

from pathlib import Path

from smelt.suites.kind import Kind, kinds
from smelt.suites.language.plan import LanguagePlan
from smelt.suites.language.report.pages import LanguagePages
from smelt.suites.language.suite import LanguageSuite

__all__: list[str] = []

kinds["language"] = Kind("language", LanguageSuite, LanguagePlan, LanguagePages(), folder=Path(__file__).parent)
