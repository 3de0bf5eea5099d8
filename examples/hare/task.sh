#!/bin/sh
# A task that sleeps in place of training: FAST SLOW SYNC seconds, by the type of its GPU.
set -eu
case $MT_GPU_TYPE in
    fast) sleep "$1" ;;
    *) sleep "$2" ;;
esac
echo '{"mt":"done"}'
sleep "$3"
