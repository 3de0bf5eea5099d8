#!/bin/sh
# What `mt try` says of two copies of each script, how long `mt run` takes for both, and the truth by hand: one after
# another and together, each measured once to the end. Writes RESULTS.md; takes two hours on a quiet machine,
# EXAMPLE_SCALE=0.25 half an hour. SCRIPTS names some of them, the others' rows are left out. Needs Rscript, and a python3
# with lightgbm, xgboost and optuna.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export EXAMPLE_SCALE="${EXAMPLE_SCALE:-1}" PYTHONUNBUFFERED=1
all="fixed_epochs,endless,bars,epochs_only,silent,crash_at_start,crash_later,crash_together,needs_arguments"
all="$all,needs_arguments.py --data /tmp,two_gpus,loaders,slow_start,all_cores"
all="$all,light_trees,boosted_trees,study,lock,pipe.sh,trains.R"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

now() { date +%s.%N; }
since() { echo "$(now) $1" | awk '{ printf "%.1f", $1 - $2 }'; }

# Two runs of a command one after another, then two at once: seconds of each.
by_hand() {
    start=$(now)
    if ! { $1 && $1; } > /dev/null 2>&1; then
        echo "fails alone"
        return
    fi
    serial=$(since "$start")
    start=$(now)
    $1 > /dev/null 2>&1 & first=$!
    $1 > /dev/null 2>&1 & second=$!
    failed=0
    wait $first || failed=1
    wait $second || failed=1
    if [ $failed = 1 ]; then
        echo "$serial s one after another, fails together"
    else
        echo "$serial $(since "$start")" |
            awk '{ printf "%s s one after another, %s s together (%+.0f %%)", $1, $2, 100 * ($1 / $2 - 1) }'
    fi
}

# For a script that never ends: its steps in 20 s alone, and those of two copies at once.
by_count() {
    timeout 20 $1 > alone 2> /dev/null || true
    timeout 20 $1 > first 2> /dev/null & first=$!
    timeout 20 $1 > second 2> /dev/null || true
    wait $first || true
    tail -qn1 alone first second | awk '{ n[NR] = $2 }
        END { printf "%d steps in 20 s alone, %d + %d together (%+.0f %%)", n[1], n[2], n[3], 100 * ((n[2] + n[3]) / n[1] - 1) }'
}

# How long `mt run` took for both copies, and its last line. A script that never ends is stopped after a minute.
by_run() {
    start=$(now)
    timeout -s INT "$2" mt run "$1" "$1" -o ran > run 2>&1 || true
    echo "$(since "$start") s: $(grep -v '^ *|' run | tail -1)"
}

# The row of a script.
row() {
    script=$1
    case $script in
        *.py*) line="python3 $here/$script" ;;
        *.sh) line="sh $here/$script" ;;
        *.R) line="Rscript $here/$script" ;;
        *) line="python3 $here/$script.py" ;;
    esac
    start=$(now)
    said=$(mt try "$line" -o out 2> err || sed -n 's/^mt: //p' err | grep -v '^  |' | head -1)
    took=$(since "$start")
    said=$(echo "$said" | grep -E 'Worth|Not worth|Cannot|Not together|fails' | head -1)
    case $script in endless) run=$(by_run "$line" 60) ;; *) run=$(by_run "$line" 600) ;; esac
    rm -rf out ran
    # As mt starts them.
    export GOMP_SPINCOUNT=1000
    case $script in endless) truth=$(by_count "$line") ;; *) truth=$(by_hand "$line") ;; esac
    unset GOMP_SPINCOUNT
    case $script in *_trees) truth="$truth; without \`GOMP_SPINCOUNT\` $(by_hand "$line")" ;; esac
    echo "| \`$script\` | $said | $took s | $run | $truth | $(cut -d' ' -f1 /proc/loadavg) |"
}

{
    echo "# Two copies of each script"
    echo
    echo "Made by \`EXAMPLE_SCALE=$EXAMPLE_SCALE sh examples/scripts/run.sh\` on $(nproc) processors; load average at the"
    echo "beginning $(cut -d' ' -f1 /proc/loadavg). Every figure is from a single run. If the length of a script is unknown, \`mt try\` compares"
    echo "a minute of work of each copy (120 s one after another); then only the percentages can be compared with those by hand."
    echo "By hand they ran with \`GOMP_SPINCOUNT=1000\`, which mt sets, too."
    echo
    echo "| script | \`mt try\` says | took | \`mt run\` took | by hand | load |"
    echo "|---|---|---|---|---|---|"
    echo "${SCRIPTS:-$all}" | tr , '\n' | while read -r script; do
        row "$script" < /dev/null
    done
} > "$work/table"
# The part before, on false answers, is made by errors.py.
sed '/^# Two copies of each script/,$d' "$here/RESULTS.md" > "$work/page"
cat "$work/table" >> "$work/page"
cp "$work/page" "$here/RESULTS.md"
