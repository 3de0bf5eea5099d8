#!/bin/sh
# A training job that speaks the worker protocol and trains nothing, on a GPU of 80 SMs.
# With MT_POOL it obeys standard input, without it runs at once.
# FAKE_STARTS: file to note each start in.  FAKE_START_S: seconds that it takes to start.
# FAKE_STEP_S: seconds of a step.  FAKE_FITS: clients that fit into memory together.
# FAKE_MODE (words): misses (silently misses the daemon), unaware (tells nothing of MPS),
#   late (misses it only the first time, by FAKE_STARTS), hangs (never gets ready),
#   restless (says that it is parked and trains on), deaf (ignores SIGTERM), whole (sees all SMs), stalls (makes no steps),
#   faults (its first step brings the server down, once FAKE_CLIENTS are connected).
CONTROL=@CONTROL@
S=$CUDA_MPS_PIPE_DIRECTORY/fake
mode() { case " $FAKE_MODE " in *" $1 "*) return 0 ;; esac; return 1; }
mode deaf && trap '' TERM
[ -n "$FAKE_STARTS" ] && echo "$MT_TASK $MT_SHARE_PERCENT" >>"$FAKE_STARTS"
mode hangs && { while :; do sleep 1; done; }
sleep "${FAKE_START_S:-0}"
mps=false
percent=100
mode late && [ "$(grep -c "^$MT_TASK " "$FAKE_STARTS")" = 1 ] && FAKE_MODE=misses
if ! mode misses; then
    percent=$("$CONTROL" --connect $$)
    case $? in
    0) mps=true ;;
    2) echo "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED" >&2; exit 1 ;;
    *) percent=100 ;;
    esac
fi
if [ -n "$FAKE_FITS" ] && [ "$(ls "$S/clients" | wc -l)" -gt "$FAKE_FITS" ]; then
    echo "CUDA out of memory" >&2
    exit 1
fi
mode whole && percent=100
sms=$(((80 * ${percent%%.*} + 99) / 100))
batch=$MT_BATCH_SIZE
emitter=
train() {
    mode stalls && return
    if mode faults; then
        until [ "$(ls "$S/clients" | wc -l)" -ge "${FAKE_CLIENTS:-1}" ]; do sleep 0.02; done
        echo FAULT >"$S/status.$$" && mv "$S/status.$$" "$S/status"
        echo "CUDA_ERROR_ILLEGAL_ADDRESS" >&2
        exit 1
    fi
    while :; do
        echo "{\"mt\":\"step\",\"samples\":$batch,\"loss\":1.5}"
        sleep "${FAKE_STEP_S:-0.01}"
    done &
    emitter=$!
}
stop() { [ -n "$emitter" ] && kill "$emitter" && wait "$emitter" 2>/dev/null; emitter=; }
if mode unaware; then echo '{"mt":"ready"}'; else
    echo "{\"mt\":\"ready\",\"mps\":$mps,\"sms\":$sms}"
fi
if [ -z "$MT_POOL" ]; then
    train
    wait
    exit 0
fi
while read -r word argument; do
    case $word in
    run) train ;;
    park) mode restless || stop; echo '{"mt":"parked"}' ;;
    batch) batch=$argument ;;
    quit) break ;;
    esac
done
stop
exit 0
