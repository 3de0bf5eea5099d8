#!/bin/sh
# What Slurm costs a schedule, and what `mt-cluster order` does to its queue, on emulated nodes:
#   run.sh [FOLDER]     run logs go to FOLDER (out); the section of the results to standard output
# The tools are on PATH.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" != inside ]; then
    out=${1:-out}
    mkdir -p "$out"
    exec sh "$here/emulate.sh" 4 sh "$here/run.sh" inside "$out"
fi
cd "$2"
via='srun -Q -N1 -n1 --exact --gres=gpu:1 -w {node}'
now() { date +%s.%N; }
# Seconds between two moments, over a number.
each() { awk "BEGIN { printf \"%.3f\", ($2 - $1) / $3 }"; }

# What a step costs: 20 that do nothing, one after another in one allocation.
begin=$(now)
salloc -Q -N4 --gres=gpu:1 sh -c 'for i in $(seq 20); do srun -Q -N1 -n1 --exact --gres=gpu:1 -w n0 true; done'
step=$(each "$begin" "$(now)" 20)
drained() { until [ "$(squeue -h --me | wc -l)" = 0 ]; do sleep 0.2; done; }
# What a job costs: 10 that do nothing, one after another on a node.
begin=$(now)
for i in $(seq 10); do sbatch -Q -w n0 --exclusive -o /dev/null --wrap true; done
drained
job=$(each "$begin" "$(now)" 10)

# 32 tasks in rounds that do nothing.
empty='s/"gpu": 2 /"gpu": 0.1 /; s/"argv": .*\]/"argv": ["true"]/'
sed -e "$empty" "$here/cluster.json" | mt-cluster plan >empty.json
begin=$(now)
salloc -Q -N4 --gres=gpu:1 mt-cluster run --via "$via" --force -o empty.ndjson empty.json 2>empty.log
task=$(each "$begin" "$(now)" 32)
mt-check empty.json empty.ndjson >empty.check

# 32 tasks in rounds of two seconds; one step is cancelled while it runs.
mt-cluster plan "$here/cluster.json" >plan.json
(
    sleep 3
    scancel "$(squeue -h -s -o %i | grep -E '\.[0-9]+$' | head -n 1)"
) &
salloc -Q -N4 --gres=gpu:1 mt-cluster run --via "$via" --backoff 0.1 --force -o run.ndjson plan.json 2>run.log
wait
mt-check plan.json run.ndjson >run.check
retried=$(grep -c '"event":"restart"' run.ndjson)
completion=$(sed -n 's/.*weighted completion //p' run.log)

# The order of a queue: three jobs behind one that holds their node.
queue() {
    rm -f started
    held=$(sbatch -Q --parsable -w n0 --exclusive -t 1 -o /dev/null --wrap 'sleep 4')
    for one in "long 60 1" "heavy 60 20" "short 2 1"; do
        set -- $one
        sbatch -Q -w n0 --exclusive -J "$1" -t "$2" --comment "weight=$3" -o /dev/null \
            --wrap "echo $1 >>started; sleep 0.1"
    done
    if [ "$order" = yes ]; then squeue --me --json | mt-cluster order - >order.sh; sh order.sh; fi
    drained
    tr '\n' ' ' <started
}
order=no
before=$(queue)
order=yes
after=$(queue)

# Three trainings at once on one GPU, each under its share: shards admit them, the prefix applies it.
rates=
if [ -n "${MT_PLAN:-}" ]; then
    rm -f rates.ndjson
    export RATES="$PWD/rates.ndjson"
    for name in a b c; do
        share=$(mt-launch env --task "$name" | sed -n 's/^MT_SHARE_PERCENT=\([0-9]*\).*/\1/p')
        # A node is a processor here.
        srun -Q -w n0 -n1 --gres="shard:$share" taskset -c 0 \
            mt-launch exec --task "$name" -- \
            python3 "$here/../engines/train.py" --seconds 10 >"$name.log" 2>&1 &
    done
    wait
    rates=$(python3 "$here/../engines/rates.py" Slurm "$MT_PLAN" rates.ndjson)
fi

cat <<MD
## Slurm

$(sinfo --version), 4 emulated nodes with a GPU each (\`examples/slurm\`).

| | |
| --- | --- |
| a step of \`srun\` that does nothing | $step s |
| a job of \`sbatch\` that does nothing, one after another on a node | $job s |
| 32 tasks in rounds that do nothing, \`mt-cluster run --via\`: each | $task s |
| 32 tasks of 2 s, one step cancelled: weighted completion | $completion |
| steps retried, judged by \`mt-check\` | $retried, good |
| a queue's running order: submitted | $before |
| after \`mt-cluster order\` | $after |

$rates
MD
