"""Tests of reading documents; those of tables need mt-report on PATH."""

import io
import os
import pathlib
import shutil
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from mt_tools import documents  # noqa: E402

PROFILE = """{"schema":"mt.profile/1","record":"header","workload":{"schema":"mt.workload/1","device":{"kind":"sim"},\
"tasks":[{"id":"a","model":"resnet18","batch_sizes":[64]}]},"device":{"kind":"sim","name":"rtx-3090","simulated":true,\
"units":82},"design":"adaptive","seed":1,"provenance":[{"tool":"mt-profile","version":"0.1.0","seed":1}]}
{"schema":"mt.profile/1","record":"sample","config":0,"tasks":[{"id":"a","batch":64,"share_percent":100.0,\
"samples_per_s":123.5}],"window_s":0.1,"repeats":1}
"""


class Documents(unittest.TestCase):
    def test_one_document_over_lines_and_one_a_line_are_read(self):
        found = documents.read(io.StringIO('\n{\n "schema": "mt.plan/1"\n}\n{"schema":"mt.run/1"} {"schema":"mt.run/1"}\n'))
        self.assertEqual([d["schema"] for d in found], ["mt.plan/1", "mt.run/1", "mt.run/1"])
        self.assertEqual(documents.read(io.StringIO(" \n")), [])

    def test_a_file_is_read_with_its_byte_order_mark(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "w.json")
            path.write_text('\ufeff{"schema":"mt.workload/1"}', encoding="utf-8")
            self.assertEqual(documents.read(path), [{"schema": "mt.workload/1"}])

    def test_what_is_no_document_is_told_with_file_and_line(self):
        for text, said in (('{"schema":"mt.plan/1"}\n{"schema"', "input:2: "),
                           ('{"schema":"mt.plan/1"}\n[1]', "input:2: not a document"),
                           ('{"a":1}', "input:1: not a document")):
            with self.assertRaises(ValueError) as raised:
                documents.read(io.StringIO(text))
            self.assertTrue(str(raised.exception).startswith(said), raised.exception)

    def test_many_records_are_read_in_time_that_grows_with_their_number(self):
        # 8 MB: copying the rest of the text at every record would move 160 GB.
        line = '{"schema":"mt.run/1","event":"progress","time_s":1.5,"fill":"' + "x" * 330 + '"}\n'
        self.assertEqual(len(documents.read(io.StringIO(line * 20_000))), 20_000)

    def test_a_missing_program_is_named(self):
        with mock.patch.dict(os.environ, {"PATH": "/nowhere"}):
            with self.assertRaisesRegex(documents.ToolNotFoundError, "mt-report is not on PATH: install"):
                documents.table("samples", "p.ndjson")

    @unittest.skipUnless(shutil.which("mt-report"), "mt-report is not on PATH")
    def test_tables_are_those_of_mt_report(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "p.ndjson")
            path.write_text(PROFILE)
            row = documents.table("samples", path)[0]
            self.assertEqual((row["task"], row["batch"], row["throughput"], row["stderr"], row["simulated"]),
                             ("a", 64, 123.5, None, True))
            self.assertIs(type(row["batch"]), int)
            with self.assertRaisesRegex(ValueError, "nothing.*samples"):
                documents.table("nothing", path)
            try:
                import pandas  # noqa: F401
            except ImportError:
                return
            self.assertEqual(documents.frame("samples", path).throughput.tolist(), [123.5])


if __name__ == "__main__":
    unittest.main()
