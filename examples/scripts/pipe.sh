#!/bin/sh
# One program reads the data and another trains on them: 40 s or so.
here=$(dirname "$0")
python3 "$here/pipe_reads.py" | python3 "$here/pipe_trains.py"
