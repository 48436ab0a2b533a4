#!/bin/sh
# Start training/run_all.sh in a session of its own, or go on watching it; then copy what there is so far.
#   sh training/attach.sh RUN HEADS OUT WATCH_SECONDS RENDERER_SECONDS SPEECH_SECONDS [WORKERS] [PEOPLE]
# For machines whose commands are limited in time: call it again until RUN/all_done exists.
set -eu
run=$1 heads=$2 out=$3 watch_s=$4
shift 4
began=$(date +%s)
mkdir -p "$run" "$out"
if [ ! -e "$run/all_done" ] && ! { [ -e "$run/pid" ] && kill -0 "$(cat "$run/pid")" 2>/dev/null; }; then
    setsid sh training/run_all.sh "$run" "$heads" "$@" >>"$run/run.log" 2>&1 </dev/null &
    echo $! >"$run/pid"
fi
while [ ! -e "$run/all_done" ] && [ $(($(date +%s) - began)) -lt "$watch_s" ]; do
    kill -0 "$(cat "$run/pid")" 2>/dev/null || break
    sleep 1
done
cp "$run"/export/* "$run"/preview.jpg "$out"/ 2>/dev/null || true
cat "$run"/run.log "$run"/workers.log "$run"/speech.log "$run"/renderer.log >"$out/all.log" 2>/dev/null || true
tail -n 3 "$run"/run.log "$run"/workers.log 2>/dev/null || true
tail -n 8 "$run"/speech.log 2>/dev/null || true
tail -n 25 "$run"/renderer.log 2>/dev/null || true
[ -e "$run/all_done" ] && echo finished || echo "not finished yet"
