"""Commands that score and report: eval, tasks, bench, report, run, analyse."""
