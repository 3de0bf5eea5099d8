#!/usr/bin/env python3
"""A link of limited rate, and transfers over it.

    transfer.py serve SOCKET BYTES_PER_SECOND   the far end: sends and receives at that rate
    transfer.py down SOCKET BYTES               downloads this many bytes
    transfer.py up SOCKET BYTES                 uploads this many bytes
"""

import contextlib
import os
import socket
import sys
import threading
import time

CHUNK = 16384


def paced(total, rate, move):
    """Moves `total` bytes by move(n), no faster than `rate` bytes per second."""
    begun, moved = time.monotonic(), 0
    while moved < total:
        n = min(CHUNK, total - moved)
        move(n)
        moved += n
        time.sleep(max(0.0, moved / rate - (time.monotonic() - begun)))


def answer(connection, rate):
    with connection, connection.makefile("rwb") as stream:
        verb, size = stream.readline().split()
        if verb == b"down":
            paced(int(size), rate, lambda n: (stream.write(bytes(n)), stream.flush()))
        else:
            paced(int(size), rate, stream.read)
            stream.write(b"taken\n")


def serve(path, rate):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=answer, args=(connection, rate), daemon=True).start()


def transfer(verb, path, size):
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(path)
        with link.makefile("rwb") as stream:
            stream.write(f"{verb} {size}\n".encode())
            if verb == "up":
                stream.write(bytes(size))
            stream.flush()
            got = sum(len(part) for part in iter(lambda: stream.read1(CHUNK), b""))
    wanted = size if verb == "down" else len("taken\n")
    return 0 if got == wanted else f"{verb}: {got} of {wanted} bytes came back"


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("serve", "down", "up"):
        sys.exit(__doc__)
    if sys.argv[1] == "serve":
        serve(sys.argv[2], float(sys.argv[3]))
    sys.exit(transfer(sys.argv[1], sys.argv[2], int(sys.argv[3])))
