"""The short form of ``benchmarks/large_records.py``."""

import json
import subprocess
import sys

from tsnrepro.common.repository import root

SAMPLES = 2_000_000


def test_a_large_record_is_read_in_pieces():
    argv = [sys.executable, root() / "benchmarks/large_records.py"]
    argv += ["--samples", str(SAMPLES), "--held", "1000", "--resamples", "19"]
    # Its verdict is on speed and memory, which so few samples do not show.
    ran = subprocess.run(argv, check=False, stdout=subprocess.PIPE, text=True)
    found = json.loads(ran.stdout.splitlines()[-1])
    analysis, of_tenth = found["analysis"], found["intervals, a tenth"]
    assert analysis["in_pieces"]
    assert analysis["samples"] == SAMPLES
    for q, (low, value, high) in analysis["limits"].items():
        assert low < value < high
        if q in of_tenth["limits"]:
            # Ten times the samples: narrower, and of the same distribution.
            least, _, most = of_tenth["limits"][q]
            assert high - low < most - least
            assert low < most
            assert high > least
