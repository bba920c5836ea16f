"""The hub: models labelled once on a semantic graph, then selected and reused for any task without running them on it.

    graph ──► labels ──► index          submission: each model is tested once, when it is added
    task words ──► match ──► select ──► reuse       identification: which model for which class, and why

Model Label Learning (Tan et al. 2025). `store/` keeps it all, `service/` shows it. Names load when they are first used.
"""
