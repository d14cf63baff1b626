"""Where a paper, its sentences, the claims' verdicts and the results of a campaign disagree.

python tests/one_answer.py results/papers/quick quick
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import tsnrepro
from tsnrepro.common.repository import root
from tsnrepro.config.papers import sources_of
from tsnrepro.papers.assertions import read_assertions
from tsnrepro.published.claims import Verdict, judge, load_claims
from tsnrepro.published.documents import catalog
from tsnrepro.published.measured_runs import load_measured_runs


def disagreements(
    papers: Path, campaign: str, experiments: Iterable[str] | None = None
) -> list[str]:
    """Return what two places say differently, of all papers in a folder.

    ``experiments``: those that the papers were made of; by default all that were measured.
    """
    results = papers.parents[1]
    measured = tsnrepro.load(campaign, results)
    chosen = {*(experiments or measured.testbeds)}
    folders = {
        name: results / testbed / campaign / name
        for name, testbed in measured.testbeds.items()
        if name in chosen
    }
    claims = [
        claim for claim in load_claims(root() / "data/published/claims.yaml") if claim.measured
    ]
    judged = judge(claims, campaign, catalog(), load_measured_runs(folders))
    values = measured.values
    loaded = values[values["experiment"].isin(chosen)].to_dict("index")
    return [
        f"{paper.name}: {text}"
        for paper in sorted(path.parent for path in papers.glob("*/provenance.json"))
        for text in _of_paper(paper, loaded, judged)
    ]


def _of_paper(paper: Path, loaded: dict, judged: list) -> Iterator[str]:
    record = json.loads((paper / "provenance.json").read_text(encoding="utf-8"))
    printed = {item["key"]: item["value"] for item in record["measured"]}
    for key, value in printed.items():
        if key in loaded:
            yield from _differ(f"{key}, printed and loaded", value, loaded[key]["value"])
    text = (paper / "verdicts.tex").read_text(encoding="utf-8")
    verdicts = dict(re.findall(r"tsnrepro@verdict@([\w-]+)\}\{([^{}]*)\}", text))
    carried = {one.condition: one.carried for one in read_assertions(paper)}
    for one in judged:
        claim = one.claim
        if claim.document != sources_of(paper.name).document:
            continue
        if claim.id in verdicts:
            what = f"claim {claim.id}, judged and printed"
            yield from _differ(what, one.verdict, verdicts[claim.id])
        for evidence in one.evidence:
            if evidence.label in printed:
                what = f"claim {claim.id}, {evidence.label}, judged and printed"
                yield from _differ(what, evidence.value, printed[evidence.label])
        if claim.measured in carried:
            supported = one.verdict is Verdict.SUPPORTED
            yield from _differ(
                f"claim {claim.id} and its sentence", supported, carried[claim.measured]
            )


def _differ(what: str, one: object, other: object) -> Iterator[str]:
    if one != other and (one, other) != ("", None):  # limits alone
        yield f"{what}: {one} and {other}"


def main() -> int:
    found = disagreements(Path(sys.argv[1]), sys.argv[2])
    print("\n".join([*found, f"{len(found)} disagreements"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
