"""Tests of scripts that are forks of a process which has imported their packages."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = str(pathlib.Path(__file__).resolve().parents[1])

SLOW = "import os, time; time.sleep(1.0); BY = os.getpid()"
SCRIPT = """
import atexit, os, sys
import slow
atexit.register(print, "bye", flush=True)
print(sys.argv[1:], os.getcwd() == os.environ["HERE"], slow.BY == os.getppid(), sys.stdin.read(), flush=True)
sys.exit(int(sys.argv[1]))
"""
SLEEPER = """
import os, time
open("pid", "w").write(str(os.getpid()))
time.sleep(100)
"""


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@unittest.skipUnless(sys.platform == "linux", "forks are for Linux")
class Forks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        for name, text in (("slow.py", SLOW), ("script.py", SCRIPT), ("sleeper.py", SLEEPER)):
            (self.path / name).write_text(text)
        self.env = {**os.environ, "PYTHONPATH": f"{ROOT}:{self.path}", "HERE": str(self.path), "PY": sys.executable,
                    "TMPDIR": str(self.path)}
        self.env.pop("PYTHON_FORKS", None)

    def under(self, shell, *options):
        """Runs shell lines, in which `$PY -m mt_tools.forked` forks."""
        words = [sys.executable, "-m", "mt_tools.forks", *options, "--", "sh", "-c", shell]
        return subprocess.run(words, env=self.env, cwd=self.path, capture_output=True, text=True, timeout=60)

    def wait(self, known):
        until = time.monotonic() + 20
        while not known():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)

    def test_scripts_find_their_imports_done_and_end_as_they_would_alone(self):
        shell = "for i in 3 4 5; do echo in | $PY -m mt_tools.forked script.py $i a; echo $?; done; exit 7"
        run = self.under(shell, "--import", "slow")
        lines = [f"['{i}', 'a'] True True in\n\nbye\n{i}\n" for i in (3, 4, 5)]
        self.assertEqual((run.stdout, run.returncode), ("".join(lines), 7), run.stderr)
        self.assertEqual(list(self.path.glob("mt-forks-*")), [])

    def test_elsewhere_the_script_is_run_here(self):
        words = [sys.executable, "-m", "mt_tools.forked", "script.py", "0"]
        run = subprocess.run(words, env=self.env, cwd=self.path, capture_output=True, text=True, input="in")
        self.assertEqual((run.stdout, run.returncode), ("['0'] True False in\nbye\n", 0), run.stderr)

    def test_a_signal_reaches_the_script_and_a_kill_ends_it(self):
        for number, told in ((15, 143), (9, 137)):
            (self.path / "pid").unlink(missing_ok=True)
            shell = (f"$PY -m mt_tools.forked sleeper.py & until test -s pid; do sleep 0.02; done; "
                     f"kill -{number} $!; wait $!; echo $?; i=0; "
                     "while kill -0 $(cat pid) 2> /dev/null && test $i -lt 200; do sleep 0.05; i=$((i+1)); done")
            run = self.under(shell)
            self.assertEqual(run.stdout, f"{told}\n", run.stderr)
            self.assertFalse(is_alive((self.path / "pid").read_text()))

    def test_nothing_is_left_when_the_command_ends(self):
        self.under("$PY -m mt_tools.forked sleeper.py & until test -s pid; do sleep 0.02; done; exit 0")
        pid = (self.path / "pid").read_text()
        self.wait(lambda: not is_alive(pid))

    def test_what_is_wrong_is_said(self):
        run = self.under("true", "--import", "no_such_package")
        self.assertEqual(run.returncode, 2)
        self.assertIn("--import no_such_package: No module named", run.stderr)
        self.env["PYTHON_FORKS"] = str(self.path / "gone")
        words = [sys.executable, "-m", "mt_tools.forked", "script.py", "0"]
        run = subprocess.run(words, env=self.env, cwd=self.path, capture_output=True, text=True)
        self.assertEqual(run.returncode, 1)
        self.assertIn("is python3 -m mt_tools.forks still running?", run.stderr)


if __name__ == "__main__":
    unittest.main()
