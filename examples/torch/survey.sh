# Pairs and triples of many models in half an hour; part of campaign.sh --survey.
#
# First it finds out what works here: MPS, else time slices (every process may use the whole GPU, and
# the driver switches between them). Then it measures each model alone and the co-runs of a list, in the
# order of the list: whenever it ends, the measurements are balanced over the models. It can be killed at
# any moment; when started again, it measures what is missing.

MODELS=${MODELS:-"R18 R50 M3 V16 D121 R34 S2 ALEX R101"}
batch=$(echo "$BATCHES" | tr -d '[] ' | cut -d, -f1)
# What time slices vary in place of shares.
small=$(((batch + 3) / 4))
window=${WINDOW:-1.5}
longest=${MAX_WINDOW:-4}
deadline=$(($(date +%s) + 60 * minutes))
profile=$out/profile.ndjson
slices=$out/slices.csv

left() { echo $((deadline - $(date +%s))); }

# The co-runs: config, task, batch, share. With nine models the twelve lines of the affine plane of order 3 are
# triples that contain every pair once. Pairs come in rounds that contain every model at most once (the circle
# method). So every prefix of a block treats the models as equally as possible. The first block measures the cost of
# full sharing with the fewest samples (triples), the next the extremes of sharing for pairs, then what lies between.
# There are four levels of shares, so at most four processes of a model have to be started. With 30, 50, 70 and
# 100 %, pairs have sums from 100 to 200 % and triples from 110 to 300 %.
configurations() {
    echo "config,task,batch,share_percent"
    for model in $MODELS; do echo "$model"; done | awk -v batch="$batch" -v small="$small" -v mode="$mode" '
        # A level is a share; time slices know none, and vary the batch size instead.
        function row(i, level) {
            if (mode == "slices") printf "%d,%s,%d,100\n", number, name[i], level
            else printf "%d,%s,%d,%d\n", number, name[i], batch, level
        }
        # The levels rotate from one co-run of a block to the next, so that each model gets each of them.
        function pairs(a, b,    turn, round, k, i, j, even, other) {
            even = n % 2 ? n + 1 : n
            for (round = 0; round < even - 1; round++)
                for (k = 0; k < even / 2; k++) {
                    i = k == 0 ? even - 1 : (round + k) % (even - 1)
                    j = (round - k + even - 1) % (even - 1)
                    if (i >= n || j >= n) continue
                    if (i > j) { other = i; i = j; j = other }
                    turn = (round + k) % 2
                    row(i, turn ? b : a); row(j, turn ? a : b); number++
                }
        }
        function triples(a, b, c,    line, p, i, s, turn) {
            s[0] = a; s[1] = b; s[2] = c
            for (line = 0; line < 12; line++) {
                split(lines[line], p, " ")
                if (p[3] >= n) continue
                turn++
                for (i = 1; i <= 3; i++) row(p[i], s[(i + turn) % 3])
                number++
            }
        }
        { name[n++] = $1 }
        END {
            split("0 1 2,3 4 5,6 7 8,0 3 6,1 4 7,2 5 8,0 4 8,1 5 6,2 3 7,0 5 7,1 3 8,2 4 6", all, ",")
            for (k = 1; k <= 12; k++) lines[k - 1] = all[k]
            if (mode == "slices") {
                triples(batch, batch, batch); pairs(batch, batch); pairs(small, small); triples(small, small, small)
                pairs(small, batch); triples(small, batch, batch); triples(small, small, batch)
                exit
            }
            triples(100, 100, 100); pairs(100, 100); pairs(50, 50); triples(50, 30, 30); triples(70, 70, 70); pairs(30, 70)
            triples(50, 70, 100); triples(50, 50, 50); pairs(70, 70); triples(100, 70, 100); triples(30, 70, 100)
        }'
}

# Nine tasks whose jobs are parked while others are measured, so that each is started once for each share.
survey_workload() { workload "$(echo "$MODELS" | tr ' ' +)"; }

# What works: mps, or why not. Once found, the answer is kept, so that a folder contains one kind of figures.
find_mode() {
    if [ -s "$out/mode" ]; then
        mode=$(cat "$out/mode")
        return 0
    fi
    case $device in
    cuda)
        first=$(echo "$MODELS" | cut -d' ' -f1)
        printf 'config,task,batch,share_percent\n0,%s,%s,50\n' "$first" "$batch" >"$out/probe.csv"
        status=0
        within 180 mt-profile --device cuda --cpus "$CPUS" --window 0.2 --max-window 0.5 --force -o "$out/probe.ndjson" \
            --configs "$out/probe.csv" "$out/probe.json" 2>"$out/probe.txt" || status=$?
        if [ "$status" = 0 ] && grep -q '"record":"sample"' "$out/probe.ndjson"; then
            mode=mps
        else
            mode=slices
            echo "no MPS here, so time slices: $(tail -n 1 "$out/probe.txt")" >&2
        fi
        ;;
    *) mode=$device ;;
    esac
    echo "$mode" >"$out/mode"
}

# Every five seconds until it has ended: how many configurations are measured, and the clocks of the GPU. When the time
# is up, mt-profile is interrupted as by Ctrl-C: every finished record is written.
watch() { # PID
    begun=$(date +%s)
    while kill -0 "$1" 2>/dev/null; do
        [ "$(left)" -gt 0 ] || kill -TERM "$1"
        echo "$(($(date +%s) - begun)),$(measured)" >>"$out/progress.csv"
        nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,temperature.gpu,power.draw --format=csv,noheader \
            >>"$out/clocks.csv" 2>/dev/null || true
        sleep 5
    done
}

measured() {
    if [ "$mode" = slices ]; then
        [ -f "$slices" ] && awk -F, 'NR > 1 && !seen[$1]++ { n++ } END { print n + 0 }' "$slices" || echo 0
    else
        [ -f "$profile" ] && grep -c '"record":"sample"' "$profile" || echo 0
    fi
}

# A measurement of this folder that a killed campaign.sh left behind would write to the same file.
if [ -s "$out/running" ] && grep -q -e mt-profile -e slices.py "/proc/$(cat "$out/running")/cmdline" 2>/dev/null; then
    echo "stopping the measurement that was left running" >&2
    kill -TERM "$(cat "$out/running")"
    while kill -0 "$(cat "$out/running")" 2>/dev/null; do sleep 0.2; done
fi
survey_workload >"$out/probe.json"
find_mode
[ "$mode" != slices ] || BATCHES="[$small,$batch]"
survey_workload >"$out/workload.json"
configurations >"$out/configurations.csv"
sizes=$(echo "$BATCHES" | tr -d '[] ' | tr , ' ' | wc -w)
wanted=$(($(tail -n 1 "$out/configurations.csv" | cut -d, -f1) + 1 + $(echo "$MODELS" | wc -w) * sizes))
echo "== $mode: $wanted configurations wanted, $(measured) measured, $(left) s" >&2
: >>"$out/progress.csv"
echo "start,$(measured)" >>"$out/progress.csv"
# Without MPS the processes need neither a daemon nor control groups, which a sandbox may forbid too.
if [ "$mode" = slices ]; then
    python3 "$here/slices.py" --workload "$out/workload.json" --configurations "$out/configurations.csv" \
        --output "$slices" --window "$window" --longest "$longest" --logs "$out/logs" &
else
    mt-profile --cpus "$CPUS" --window "$window" --max-window "$longest" --precision 2 --solos \
        --configs "$out/configurations.csv" --resume "$profile" -o "$profile" "$out/workload.json" &
fi
running=$!
echo $running >"$out/running"
trap 'kill -TERM $running 2>/dev/null; wait $running; exit 130' INT TERM
watch $running &
watcher=$!
status=0
wait $running || status=$?
rm -f "$out/running"
kill $watcher 2>/dev/null || true
echo "end,$(measured)" >>"$out/progress.csv"
# A run that was stopped when its time was up has done what was asked.
[ "$(left)" -gt 0 ] || status=0
[ "$status" = 0 ] || echo "campaign.sh: the measurement ended with $status; what was measured is kept" >&2
if [ "$mode" = slices ]; then
    sed 's/"kind":"[a-z]*"/"kind":"replay"/' "$out/workload.json" >"$out/replay.json"
    mt-profile --force --import "$slices" -o "$profile" "$out/replay.json"
fi

# A row for each task of each configuration, and where it was measured.
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 | tr , ' ') || gpu=
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1) || driver=
# The median of the SM clock while it was measured, in MHz.
clock=$(cut -d, -f2 "$out/clocks.csv" 2>/dev/null | tr -dc '0-9\n' | sort -n | awk '{ c[NR] = $1 } END { if (NR) print c[int((NR + 1) / 2)] }')
mt-report --format csv --table samples "$profile" | awk -v where="$(uname -n),${gpu:-none},${driver:-none},${clock:-unknown},$mode" '
    NR == 1 { print $0 ",machine,gpu,driver,sm_clock_mhz,mode"; next } NF { print $0 "," where }' >"$out/samples.csv"
mt-fit "$profile" >"$out/model.json" 2>"$out/fit.txt" || echo "campaign.sh: no model yet: $(tail -n 1 "$out/fit.txt")" >&2
{
    echo "# Survey"
    echo
    sed 's/^/    /' "$out/environment.txt"
    echo
    echo "Mode: $mode. $(measured) of $wanted configurations measured."
    echo
    echo "| minute | configurations measured |"
    echo "| ---: | ---: |"
    # Each start counts on from the one before.
    awk -F, '$1 == "start" { base = last; next } $1 == "end" { print last / 60, $2; next }
        { last = base + $1; if (int(last / 60) > shown || !seen) { shown = int(last / 60); seen = 1; print shown, $2 } }' \
        "$out/progress.csv" | awk '{ printf "| %.1f | %d |\n", $1, $2 }'
    echo
    echo '```'
    cat "$out/fit.txt"
    echo '```'
} >"$out/report.md"
echo "results: $out/report.md and $out/samples.csv" >&2
[ "$status" = 0 ]
