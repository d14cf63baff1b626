"""Loss against offered load: ratios, thresholds, locations, and FRER against control."""

import math
from dataclasses import replace
from typing import get_args

import numpy as np
import pandas as pd

from tsnrepro.common.ethernet import main_payload_bytes, udp_frames
from tsnrepro.config.base import CONFIGURATIONS, Objective
from tsnrepro.experiments.loss import elimination, intervention, member_paths
from tsnrepro.experiments.loss.path_thresholds import (
    UNREAD,
    ceilings,
    frer_against_control,
    line_limits,
    load_mbps,
    loss_to_program,
    loss_to_socket,
    sweeps,
)
from tsnrepro.records.accounting import (
    REASSEMBLY,
    SOCKET_BUFFER,
    STACK,
    TALKER_QUEUE,
    TALKER_SOCKET,
)
from tsnrepro.records.tables import drop_column
from tsnrepro.results.estimates import (
    column_of,
    difference,
    known,
    loss,
    mean,
    recorded,
    shared,
    shared_buffer,
    total,
    unknown,
)
from tsnrepro.results.results import Results
from tsnrepro.results.verdicts import SIGNIFICANCE, add_power
from tsnrepro.stats.estimate import Estimate
from tsnrepro.stats.power import Scatter, scatter_of_ratio, smallest_change_found
from tsnrepro.stats.proportions import upper_bound_when_none_lost
from tsnrepro.stats.thresholds import Sweep, highest_rate_without_loss, threshold

# RFC 2544, 9.1, without 1280, which the documents leave out: each has its results, known or not.
FRAME_BYTES = (64, 128, 256, 512, 1024, 1518)
# Sizes that were tried, in order, whatever they are: as many as the documents have.
SIZES = len(FRAME_BYTES)
# Chosen before measuring: the R-TAG alone takes 0.39 % of the line, five times that would matter.
MARGIN_PERCENT = 2.0
# Loads further apart are not the same load.
SAME_LOAD_PERCENT = 2.0

SWEEP, LIMIT, BOTTLENECK, INTERVENTION, ELIMINATION, PACED, PATHS = get_args(Objective)

PLACES = {"listener_socket": (SOCKET_BUFFER,), "talker": (TALKER_SOCKET, TALKER_QUEUE)}
SUMMARY_COLUMNS = [
    *("configuration", "target_mbps", "offered_mbps", "trials", "trials_with_loss"),
    *("sent", "lost", "unread", "loss_percent", "loss_low_percent", "loss_high_percent"),
    *("chance_to_lose_high_percent", "loss_limits"),
]


def loss_locations(trials: pd.DataFrame) -> pd.DataFrame:
    """Return what each trial lost on the path to the socket (:func:`loss_to_socket`), by location.

    Columns: ``listener_socket``, ``talker``, ``switches``, ``other``, counts of datagrams. With
    FRER a frame dropped in one switch queue is lost only if all its copies are dropped too, so
    ``switches`` is what was lost there of the stream, not the sum of dropped copies. A trial whose
    counters were not recorded has none.
    """
    ending = [drop_column(part) for part in (REASSEMBLY, STACK)]
    columns = {name: [drop_column(place) for place in kinds] for name, kinds in PLACES.items()}
    needed = [c for those in (*columns.values(), ending) for c in those] + ["lost", "unaccounted"]
    located = recorded(loss_to_socket(trials).filter(items=needed), *needed)
    counted = pd.DataFrame({name: located[those].sum(axis=1) for name, those in columns.items()})
    counted["other"] = located[ending].sum(axis=1) + located["unaccounted"].clip(lower=0)
    counted["switches"] = (located["lost"] - counted.sum(axis=1)).clip(lower=0)
    return counted.reindex(trials.index)


def trials_of_objective(trials: pd.DataFrame, question: str) -> pd.DataFrame:
    """Return the trials of one objective; those that name none, as imported ones, are a sweep.

    Phases of the sweep are series of their own: see :func:`phased`.
    """
    if "question" not in trials:
        return trials if question == SWEEP else trials.iloc[:0]
    return trials[(trials["question"] == question) & column_of(trials, "phase").isna()]


def phased(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials of all phases of the sweep, each phase with trials of one length."""
    phase = column_of(trials, "phase")
    return trials.assign(phase=phase)[phase.notna()]


def frame_bytes(payload_bytes: int) -> int:
    """Return the bytes of all frames that carry a payload, with FCS."""
    return sum(udp_frames(payload_bytes))


def main_payload(trials: pd.DataFrame) -> int:
    """Return the payload of the main sweep: 1472 bytes, or else the largest that was tried."""
    return main_payload_bytes(int(payload) for payload in trials["payload_bytes"].dropna())


def target_mbps(trials: pd.DataFrame) -> pd.Series:
    """Return the target load, or what was offered where a trial has no target."""
    return trials["target_mbps"].fillna(trials["offered_mbps"])


def summary(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row a configuration and load of the main sweep's payload; see :func:`by_load`."""
    sweep = trials_of_objective(trials, SWEEP)
    return by_load(sweep[sweep["payload_bytes"] == main_payload(sweep)], [])


def by_payload(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row a payload, configuration and load of the sweep; see :func:`by_load`.

    ``frame_bytes`` is the frame that carries the payload, with FCS; of trials that do not have it
    their payload there are no rows.
    """
    sweep = trials_of_objective(trials, SWEEP)
    table = by_load(sweep[sweep["payload_bytes"].notna()], ["payload_bytes"])
    frames = [frame_bytes(int(payload)) for payload in table["payload_bytes"]]
    table.insert(1, "frame_bytes", pd.Series(frames, index=table.index, dtype="Int64"))
    return table.astype({"payload_bytes": "Int64"})


def intervention_summary(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row a buffer, priority, configuration and load; see :func:`by_load`."""
    cells = intervention.cells_of(trials_of_objective(trials, INTERVENTION))
    return by_load(cells, ["buffer_bytes", "realtime"])


def by_load(trials: pd.DataFrame, factors: list[str]) -> pd.DataFrame:
    """Return one row a configuration and load, and value of other factors: trials that lost, loss.

    Losses are those of the path to the program (:func:`loss_to_program`); ``unread`` of ``lost``
    were in its socket when it closed it. Counts are missing where not every trial of a row has
    them. ``loss_limits`` names the kind of limits of ``loss_percent``; where no trial
    lost, ``chance_to_lose_high_percent`` bounds the chance that a trial does (95 %, one-sided).
    """
    chosen = loss_to_program(trials)
    chosen = chosen.assign(target_mbps=target_mbps(chosen), unread=column_of(chosen, UNREAD))
    by = [*factors, "configuration", "target_mbps"]
    rows = []
    for values, group in chosen.groupby(by, dropna=False):
        estimate = loss(group, "loss_percent")
        lossy = int((group["loss_percent"] > 0).sum())
        chance = 100 * upper_bound_when_none_lost(estimate.n)
        rows.append(
            {
                **dict(zip(by, values, strict=True)),
                "offered_mbps": load_mbps(group).mean(),
                "trials": len(group),
                "trials_with_loss": lossy,
                "sent": _sum_of_all(group, "sent"),
                "lost": _sum_of_all(group, "lost"),
                "unread": _sum_of_all(group, "unread"),
                "loss_percent": estimate.value,
                "loss_low_percent": estimate.low,
                "loss_high_percent": estimate.high,
                "chance_to_lose_high_percent": np.nan if lossy else chance,
                "loss_limits": str(estimate.limits),
            }
        )
    return pd.DataFrame(rows, columns=[*factors, *SUMMARY_COLUMNS])


def _sum_of_all(group: pd.DataFrame, column: str) -> int | None:
    return int(group[column].sum()) if group[column].notna().all() else None


def analyse(trials: pd.DataFrame, link_rate_mbps: float | None = None) -> Results:
    """Return all results; without a link rate arithmetic sets no upper limit.

    ``link_rate_mbps`` is that of the narrowest link, where a trial does not name its own.
    """
    results = Results("loss", trials)
    sweep = trials_of_objective(trials, SWEEP)
    path, limits, main = add_thresholds(results, SWEEP, sweep, link_rate_mbps)
    _clean_and_line(results, "loss", path, limits)
    _to_socket(results, _offered(loss_to_socket(main)), limits)
    results.value(
        "loss.threshold.margin.percent",
        MARGIN_PERCENT,
        [],
        unit="%",
        method="chosen before measuring",
    )
    # A question without trials has no results.
    for question in (LIMIT, BOTTLENECK, PACED):
        if len(of := trials_of_objective(trials, question)):
            _limit(results, question, of, link_rate_mbps)
    if len(of := trials_of_objective(trials, INTERVENTION)):
        intervention.add(results, loss_to_program(of))
    if len(of := trials_of_objective(trials, ELIMINATION)):
        path = _offered(loss_to_socket(of))
        elimination.add(results, path, _least(of, "link_rate_mbps", link_rate_mbps))
    if len(of := trials_of_objective(trials, PATHS)):
        _paths(results, of, link_rate_mbps)
    for question in (LIMIT, BOTTLENECK, PACED, INTERVENTION, ELIMINATION, PATHS):
        if len(of := trials_of_objective(trials, question)):
            _unread(results, f"loss.{question}", of)
    _sizes(results, sweep, link_rate_mbps)
    _shares(results, sweep)
    _totals(results, trials)
    return results


def _sizes(results: Results, trials: pd.DataFrame, link_rate_mbps: float | None) -> None:
    """Add the loss by frame size, and by payload whatever frames it makes."""
    tried = sorted(int(payload) for payload in set(trials["payload_bytes"]))
    sized: dict[int, list[int]] = {frame: [] for frame in FRAME_BYTES}
    for payload in tried:
        sized.setdefault(frame_bytes(payload), []).append(payload)
    for frame, payloads in sized.items():
        # Of payloads that are padded to one frame size the largest stands for it.
        chosen = trials[trials["payload_bytes"] == max(payloads, default=-1)]
        _frame_size(results, f"loss.frame_{frame}", chosen)
        _frame_threshold(results, frame, chosen, link_rate_mbps)
    smaller = trials[trials["payload_bytes"] != main_payload(trials)]
    loads = target_mbps(smaller).groupby(smaller["payload_bytes"]).nunique()
    results.value(
        "loss.sizes.loads.count",
        int(loads.max()) if len(loads) else 0,
        smaller["trial"],
        method="loads tried at one payload besides that of the main sweep, the most",
    )
    for number in range(SIZES):
        payload = tried[number] if number < len(tried) else None
        name, chosen = f"loss.size_{number + 1}", trials[trials["payload_bytes"] == payload]
        _frame_size(results, name, chosen)
        for key, size in (
            ("payload_bytes", payload),
            ("frame_bytes", None if payload is None else frame_bytes(payload)),
        ):
            results.value(
                f"{name}.{key}", size, chosen["trial"], unit="bytes", method="configuration"
            )


def _offered(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with a load."""
    return trials[load_mbps(trials).notna()]


def _thresholds(
    results: Results,
    name: str,
    path: pd.DataFrame,
    limits: dict[str, float | None],
    *,
    whole: str,
    digits: int = 0,
) -> None:
    """Add the thresholds of the whole path under ``name`` and ``whole``, and of the network.

    Loads have ``digits`` decimals, their ratio two more.
    """
    inside = loss_locations(path)["switches"]
    # Of the network alone: what queues, switches and links lost. Only counters show it.
    losses = {whole: path["loss_percent"] > 0, ".network": inside[inside.notna()] > 0}
    highest = ceilings(limits)
    for scope, lossy in losses.items():
        _compared(results, f"{name}{scope}", path.loc[lossy.index], lossy, highest, digits=digits)


def add_thresholds(
    results: Results, question: str, trials: pd.DataFrame, link_rate_mbps: float | None
) -> tuple[pd.DataFrame, dict[str, float | None], pd.DataFrame]:
    """Add the thresholds of the sweep, or of what the path carries to a program that can wait.

    ``results``: where they are added. ``question``: of :data:`tsnrepro.config.base.Objective`.
    ``trials``: the trials of the question. ``link_rate_mbps``: as for :func:`analyse`. Returns the
    trials with an offered load and their losses, the line's limits, and the trials of the main
    payload.
    """
    main = trials[trials["payload_bytes"] == main_payload(trials)]
    if question == SWEEP:
        limits = line_limits(main_payload(main), link_rate_mbps)
        path = _offered(loss_to_program(main))
        _thresholds(results, "loss.threshold", path, limits, whole="")
        return path, limits, main
    links = _least(trials, "link_rate_mbps", link_rate_mbps)
    narrowest = _least(trials, "member_link_rate_mbps", links)
    limits = line_limits(main_payload(trials), narrowest)
    # In a trial of a second a queue takes in what a narrow link does not carry: where loss begins
    # then lies above the line's rate, for both configurations alike.
    beyond = dict.fromkeys(limits) if question == BOTTLENECK else limits
    path = _offered(loss_to_socket(trials))
    _thresholds(results, f"loss.{question}", path, beyond, whole=".end_to_end", digits=1)
    return path, limits, main


def _clean_and_line(
    results: Results, name: str, path: pd.DataFrame, limits: dict[str, float | None]
) -> None:
    """Add the highest load at which nothing was lost, and what the line carries."""
    for configuration in CONFIGURATIONS:
        group = path[path["configuration"] == configuration]
        add_highest_clean(results, f"{name}.highest_clean.{configuration}.mbps", group)
        results.value(
            f"{name}.line_limit.{configuration}.mbps",
            limits[configuration],
            [],
            unit="Mb/s",
            digits=1,
            method="payload rate of the line, arithmetic",
        )


def _to_socket(results: Results, path: pd.DataFrame, limits: dict[str, float | None]) -> None:
    """Add the thresholds, and the highest loads without loss, of the path to the socket."""
    lossy = path["loss_percent"] > 0
    _compared(results, "loss.threshold.socket", path, lossy, ceilings(limits), digits=0)
    for configuration in CONFIGURATIONS:
        group = path[path["configuration"] == configuration]
        add_highest_clean(results, f"loss.highest_clean.socket.{configuration}.mbps", group)


def _limit(
    results: Results, question: str, trials: pd.DataFrame, link_rate_mbps: float | None
) -> None:
    """Add what the path carries to a program that can wait, and where the rest was lost."""
    name, names = f"loss.{question}", trials["trial"]
    links = _least(trials, "link_rate_mbps", link_rate_mbps)
    path, limits, _ = add_thresholds(results, question, trials, link_rate_mbps)
    _clean_and_line(results, name, path, limits)
    ratio = limits["frer"] / limits["control"] if limits["frer"] and limits["control"] else None
    results.value(f"{name}.line_limit.ratio", ratio, [], digits=4, method="arithmetic: the R-TAG")
    for key, counts in (("lost", path["lost"]), ("network_lost", loss_locations(path)["switches"])):
        lost = int(counts.sum()) if len(counts) and counts.notna().all() else None
        results.value(f"{name}.{key}.total.count", lost, path["trial"])
    shared_buffer(results, f"{name}.receive_buffer.mb", trials)
    results.value(
        f"{name}.link_rate_mbps", links, names, unit="Mb/s", digits=0, method="configuration"
    )
    rates = trials.assign(member=column_of(trials, "member_link_rate_mbps"))
    shared(results, f"{name}.member_link_rate_mbps", rates, "member", "Mb/s")
    shared(results, f"{name}.duration_s", trials, "duration_s", "s")
    shared(results, f"{name}.payload_bytes", trials, "payload_bytes", "bytes")
    results.value(f"{name}.trials.count", len(trials), names)


def _paths(results: Results, trials: pd.DataFrame, link_rate_mbps: float | None) -> None:
    """Add what FRER carries over different numbers of member paths."""
    links = _least(trials, "link_rate_mbps", link_rate_mbps)
    member_paths.add(
        results,
        _offered(loss_to_socket(trials)),
        _least(trials, "member_link_rate_mbps", links),
        margin_percent=MARGIN_PERCENT,
        same_load_percent=SAME_LOAD_PERCENT,
    )


def _least(trials: pd.DataFrame, name: str, otherwise: float | None) -> float | None:
    """Return the least of a column's values, ``otherwise`` where it has none."""
    least = column_of(trials, name).min()
    return otherwise if pd.isna(least) else float(least)


def add_highest_clean(results: Results, key: str, trials: pd.DataFrame) -> None:
    """Add the highest load at which nothing was lost, of one configuration's trials."""
    results.value(
        key,
        highest_clean_mbps(trials) if len(trials) else None,
        trials["trial"],
        unit="Mb/s",
        method="offered at the highest load at and below which no trial lost a datagram",
    )


def highest_clean_mbps(trials: pd.DataFrame) -> float | None:
    """Return the load offered at the highest target at and below which no trial lost a datagram."""
    targets = target_mbps(trials)
    clean = highest_rate_without_loss(targets, trials["loss_percent"] > 0)
    # What a generator did not reach is not credited.
    return None if clean is None else float(load_mbps(trials)[targets == clean].mean())


def _compared(
    results: Results,
    name: str,
    trials: pd.DataFrame,
    lossy: pd.Series,
    highest: dict[str, float],
    *,
    digits: int,
) -> None:
    """Add both thresholds, their ratio and difference, and the verdict."""
    swept = sweeps(trials, lossy)
    alone = {
        configuration: threshold(own, ceiling=highest[configuration]) if own else unknown("Mb/s")
        for configuration, own in swept.items()
    }
    for configuration, found in alone.items():
        names = trials.loc[trials["configuration"] == configuration, "trial"]
        results.estimate(f"{name}.{configuration}.mbps", found, digits, names)
    ratio = gap = unknown(why="a configuration was not measured")
    if compared := frer_against_control(swept, highest):
        ratio, gap = compared.ratio, compared.difference
    results.estimate(f"{name}.ratio", ratio, digits + 2, trials["trial"])
    gap = replace(gap, unit="Mb/s")
    results.estimate(f"{name}.difference.mbps", gap, digits, trials["trial"])
    method = f"where the ratio's limits lie; equivalent within {MARGIN_PERCENT:g} %"
    method += _direction_not_shown(alone["control"])
    verdict = _verdict(ratio)
    results.value(f"{name}.verdict", verdict, trials["trial"], method=method)
    scatter = _scatter(ratio, swept)
    add_power(results, name, scatter, trials["trial"], percent=MARGIN_PERCENT)


def _direction_not_shown(control: Estimate) -> str:
    """Return which verdict the loads tried cannot give, empty where they can give each.

    Loads show no configuration above another whose own limits reach above all of them.
    """
    if not (math.isnan(control.value) and control.decides):
        return ""
    word, side = ("FRER", "above") if math.isfinite(control.low) else ("control", "below")
    return f"; {word} higher cannot be shown: control's limits reach {side} the loads tried"


def _scatter(ratio: Estimate, swept: dict[str, list[Sweep]]) -> Scatter | None:
    """Return the scatter of a ratio of thresholds, None where no load shows what would be found.

    A threshold above all loads is not located, however large the effect.
    """
    scatter = scatter_of_ratio(ratio, ratio.n)
    if scatter is None:
        return None
    highest = max(float(np.max(sweep.rates)) for own in swept.values() for sweep in own)
    found = 1 + smallest_change_found(scatter, SIGNIFICANCE) / 100
    return scatter if threshold(swept["control"]).value * found < highest else None


def _verdict(ratio: Estimate) -> str:
    if not ratio.decides:
        return "cannot tell"
    margin = 1 + MARGIN_PERCENT / 100
    if 1 / margin <= ratio.low and ratio.high <= margin:
        return "equivalent"
    if ratio.low > 1 or ratio.high < 1:
        return "frer higher" if ratio.low > 1 else "control higher"
    return "cannot tell"


def _frame_size(results: Results, name: str, trials: pd.DataFrame) -> None:
    """Add the loss of one payload at the highest load that both configurations were offered."""
    trials = loss_to_program(trials)
    of, apart = _at_equal_load(trials)
    target = target_mbps(of["control"] if len(of["control"]) else of["frer"])
    highest = float(target.max()) if len(target) else None
    both = pd.concat([group["trial"] for group in of.values()])
    results.value(f"{name}.target_mbps", highest, both, unit="Mb/s", method="configuration")
    for configuration, group in of.items():
        lost = loss(group, "loss_percent")
        results.estimate(f"{name}.{configuration}.percent", lost, 3, group["trial"])
        offered = mean(group, "offered_mbps", "Mb/s")
        results.estimate(f"{name}.{configuration}.offered_mbps", offered, 1, group["trial"])
    change = unknown("percentage points", apart)
    if not apart:
        change = difference(of["frer"], of["control"], "loss_percent", change.unit)
    results.estimate(f"{name}.difference.percent", change, 3, both)


def _frame_threshold(
    results: Results, frame: int, trials: pd.DataFrame, link_rate_mbps: float | None
) -> None:
    """Add the threshold of one payload, as a rate of frames, or on which side of its loads it is.

    Small frames are tried at a load or two, all of which a program may lose at, or none.
    """
    path, payload = _offered(loss_to_program(trials)), trials["payload_bytes"].max()
    swept = sweeps(path, path["loss_percent"] > 0)
    for configuration, own in swept.items():
        found = unknown("Mb/s")
        if own:
            highest = ceilings(line_limits(int(payload), link_rate_mbps))[configuration]
            found = threshold(own, ceiling=highest).scaled(frame / float(payload), "Mb/s")
        names = path.loc[path["configuration"] == configuration, "trial"]
        key = f"loss.frame_{frame}.threshold.{configuration}.frame_mbps"
        results.estimate(key, found, 1, names)


def _at_equal_load(trials: pd.DataFrame) -> tuple[dict[str, pd.DataFrame], str]:
    """Return the trials at the highest load offered alike, or at the highest each, and why."""
    groups: dict[str, list[pd.DataFrame]] = {}
    for configuration in CONFIGURATIONS:
        chosen = trials[trials["configuration"] == configuration]
        # Highest load first.
        by_target = [group for _, group in chosen.groupby(target_mbps(chosen))][::-1]
        groups[configuration] = by_target
    nothing = trials.iloc[:0]
    most = {c: of_it[0] if of_it else nothing for c, of_it in groups.items()}
    if not all(groups.values()):
        return most, "a configuration was not measured"
    for control in groups["control"]:
        for frer in groups["frer"]:
            loads = load_mbps(control).mean(), load_mbps(frer).mean()
            if abs(loads[1] / loads[0] - 1) <= SAME_LOAD_PERCENT / 100:
                return {"control": control, "frer": frer}, ""
    loads = " and ".join(f"{load_mbps(most[c]).mean():.1f}" for c in CONFIGURATIONS)
    return most, f"offered loads of {loads} Mb/s are not compared"


def _shares(results: Results, trials: pd.DataFrame) -> None:
    """Add the share of each place in what was lost on the path to the socket."""
    trials = loss_to_socket(trials)
    groups = {"": trials} | {f".{c}": trials[trials["configuration"] == c] for c in CONFIGURATIONS}
    for suffix, group in groups.items():
        counted = loss_locations(group)
        # A share of all losses is known only where every trial has where it lost.
        lost = int(group["lost"].sum()) if counted.notna().all(axis=None) else 0
        counts = counted.sum()
        for place in ("listener_socket", "talker", "switches", "other"):
            share = 100 * float(counts[place]) / lost if lost else None
            results.value(
                f"loss.share.{place}{suffix}.percent",
                share,
                group["trial"],
                unit="%",
                digits=2,
                method="share of all datagrams that were lost and not unread",
            )


def _totals(results: Results, trials: pd.DataFrame) -> None:
    sweep = trials_of_objective(trials, SWEEP)
    path = loss_to_program(sweep)
    for name, of in (("lost", path), ("sent", trials), ("eliminated", trials)):
        counted = known(of, name)
        results.value(f"loss.{name}.total.count", total(counted, name), counted["trial"])
    arriving = known(loss_to_socket(sweep), "lost")
    results.value(
        "loss.socket_lost.total.count",
        total(arriving, "lost"),
        arriving["trial"],
        method="lost, without those that were in the socket, unread, when the program closed it",
    )
    _unread(results, "loss", path)
    counted = known(trials, "unaccounted")
    unaccounted = total(counted.assign(unaccounted=counted["unaccounted"].abs()), "unaccounted")
    results.value("loss.unaccounted.total.count", unaccounted, counted["trial"])
    untraced = recorded(trials, "untraced")
    results.value("loss.untraced.total.count", total(untraced, "untraced"), untraced["trial"])
    results.value("loss.trials.count", len(trials), trials["trial"])
    main = sweep[sweep["payload_bytes"] == main_payload(sweep)]
    shared(results, "loss.duration_s", main, "duration_s", "s")
    shared(results, "loss.payload_bytes", main, "payload_bytes", "bytes")


def _unread(results: Results, name: str, trials: pd.DataFrame) -> None:
    """Add how many datagrams were in the socket when the program closed it, in how many trials."""
    unread = recorded(trials, UNREAD)
    results.value(f"{name}.unread.total.count", total(unread, UNREAD), unread["trial"])
    lossy = int((unread[UNREAD] > 0).sum()) if len(unread) else None
    method = "trials with a datagram that was unread when the program closed its socket"
    results.value(f"{name}.unread.trials.count", lossy, unread["trial"], method=method)
