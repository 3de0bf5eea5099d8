"""Accuracy over seconds, as SVG."""
from __future__ import annotations

import pathlib
from typing import Mapping, Sequence

from federation.curves import TARGETS

COLOURS = {"one after another": "#7f7f7f", "100 % each, batch 32": "#1f77b4", "100 % each": "#1f77b4",
           "plan by samples": "#d62728", "plan by progress": "#2ca02c"}
DRAWN = 2
"""Mixes with a picture: the first one with each split."""


def draw(results: Mapping, into: pathlib.Path) -> list[tuple[str, str]]:
    """Writes the pictures; returns their file names and titles."""
    import matplotlib

    matplotlib.use("svg")
    # Deterministic output, and text instead of outlines, which keeps files small.
    matplotlib.rcParams.update({"svg.hashsalt": "federation", "svg.fonttype": "none"})
    drawn = []
    for k, row in enumerate(results["rows"][:DRAWN]):
        title = f"Accuracy over simulated seconds: {row['mix']}, seed 1"
        _picture(into / f"virtual-{k}.svg", row["points"], title)
        drawn.append((f"virtual-{k}.svg", title))
    title = "Accuracy over seconds, live, seed 1"
    if not results["live"]:
        # The picture of the last live part is beside the committed page.
        return [*drawn, ("live.svg", title)] if results["live_before"][0] else drawn
    _picture(into / "live.svg", {r["scheme"]: r["points"] for r in reversed(results["live"])}, title)
    return [*drawn, ("live.svg", title)]


def _picture(path: pathlib.Path, schemes: Mapping[str, Mapping[str, Sequence]], title: str) -> None:
    from matplotlib import pyplot

    tasks = list(next(iter(schemes.values())))
    figure, axes = pyplot.subplots(1, len(tasks), figsize=(4 * len(tasks), 3.4), sharex=True, layout="constrained")
    longest = _reach(schemes)
    for axis, task in zip(axes, tasks):
        for name, of in schemes.items():
            points = [(0.0, 0.0), *of[task]] if of[task] and of[task][0][0] > 0 else of[task]
            axis.plot([t for t, _ in points], [100 * a for _, a in points], label=name, color=COLOURS[name],
                      linewidth=1.4, marker="o", markersize=2.5)
        target = 100 * TARGETS[task]
        axis.axhline(target, color="black", linewidth=0.7, linestyle=":")
        axis.set(title=f"{task}, target {target:g} %", xlabel="seconds", ylim=(target - 25, target + 3),
                 xlim=(0, longest))
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("test accuracy, %")
    axes[0].legend(fontsize=8, loc="lower right")
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _reach(schemes: Mapping[str, Mapping[str, Sequence]]) -> float:
    """The end of the axis: the slowest scheme, but at most three times the second slowest."""
    ends = sorted(max(of[t][-1][0] for t in of) for of in schemes.values())
    return 1.02 * min(ends[-1], 3 * ends[-2])
