"""An analysed run with its record, its results and its seal."""

import json

from tsnrepro.records.integrity import write_seal
from tsnrepro.records.store import RawStore, Trial

RUN = ("model", "quick", "loss")


class Run:
    """An analysed run of three trials, as the workflow leaves it."""

    def __init__(self, root) -> None:
        self.store = RawStore(root / "raw", *RUN)
        self.folder = root / "results" / "/".join(RUN)
        digest = self.store.put_environment({"testbed": "model", "settings": {}})
        self.environment = self.store.root / "model" / "environments" / f"{digest}.json"
        self.trials = [self._measure(repetition, digest) for repetition in (1, 2, 3)]
        entries = [{"trial": t.name, "sha256": self.store.sha256(t)} for t in self.trials]
        names = dict(zip(("testbed", "campaign", "experiment"), RUN, strict=True))
        run = {**names, "folder": str(self.store.folder), "environment": digest, "trials": entries}
        for name in ("tables", "figures"):
            (self.folder / name).mkdir(parents=True)
        self.write("run.json", json.dumps(run))
        self.write("values.json", '[{"key": "loss.trials.count", "value": 3}]')
        self.write("testbed.json", "[]")
        self.write("tables/summary.csv", "load,lost\n100,0\n")
        self.write("figures/loss.pdf", "%PDF")
        write_seal(self.folder)

    def _measure(self, repetition, digest):
        trial = Trial("loss", "frer-1472B-500M", {"configuration": "frer"}, repetition)
        document = {"label": trial.label, "factors": trial.factors, "repetition": repetition}
        document |= dict(zip(("testbed", "campaign", "experiment"), RUN, strict=True))
        document |= {"attempt": 1, "environment": digest, "values": {"lost": repetition}}
        return self.store.put(trial, 1, document, {"talker.json": "{}"})

    def write(self, name, text) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")
