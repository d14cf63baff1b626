"""Write analysed experiments to disk as a campaign leaves them."""

import pyarrow
import pyarrow.parquet

from tsnrepro.records.values import FACTS_FILE, TABLES_FOLDER, VALUES_FILE, Result, write_values


def result(key, value, low=None, high=None, unit="", method="method", trials=("t1",)):
    """Return a result with the fields that an audit does not look at made up."""
    return Result(
        key=key,
        value=value,
        low=low,
        high=high,
        unit=unit,
        digits=2,
        method=method,
        run="loss",
        trials=list(trials),
        sha256="",
    )


def write_run(root, experiment, results=(), tables=(), testbed="model", **facts):
    """Write one experiment of the campaign ``quick`` and return its folder."""
    folder = root / testbed / "quick" / experiment
    write_values(folder / VALUES_FILE, results)
    facts = {"kind": testbed, "link_rate_mbps": 1000.0, **facts}
    write_values(folder / FACTS_FILE, [result(f"testbed.{n}", v) for n, v in facts.items()])
    (folder / TABLES_FOLDER).mkdir(exist_ok=True)
    for name, columns in dict(tables).items():
        path = folder / TABLES_FOLDER / f"{name}.parquet"
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return folder
