"""Tests of where the wheel gets its programs from, with a stand-in for Hatchling."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
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
        """Contents of a wheel that is built from a folder with `tools`."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for tool in ("mt", "mt-fit"):
                (root / "tools" / tool).mkdir(parents=True)
            (root / "built").mkdir()
            for tool in tools:
                (root / "built" / tool).write_text('#!/bin/sh\necho "page of $*"\n')
                (root / "built" / tool).chmod(0o755)
            programs = hook().Programs()
            programs.root = folder
            data = {"shared_scripts": {}, "shared_data": {}}
            with mock.patch.dict(os.environ, {"MT_TOOLS_PROGRAMS": str(root / "built"), "CARGO": "/no/cargo"}):
                programs.initialize("0", data)
            self.assertEqual((root / "target/wheels/man/mt.1").read_text(), "page of --man\n")
            self.assertTrue((root / "target/wheels/man/mt-fit.1").is_file())
            # Side by side, as an installer puts them, and behind a link elsewhere.
            (root / "bin").mkdir()
            for source, tool in data["shared_scripts"].items():
                shutil.copy(source, root / "bin" / tool)
            (root / "link").symlink_to(root / "bin/mt-fit")
            for called in ("bin/mt-fit", "link"):
                said = subprocess.run([root / called, "-x", "--", "a b"], check=True, capture_output=True, text=True)
                self.assertEqual(said.stdout, "page of mt-fit -x -- a b\n")
            return data

    def test_a_program_that_is_built_already_is_taken_and_has_every_name(self):
        data = self.wheel(["mt"])
        self.assertEqual(sorted(data["shared_scripts"].values()), ["mt", "mt-fit"])

    def test_one_that_is_missing_is_named(self):
        with self.assertRaisesRegex(RuntimeError, "has no program mt: run `make build`, or unset MT_TOOLS_PROGRAMS"):
            self.wheel(["mt-fit"])


if __name__ == "__main__":
    unittest.main()
