"""Estimates with intervals, tests and thresholds for trials and runs.

Import from the module that answers the question; nothing is loaded before that:

- `estimate`: the result type every other module returns
- `proportions`: frame loss ratio, and what "none lost" rules out
- `thresholds`: the rate up to which nothing is lost, from a sweep of trials
- `quantiles`: latency quantiles of independent, correlated and replicated samples
- `replication`: means and ratios with the run as the unit
- `comparisons`: differences, ratios and effect sizes of two configurations
- `equivalence`: whether "no difference" is shown, refuted or open
"""
