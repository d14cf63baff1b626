"""A short campaign on the model, measured and analysed in seconds in a repository of its own."""

import shutil
from pathlib import Path

import pytest

from tsnrepro.common.repository import root

CAMPAIGN = """\
description: Three short experiments
loss: {repetitions: 1, parts: [{payload_bytes: 1472, rates_mbps: [300, 900], duration_s: 1}]}
tcp: {repetitions: 3, durations_s: [1, 2, 3]}
latency: {repetitions: 3, payloads_bytes: [1472], duration_s: 1}
"""


def measure_short_campaign(folder: Path) -> Path:
    """Measure and analyse the campaign ``short`` on the model and return the repository."""
    # Imported here: most sessions of the suite need none of it.
    from tsnrepro.config import files as campaigns  # noqa: PLC0415
    from tsnrepro.config.registry import experiment  # noqa: PLC0415
    from tsnrepro.experiments.latency import analysis as latency  # noqa: PLC0415
    from tsnrepro.experiments.loss import analysis as loss  # noqa: PLC0415
    from tsnrepro.experiments.tcp import analysis as tcp  # noqa: PLC0415
    from tsnrepro.records.integrity import write_seal  # noqa: PLC0415
    from tsnrepro.results.output import RunOutput  # noqa: PLC0415
    from tsnrepro.runner import run as measuring  # noqa: PLC0415

    analyses = {
        "loss": lambda output: loss.analyse(output.trials, 1000.0),
        "tcp": lambda output: tcp.analyse(output.trials, 1000.0),
        "latency": lambda output: latency.analyse(output.trials, latency.series(output.run)),
    }
    for part in ("config", "notebooks"):
        shutil.copytree(root() / part, folder / part)
    (folder / "config/campaigns/short.yaml").write_text(CAMPAIGN, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaigns, "root", lambda: folder)
        for name, analyse in analyses.items():
            run = folder / "results" / "model" / "short" / name / "run.json"
            run.parent.mkdir(parents=True)
            measuring.run_experiment(name, "model", "short", str(run))
            output = RunOutput(run)
            output.values(analyse(output))
            write_seal(run.parent, experiment(name).analysis_digest())
    return folder
