"""Lets a site of NVFlare run its jobs under the shares of a plan: site.py LOCAL-FOLDER PLAN [OPTIONS]

OPTIONS are those of `mt-launch exec` for every job.
"""
import json
import pathlib
import sys

local, plan, options = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
resources = json.loads((local / "resources.json.default").read_text())
ours = [
    {"id": "resource_manager", "path": "mt_tools.nvflare.TaskResourceManager", "args": {"plan": plan}},
    {"id": "resource_consumer", "path": "mt_tools.nvflare.TaskResourceConsumer", "args": {}},
    {"id": "process_launcher", "path": "mt_tools.nvflare.ShareProcessLauncher", "args": {"plan": plan, "options": options}},
]
replaced = {component["id"] for component in ours}
resources["components"] = [c for c in resources["components"] if c["id"] not in replaced] + ours
(local / "resources.json").write_text(json.dumps(resources, indent=2))
