"""Components for a site of NVIDIA FLARE whose jobs share its GPU by a plan of mt-solve.

In `local/resources.json` of the site:

    {"id": "resource_manager", "path": "mt_tools.nvflare.TaskResourceManager", "args": {"plan": "plan.json"}},
    {"id": "resource_consumer", "path": "mt_tools.nvflare.TaskResourceConsumer", "args": {}},
    {"id": "process_launcher", "path": "mt_tools.nvflare.ShareProcessLauncher", "args": {"plan": "plan.json"}}

instead of those with the same ids, and in a job's `meta.json`, which task of the plan it is at each site:

    "resource_spec": {"site-1": {"mt_task": "a"}, "site-2": {"mt_task": "a"}}
"""

from __future__ import annotations

import json
import os
import shlex
from typing import Sequence, Union

from nvflare.apis.job_def import JobMetaKey
from nvflare.apis.resource_manager_spec import ResourceConsumerSpec
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.resource_managers.auto_clean_resource_manager import AutoCleanResourceManager

TASK = "mt_task"
OWN = ("--plan", "--task", "--share")


class ShareProcessLauncher(ClientProcessJobLauncher):
    """Starts a job's process under the share of its task, by `mt-launch exec`.

    `plan` is a plan or timeline, and `options` are further options of `mt-launch exec`: a list
    (`["--log", "FILE"]`), or a string that is split like a shell command (but no shell sees it). A job
    without a task is started without a share.
    """

    def __init__(self, plan: str, options: Union[str, Sequence[str]] = "") -> None:
        super().__init__()
        words = shlex.split(options) if isinstance(options, str) else list(options)
        for word in words:
            if not isinstance(word, str):
                raise TypeError(f"options: {word!r} is not a string; give a list such as ['--log', 'FILE']")
            if word == "--" or word.split("=")[0] in OWN:
                raise ValueError(f"options: {word} is set by this launcher; give other options of mt-launch exec")
        self.prefix = shlex.join(["mt-launch", "exec", "--plan", os.path.abspath(plan), *words])

    def get_command(self, job_meta, fl_ctx):
        command = super().get_command(job_meta, fl_ctx)
        sites = job_meta.get(JobMetaKey.RESOURCE_SPEC.value) or {}
        task = sites.get(fl_ctx.get_identity_name(), {}).get(TASK)
        return f"{self.prefix} --task {shlex.quote(task)} -- {command}" if task else command


class TaskResourceManager(AutoCleanResourceManager):
    """Admits a job if its task is free: each task of the plan runs at most once at a time.

    The shares of a plan may add up to more than 100 %. Admission is bounded by the plan instead, because
    throughputs were predicted for exactly its tasks together.
    """

    def __init__(self, plan: str, expiration_period: int = 30) -> None:
        with open(plan, encoding="utf-8") as file:
            document = json.load(file)
        tasks = document.get("plan", document)["tasks"]
        super().__init__({TASK: [task["id"] for task in tasks]}, expiration_period)

    def _check_required_resource_available(self, resource_requirement):
        return TASK not in resource_requirement or resource_requirement[TASK] in self.resources[TASK]

    def _reserve_resource(self, resource_requirement):
        if TASK in resource_requirement:
            self.resources[TASK].remove(resource_requirement[TASK])
        return dict(resource_requirement)

    def _deallocate(self, resources):
        if TASK in resources:
            self.resources[TASK].append(resources[TASK])

    def _resource_to_dict(self):
        return self.resources


class TaskResourceConsumer(ResourceConsumerSpec):
    """Does nothing: the launcher gives each process its share, and the GPU of the plan."""

    def consume(self, resources):
        pass
