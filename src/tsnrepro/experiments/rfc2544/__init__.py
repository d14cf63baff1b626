"""The benchmarks of RFC 2544 (as updated by RFC 9004), each a procedure over one load trial.

- `rates`: frame sizes, and the rate of a load at the payload, frame and wire layer
- `load_trial`: a load, its outcome, and the series of a search
- `binary_search`, `mlr`, `systematic`: throughput (26.1) by three methods
- `frame_loss` (26.3), `back_to_back` (26.4 and RFC 9004), `system_recovery` (26.5)
- `latency`: the cases of 26.2 and statistics of their samples
- `accuracy`: how often each search lands on a truth that is known
- `plan`, `benchmarks`: the stored trials of a campaign, and the measuring of one

Reset (26.6) needs a device with a reset button.
"""
