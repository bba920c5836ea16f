"""One merge by several processes: a driver plans and finishes it, workers merge units of the plan into its files.

In: a planned merge whose output is being made (engine/sink). Out: the same output as one process makes, byte for byte.
A driver (driver.py) cuts the plan into units (units.py) and gives them to the executors of smelt.jobs. A worker
(worker.py) plans the same merge (briefing.py) and does its pieces with the executor of an ordinary merge
(piece_executor.py), into the files that all of them see (piece_sink.py), or into parts of an upload to a store
(part_units.py, part_sink.py). What both must know lies beside the output (board.py). What folds gather travels as plain
data (parcels.py) and is joined in the order of the plan (fold_total.py).
"""
