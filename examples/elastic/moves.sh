#!/bin/sh
# A controller that runs training a on 1, 2, 3 and 1 processes, whatever it trains with, and then lets it
# end. It moves on after so many reports of progress.
#   mt-launch workload.json --controller sh moves.sh REPORTS
seq=0
decide() {
    seq=$((seq + 1))
    echo '{"schema":"mt.allocation/1","seq":'$seq',"time_s":0,"total_gpus":3,"gpus":{"a":'"$1"'},'"$2"'"reason":"the next number of processes","pause_s":0}'
}
for gpus in 1 2 3 1; do
    decide "$gpus" ''
    seen=0
    while [ "$seen" -lt "$1" ] && read -r line; do
        case $line in *'"progress"'*'"gpus":'"$gpus"[,}]*) seen=$((seen + 1)) ;; esac
    done
done
decide 0 '"reached":["a"],'
cat >/dev/null
