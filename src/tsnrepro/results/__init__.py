"""From typed trials to results: estimates with intervals, each with the trials behind it."""
