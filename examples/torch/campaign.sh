#!/bin/sh
# Profiles, plans, verifies and compares the task mixes of the FedMT paper (Tables IV and V) within
# a time budget, and writes one folder of results.
#
#   examples/torch/campaign.sh [--minutes N] [--out DIR] [--device KIND] [--survey | --grid | --decide [--dry-run]]
#                              [MIX...]
#
# A mix is names joined by +, for example R18+M3+S2; without any: R18+M3+S2, R50+V16+M3 and
# D121+V16+R101, and --all for every mix of both tables. The minutes are divided over the mixes;
# when they run out, the plan is made from what has been measured so far. An existing folder is
# continued: what was measured is not measured again.
#
# --decide instead measures what decides between explanations of how shares work on hardware (see
# README.md), by default for V16+R34, R50+R101 and V16+R18+M3+D121. With --dry-run it only writes the
# lists of configurations and prints the commands.
#
# --survey instead measures pairs and triples of nine models, the most informative first, for 30 minutes by default.
# It finds out whether MPS works, and can be killed and started again (see README.md).
#
# --grid measures every combination of four shares (LEVELS, 30 50 70 100) for every mix, and each task alone at each of
# them: what a plan is to be judged by. It can be killed and started again too.
#
# Environment: TRAIN the training command (default: python3 train.py beside this script; with
# mt-worker: TRAIN="mt-worker --device cuda"), FLAGS its further flags, BATCHES a JSON list of
# batch sizes ([128]), SAMPLES of a round (50000), COMMANDS_DIR where mt-profile and the others
# are (default: PATH), CPUS as for mt-profile --cpus (auto).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
minutes=
out=campaign
device=cuda
mixes=
decide=
survey=
grid=
dry=
all="V16+R34 R18+R34 R34+R50 R50+R101 V16+R18+M3+D121 M3+R34+R50+R101 V16+R18+R34+R50+D121
    ALEX+V16+R18 D121+V16+R34 R50+V16+M3 R101+D121+M3 R34+R50+R101"
while [ $# -gt 0 ]; do
    case $1 in
    --minutes) minutes=$2; shift ;;
    --out) out=$2; shift ;;
    --device) device=$2; shift ;;
    --all) mixes="$mixes $all" ;;
    --decide) decide=yes ;;
    --survey) survey=yes ;;
    --grid) grid=yes ;;
    --dry-run) dry=yes ;;
    -h | --help) sed -n '2,29s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "campaign.sh: unknown option $1" >&2; exit 2 ;;
    *) mixes="$mixes $1" ;;
    esac
    shift
done
if [ -n "$dry" ] && [ -z "$decide" ]; then
    echo "campaign.sh: --dry-run goes with --decide" >&2
    exit 2
fi
if { [ -n "$survey" ] && [ -n "$decide$grid$mixes" ]; } || { [ -n "$grid" ] && [ -n "$decide" ]; }; then
    echo "campaign.sh: give one of --survey, --grid and --decide; --survey takes no mixes, MODELS lists its models" >&2
    exit 2
fi
minutes=${minutes:-$([ -n "$survey" ] && echo 30 || echo 60)}
[ -z "$decide" ] || [ -n "$mixes" ] || mixes="V16+R34 R50+R101 V16+R18+M3+D121"
[ -n "$mixes" ] || mixes="R18+M3+S2 R50+V16+M3 D121+V16+R101"
[ -z "${COMMANDS_DIR:-}" ] || PATH="$COMMANDS_DIR:$PATH"
TRAIN=${TRAIN:-"python3 $here/train.py"}
FLAGS=${FLAGS:-}
BATCHES=${BATCHES:-[128]}
SAMPLES=${SAMPLES:-50000}
CPUS=${CPUS:-auto}

model_of() {
    case $1 in
    ALEX) echo alexnet ;;
    V16) echo vgg16 ;;
    R18) echo resnet18 ;;
    R34) echo resnet34 ;;
    R50) echo resnet50 ;;
    R101) echo resnet101 ;;
    M3) echo mobilenet_v3_large ;;
    S2) echo shufflenet_v2_x1_0 ;;
    D121) echo densenet121 ;;
    *) echo "campaign.sh: unknown model $1 (ALEX V16 R18 R34 R50 R101 M3 S2 D121)" >&2; exit 2 ;;
    esac
}

json_words() {
    for word in "$@"; do printf '"%s",' "$word"; done
}

workload() { # MIX
    tasks=
    for short in $(echo "$1" | tr + ' '); do
        model=$(model_of "$short")
        # The command is split into words on purpose.
        argv=$(json_words $TRAIN --model "$model" $FLAGS)
        tasks="$tasks{\"id\":\"$short\",\"model\":\"$model\",\"batch_sizes\":$BATCHES,\"samples\":$SAMPLES,
            \"job\":{\"argv\":[${argv%,}],\"pool\":true}},"
    done
    printf '{"schema":"mt.workload/1","id":"%s","device":{"kind":"%s"},"tasks":[%s]}' \
        "$1" "$device" "${tasks%,}" | tr '\n' ' '
    echo
}

# Runs a command for at most so many seconds and then interrupts it like Ctrl-C. Every record that
# mt-profile has finished is written by then, and they are a profile that can be used and continued.
within() { # SECONDS COMMAND...
    limit=$1
    shift
    status=0
    timeout --signal=INT "$limit" "$@" || status=$?
    case $status in 0 | 124) return 0 ;; *) return "$status" ;; esac
}

measure() { # SECONDS OUTPUT ARGUMENTS...
    limit=$1 file=$2
    shift 2
    echo "+ mt-profile --resume $file -o $file $*" >>"$out/commands.txt"
    [ -z "$dry" ] || return 0
    within "$limit" mt-profile --cpus "$CPUS" --resume "$file" -o "$file" "$@"
}

count=$(echo "$mixes" | wc -w)
seconds=$((minutes * 60 / count))
for mix in $mixes; do
    for short in $(echo "$mix" | tr + ' '); do model_of "$short" >/dev/null; done
done
mkdir -p "$out"
{
    date -u '+%Y-%m-%d %H:%M UTC'
    uname -sr
    mt-profile --version
    nvidia-smi --query-gpu=name,uuid,driver_version,memory.total,compute_mode --format=csv 2>/dev/null ||
        echo "no nvidia-smi here"
    echo "device $device, train: $TRAIN $FLAGS, batches $BATCHES, cpus $CPUS"
} >"$out/environment.txt"

if [ -n "$survey" ]; then
    . "$here/survey.sh"
    exit 0
fi
if [ -n "$decide" ]; then
    . "$here/decide.sh"
    exit 0
fi

# Rows for mt-profile --configs: every task alone at every level, then all combinations, then every task alone once more,
# which shows how far repeats differ. Combinations come in an order without meaning (multiples of a number that shares no
# factor with theirs), so that drift does not look like an effect of shares.
combinations() { # MIX
    echo "$1" | tr + '\n' | awk -v batch="$batch" -v levels="${LEVELS:-30 50 70 100}" '
        function row(i, share) { printf "%d,%s,%d,%s\n", number, name[i], batch, share }
        { name[n++] = $1 }
        END {
            print "config,task,batch,share_percent"
            many = split(levels, level, " ")
            for (k = many; k > 0; k--) for (i = 0; i < n; i++) { row(i, level[k]); number++ }
            all = many ^ n
            step = int(all * 0.618)
            while (common(step, all) > 1) step++
            for (c = 1; c <= all; c++) {
                rest = (c * step + all - 1) % all
                for (i = 0; i < n; i++) { row(i, level[rest % many + 1]); rest = int(rest / many) }
                number++
            }
            for (k = many; k > 0; k--) for (i = 0; i < n; i++) { row(i, level[k]); number++ }
        }
        function common(a, b,    t) { while (b) { t = a % b; a = b; b = t } return a }'
}

if [ -n "$grid" ]; then
    batch=$(echo "$BATCHES" | tr -d '[] ' | cut -d, -f1)
    for mix in $mixes; do
        folder=$out/$mix
        mkdir -p "$folder"
        workload "$mix" >"$folder/workload.json"
        combinations "$mix" >"$folder/configurations.csv"
        measure "$seconds" "$folder/grid.ndjson" --configs "$folder/configurations.csv" --precision 2 \
            --window "${WINDOW:-1.5}" --max-window "${MAX_WINDOW:-4}" "$folder/workload.json"
        mt-report --format csv --table samples "$folder/grid.ndjson" >"$folder/samples.csv"
    done
    exit 0
fi

for mix in $mixes; do
    folder=$out/$mix
    mkdir -p "$folder"
    echo "== $mix: $seconds s" >&2
    workload "$mix" >"$folder/workload.json"
    # Half of the time is for learning, a third for verifying, the rest for the sweep. With steps of 10 % the
    # workers, one for each task and share, fit into memory.
    measure $((seconds / 2)) "$folder/profile.ndjson" --batch free --budget 120 --share-step 10 "$folder/workload.json"
    mt-fit "$folder/profile.ndjson" >"$folder/model.json"
    mt-solve --objective raw --batch free "$folder/model.json" >"$folder/plan.json"
    # The plan, every static baseline and each task alone, three times each.
    measure $((seconds / 3)) "$folder/verified.ndjson" --configs "$folder/plan.json" --baselines --solos --repeats 3
    : >"$folder/sweep.plans"
    for rv in 100 150 200 250 300 400 500; do
        [ "$rv" -le $((100 * $(echo "$mix" | tr + ' ' | wc -w))) ] || continue
        mt-solve --objective raw --batch free --rv "$rv" "$folder/model.json" >>"$folder/sweep.plans" || echo "$mix: nothing feasible at R_v $rv" >&2
    done
    measure $((seconds / 6)) "$folder/sweep.ndjson" --configs "$folder/sweep.plans"
    mt-report --format svg --picture sweep "$folder/sweep.plans" "$folder/sweep.ndjson" -o "$folder/rv.svg"
    # The five best co-runs of the profile, twice more: how much do repeats differ?
    tasks=$(echo "$mix" | tr + ' ' | wc -w)
    mt-report --format csv --table samples "$folder/profile.ndjson" >"$folder/samples.csv"
    awk -F, -v tasks="$tasks" '
        $1 ~ /^[0-9]+$/ { total[$1] += $5; seen[$1]++ }
        END { for (c in total) if (seen[c] == tasks) printf "%.3f %s\n", total[c], c }' "$folder/samples.csv" |
        sort -rn | head -5 | cut -d' ' -f2 >"$folder/best.txt"
    awk -F, 'NR == FNR { best[$1] = 1; next } /^config/ || $1 in best { print $1 "," $2 "," $3 "," $4 }' \
        "$folder/best.txt" "$folder/samples.csv" >"$folder/best.csv"
    for again in 1 2; do
        measure $((seconds / 12)) "$folder/repeat-$again.ndjson" --configs "$folder/best.csv" "$folder/workload.json"
    done
    mt-report --format md "$folder/plan.json" "$folder/verified.ndjson" >"$folder/report.md"
    {
        echo
        mt-report --format md --table sweep "$folder/sweep.plans" "$folder/sweep.ndjson"
        echo
        echo "**The best five again, twice** (samples/s in all)"
        echo
        echo "| co-run | first | second |"
        echo "| ---: | ---: | ---: |"
        for again in 1 2; do
            mt-report --format csv --table samples "$folder/repeat-$again.ndjson" |
                awk -F, -v again="$again" '/^[0-9]/ { total[$1] += $5 } END { for (c in total) print c, again, total[c] }'
        done | sort -n | awk '{ if ($2 == 1) first[$1] = $3; else print "| " $1 " | " first[$1] " | " $3 " |" }'
    } >>"$folder/report.md"
done

{
    echo "# Campaign"
    echo
    sed 's/^/    /' "$out/environment.txt"
    for mix in $mixes; do
        echo
        echo "# $mix"
        echo
        cat "$out/$mix/report.md"
    done
} >"$out/report.md"
echo "results: $out/report.md" >&2
