"""A mod of a Flower client app at a site whose tasks share a device: trains with the batch size of the plan.

    from mt_tools.flower_mod import planned
    app = ClientApp(mods=[planned])

under `mt-launch exec --plan plan.json --task a -- flower-supernode ...`, which also sets the task's share.
"""

from __future__ import annotations

import os
from typing import Any, Callable

#: The field of the run configuration that Flower's own templates read.
FIELD = "batch-size"


def planned(message: Any, context: Any, call_next: Callable[[Any, Any], Any]) -> Any:
    """Sets `batch-size` in the client's run configuration to `MT_BATCH_SIZE`; elsewhere it changes nothing."""
    batch = os.environ.get("MT_BATCH_SIZE")
    if batch is not None:
        context.run_config[FIELD] = int(batch)
    return call_next(message, context)
