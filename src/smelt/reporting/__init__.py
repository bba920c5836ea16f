"""The report: rows and figure data in, one HTML page and the tables as Markdown, CSV and LaTeX out.

This room reads a suite's folder (`rows.jsonl`, `analyses/*.json`) and nothing else: no model, no task, no network.
A table is lines of cells (`lines`, `cells`), a grid of them (`grid`), and blocks of grids on a sheet (`sheet`): one for
a plain suite, one for each part (`parts`), one with a block for each corruption (`robustness`), one with a block for
each task where merging stands beside ensembling (`levels`, `series`); of language models tables are turned, methods
across (`language_tables`, `turned`), and `paper/` has the published numbers that stand beside them. A figure is data
first (`curves`, `paths`, ...) and a drawing after (`draw/`, `templates/`).

The room is also the call: `smelt.report("clip8")` (docs/adr/0001).
"""
