"""Estimates with limits, tests and thresholds; the unit of replication is the trial or the run.

- `estimate`: the result type of all modules, and the kinds of limits
- `proportions`: shares of trials, and the bound if none lost
- `thresholds`: the rate up to which nothing is lost, over repetitions of a sweep
- `quantiles`: latency quantiles of one run's correlated samples and of several runs
- `long_series`: order statistics of series that do not fit into memory
- `replication`: means over runs, with an interval or with a range
- `losses`: losses over runs, which come in bursts, and their trend
- `comparisons`: differences and ratios of two configurations
- `equivalence`: whether "no difference" is shown, refuted or open

``benchmarks/intervals.py`` simulates how often the intervals cover.
"""
