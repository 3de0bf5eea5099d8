"""Documents of mt-tools as plain data.

    plan = documents.read("plan.json")[0]              dictionaries, as in the files
    documents.table("tasks", "plan.json")              rows of a table of mt-report, as dictionaries
    documents.frame("samples", "profile.ndjson")       the same as a pandas.DataFrame
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Dict, List, TextIO, Union

if TYPE_CHECKING:
    import pandas

Source = Union[str, "os.PathLike[str]"]

_SPACE = re.compile(r"\s*")


class ToolNotFoundError(FileNotFoundError):
    """A program of mt-tools is not on PATH."""


def read(source: Union[Source, TextIO] = "-") -> List[Dict[str, Any]]:
    """Every document of a file, of standard input (`-`), or of an open text file, as a list of dictionaries.

    A file may contain one document, or one per line. A ValueError names the file and the line.
    """
    if hasattr(source, "read"):
        return _parse(source.read(), getattr(source, "name", "input"))
    if source == "-":
        return _parse(sys.stdin.read(), "standard input")
    with open(source, encoding="utf-8-sig") as file:
        return _parse(file.read(), os.fspath(source))


def _parse(text, name):
    decoder, found, at = json.JSONDecoder(), [], 0
    while True:
        start = _SPACE.match(text, at).end()
        if start == len(text):
            return found
        try:
            document, at = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            raise ValueError(f"{name}:{error.lineno}: {error.msg}") from None
        if not isinstance(document, dict) or "schema" not in document:
            line = text.count("\n", 0, start) + 1
            raise ValueError(f"{name}:{line}: not a document of mt-tools: it has no `schema`")
        found.append(document)


def table(name: str, *files: Source) -> List[Dict[str, Any]]:
    """The rows of a table of `mt-report --format csv` as dictionaries. Numbers and booleans are converted; an empty
    cell is None.

    The names of tables are those of mt-report. If no document has the table, a ValueError lists those
    that exist.
    """
    rows = csv.DictReader(io.StringIO(_csv(name, files)))
    return [{column: _value(text) for column, text in row.items()} for row in rows]


def _value(text):
    if text in ("", "true", "false"):
        return {"": None, "true": True, "false": False}[text]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text


def frame(name: str, *files: Source) -> pandas.DataFrame:
    """The same table as a `pandas.DataFrame`."""
    import pandas

    return pandas.read_csv(io.StringIO(_csv(name, files)))


def _csv(name, files):
    command = ["mt-report", "--format", "csv", "--table", name, "--", *map(os.fspath, files)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True, capture_output=True)
    except FileNotFoundError:
        raise ToolNotFoundError(
            "mt-report is not on PATH: install the wheel (pip install mt-tools) or the programs (make install)"
        ) from None
    if done.returncode:
        raise ValueError(done.stderr.strip())
    return done.stdout
