"""Typed tables of a run's trials: one row a trial, units in the column names."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa

from tsnrepro.errors import RecordError
from tsnrepro.records.foreign.tables import foreign_table
from tsnrepro.records.store import RawStore

COUNT = pa.Column(int, pa.Check.ge(0))
POSITIVE = pa.Column(float, pa.Check.gt(0))
CONFIGURATION = pa.Column(str, pa.Check.isin(["control", "frer"]))

COMMON = {
    "trial": pa.Column(str, unique=True),
    "sha256": pa.Column(str, pa.Check.str_length(64, 64)),
    "repetition": pa.Column(int, pa.Check.ge(1)),
    "order": COUNT,
    "configuration": CONFIGURATION,
    "duration_s": pa.Column(float, pa.Check.gt(0), coerce=True),
    "started": pa.Column("datetime64[us, UTC]", coerce=True),
}
SWEEP = pa.DataFrameSchema(
    COMMON
    | {
        "payload_bytes": pa.Column(int, pa.Check.ge(16)),
        "target_mbps": pa.Column(float, pa.Check.gt(0), coerce=True),
        "offered_mbps": POSITIVE,
        "delivered_mbps": pa.Column(float, pa.Check.ge(0)),
        "send_seconds": POSITIVE,
        "sent": COUNT,
        "received": COUNT,
        "lost": COUNT,
        "out_of_order": COUNT,
        "loss_percent": pa.Column(float, pa.Check.in_range(0, 100)),
        "copies": COUNT,
        "eliminated": COUNT,
        "unaccounted": pa.Column(int),
        "^drop_.*$": pa.Column(int, pa.Check.ge(0), regex=True),
    },
    strict=True,
    name="sweep",
)
TCP = pa.DataFrameSchema(
    COMMON
    | {
        "seconds": POSITIVE,
        "goodput_mbps": POSITIVE,
        "sent_mbps": POSITIVE,
        "retransmits": COUNT,
    },
    strict=True,
    name="tcp",
)
LATENCY = pa.DataFrameSchema(
    COMMON
    | {
        "payload_bytes": pa.Column(int, pa.Check.ge(14)),
        "observations": COUNT,
        "sent": COUNT,
        "received": COUNT,
        "valid_seconds": POSITIVE,
        **{
            f"{name}_us": POSITIVE
            for name in ("mean", "min", "p25", "p50", "p75", "p90", "p99", "p99_9", "max")
        },
        "sd_us": pa.Column(float, pa.Check.ge(0)),
    },
    strict=True,
    name="latency",
)
# Of the other experiments: what identifies a trial; their analyses check the columns they read.
GENERAL = pa.DataFrameSchema(
    {name: COMMON[name] for name in ("trial", "sha256", "repetition", "order", "started")},
    name="trials",
)
SCHEMAS = {"sweep": SWEEP, "tcp": TCP, "latency": LATENCY}

SOCKPERF_PERCENTILES = {
    "25.000": "p25_us",
    "50.000": "p50_us",
    "75.000": "p75_us",
    "90.000": "p90_us",
    "99.000": "p99_us",
    "99.900": "p99_9_us",
}


def open_run(manifest_path: str | Path) -> tuple[RawStore, dict[str, Any]]:
    """Return the store and the manifest of a run.

    Raises
    ------
    RecordError
        There is no such manifest.
    """
    path = Path(manifest_path)
    if not path.is_file():
        raise RecordError("no such run", str(path), "Measure it first: snakemake --cores 4")
    manifest = json.loads(path.read_text(encoding="utf-8"))
    root = Path(manifest["folder"]).parents[2]
    names = (manifest[key] for key in ("testbed", "campaign", "experiment"))
    return RawStore(root, *names), manifest


def load_trials(manifest_path: str | Path) -> pd.DataFrame:
    """Return the trials that a manifest lists, checked against its checksums and its schema.

    In trials that were imported, whatever others did not record is missing. An experiment without
    a schema of its own gives its factors and what is plain of its result as columns.

    Raises
    ------
    RecordError
        A trial is missing, was altered, or does not fit the schema.
    """
    store, manifest = open_run(manifest_path)
    experiment, documents = manifest["experiment"], []
    for entry in manifest["trials"]:
        document = store.read(store.folder / entry["trial"])
        if document["sha256"] != entry["sha256"]:
            raise RecordError("the trial is not the one the manifest lists", entry["trial"])
        documents.append(document)
    try:
        if manifest.get("imported"):
            return foreign_table(documents, SCHEMAS[experiment])
        if experiment not in SCHEMAS:
            return GENERAL.validate(_table([_general(document) for document in documents]))
        rows = [_common(document) | ROWS[experiment](document) for document in documents]
        return SCHEMAS[experiment].validate(_table(rows))
    except pa.errors.SchemaError as error:
        raise RecordError(
            f"the trials do not fit their schema: {error}", str(store.folder)
        ) from error


def _table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    table = pd.DataFrame(rows)
    # Trials of one run may be of different versions, and not all of them tell all places apart.
    places = [str(column) for column in table if str(column).startswith("drop_")]
    return table.assign(**{place: table[place].fillna(0).astype(int) for place in places})


def _general(document: dict[str, Any]) -> dict[str, Any]:
    """Return a trial's identity, its factors, and each plain number or word of its result."""
    identity = {key: document[key] for key in ("trial", "sha256", "repetition", "order", "started")}
    result = document["values"].get("result", {})
    plain = {
        name: value
        for name, value in result.items()
        if value is None or isinstance(value, (bool, int, float, str))
    }
    return identity | document["factors"] | plain


def _common(document: dict[str, Any]) -> dict[str, Any]:
    factors = document["factors"]
    return {key: document[key] for key in ("trial", "sha256", "repetition", "order", "started")} | {
        "configuration": factors["configuration"],
        "duration_s": factors["duration_s"],
    }


def _sweep(document: dict[str, Any]) -> dict[str, Any]:
    result, accounting = document["values"]["result"], document["values"]["accounting"]
    names = ("offered_mbps", "delivered_mbps", "send_seconds", "sent", "received", "lost")
    return {
        "payload_bytes": document["factors"]["payload_bytes"],
        "target_mbps": document["factors"]["rate_mbps"],
        **{name: result[name] for name in (*names, "out_of_order")},
        "loss_percent": 100 * result["lost"] / result["sent"],
        **{name: accounting[name] for name in ("copies", "eliminated", "unaccounted")},
        **{drop_column(place): count for place, count in accounting["drops"].items()},
    }


def drop_column(place: str) -> str:
    """Return the column that counts the drops at a place of the accounting."""
    words = "".join(letter if letter.isalnum() else " " for letter in place.lower()).split()
    return "_".join(["drop", *words])


def _tcp(document: dict[str, Any]) -> dict[str, Any]:
    return document["values"]["result"]


def _latency(document: dict[str, Any]) -> dict[str, Any]:
    result = document["values"]["result"]
    names = ("observations", "sent", "received", "valid_seconds")
    return {
        "payload_bytes": document["factors"]["payload_bytes"],
        **{name: result[name] for name in (*names, "mean_us", "sd_us", "min_us", "max_us")},
        **{
            column: result["percentiles_us"][printed]
            for printed, column in SOCKPERF_PERCENTILES.items()
        },
    }


ROWS = {"sweep": _sweep, "tcp": _tcp, "latency": _latency}
