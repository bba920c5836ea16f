"""The rest of Smelt's zoo: models, tasks and a graph, for the suites and the hub. `smelt_zoo` finds them by name."""
