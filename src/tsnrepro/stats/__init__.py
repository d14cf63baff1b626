"""Estimates with limits, tests and thresholds, the trial or the run being the unit.

Import from the module that answers the question; nothing is loaded before that:

- `estimate`: the result type every other module returns, and what its limits are
- `proportions`: shares of trials, and what "none lost" rules out
- `thresholds`: the rate up to which nothing is lost, over repetitions of a sweep
- `quantiles`: latency quantiles of one run's correlated samples and of several runs
- `replication`: means over runs, with an interval or with a range
- `comparisons`: differences and ratios of two configurations
- `equivalence`: whether "no difference" is shown, refuted or open

That the intervals cover is shown by ``benchmarks/intervals.py``.
"""
