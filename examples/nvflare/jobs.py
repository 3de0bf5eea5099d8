"""Three jobs, one for each task of the plan, submitted together: jobs.py ADMIN-FOLDER FOLDER ROUNDS SECONDS"""
import json
import pathlib
import sys

from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.fuel.flare_api.flare_api import new_secure_session

admin, folder, rounds, seconds = sys.argv[1:]
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "engines"))
import train as training  # noqa: E402

for task, size in training.SIZES.items():
    recipe = NumpyFedAvgRecipe(
        name=task, min_clients=2, num_rounds=int(rounds), initial_model=[0.0] * size, train_args=seconds,
        train_script=str(pathlib.Path(__file__).resolve().with_name("client.py")))
    recipe.export(folder)
    path = pathlib.Path(folder, task, "meta.json")
    meta = json.loads(path.read_text())
    meta["resource_spec"] = {site: {"mt_task": task} for site in ("site-1", "site-2")}
    path.write_text(json.dumps(meta))

session = new_secure_session("admin@nvidia.com", admin)
try:
    jobs = [session.submit_job(str(pathlib.Path(folder, task).resolve())) for task in training.SIZES]
    for job in jobs:
        session.monitor_job(job, timeout=240)
    ends = [session.get_job_meta(job)["status"] for job in jobs]
finally:
    session.close()
print(*ends)
sys.exit(0 if set(ends) == {"FINISHED:COMPLETED"} else f"jobs.py: the jobs ended {ends}")
