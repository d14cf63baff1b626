"""The short form of ``benchmarks/large_records.py``."""

import json
import subprocess
import sys

from tsnrepro.repository import root

SAMPLES = 2_000_000
# Of 2 million samples the loading of modules is most of it; held at once they would take 100 more.
MOST_MB = 450


def test_a_large_record_is_read_in_pieces():
    argv = [sys.executable, root() / "benchmarks/large_records.py"]
    argv += ["--samples", str(SAMPLES), "--held", "1000", "--resamples", "19"]
    # Its verdict is on speed, which the start of the figure decides here.
    ran = subprocess.run(argv, check=False, stdout=subprocess.PIPE, text=True)
    found = json.loads(ran.stdout.splitlines()[-1])
    analysis, of_tenth = found["analysis"], found["intervals, a tenth"]
    assert analysis["in_pieces"]
    assert analysis["samples"] == SAMPLES
    assert analysis["memory_mb"] < MOST_MB
    for q, (low, value, high) in analysis["limits"].items():
        assert low < value < high
        if q in of_tenth["limits"]:
            # Ten times the samples: narrower, and of the same distribution.
            least, _, most = of_tenth["limits"][q]
            assert high - low < most - least
            assert low < most
            assert high > least
