"""The analysis of studies of loss, on tables with known effects."""

from itertools import product

import pandas as pd
import pytest

from tsnrepro.common.errors import RecordError
from tsnrepro.experiments.studies import loss_analysis, loss_figures
from tsnrepro.experiments.studies.tables import read_table

SEEDS = (1, 2, 3)


def invented():
    """Return loss of 8 % with the small buffer and none with the large one; skew has no effect.

    Control loses a point more where its path loses frames.
    """
    rows = [
        {
            "part": "paths",
            "replication": seed,
            "configuration": configuration,
            "receive_buffer_bytes": buffer,
            "payload_bytes": 1472,
            "path_skew_us": skew,
            "path_loss_probability": chance,
            "loss_percent": (8.0 if buffer == 1000 else 0.0)
            + 0.1 * seed
            + (1.0 if chance and configuration == "control" else 0.0),
        }
        for configuration, buffer, skew, chance, seed in product(
            ("control", "frer"), (1000, 2000), (0, 100), (0, 0.001), SEEDS
        )
    ]
    return pd.DataFrame(rows)


def test_only_varied_parameters_are_factors():
    factors = loss_analysis.varied(invented())
    assert sorted(factors) == ["path_loss_probability", "path_skew_us", "receive_buffer_bytes"]


def test_each_factor_has_its_effect(tmp_path):
    source = tmp_path / "study.parquet"
    invented().to_parquet(source)
    found = loss_analysis.analyse(read_table(source, loss_analysis.MEASURED), source)

    def change(factor, configuration):
        return found.of(f"study.effect.{factor}.{configuration}.percent").value

    assert change("receive_buffer_bytes", "frer") == pytest.approx(-8)
    assert change("path_skew_us", "control") == change("path_skew_us", "frer") == 0
    assert change("path_loss_probability", "control") == pytest.approx(1)
    assert change("path_loss_probability", "frer") == pytest.approx(0)


def test_the_summary_has_one_row_per_value():
    table = loss_analysis.summary(invented())
    assert table.loc[("receive_buffer_bytes", 1000), "frer"] == pytest.approx(8.2)
    assert len(table) == 6


def test_a_figure_has_one_panel_per_factor():
    figure = loss_figures.effects(invented())
    labels = [axes.get_xlabel() for axes in figure.axes if axes.get_visible()]
    assert sorted(labels) == ["path loss probability", "path skew us", "receive buffer bytes"]


def test_a_study_of_thresholds_is_refused(tmp_path):
    path = tmp_path / "study.parquet"
    invented().drop(columns="loss_percent").to_parquet(path)
    with pytest.raises(RecordError, match="not a study of this kind: loss_percent"):
        read_table(path, loss_analysis.MEASURED)


def test_without_factors_a_figure_is_empty():
    table = invented().query("receive_buffer_bytes == 1000 and path_skew_us == 0")
    table = table[table["path_loss_probability"] == 0]
    assert not any(axes.get_visible() for axes in loss_figures.effects(table).axes)
