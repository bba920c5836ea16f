"""Suites about which models to merge: many experts, groups of them merged, chosen by uncertainty or by accuracy.

All answers go into one store, from which orders, choices and paired differences follow without another pass
(answers.py, growth.py, paired.py, compare.py, describe.py).
"""
