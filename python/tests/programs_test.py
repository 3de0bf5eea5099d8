"""Tests of where the wheel takes its programs from, with a stand-in for Hatchling."""

import importlib.util
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

PYTHON = pathlib.Path(__file__).resolve().parents[1]


def hook():
    """The module of the hook."""
    interface = types.ModuleType("interface")
    interface.BuildHookInterface = object
    names = ["hatchling", "hatchling.builders", "hatchling.builders.hooks", "hatchling.builders.hooks.plugin"]
    modules = {name: types.ModuleType(name) for name in names}
    modules["hatchling.builders.hooks.plugin.interface"] = interface
    with mock.patch.dict(sys.modules, modules):
        spec = importlib.util.spec_from_file_location("programs", PYTHON / "programs.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


class Programs(unittest.TestCase):
    def wheel(self, tools):
        """What a wheel gets, from a folder that has `tools`."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for tool in ("mt", "mt-fit"):
                (root / "tools" / tool).mkdir(parents=True)
            (root / "built").mkdir()
            for tool in tools:
                (root / "built" / tool).write_text("#!/bin/sh\necho page\n")
                (root / "built" / tool).chmod(0o755)
            programs = hook().Programs()
            programs.root = folder
            data = {"shared_scripts": {}, "shared_data": {}}
            with mock.patch.dict(os.environ, {"MT_TOOLS_PROGRAMS": str(root / "built"), "CARGO": "/no/cargo"}):
                programs.initialize("0", data)
            self.assertEqual((root / "target/wheels/man/mt.1").read_text(), "page\n")
            return data

    def test_programs_that_are_built_already_are_taken(self):
        data = self.wheel(["mt", "mt-fit"])
        self.assertEqual(sorted(data["shared_scripts"].values()), ["mt", "mt-fit"])

    def test_one_that_is_missing_is_named(self):
        with self.assertRaisesRegex(RuntimeError, "has no program mt-fit: run `make build`, or unset MT_TOOLS_PROGRAMS"):
            self.wheel(["mt"])


if __name__ == "__main__":
    unittest.main()
