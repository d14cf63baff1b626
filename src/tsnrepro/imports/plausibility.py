"""Plausibility of imported numbers: rates against counts and link rate, statistics in themselves.

Each check returns a description of the contradiction; numbers that are only unusual pass.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from tsnrepro.common.ethernet import payload_limit_mbps, tcp_limit_mbps
from tsnrepro.records.columns import QUANTILES, STATISTICS

Numbers = Mapping[str, float]

# Two values of one rate may differ by clocks, rounding and the ends of a test.
_AGREEMENT = 1.25
_LINE_MARGIN = 1.05
# A talker may miss its target, and a target may exceed the link rate, but not by this factor.
_TARGET_FACTOR = 100
_LOSS_POINTS = 2.0
# Rates that are all below this share of the link rate are taken to be in another unit.
_SHARE_OF_LINE = 1 / 500
# Measured ratios of a mean to an extreme vary by percents from row to row.
_RATIO_SPREAD = 1e-3
_ROWS_TO_COMPARE = 3
# Means that differ by this factor have different quantiles.
_MEAN_FACTOR = 1.2
_COUNTS = ("sent", "received", "observations")
_RATES = ("offered_mbps", "delivered_mbps", "goodput_mbps", "sent_mbps")
_COUNTER_ENDS = {2**bits - 1 for bits in (31, 32, 63, 64)} | {-(2**31), -(2**63)}
# As a double, which has no more digits.
_COUNTER_ENDS |= {2**63, 2**64}
# A test ends some time after its duration, and a stalled one even later.
_DURATION_SLACK_S = 1.0
# No packet is on its way for an hour, and no clock has run for less since 1970.
_LONGEST_LATENCY_US = 3.6e9


def overflowed(count: float) -> bool:
    """Return whether a count is where a counter of 32 or 64 bits ends."""
    return count in _COUNTER_ENDS


def wrong_latency(latency_us: float) -> str | None:
    """Return why a latency is none, or None."""
    if abs(latency_us) < _LONGEST_LATENCY_US:
        return None
    return f"a latency of {latency_us / 1e6:.4g} s is a time of day, or a difference of two clocks"


def wrong_rates(row: Numbers, link_mbps: float | None) -> Iterator[str]:
    """Yield contradictions of a row's rates to its counts, times, loss and link rate.

    Parameters
    ----------
    row
        Columns of one trial of ``loss`` or ``tcp``, in their units; rates are payload rates.
    link_mbps
        The link rate, if known.
    """
    yield from _wrong_counts(row)
    yield from _wrong_duration(row)
    seconds = row.get("send_seconds") or row.get("duration_s")
    receiving = row.get("receive_seconds") or seconds
    payload, offered, delivered = map(row.get, ("payload_bytes", "offered_mbps", "delivered_mbps"))
    counts = ("offered_mbps", "sent", seconds), ("delivered_mbps", "received", receiving)
    for rate, count, spent in counts:
        if spent and payload and row.get(rate) and row.get(count):
            counted = row[count] * payload * 8 / spent / 1e6
            ratio = counted / row[rate]
            if not 1 / _AGREEMENT < ratio < _AGREEMENT:
                yield (
                    f"{rate} is {row[rate]:.4g} Mb/s, but {row[count]:g} datagrams of "
                    f"{payload:g} bytes in {spent:.4g} s are {counted:.4g} Mb/s, {_times(ratio)}"
                )
    for more, rate in (("offered_mbps", "delivered_mbps"), ("sent_mbps", "goodput_mbps")):
        if row.get(more) and row.get(rate, 0) > _AGREEMENT * row[more]:
            yield f"{rate} is {row[rate]:.4g} Mb/s, {more} only {row[more]:.4g} Mb/s"
    target = row.get("target_mbps")
    if target and offered and not 1 / _TARGET_FACTOR < offered / target < _TARGET_FACTOR:
        yield f"offered_mbps is {offered:.4g} Mb/s at a target of {target:.4g} Mb/s"
    loss = row.get("loss_percent")
    if loss is not None and offered and delivered is not None and delivered <= offered:
        implied = 100 * (1 - delivered / offered)
        if abs(implied - loss) > _LOSS_POINTS + 0.25 * max(implied, loss):
            yield (
                f"loss_percent is {loss:.4g} %, but {delivered:.4g} of {offered:.4g} Mb/s "
                f"delivered are a loss of {implied:.4g} %"
            )
    if link_mbps:
        yield from _beyond_line(row, link_mbps)


def _wrong_counts(row: Numbers) -> Iterator[str]:
    for name in (*_COUNTS, "lost", "out_of_order", "retransmits"):
        if overflowed(row.get(name, 0)):
            yield f"{name} is {row[name]:.0f}: its counter overflowed"


def _wrong_duration(row: Numbers) -> Iterator[str]:
    duration = row.get("duration_s")
    for name in ("send_seconds", "seconds", "valid_seconds"):
        lasted = row.get(name)
        if not duration or not lasted:
            continue
        # A log of latencies lacks the time before its first and after its last packet.
        least = 0 if name == "valid_seconds" else duration / _AGREEMENT - _DURATION_SLACK_S
        if not least <= lasted <= duration * _AGREEMENT + _DURATION_SLACK_S:
            yield f"{name} is {lasted:.4g} s in a test of {duration:.4g} s"


def _times(ratio: float) -> str:
    return f"{ratio:.3g} times as much" if ratio > 1 else f"1/{1 / ratio:.3g} of it"


def _beyond_line(row: Numbers, link_mbps: float) -> Iterator[str]:
    goodput, payload = row.get("goodput_mbps"), row.get("payload_bytes")
    if goodput and goodput > _LINE_MARGIN * tcp_limit_mbps(rate_mbps=link_mbps):
        yield f"goodput_mbps is {goodput:.4g} Mb/s on a line of {link_mbps:g} Mb/s"
    if not payload:
        return
    limit = payload_limit_mbps(int(payload), rate_mbps=link_mbps)
    arrived = {"delivered_mbps": row.get("delivered_mbps", 0)}
    if row.get("offered_mbps") and "loss_percent" in row:
        share = 1 - row["loss_percent"] / 100
        arrived["offered_mbps less loss_percent"] = row["offered_mbps"] * share
    for name, rate in arrived.items():
        if rate > _LINE_MARGIN * limit:
            yield (
                f"{name} is {rate:.4g} Mb/s, but a line of {link_mbps:g} Mb/s carries "
                f"{limit:.4g} Mb/s of payloads of {payload:g} bytes"
            )


def wrong_rates_of_all(rows: Sequence[Numbers], link_mbps: float | None) -> str | None:
    """Return why the rates of a file seem to be in another unit than stated, or None."""
    rates = [row[name] for row in rows for name in _RATES if row.get(name)]
    if link_mbps and rates and max(rates) < link_mbps * _SHARE_OF_LINE:
        return f"its highest rate is {max(rates):.4g} Mb/s on a line of {link_mbps:g} Mb/s"
    return None


def wrong_statistics(row: Numbers, digits: Mapping[str, float]) -> Iterator[str]:
    """Yield contradictions within a row's statistics of latency.

    Quantiles are in order and between the extremes; the mean is within the limits set by the
    quantiles; the standard deviation is at most what mean and extremes allow (Bhatia and Davis,
    American Mathematical Monthly 107(4), 2000), and no quantile is further from the mean than it
    allows (Cantelli's inequality).

    Parameters
    ----------
    row
        Columns of one trial, in their units.
    digits
        Unit in the last place by column, in its unit.
    """
    order = [name for name in ("min_us", *QUANTILES, "max_us") if name in row]
    for name in ("mean_us", *order):
        if wrong := wrong_latency(row.get(name, 0)):
            yield f"{name}: {wrong}"
    yield from _wrong_counts(row)
    yield from _wrong_duration(row)
    for low, high in pairwise(order):
        if row[low] > row[high] + _slack(digits, low, high):
            yield f"{low} {row[low]:g} is above {high} {row[high]:g}"
    mean, sd = row.get("mean_us"), row.get("sd_us")
    if mean is None:
        return
    least, most = _limits_of_mean(row)
    if mean < 0.99 * least - _slack(digits, "mean_us", *order):
        yield f"mean_us {mean:g} is below {least:.6g}, the least that its quantiles allow"
    if mean > 1.01 * most + _slack(digits, "mean_us", *order):
        yield f"mean_us {mean:g} is above {most:.6g}, the most that its quantiles allow"
    if sd is not None:
        yield from _wrong_deviation(row, mean, sd, digits)
    seconds = row.get("duration_s") or row.get("valid_seconds")
    if seconds and mean > 2e6 * seconds:
        yield f"mean_us is {mean:g}, longer than the test of {seconds:g} s"


def _slack(digits: Mapping[str, float], *names: str) -> float:
    return sum(0.6 * digits.get(name, 0.002) for name in names)


def _limits_of_mean(row: Numbers) -> tuple[float, float]:
    steps = [(share, row[name]) for name, share in QUANTILES.items() if name in row]
    least, most, before, value = 0.0, 0.0, 0.0, row.get("min_us", 0.0)
    for share, quantile in [*steps, (1.0, row.get("max_us", math.inf))]:
        least += (share - before) * value
        most += (share - before) * quantile
        before, value = share, quantile
    return least, most


def _wrong_deviation(
    row: Numbers, mean: float, sd: float, digits: Mapping[str, float]
) -> Iterator[str]:
    n = row.get("observations", 2)
    slack = _slack(digits, "sd_us", "mean_us", "min_us", "max_us")
    if "min_us" in row and "max_us" in row and n > 1:
        low, high = row["min_us"], row["max_us"]
        most = math.sqrt(max((high - mean) * (mean - low), 0) * n / (n - 1))
        if sd > 1.01 * most + 2 * slack + math.sqrt(slack * (high - low)):
            yield f"sd_us {sd:g} is above {most:.6g}, the most that mean and extremes allow"
        if not sd and high - low > slack:
            yield f"sd_us is 0, although the observations reach from {low:g} to {high:g} us"
    for name, share in QUANTILES.items():
        if name in row:
            reach = math.sqrt(share / (1 - share) if row[name] > mean else (1 - share) / share)
            if abs(row[name] - mean) > 1.01 * sd * reach + (1 + reach) * slack:
                yield f"{name} {row[name]:g} is too far from mean_us {mean:g} for sd_us {sd:g}"


def zeros_against_counts(rows: Sequence[Numbers]) -> str | None:
    """Return the contradiction in rows whose rates and times are all zero, or None."""
    results = [row[name] for row in rows for name in (*_RATES, *STATISTICS) if name in row]
    if not results or any(results):
        return None
    total = {name: sum(row.get(name, 0) for row in rows) for name in _COUNTS}
    counted = [f"{name} {number:g}" for name, number in total.items() if number]
    although = f", although it counts {', '.join(counted)}" if counted else ""
    return f"every rate and time in it is zero{although}"


def computed_statistics(rows: Sequence[Numbers]) -> list[str]:
    """Return the statistics of a file that were computed and not measured.

    These are the same multiple of the mean in every row (half, twice, a tenth), or the same number
    in every row although the means differ. Measured extremes, quantiles and standard deviations
    are neither; only a minimum may be constant.
    """
    found = []
    for name in STATISTICS[1:]:
        pairs = [(row["mean_us"], row[name]) for row in rows if row.get("mean_us") and name in row]
        means = [mean for mean, _ in pairs]
        if len(set(means)) < _ROWS_TO_COMPARE:
            continue
        ratios = [value / mean for mean, value in pairs]
        middle = sum(ratios) / len(ratios)
        spread = math.sqrt(sum((r - middle) ** 2 for r in ratios) / (len(ratios) - 1))
        if spread < _RATIO_SPREAD * max(middle, 1e-12):
            found.append(f"{name} is {middle:.4g} x mean_us in all {len(pairs)} rows")
        elif (
            len({value for _, value in pairs}) == 1
            and name != "min_us"
            and max(means) > _MEAN_FACTOR * min(means)
        ):
            found.append(
                f"{name} is {pairs[0][1]:g} in all {len(pairs)} rows, "
                f"with means from {min(means):g} to {max(means):g}"
            )
    return found


def against_log(row: Numbers, log: Numbers, digits: Mapping[str, float]) -> Iterator[str]:
    """Yield contradictions of a summary to its observations."""
    if "observations" in row and row["observations"] != log["observations"]:
        yield f"its log holds {log['observations']:g} of {row['observations']:g} observations"
        return
    # Quantiles have many definitions; these three have one.
    for name in ("mean_us", "min_us", "max_us"):
        if name in row and abs(row[name] - log[name]) > 0.005 * log[name] + _slack(digits, name):
            yield f"{name} is {row[name]:g} in the summary and {log[name]:.6g} in the log"
