#!/bin/sh
# A Slurm of N nodes with a GPU each on this machine, as long as a command runs in it:
#   emulate.sh N COMMAND [ARGUMENTS]
# Debian: apt-get install slurm-wlm munge. The daemons are this user's, with keys, ports and folders of
# their own; a Slurm that is installed here for real is not touched.
set -eu
nodes=$1
shift
for program in munged slurmctld slurmd srun; do
    if ! command -v "$program" >/dev/null; then
        echo "emulate.sh: there is no $program; on Debian: apt-get install slurm-wlm munge" >&2
        exit 3
    fi
done
dir=$(mktemp -d)
pids=
finish() {
    # The last started first: a slurmd tells its slurmctld that it goes.
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    wait
    rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# munged requires that everybody can reach its socket and that only its user can read its key.
chmod 711 "$dir"
(umask 077 && head -c 1024 /dev/urandom >"$dir/munge.key")
mkdir "$dir/munge"
chmod 755 "$dir/munge"
last=$((nodes - 1))
port=${PORT:-17800}
host=$(hostname -s)
user=$(id -un)
cat >"$dir/slurm.conf" <<CONF
ClusterName=emulated
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthInfo=socket=$dir/munge/socket
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=gpu,shard
# With all weights 0 every priority is 1, whatever a job's nice says.
PriorityType=priority/multifactor
PriorityWeightPartition=1000000
SlurmdParameters=config_overrides
ReturnToService=2
NodeName=n[0-$last] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + nodes))] CPUs=8 Gres=gpu:1,shard:300
PartitionName=gpus Nodes=ALL Default=YES
CONF
# A GPU of 300 shards, percents of it: shares of a plan may add up to more than 100.
printf 'Name=%s File=/dev/null%s\n' gpu '' shard ' Count=300' >"$dir/gres.conf"
mkdir "$dir/state"
export SLURM_CONF="$dir/slurm.conf"
start() {
    "$@" >>"$dir/daemons.log" 2>&1 &
    pids="$! $pids"
}
start munged --foreground --force --key-file "$dir/munge.key" --socket "$dir/munge/socket" \
    --pid-file "$dir/munge/pid" --log-file "$dir/munge/log" --seed-file "$dir/munge/seed"
until [ -S "$dir/munge/socket" ]; do sleep 0.1; done
start slurmctld -D
for node in $(seq 0 "$last"); do
    mkdir "$dir/spool.n$node"
    start slurmd -D -N "n$node"
done
tries=0
until [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = "$nodes" ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 150 ]; then
        echo "emulate.sh: after 30 s the nodes are not idle:" >&2
        tail -n 20 "$dir"/*.log >&2
        exit 3
    fi
    sleep 0.2
done
"$@"
