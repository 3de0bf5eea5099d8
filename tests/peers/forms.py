"""Checks the forms of `mt numbers` by the schemas and parsers of the systems that take them: see forms.sh."""

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import botocore.session
import botocore.validate
import kubernetes_validate
import tomli
import yaml
from flwr.cli.flower_config import _parse_simulation_options
from nvflare.private.fed.app.simulator.simulator import define_simulator_parser
from ray._common import ray_option_utils

TEMPLATE = """python3 train.py --name "{x}" 'it''s'"""
STOPPED = {"step": 0, "halving": True}
#: Learnt numbers of devices, by the names of their files.
LEARNT = {
    "2-processors": {TEMPLATE: {"level": 5, "speedup": 4.9, "wants": 0.4, **STOPPED}},
    "8-processors": {"sh threads.sh": {"level": 3, "speedup": 3, "wants": 2.6, **STOPPED}},
    "NVIDIA-H100": {TEMPLATE: {"level": 3, "speedup": 2.4, **STOPPED}},
}
#: Servers that find caps and device memory, too, keep them with the rest.
MORE = {"cap": 60, "peak": 11_000_000_000, "ended": True}


def numbers(folder, form):
    run = subprocess.run(["mt", "numbers", "--queue", str(folder), "--for", form], capture_output=True, text=True)
    assert run.returncode == 0, (form, run.stderr)
    return run.stdout


def mps(text):
    for line in text.splitlines():
        assert not line or line.startswith("# ") or re.fullmatch(r"CUDA_MPS_[A-Z_]+=[0-9=M]+", line), line
    commands = re.findall(r"set_default_[a-z_]+", text)
    known = {"set_default_active_thread_percentage", "set_default_device_pinned_mem_limit"}
    assert set(commands) <= known, commands


def mps3(text):
    document = tomli.loads(text)
    # Any other key is an error of configuration, by NVIDIA's page.
    allowed = {"pinned_memory_limit", "active_thread_percentage", "client_priority"}
    assert document["schema_version"] == "1.0"
    for server in document["servers"].values():
        for namespace in server["namespaces"].values():
            assert set(namespace) <= allowed and all(isinstance(v, str) for v in namespace.values()), namespace


def ecs(text):
    model = botocore.session.get_session().get_service_model("ecs")
    shape = model.operation_model("RegisterTaskDefinition").input_shape
    decoder, rest = json.JSONDecoder(), text.lstrip()
    while rest:
        definition, end = decoder.raw_decode(rest)
        report = botocore.validate.ParamValidator().validate(definition, shape)
        assert not report.has_errors(), report.generate_report()
        rest = rest[end:].lstrip()


def kubernetes(text):
    documents = list(yaml.safe_load_all(text))
    for document in documents:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    return documents


def kai(text):
    for pod in kubernetes(text):
        fraction = float(pod["metadata"]["annotations"]["gpu-fraction"])
        assert int(1 / fraction) == 3 and pod["spec"]["schedulerName"] == "kai-scheduler", pod


def k8s(text):
    documents = kubernetes(text)
    plugin = [yaml.safe_load(d["data"]["config.yaml"]) for d in documents if d["kind"] == "ConfigMap"]
    assert plugin == [{"version": "v1", "sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 3}]}}}]
    assert sorted(d["spec"]["parallelism"] for d in documents if d["kind"] == "Job") == [3, 3, 5]


def slurm(text):
    options = [line.split(" ", 1)[1] for line in text.splitlines() if line.startswith("#SBATCH ")]
    known = r"--(cpus-per-task=[1-9]\d*|oversubscribe|gres=mps:[1-9]\d?\d?|mem=\d+M)"
    assert options and all(re.fullmatch(known, option) for option in options), options
    if shutil.which("sbatch"):
        script = "#!/bin/sh\n" + text + "\ntrue\n"
        run = subprocess.run(["sbatch", "--test-only"], input=script, capture_output=True, text=True)
        assert not re.search("invalid|unrecognized|bad", run.stderr, re.I), run.stderr
    else:
        print("slurm: sbatch is not here: by its grammar only")


def ray(text):
    found = {}
    exec(text, {}, found)  # What is printed is Python.
    fit = []
    for options in found.values():
        ray_option_utils.validate_actor_options(dict(options), in_options=True)
        ray_option_utils.validate_task_options(dict(options), in_options=True)
        fit += [int(1 / options["num_gpus"])] if "num_gpus" in options else []
    assert len(found) == 3 and fit == [3], found


def flower(text):
    for connection in tomli.loads(text)["superlink"].values():
        options = _parse_simulation_options({"num-supernodes": 10, **connection["options"]})
        resources = options.backend.client_resources
        if resources.num_gpus is not None:
            assert int(1 / resources.num_gpus) == 3, options
        else:
            assert options.backend.init_args.num_cpus / resources.num_cpus in (3, 5), options


def nvflare(text):
    parser = argparse.ArgumentParser()
    define_simulator_parser(parser)
    found = []
    for options in re.findall(r'^\w+="(.*)"  # ', text, re.M):
        simulator = parser.parse_args(["JOB", "-n", "8", *options.split()])
        found.append((simulator.threads, simulator.gpu))
    assert sorted(found, key=str) == [(3, "0"), (3, None), (5, None)], found


FORMS = [mps, mps3, ecs, kai, k8s, slurm, ray, flower, nvflare]


def main():
    with tempfile.TemporaryDirectory() as place:
        for more in ({}, MORE):
            folder = Path(place, f"queue-{len(more)}")
            folder.mkdir(mode=0o700)
            for device, learnt in LEARNT.items():
                kept = {template: {**row, **more} for template, row in learnt.items()}
                (folder / f"learnt-{device}.json").write_text(json.dumps(kept))
            if more and subprocess.run(["mt", "numbers", "--queue", folder, "--json"], capture_output=True).stdout == b"[]\n":
                print("caps and device memory are not kept by this mt")
                continue
            for form in FORMS:
                form(numbers(folder, form.__name__))
                print(f"{form.__name__}: taken{' with a cap and memory' if more else ''}")


if __name__ == "__main__":
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    main()
