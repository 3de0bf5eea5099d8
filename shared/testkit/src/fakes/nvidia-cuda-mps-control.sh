#!/bin/sh
# Imitates what NVIDIA documents of its MPS control program, with files for state.
# Knobs (files in $FAKE): start_fails, start_hangs, mute, terminate_fails, quit_ignored,
# With -p 3, or with CUDA_MPS_PROTOCOL_VERSION=3, the daemon speaks MPS v3 and knows no command of version 2.
# stays_faulted, limit (a number), zombies (clients that have ended stay in the list). Every command is appended to $FAKE/commands.
FAKE=@FAKE@
P=${CUDA_MPS_PIPE_DIRECTORY:-/tmp/nvidia-mps}
S=$P/fake
# A state or a process id is never seen half-written.
put() { echo "$1" >"$2.$$" && mv "$2.$$" "$2"; }
# A process that has ended but is not waited for yet has no connection any more.
lives() { read -r _ _ state _ 2>/dev/null <"/proc/$1/stat" && [ "$state" != Z ]; }
alive() { [ -f "$1" ] && lives "$(cat "$1")"; }
clients() {
    for c in "$S"/clients/*; do
        [ -f "$c" ] || continue
        if lives "${c##*/}" || [ -f "$FAKE/zombies" ]; then echo "${c##*/}"; else rm -f "$c"; fi
    done
}
case $1 in
-d)
    [ -f "$FAKE/start_fails" ] && { echo "An instance of this daemon is already running"; exit 1; }
    [ -f "$FAKE/start_hangs" ] && exec sleep 60
    mkdir -p "$S/clients" && mkfifo "$S/block" || exit 1
    rm -f "$S/v3"
    # The variable takes precedence.
    [ "$2" = -p ] && protocol=$3
    [ "${CUDA_MPS_PROTOCOL_VERSION:-$protocol}" = 3 ] && : >"$S/v3"
    setsid "$0" --process "$S/daemon.pid" </dev/null >/dev/null 2>&1 &
    put $! "$S/daemon.pid"
    echo "start CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES" >>"$FAKE/commands"
    exit 0 ;;
--process)
    # The daemon and the server: they read from a pipe that is never written to, and so live until they are killed.
    put $$ "$2"
    read -r _ <"$S/block"
    exit 0 ;;
--connect)
    # What the driver does for a client (pid $2) that finds the daemon; prints its percentage.
    alive "$S/daemon.pid" || exit 1
    # The real server is the daemon's child and nothing of the client's.
    unset MT_JOB_MARK CORNER
    until mkdir "$S/gate" 2>/dev/null; do sleep 0.01; done
    if ! alive "$S/server.pid"; then
        put ACTIVE "$S/status"
        setsid "$0" --process "$S/server.pid" nvidia-cuda-mps-server </dev/null >/dev/null 2>&1 &
        put $! "$S/server.pid"
    fi
    rmdir "$S/gate"
    # New clients wait until a faulted server has recovered.
    while [ "$(cat "$S/status")" = FAULT ]; do
        echo "get_server_status $(cat "$S/server.pid")" | "$0" >/dev/null
        sleep 0.02
    done
    limit=48
    [ -f "$FAKE/limit" ] && limit=$(cat "$FAKE/limit")
    [ "$(clients | wc -l)" -ge "$limit" ] && exit 2
    : >"$S/clients/$2"
    if [ -n "$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" ]; then echo "$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
    elif [ -f "$S/percentage" ]; then cat "$S/percentage"
    else echo 100; fi
    exit 0 ;;
server)
    alive "$S/daemon.pid" && [ -f "$S/v3" ] || { echo "usage: nvidia-cuda-mps-control [-d | -f]"; exit 1; }
    echo "NAME PID STATUS"
    exit 0 ;;
esac
[ -f "$FAKE/mute" ] && exec sleep 60
read -r command a b _
echo "$command $a $b" >>"$FAKE/commands"
alive "$S/daemon.pid" || { echo "Cannot find MPS control daemon process"; exit 1; }
[ -f "$S/v3" ] && { echo "error: expected a module and a verb; see --help"; exit 1; }
server=
alive "$S/server.pid" && server=$(cat "$S/server.pid")
case $command in
get_server_list) [ -n "$server" ] && echo "$server" ;;
get_client_list) clients ;;
get_server_status)
    if [ "$(cat "$S/status")" = FAULT ] && [ -z "$(clients)" ] && [ ! -f "$FAKE/stays_faulted" ]; then
        put INITIALIZING "$S/status"
        echo INITIALIZING
    elif [ "$(cat "$S/status")" = INITIALIZING ]; then
        put ACTIVE "$S/status"
        echo ACTIVE
    else
        cat "$S/status"
    fi ;;
set_active_thread_percentage | set_default_active_thread_percentage)
    # Only clients that connect later see it.
    echo "${b:-$a}" >"$S/percentage" ;;
terminate_client)
    if [ -f "$FAKE/terminate_fails" ] || [ ! -f "$S/clients/$b" ]; then
        echo "Failed to terminate client $b"
    else
        : >"$S/clients/$b.terminated"
        mv "$S/clients/$b.terminated" "$FAKE/terminated.$b"
        kill -TERM "$b"
    fi ;;
quit)
    [ -f "$FAKE/quit_ignored" ] && exit 0
    for f in server daemon; do
        alive "$S/$f.pid" && kill "$(cat "$S/$f.pid")"
        rm -f "$S/$f.pid"
    done ;;
*) echo "Invalid command" ;;
esac
exit 0
