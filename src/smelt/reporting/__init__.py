"""The report: rows and figure data in, one HTML page and the tables as Markdown, CSV and LaTeX out.

This room reads a suite's folder (`rows.jsonl`, `analyses/*.json`) and nothing else: no model, no task, no network. It
knows no line of work: each fills in `pages.Pages` in its own folder (`suites/KIND/report`), most of them by changing
what `plain.PlainPages` does. A table is lines of cells, a grid of them, and blocks of grids on a sheet (`tables/`). A
figure is data first (`figures/`) and a drawing after (`draw/`, `templates/`).
"""
