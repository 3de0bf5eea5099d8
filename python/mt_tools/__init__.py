"""mt-tools for Python: the worker protocol for training scripts, and documents as plain data.

    from mt_tools import Worker                     a training loop of your own
    from mt_tools.huggingface import MtCallback     transformers.Trainer(callbacks=[MtCallback()])
    from mt_tools.lightning import MtCallback       lightning.Trainer(callbacks=[MtCallback()])
    from mt_tools.norms import GradientNorms        gradient noise, for a loop of your own (PyTorch)
    from mt_tools import documents                  documents.read("plan.json")
    python3 -m mt_tools.forks -- mt-profile FILE    jobs that are forks of a process that has imported their packages
    python3 -m mt_tools.flower run APP              a Flower simulation that finds how many clients run at once
    mt_tools.nvflare                                components for a site of NVFlare

Only Python's standard library is needed, except by the modules for other packages.
"""

from importlib import metadata

from .worker import EnvironmentVariableError, Pipeline, Worker

try:
    __version__ = metadata.version("mt-tools")
except metadata.PackageNotFoundError:  # From the source tree, without a wheel.
    __version__ = "0+source"

__all__ = ["EnvironmentVariableError", "Pipeline", "Worker", "__version__"]
