#!/bin/sh
# Plans the three trainings of workload.json for one processor of this machine:
#   plan.sh PLAN
# The shares add up to 120 %, so the trainings compete, and are unequal. A site, a node, is one processor here
# (taskset), so that several fit on a machine and none disturbs another.
set -eu
plan=$(realpath -m "$1")
cd "$(dirname "$0")"
taskset -c 0 mt-profile --batch free --objective weighted --floor 0.1 --budget 14 --window 1 --max-window 2 --force -o "$plan.profile" workload.json
mt-fit "$plan.profile" | mt-solve --objective weighted --batch free --floor 0.1 --rv 120 -o "$plan"
