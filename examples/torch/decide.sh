# The measurements that decide between explanations of how shares work on hardware; part of campaign.sh --decide.
#
# The questions, and the measurements that answer them:
#   1. Is the best equal share the same for every mix?          equal shares from 30 to 100 %
#   2. What are different shares worth over equal ones?         one task at 90 or 40 %, the others apart
#   3. Do reported gains hold for work, or only for a window?   the same volumes run to their end
#   4. How many blocks of a kernel does an SM take?             Nsight Compute on a few steps of each task

batch=$(echo "$BATCHES" | tr -d '[] ' | cut -d, -f1)
# Images of each task in runs to their end: some 20 s alone on a GPU of the paper.
work=${WORK:-30000}
: >"$out/commands.txt"

# One configuration as rows for mt-profile --configs: NUMBER SHARE... in the order of the tasks.
configuration() {
    number=$1
    shift
    for short in $(echo "$mix" | tr + ' '); do
        echo "$number,$short,$batch,$1"
        shift
    done
}

# Every configuration of questions 1 and 2.
configurations() {
    many=$(echo "$mix" | tr + ' ' | wc -w)
    number=0
    echo "config,task,batch,share_percent"
    for share in 30 40 50 60 70 80 90 100; do
        configuration $number $(for _ in $(seq "$many"); do echo $share; done)
        number=$((number + 1))
    done
    for odd in $(seq "$many"); do
        for pair in "90 60" "40 70"; do
            configuration $number $(for i in $(seq "$many"); do
                if [ "$i" = "$odd" ]; then echo "${pair% *}"; else echo "${pair#* }"; fi
            done)
            number=$((number + 1))
        done
    done
}

# A plan by hand: everyone at one share, the same volume for each.
by_hand() { # SHARE
    list=
    for short in $(echo "$mix" | tr + ' '); do
        list="$list{\"id\":\"$short\",\"batch\":$batch,\"share_percent\":$1,\"samples\":$work},"
    done
    printf '{"schema":"mt.plan/1","id":"%s at %s","tasks":[%s],"workload":%s}\n' \
        "$mix" "$1" "${list%,}" "$(workload "$mix")"
}

launch() { # SECONDS PLAN RUN
    echo "+ mt-launch --force --cpus $CPUS -o $3 $2" >>"$out/commands.txt"
    [ -z "$dry" ] || return 0
    within "$1" mt-launch --force --cpus "$CPUS" -o "$3" "$2"
}

# For every kernel its registers, its shared memory, its block size and what limits its blocks on an SM. Reading
# a kernel's counters takes an extra pass, so 2,000 launches, of one step or a few, are enough.
blocks() { # SECONDS MODEL TABLE
    metrics=launch__grid_size,launch__block_size,launch__registers_per_thread
    metrics=$metrics,launch__shared_mem_per_block,launch__occupancy_limit_blocks
    metrics=$metrics,launch__occupancy_limit_registers,launch__occupancy_limit_shared_mem
    metrics=$metrics,launch__occupancy_limit_warps,sm__warps_active.avg.pct_of_peak_sustained_active
    echo "+ ncu --csv --launch-count 2000 --metrics $metrics $TRAIN --model $2 $FLAGS --batch $batch --samples $((3 * batch)) >$3" \
        >>"$out/commands.txt"
    [ -z "$dry" ] || return 0
    if ! command -v ncu >/dev/null 2>&1; then
        echo "campaign.sh: no ncu (Nsight Compute) on PATH, so the blocks of $2 are not counted" >&2
        return 0
    fi
    within "$1" ncu --csv --launch-count 2000 --metrics "$metrics" $TRAIN --model "$2" $FLAGS \
        --batch "$batch" --samples $((3 * batch)) >"$3" ||
        echo "campaign.sh: ncu failed on $2; counters may be forbidden to users" >&2
}

# The shares and the total images per second of every co-run of all tasks in a profile.
totals() { # PROFILE TASKS
    mt-report --format csv --table samples "$1" | awk -F, -v tasks="$2" '
        $1 ~ /^[0-9]+$/ { total[$1] += $5; seen[$1]++; shares[$1] = shares[$1] (seen[$1] > 1 ? "/" : "") $4 }
        END { for (c in total) if (seen[c] == tasks) print shares[c], total[c] }' | sort -k2,2 -rn
}

answer() {
    many=$(echo "$mix" | tr + ' ' | wc -w)
    totals "$folder/window.ndjson" "$many" >"$folder/totals.txt"
    echo "# $mix"
    echo
    echo "| shares % | samples/s in all | over everyone at 100 % |"
    echo "| ---: | ---: | ---: |"
    awk '
        NR == FNR { n = split($1, s, "/"); full = 1; for (i = 1; i <= n; i++) if (s[i] != 100) full = 0
                    if (full) base = $2; next }
        { printf "| %s | %.0f | %s |\n", $1, $2, base ? sprintf("%.3f", $2 / base) : "" }' \
        "$folder/totals.txt" "$folder/totals.txt"
    echo
    awk '{ n = split($1, s, "/"); same = 1; for (i = 2; i <= n; i++) if (s[i] != s[1]) same = 0
           if (same && !equal) { equal = $2; at = $1 } if (!same && !apart) { apart = $2; where = $1 } }
         END { if (equal && apart) printf "Best equal shares %s, best different shares %s: %+.1f %%.\n", at, where, 100 * (apart / equal - 1) }' \
        "$folder/totals.txt"
    echo
    echo "| all run to their end at % | round s | samples/s in all |"
    echo "| ---: | ---: | ---: |"
    for share in $shares; do
        # The round of a run is in its last record.
        sed -n 's/.*"event":"summary".*"makespan_s":\([0-9.e+-]*\).*/\1/p' "$folder/work-$share.ndjson" |
            awk -v share="$share" -v images=$((many * work)) '{ printf "| %s | %.1f | %.0f |\n", share, $1, images / $1 }'
    done
    echo
}

for mix in $mixes; do
    folder=$out/$mix
    mkdir -p "$folder"
    many=$(echo "$mix" | tr + ' ' | wc -w)
    shares="$((100 / many)) 60 70 100"
    workload "$mix" >"$folder/workload.json"
    configurations >"$folder/configurations.csv"
    for share in $shares; do by_hand "$share" >"$folder/work-$share.json"; done
    # Six tenths of the time for the windows, three for the rounds, the rest for the counters.
    measure $((seconds * 6 / 10)) "$folder/window.ndjson" --configs "$folder/configurations.csv" \
        --solos --repeats 2 "$folder/workload.json"
    for share in $shares; do
        launch $((seconds * 3 / 40)) "$folder/work-$share.json" "$folder/work-$share.ndjson"
    done
    if [ "$device" = cuda ]; then
        for short in $(echo "$mix" | tr + ' '); do
            model=$(model_of "$short")
            blocks $((seconds / 10 / many)) "$model" "$folder/blocks-$short.csv"
        done
    fi
    [ -n "$dry" ] || answer >"$folder/report.md"
done

if [ -n "$dry" ]; then
    cat "$out/commands.txt"
else
    cat "$out"/*/report.md >"$out/report.md"
    echo "results: $out/report.md" >&2
fi
