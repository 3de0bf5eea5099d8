"""Rows of a benchmark, as the crates print them."""

import json
import sys


def row(name, value, unit, baseline, baseline_value, what):
    ratio = value / baseline_value if baseline_value else 1.0
    return dict(name=name, value=value, unit=unit, baseline=baseline,
                baseline_value=baseline_value, ratio=ratio, what=what)


def show(rows, as_json):
    """One table with the ratios, or JSON."""
    if as_json:
        json.dump(rows, sys.stdout, indent=1)
        print()
        return
    for r in rows:
        print(f"{r['name']:44} {r['value']:12.3f} {r['unit']:3} {r['baseline_value']:12.3f} "
              f"{r['ratio']:10.6f}  {r['what']}")
