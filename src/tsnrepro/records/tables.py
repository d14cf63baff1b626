"""Typed tables of a run's trials: one row per trial, units in the column names."""

from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pandera.pandas as pa

from tsnrepro.common.errors import RecordError
from tsnrepro.config.base import CONFIGURATIONS, Objective
from tsnrepro.records.accounting import where_lost
from tsnrepro.records.columns import COLUMNS, EXPERIMENTS, LINK_RATES, QUANTILES, Column
from tsnrepro.records.store import VARIED, open_run, recorded_trials

COUNT = pa.Column(int, pa.Check.ge(0))
# iperf3 and sockperf write a header into every datagram.
_MIN_PAYLOAD = {"loss": 16, "latency": 14}
_IDENTITY = {
    "trial": pa.Column(str, unique=True),
    "sha256": pa.Column(str, pa.Check.str_length(64, 64)),
}

# Stalls of the hosts during a trial, on testbeds that monitor them.
_STALLS = {
    name: pa.Column(float, pa.Check.ge(0), nullable=True, coerce=True, required=False)
    for name in ("longest_stall_ms", "stalls")
}

# Columns that imported trials do not have.
MEASURED_LOSS = {
    "network_lost": pa.Column(int, required=False),
    "host_lost": pa.Column(int, required=False),
    "unread": pa.Column(int, pa.Check.ge(0), required=False),
    "untraced": pa.Column("Int64", pa.Check.ge(0), nullable=True, coerce=True, required=False),
    "jitter_ms": pa.Column(float, pa.Check.ge(0), nullable=True, coerce=True, required=False),
    "question": pa.Column(str, pa.Check.isin(get_args(Objective)), required=False),
    "phase": pa.Column("Int64", pa.Check.gt(0), nullable=True, coerce=True, required=False),
    "generator": pa.Column(str, pa.Check.isin(["iperf3", "talker"]), required=False),
    # Where a trial's links and paths are not the testbed's.
    **{
        name: pa.Column("Int64", pa.Check.gt(0), nullable=True, coerce=True, required=False)
        for name in (*LINK_RATES, "paths")
    },
    "receive_buffer_bytes": pa.Column(
        "Int64", pa.Check.gt(0), nullable=True, coerce=True, required=False
    ),
    "realtime_listener": pa.Column("boolean", nullable=True, coerce=True, required=False),
    **_STALLS,
    **{
        name: pa.Column(float, pa.Check.ge(0), nullable=True, coerce=True, required=False)
        for name in ("stall_checks", "stalled_ms", "stall_least_ms")
    },
}

MEASURED_TCP = {
    name: pa.Column("Int64", pa.Check.ge(0), nullable=True, coerce=True, required=False)
    for name in ("largest_window_bytes", "link_rate_mbps")
}


def _column(kind: Column, minimum: float | None, imported: bool) -> pa.Column:
    """Return a column of a schema; most values of imported trials may be missing."""
    if kind.quantity == "text":
        return pa.Column(str, pa.Check.isin(CONFIGURATIONS), coerce=imported)
    if kind.quantity == "timestamp":
        return pa.Column("datetime64[us, UTC]", coerce=True, nullable=imported)
    checks = [pa.Check.gt(kind.above)] if kind.above is not None else []
    checks += [pa.Check.ge(minimum)] if minimum is not None else []
    checks += [pa.Check.le(kind.maximum)] if kind.maximum is not None else []
    if kind.quantity == "size":
        return pa.Column(int, checks, coerce=imported)
    number = ("Int64" if imported else int) if kind.integer else float
    return pa.Column(number, checks, nullable=imported, coerce=imported or not kind.integer)


def _schema(experiment: str, imported: bool = False) -> pa.DataFrameSchema:
    columns = dict(_IDENTITY)
    for name, kind in COLUMNS[experiment].items():
        if imported or kind.measured:
            has_header = kind.quantity == "size" and not imported
            minimum = _MIN_PAYLOAD[experiment] if has_header else kind.minimum
            columns[name] = _column(kind, minimum, imported)
    columns |= {} if imported else _STALLS
    if experiment == "loss":
        columns |= {} if imported else MEASURED_LOSS
        drops = "Int64" if imported else int
        columns["^drop_.*$"] = pa.Column(
            drops, pa.Check.ge(0), regex=True, nullable=imported, required=not imported
        )
    if experiment == "tcp" and not imported:
        columns |= MEASURED_TCP
    if imported:
        columns |= _ORIGIN | (_QUANTITY if experiment == "latency" else {})
    name = f"imported {experiment}" if imported else experiment
    return pa.DataFrameSchema(columns, strict=True, name=name)


_ORIGIN = {
    "source_file": pa.Column(str, coerce=True),
    "source_row": pa.Column(str, coerce=True),
    "generated": pa.Column(bool, coerce=True),
}
_QUANTITY = {"quantity": pa.Column(str, pa.Check.isin(["half round trip", "one way"]), coerce=True)}

LOSS, TCP, LATENCY = (_schema(experiment) for experiment in EXPERIMENTS)
# Other experiments: what identifies a trial; their analyses check the columns that they read.
_GENERAL = pa.DataFrameSchema(
    _IDENTITY | {name: LOSS.columns[name] for name in ("repetition", "order", "started", *_STALLS)},
    name="trials",
)
SCHEMAS = {"loss": LOSS, "tcp": TCP, "latency": LATENCY}


def load_trials(manifest_path: str | Path) -> pd.DataFrame:
    """Return the trials that a manifest lists, checked against its checksums and its schema.

    Values that an imported data set does not have are missing. The columns of an experiment without
    a schema are its factors and the scalars of its result.

    Raises RecordError if a trial is missing, was altered, or does not fit the schema.
    """
    store, manifest = open_run(manifest_path)
    experiment, documents = manifest["experiment"], list(recorded_trials(manifest_path))
    try:
        if manifest.get("imported"):
            return _imported_table(documents, experiment)
        return table_of_records(experiment, documents)
    except pa.errors.SchemaError as error:
        raise RecordError(
            f"the trials do not fit their schema: {error}",
            str(store.folder / _unfit_trial(error, documents)),
        ) from error


def _unfit_trial(error: pa.errors.SchemaError, documents: list[dict[str, Any]]) -> str:
    """Return the first trial that an error is about, empty for one of the table's columns."""
    if not isinstance(error.failure_cases, pd.DataFrame) or "index" not in error.failure_cases:
        return ""
    rows = error.failure_cases["index"].dropna()
    return "" if rows.empty else str(documents[int(rows.iloc[0])]["trial"])


def table_of_records(experiment: str, documents: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the table of :func:`load_trials` for the given records.

    Raises pandera.errors.SchemaError if a record does not fit the experiment's schema.
    """
    row = _ROWS.get(experiment, _general)
    schema = SCHEMAS.get(experiment, _GENERAL)
    rows = [_identity(each) | row(each) for each in documents]
    if any("stalls" in each["values"] for each in documents):
        rows = [_longest_stalls(each) | row for each, row in zip(documents, rows, strict=True)]
    table = schema.validate(_table(rows))
    settings = [each["factors"].get(VARIED, {}) for each in documents]
    return table.assign(
        **{name: [point[name] for point in settings] for name in (settings[0] if settings else ())}
    )


def repetitions(trials: pd.DataFrame) -> pd.Series:
    """Return each trial's repetition; trials without one count as one repetition together."""
    return trials["repetition"].fillna(0).astype(int)


def _table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    table = pd.DataFrame(rows)
    # Trials of one run may be of different versions, and not all have all locations of drops.
    drops = [str(column) for column in table if str(column).startswith("drop_")]
    return table.assign(**{column: table[column].fillna(0).astype(int) for column in drops})


def _identity(document: dict[str, Any]) -> dict[str, Any]:
    return _picked(document, "trial", "sha256", "repetition", "order", "started")


def _picked(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: values[name] for name in names}


def _general(document: dict[str, Any]) -> dict[str, Any]:
    """Return a trial's factors and the scalars of its result."""
    result = document["values"].get("result", {})
    scalar = bool | int | float | str | None
    factors = {name: value for name, value in document["factors"].items() if name != VARIED}
    return factors | {k: v for k, v in result.items() if isinstance(v, scalar)}


def _imported_table(documents: list[dict[str, Any]], experiment: str) -> pd.DataFrame:
    """Return imported trials; the columns are the same if there is no trial."""
    schema = _schema(experiment, imported=True)
    rows = [_imported(document) for document in documents]
    fixed = [name for name, column in schema.columns.items() if not column.regex]
    drops = sorted({name for row in rows for name in row if name.startswith("drop_")})
    table = pd.DataFrame(rows, columns=[*fixed, *drops])
    counts = [c for c in table if c in drops or str(schema.columns[c].dtype) == "Int64"]
    table = table.astype(dict.fromkeys(counts, "Int64"))
    table["started"] = pd.to_datetime(table["started"], utc=True, format="ISO8601")
    return schema.validate(table)


def _imported(document: dict[str, Any]) -> dict[str, Any]:
    factors = dict(document["factors"])
    factors["target_mbps"] = factors.pop("rate_mbps", None)
    return {
        **_identity(document),
        "generated": document["generated"],
        **factors,
        **document["values"]["result"],
        "source_file": document["source"]["file"],
        "source_row": document["source"]["row"],
    }


def _loss(document: dict[str, Any]) -> dict[str, Any]:
    factors, values = document["factors"], document["values"]
    result, accounting = values["result"], values["accounting"]
    names = ("offered_mbps", "delivered_mbps", "send_seconds", "sent", "received", "lost")
    return {
        **_picked(factors, "configuration", "duration_s", "payload_bytes"),
        "target_mbps": factors["rate_mbps"],
        **_picked(result, *names, "out_of_order"),
        "jitter_ms": result.get("jitter_ms"),
        "loss_percent": 100 * result["lost"] / result["sent"],
        **_picked(accounting, "copies", "eliminated", "unaccounted"),
        "untraced": accounting.get("untraced"),
        **where_lost(accounting),
        "question": factors.get("question", "sweep"),
        "phase": factors.get("phase"),
        "generator": factors.get("generator", "iperf3"),
        **{name: factors.get(name) for name in (*LINK_RATES, "paths")},
        "receive_buffer_bytes": factors.get("receive_buffer_bytes"),
        "realtime_listener": factors.get("realtime_listener"),
        **_stalls(values),
        **{drop_column(location): n for location, n in accounting["drops"].items()},
    }


def _longest_stalls(document: dict[str, Any]) -> dict[str, Any]:
    return _picked(_stalls(document["values"]), *_STALLS)


def _stalls(values: dict[str, Any]) -> dict[str, float | None]:
    """Return the longest stall on all of a trial's hosts, and sums over them."""
    meters = values.get("stalls", {}).values()
    processors = [each for meter in meters for each in meter["processors"].values()]
    sums = {"stall_checks": "checks", "stalls": "stalls", "stalled_ms": "stalled_ms"}
    return {
        "longest_stall_ms": max((meter["longest_ms"] for meter in meters), default=None),
        "stall_least_ms": max((meter["threshold_ms"] for meter in meters), default=None),
        **{
            name: sum(each[key] for each in processors) if processors else None
            for name, key in sums.items()
        },
    }


def drop_column(location: str) -> str:
    """Return the column that counts the drops at a location of the accounting."""
    parts = "".join(letter if letter.isalnum() else " " for letter in location.lower()).split()
    return "_".join(["drop", *parts])


def _tcp(document: dict[str, Any]) -> dict[str, Any]:
    factors = _picked(document["factors"], "configuration", "duration_s")
    factors["link_rate_mbps"] = document["factors"].get("link_rate_mbps")
    return factors | document["values"]["result"]


def _latency(document: dict[str, Any]) -> dict[str, Any]:
    result = document["values"]["result"]
    names = ("observations", "sent", "received", "valid_seconds")
    return {
        **_picked(document["factors"], "configuration", "duration_s", "payload_bytes"),
        **_picked(result, *names, "mean_us", "sd_us", "min_us", "max_us"),
        **{
            column: result["percentiles_us"][f"{100 * share:.3f}"]
            for column, share in QUANTILES.items()
            if COLUMNS["latency"][column].measured
        },
    }


_ROWS = {"loss": _loss, "tcp": _tcp, "latency": _latency}
