"""Suites: a pool of models and tasks in, rows, figures and a report out. A suite is data (YAML) plus one loop.

Goes through the other rooms from left to right (pool, merge, analyse, evaluate, report) and adds no arithmetic of its
own. The room is also the call: `smelt.bench("clip8", out="clip8")` (docs/adr/0001). Names load when first used.
"""
