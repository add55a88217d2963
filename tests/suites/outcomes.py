"""A plugin of pytest for the suites of other packages: `torch` is flambeau where SUITE_ALIAS says so, SUITE_SAMPLE tests are drawn
by SUITE_SEED, and each outcome goes to the file SUITE_TOLD as a line of JSON: test, outcome, last line of the error."""

import json
import os
import random

if os.environ.get("SUITE_ALIAS"):
    import flambeau

    flambeau.alias_torch()


def pytest_collection_modifyitems(items):
    most = int(os.environ.get("SUITE_SAMPLE") or 0)
    if most:
        chosen = {item.nodeid: random.Random(f"{os.environ.get('SUITE_SEED')} {item.nodeid}").random() for item in items}
        bound = sorted(chosen.values())[:most][-1:]
        items[:] = [item for item in items if bound and chosen[item.nodeid] <= bound[0]]


def told(test, outcome, error=""):
    with open(os.environ["SUITE_TOLD"], "a") as file:
        file.write(json.dumps([test, outcome, error]) + "\n")


def last_line(report):
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else str(report.longrepr)).strip().splitlines()[0][:300] if report.longrepr else ""


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        told(report.nodeid, report.outcome, last_line(report) if report.outcome == "failed" else "")


def pytest_collectreport(report):
    if report.outcome == "failed":
        told(report.nodeid, "failed", last_line(report))
