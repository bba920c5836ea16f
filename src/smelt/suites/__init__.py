"""Suites: models and tasks in, rows, figures and a report out. A suite is data (YAML); one run computes them all.

A kind of suite (kind.py) is one line of work and has a folder here: its schema (suite.py), its units of work
(units.py), its plan (plan.py), its pages of the report (report/), published numbers and shipped suites. The run
(run.py) asks the plan for rounds of steps, computes those whose expected rows (expected_row.py) are not there, and
keeps what they return (state.py).
"""
