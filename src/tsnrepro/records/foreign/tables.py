"""Tables of imported trials: our columns, missing where a data set lacks them, and their origin."""

from typing import Any

import pandas as pd
import pandera.pandas as pa

# Not every generator of load needs room for a sequence number.
SMALLEST_PAYLOAD_BYTES = 1
ALWAYS_THERE = ("trial", "sha256", "configuration")
ORIGIN = {
    "source_file": pa.Column(str, coerce=True),
    "source_row": pa.Column(str, coerce=True),
    "generated": pa.Column(bool, coerce=True),
}
QUANTITY = {"quantity": pa.Column(str, pa.Check.isin(["half round trip", "one way"]), coerce=True)}
_DROP = pa.Column("Int64")


def foreign_schema(own: pa.DataFrameSchema) -> pa.DataFrameSchema:
    """Return the schema of imported trials beside that of our own.

    It has the same columns with the same limits, but whatever others may not have recorded can be
    missing, and counts are integers that can be missing too. Places of drops need not be there.
    """
    columns = {name: _nullable(str(name), column) for name, column in own.columns.items()}
    extra = ORIGIN | (QUANTITY if own.name == "latency" else {})
    return pa.DataFrameSchema(columns | extra, strict=True, name=f"imported {own.name}")


def _nullable(name: str, column: pa.Column) -> pa.Column:
    if name in ALWAYS_THERE:
        return pa.Column(column.dtype, column.checks, unique=column.unique, coerce=True)
    if name == "payload_bytes":
        return pa.Column(int, pa.Check.ge(SMALLEST_PAYLOAD_BYTES), coerce=True)
    whole = str(column.dtype).startswith("int")
    return pa.Column(
        "Int64" if whole else column.dtype,
        column.checks,
        nullable=True,
        coerce=True,
        regex=column.regex,
        required=not column.regex,
    )


def foreign_table(documents: list[dict[str, Any]], own: pa.DataFrameSchema) -> pd.DataFrame:
    """Return imported trials as a table that fits :func:`foreign_schema`, also where there is none.

    Parameters
    ----------
    documents
        The trials' records.
    own
        The schema of our own trials of the same experiment.

    Raises
    ------
    pandera.errors.SchemaError
        A record does not fit.
    """
    schema = foreign_schema(own)
    plain = [str(name) for name, column in schema.columns.items() if not column.regex]
    rows = [_row(document) for document in documents]
    drops = sorted({name for row in rows for name in row if name.startswith("drop_")})
    table = pd.DataFrame(rows, columns=[*plain, *drops])
    counts = [name for name in table if str(schema.columns.get(name, _DROP).dtype) == "Int64"]
    table = table.astype(dict.fromkeys(counts, "Int64"))
    table["started"] = pd.to_datetime(table["started"], utc=True, format="ISO8601")
    return schema.validate(table)


def _row(document: dict[str, Any]) -> dict[str, Any]:
    factors = dict(document["factors"])
    factors["target_mbps"] = factors.pop("rate_mbps", None)
    names = ("trial", "sha256", "repetition", "order", "started", "generated")
    return {
        **{name: document[name] for name in names},
        **factors,
        **document["values"]["result"],
        "source_file": document["source"]["file"],
        "source_row": document["source"]["row"],
    }
