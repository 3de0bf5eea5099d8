"""Memory of processes and of this machine, from /proc and control groups (Linux)."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Dict, Iterator, Optional, Tuple

#: A limit above this is none: version 1 writes a number near 2^63.
NO_LIMIT = 1 << 60


def _fields(path: str) -> Dict[str, int]:
    """Numbers of lines such as `VmRSS:  12 kB`, in bytes."""
    fields = {}
    for line in Path(path).read_text().splitlines():
        words = line.replace(":", " ").split()
        if len(words) >= 2 and words[1].isdigit():
            fields[words[0]] = int(words[1]) * (1024 if words[-1] == "kB" else 1)
    return fields


def anonymous(pid: int) -> Tuple[int, int]:
    """Bytes that a process has for itself, now and at most so far; 0 if it has gone.

    Pages of files and of shared memory are left out of both: libraries, and Ray's store of objects, are there once for
    all workers.
    """
    with contextlib.suppress(OSError):
        fields = _fields(f"/proc/{pid}/status")
        shared = fields.get("RssFile", 0) + fields.get("RssShmem", 0)
        return max(0, fields.get("VmRSS", 0) - shared), max(0, fields.get("VmHWM", 0) - shared)
    return 0, 0


def _groups() -> Iterator[Path]:
    """Memory groups of this process, from its own to the root, of either version."""
    mount = Path("/sys/fs/cgroup")
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, name = line.split(":", 2)
        root = mount / "memory" if controllers == "memory" else mount if not controllers else None
        if root is None:
            continue
        folder = root / name.lstrip("/")
        # In a container the name may be that of the host.
        while root in folder.parents or folder == root:
            if folder.is_dir():
                yield folder
            folder = folder.parent


def _number(path: Path) -> Optional[int]:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text())
    return None


def kills() -> int:
    """Processes that the system has ended for lack of memory, in the groups of this process or else on the machine."""
    counts = [_fields("/proc/vmstat").get("oom_kill", 0)]
    for folder in _groups():
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                counts.append(_fields(str(folder / name)).get("oom_kill", 0))
    return max(counts)


def free_and_total() -> Tuple[int, int]:
    """Bytes that processes here can still take, and all that they may have: of the tightest limit, or of the machine."""
    machine = _fields("/proc/meminfo")
    found = [(machine["MemAvailable"], machine["MemTotal"])]
    for folder in _groups():
        for most, used, cache in (("memory.max", "memory.current", "inactive_file"),
                                  ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")):
            limit, usage = _number(folder / most), _number(folder / used)
            if limit is None or usage is None or limit >= NO_LIMIT:
                continue
            # Pages of files that nobody used of late are given up first.
            spare = _fields(str(folder / "memory.stat")).get(cache, 0)
            found.append((limit - usage + spare, limit))
    return min(found)
