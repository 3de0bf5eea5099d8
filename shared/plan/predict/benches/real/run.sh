#!/bin/sh
# Measurements of others through the ordinary tools: tables.py leaves out a part of the data at a
# time, `mt-profile --import` reads the tables, `mt-fit --test` learns the rest and judges itself on
# the part. Run from the workspace root; DATA is where the measurements lie.
set -eu
here=$(dirname "$0")
data=${DATA:-../shared/data}
out=target/predict-real
if [ ! -d "$data" ]; then
    echo "no measurements of others in $data: nothing to do"
    exit 0
fi
rm -rf "$out"
python3 "$here/tables.py" "$data" "$out"
make -s build
PATH="$PWD/target/release:$PATH"
for part in "$out"/*/; do
    mt-profile --import "$part/held.csv" "$part/workload.json" >"$part/held.ndjson"
    mt-profile --import "$part/train.csv" "$part/workload.json" |
        mt-fit --quiet --test "$part/held.ndjson" --output "$part/model.json" 2>"$part/said"
    printf '%s ' "$(basename "$part")"
    grep '^test: ' "$part/said"
done | tee "$out/all" | awk '
    { split($1, name, "."); key = name[1] "." name[2]
      rates[key] += $3; sum[key] += $3 * $6; middle[key] += $3 * $11; hold[key] += $3 * $(NF - 1) }
    END { for (key in rates) printf "%-22s %5d throughputs, error %5.2f %% in the mean, %5.2f %% in the mean of the medians of the parts; 90 %% intervals hold %.0f %%\n",
        key, rates[key], sum[key] / rates[key], middle[key] / rates[key], hold[key] / rates[key] }' |
    sort
cat <<'END'
gavel: a job is a task (the model) at a batch size; both of a pair have the whole device (share 100 %);
  pairs: a tenth of the pairs left out; jobs: all pairs of one job left out, its solo run is known
miso: throughput at the slices of 2, 3, 4 sevenths, each left out in turn; the share of a slice is the
  harmonic mean of its parts of processors and memory (both: a step needs as much of the one as of the
  other, if nobody knows better), or one of the two alone (compute, memory); nothing of it is fitted
END
