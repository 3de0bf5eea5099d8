"""Tests of mt_tools.flower on Flower and Ray, with clients that misbehave: skipped where these are not installed.

`sh examples/flower/sized/run.sh --check` installs them and runs this.
"""

import contextlib
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

MODULE = str(pathlib.Path(__file__).resolve().parents[1])
FAKES = pathlib.Path(MODULE).parent / "shared/testkit/src/fakes"
HAS_FLOWER = all(importlib.util.find_spec(name) for name in ("flwr", "ray"))
#: Seconds in which a federation of eight clients that wait for half a second ends, also on a machine with others.
LONGEST = 240

CLIENT = """
import os, time
from flwr.app import Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()

@app.train()
def train(message, context):
    number, kind = context.node_config["partition-id"], context.run_config["kind"]
    if kind == "gpu":
        import gpu
        gpu.train()
    else:
        time.sleep(60 if kind == "long" else 0.5)
    if kind == "raise" and number == 3:
        raise ValueError("bad data")
    if kind == "die" and number == 3:
        os._exit(9)
    reply = RecordDict({"arrays": message.content["arrays"], "metrics": MetricRecord({"num-examples": 1})})
    return Message(content=reply, reply_to=message)
"""

#: A client that holds 1 GB of a fake card, as long as its process lives, and is slower beside more than three.
GPU = """
import os, pathlib, time
BOX = pathlib.Path(os.environ["FAKE_BOX"])

def on(card):
    held = []
    for path in (BOX / "held").iterdir():
        try:
            start, number, size, *_ = path.read_text().split()
            if int(number) == card and pathlib.Path(f"/proc/{path.name}").exists():
                held.append((int(path.name), int(size)))
        except (OSError, ValueError):
            pass
    return held

def train():
    card = int(os.environ["CUDA_VISIBLE_DEVICES"][4:6], 16) - 0xab
    total = int((BOX / "cards").read_text().splitlines()[card].split()[0])
    start = pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]
    beside = sum(size for pid, size in on(card) if pid != os.getpid())
    if beside + 10**9 > total:
        raise RuntimeError("CUDA out of memory. Tried to allocate 1 GB")
    own = BOX / "held" / str(os.getpid())
    own.with_name(own.name + ".new").write_text(f"{start} {card} {10**9} 100 0.2")
    own.with_name(own.name + ".new").rename(own)
    with (BOX / "log").open("a") as log:
        print(card, len(on(card)), os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), file=log)
    working = BOX / f"working-{card}-{os.getpid()}"
    working.touch()
    time.sleep(0.2 * max(1, len(list(BOX.glob(f"working-{card}-*"))) / 3))
    working.unlink()
"""

SERVER = """
import numpy
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()

class Failing(FedAvg):
    def aggregate_train(self, server_round, replies):
        if server_round == 2:
            raise ValueError("bad server")
        return super().aggregate_train(server_round, replies)

@app.main()
def main(grid, context):
    kind = Failing if context.run_config["kind"] == "server" else FedAvg
    nodes, rounds = (24, 6) if context.run_config["kind"] == "gpu" else (8, 2)
    strategy = kind(fraction_evaluate=0, min_train_nodes=nodes, min_available_nodes=nodes)
    strategy.start(grid, ArrayRecord([numpy.zeros(3)]), num_rounds=rounds)
    print("federation: done", flush=True)
"""

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "test"
version = "1.0.0"
description = "Clients that misbehave"
license = "MIT"
dependencies = []
[tool.hatch.build.targets.wheel]
packages = ["."]
[tool.flwr.app]
publisher = "mt-tools"
[tool.flwr.app.components]
serverapp = "server_app:app"
clientapp = "client_app:app"
[tool.flwr.app.config]
kind = "good"
"""


@unittest.skipUnless(HAS_FLOWER, "flwr[simulation] is not installed")
class Flower(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.app = pathlib.Path(folder.name)
        for name, text in (("client_app.py", CLIENT), ("server_app.py", SERVER), ("pyproject.toml", PROJECT), ("gpu.py", GPU)):
            (self.app / name).write_text(text)

    def start(self, *kinds, **more):
        words = [sys.executable, "-m", "mt_tools.flower", "run" if len(kinds) == 1 else "together", *[str(self.app)] * len(kinds)]
        words += ["--supernodes", "24" if kinds == ("gpu",) else "8"] + [word for kind in kinds for word in ("--run-config", f"kind='{kind}'")]
        self.mark = f"MT_TEST={os.getpid()}-{'-'.join(kinds)}"
        name, value = self.mark.split("=")
        env = {**os.environ, "PYTHONPATH": MODULE, "FLWR_TELEMETRY_ENABLED": "0", name: value, **more}
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)

    def left(self):
        """Processes that have the variable of the run."""
        found = []
        for folder in pathlib.Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and f"{self.mark}\0" in (folder / "environ").read_text(errors="replace") + "\0":
                    found.append((folder / "cmdline").read_text().replace("\0", " "))
            except OSError:
                pass
        return [words for words in found if words]

    def check_nothing_is_left(self):
        for _ in range(100):
            if not self.left():
                return
            time.sleep(0.1)
        self.fail(f"left running: {self.left()}")

    def ended(self, run, code):
        """What a run printed."""
        try:
            text, _ = run.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            run.terminate()
            self.fail(f"it did not end:\n{run.communicate()[0]}")
        self.assertEqual(run.returncode, code, text)
        return text

    def check(self, kind, results):
        text = self.ended(self.start(kind), 0)
        self.assertEqual(re.findall(r"Received (\d+) results and (\d+) failures", text), results, text)
        self.assertIn("federation: done", text)
        self.assertRegex(text, r"mt: up to \d+ clients at once: one keeps ")
        self.check_nothing_is_left()

    def test_a_federation(self):
        self.check("good", [("8", "0")] * 2)

    def fakes(self, cards):
        """A fake NVML with cards of so many GB and a fake MPS daemon; gives the variables with which they are found."""
        box = self.app / "box"
        (box / "held").mkdir(parents=True)
        (box / "cards").write_text("".join(f"{card * 10**9} 80 1 Fake\n" for card in cards))
        library = self.app / "libnvidia-ml.so.1"
        try:
            subprocess.run(["cc", "-shared", "-fPIC", f'-DBOX="{box}"', "-o", library, FAKES / "libnvidia-ml.c"], check=True)
        except FileNotFoundError:
            self.skipTest("there is no C compiler")
        control = self.app / "nvidia-cuda-mps-control"
        control.write_text((FAKES / f"{control.name}.sh").read_text().replace("@FAKE@", str(box)))
        control.chmod(0o755)
        env = {"FAKE_BOX": str(box), "LD_LIBRARY_PATH": str(self.app), "PATH": f"{self.app}:{os.environ['PATH']}",
               "CUDA_MPS_PIPE_DIRECTORY": str(self.app / "mps")}
        subprocess.run([control, "-d"], env={**os.environ, **env}, check=True)
        self.addCleanup(subprocess.run, [control], input="quit\n", text=True, env={**os.environ, **env}, check=False)
        return env

    def test_clients_on_gpus_fit_into_their_memory(self):
        env = self.fakes([4, 9])
        # A stranger on the second card: four clients fit beside it, and three on the first.
        start = pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]
        (self.app / "box/held" / str(os.getpid())).write_text(f"{start} 1 {3 * 10**9} 100 0.2")
        text = self.ended(self.start("gpu", **env), 0)
        self.assertEqual(re.findall(r"Received (\d+) results and (\d+) failures", text), [("24", "0")] * 6, text)
        rows = [line.split() for line in (self.app / "box/log").read_text().splitlines()]
        most = {card: max(int(held) for number, held, _ in rows if number == card) for card in "01"}
        self.assertEqual(most["0"], 3, text)
        # The stranger is one of them.
        self.assertIn(most["1"], (4, 5), text)
        self.assertIn("at once, of at most 1.0 GB each, cap ", text)
        self.assertNotIn("ran out of memory", text)
        self.check_nothing_is_left()

    def test_a_stranger_on_a_gpu_fails_no_client(self):
        env = self.fakes([4])
        start = pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]
        run = self.start("gpu", **env)
        for _ in range(10 * LONGEST):
            time.sleep(0.1)
            if (self.app / "box/log").exists() and (self.app / "box/log").read_text().count("\n") > 40:
                break
        # It takes what two clients had.
        (self.app / "box/held" / str(os.getpid())).write_text(f"{start} 0 {2 * 10**9} 100 0.2")
        text = self.ended(run, 0)
        self.assertEqual(re.findall(r"Received (\d+) results and (\d+) failures", text), [("24", "0")] * 6, text)
        self.check_nothing_is_left()

    def test_a_client_that_raises_fails_alone(self):
        self.check("raise", [("7", "1")] * 2)

    def test_a_client_whose_process_dies_fails_alone(self):
        self.check("die", [("7", "1")] * 2)

    def check_interrupt(self, *kinds):
        run = self.start(*kinds)
        lines = iter(run.stdout.readline, "")
        next(line for line in lines if "Sampled 8 nodes" in line)
        time.sleep(5)
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(30), 130)
        run.stdout.close()
        self.check_nothing_is_left()

    def test_an_interrupt_leaves_nothing(self):
        self.check_interrupt("long")

    def test_an_interrupt_of_several_leaves_nothing(self):
        self.check_interrupt("long", "long")

    def test_clients_that_fail_do_not_disturb_another_federation(self):
        text = self.ended(self.start("good", "raise", "die"), 0)
        for number, results in ((1, ("8", "0")), (2, ("7", "1")), (3, ("7", "1"))):
            own = "".join(line for line in text.splitlines(True) if line.startswith(f"[{self.app.name}-{number}]"))
            self.assertEqual(re.findall(r"Received (\d+) results and (\d+) failures", own), [results] * 2, text)
            self.assertIn("federation: done", own)
            self.assertRegex(text, rf"mt: {self.app.name}-{number}: .* s \(predicted .* s\); one client keeps ")
        self.check_nothing_is_left()

    def program(self, *words):
        """Starts a program of a deployment, which ends with the test, and all that it started."""
        name, value = self.mark.split("=")
        path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
        env = {**os.environ, "PATH": path, "FLWR_HOME": str(self.app), "FLWR_TELEMETRY_ENABLED": "0", name: value}
        with (self.app / "log").open("a") as log:
            program = subprocess.Popen(words, stdout=log, stderr=log, env=env, start_new_session=True)
        self.addCleanup(program.wait)
        self.addCleanup(self.kill_group, program.pid)
        return program

    def kill_group(self, group):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)

    def wait_for(self, count, text):
        """Until the programs have printed it so often."""
        for _ in range(LONGEST):
            log = (self.app / "log").read_text()
            if log.count(text) >= count:
                return
            time.sleep(1)
        self.fail(f"it is not there {count} times: {text}\n{log}")

    @unittest.skipUnless(shutil.which("mt-launch") and os.access("/sys/fs/cgroup", os.W_OK), "needs mt-launch, and control groups")
    def test_a_site_under_its_share_outlives_its_server(self):
        """A server with a database comes back, and its sites, for the next run."""
        self.mark = f"MT_TEST={os.getpid()}-restart"
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            two.bind(("127.0.0.1", 0))
            port, own = str(one.getsockname()[1]), str(two.getsockname()[1])
        connection = f'[superlink]\ndefault = "local"\n[superlink.local]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
        (self.app / "config.toml").write_text(connection)
        for name, old, new in (("server_app.py", "(8, 2)", "(1, 2)"), ("client_app.py", 'context.node_config["partition-id"]', "0"),
                               ("client_app.py", "sleep(60", "sleep(10")):
            (self.app / name).write_text((self.app / name).read_text().replace(old, new))
        server = ["flower-superlink", "--insecure", "--database", str(self.app / "state.db"), "--host", "127.0.0.1", "--port", port]
        first = self.program(*server)
        self.wait_for(1, "Uvicorn running on http://127.0.0.1:" + port)
        site = self.program("mt-launch", "exec", "--device", "cpu", "--share", "50", "--", "flower-supernode", "--insecure",
                            "--superlink", f"127.0.0.1:{port}", "--host", "127.0.0.1", "--port", own)
        run = ["flwr", "run", str(self.app), "local", "--stream", "--run-config"]
        interrupted = self.program(*run, "kind='long'")
        self.wait_for(1, "Sampled 1 nodes")
        first.kill()
        # It only shows what the server tells.
        self.assertNotEqual(interrupted.wait(LONGEST), 0)
        self.program(*server)
        self.wait_for(2, "Uvicorn running on http://127.0.0.1:" + port)
        again = self.program(*run, "kind='good'")
        self.assertEqual(again.wait(LONGEST), 0)
        self.wait_for(1, "federation: done")
        self.assertIsNone(site.poll())
        site.terminate()
        site.wait(30)
        self.doCleanups()
        self.check_nothing_is_left()

    def test_a_server_that_fails_ends_alone(self):
        text = self.ended(self.start("good", "server"), 1)
        self.assertEqual(text.count("federation: done"), 1, text)
        self.assertIn("ValueError: bad server", text)
        self.check_nothing_is_left()


if __name__ == "__main__":
    unittest.main()
