"""The table as Markdown, CSV and LaTeX: the same numbers, every text escaped."""

import csv
import io

from made_up_suite import row
from reports import build_sheets
from smelt.recipe.schema import DataBudget
from smelt.reporting.tables.as_csv import as_csv
from smelt.reporting.tables.as_latex import as_latex
from smelt.reporting.tables.as_markdown import as_markdown


def sheets(label="TIES"):
    words = {"variant": "reference"}
    return build_sheets(
        [
            row("pretrained", "photos", 400, 1000, label="Pre-trained", **words),
            row("expert-photos", "photos", 800, 1000, **words),
            row("ties", "photos", 600, 1000, label=label, setting={"density": 0.2}),
            row("ties", "photos", 700, 1000, label=label, setting={"density": 0.3}, variant="tuned"),
            row("magmax", "photos", 500, 1000, label="MagMax"),
        ]
    )


def test_markdown_prints_the_table_of_the_papers():
    assert as_markdown(sheets()).splitlines()[:10] == [
        "| Method | photos | Average | Normalised |",
        "| --- | ---: | ---: | ---: |",
        "| *Reference* |  |  |  |",
        "| Pre-trained | 40.0 | 40.0 | 50.0 |",
        "| Fine-tuned experts (each on its own task) | 80.0 | 80.0 | 100.0 |",
        "| *Model merging (data-free)* |  |  |  |",
        "| TIES (density 0.2) | <u>60.0</u> | <u>60.0</u> | <u>75.0</u> |",
        "| TIES (tuned: density 0.3) | **70.0** | **70.0** | **87.5** |",
        "| MagMax | 50.0 | 50.0 | 62.5 |",
        "",
    ]


def test_markdown_keeps_a_label_in_its_cell():
    line = next(line for line in as_markdown(sheets("a|b <i>*c*\nd")).splitlines() if "density 0.2" in line)
    assert line.startswith(r"| a\|b &lt;i&gt;\*c\* d (density 0.2) |")


def test_csv_has_every_digit_and_the_interval():
    lines = list(csv.DictReader(io.StringIO(as_csv(sheets('a,"b"\nc')))))
    found = next(line for line in lines if line["variant"] == "tuned" and line["task"] == "photos")
    source = row("ties", "photos", 700, 1000)
    assert (float(found["accuracy"]), int(found["n"]), int(found["correct"])) == (0.7, 1000, 700)
    assert (float(found["low"]), float(found["high"])) == (source.low, source.high)
    assert (found["label"], found["setting"]) == ('a,"b"\nc', '{"density": 0.3}')
    assert {line["task"] for line in lines} == {"photos", "average", "normalised average"}


def test_latex_has_rules_bold_and_underline():
    text = as_latex(sheets())
    assert r"\begin{tabular}{lrrr}" in text
    assert r"\quad TIES {\small (tuned: density 0.3)} & \textbf{70.0} & \textbf{70.0} & \textbf{87.5} \\" in text
    assert r"\quad TIES {\small (density 0.2)} & \underline{60.0}" in text
    assert all(rule in text for rule in (r"\toprule", r"\midrule", r"\bottomrule"))


def test_latex_escapes_what_latex_would_read():
    assert r"50\% \& a\_b\$ \{\textbackslash{}x\} \#1 \textasciitilde{}\textasciicircum{}" in as_latex(
        sheets(r"50% & a_b$ {\x} #1 ~^")
    )


def test_a_missing_cell_is_a_dash_in_every_form():
    rows = [row("ties", "photos", 1, 2), row("ties", "digits", 1, 2), row("magmax", "digits", 1, 2)]
    lines = build_sheets(rows)
    assert "| magmax | – | **50.0** | – |" in as_markdown(lines)
    assert r"\quad magmax & -- & \textbf{50.0} & -- \\" in as_latex(lines)
    assert not any(line.startswith("data-free,magmax,published,magmax,,photos") for line in as_csv(lines).splitlines())


def with_data(split):
    budget = DataBudget(split=split, images=64)
    return build_sheets(
        [
            row("ada", "photos", 1, 2, label="Ada", setting={"steps": 9}, data_budget=budget),
            row("wemoe", "photos", 1, 2, label="WEMoE", way="mix", data_budget=budget),
        ]
    )


def test_every_form_says_what_data_a_line_used():
    text = as_markdown(with_data("val"))
    assert "| Ada (steps 9; 64 unlabelled val pictures) | 50.0 | 50.0 |" in text
    assert "Mixtures are larger models and ensembles are several: they are shown and not ranked." in text
    assert r"\quad Ada {\small (steps 9; 64 unlabelled val pictures)}" in as_latex(with_data("val"))
    found = next(csv.DictReader(io.StringIO(as_csv(with_data("val")))))
    assert (found["data_split"], found["data_images"], found["data_labels"]) == ("val", "64", "0")


def test_every_form_calls_out_a_line_that_used_the_test():
    for form in (as_markdown, as_latex):
        assert "64 unlabelled test pictures; ADAPTED ON THE VERY TEST PICTURES" in form(with_data("test"))
