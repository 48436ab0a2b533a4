#!/bin/sh
# Train everything on one machine: sh training/run_all.sh RUN HEADS RENDERER_SECONDS SPEECH_SECONDS [WORKERS] [PEOPLE]
# Run from the repository's root with the corpus and the anchors in .train/. A second call goes on from RUN.
# Environment: RENDERER_FLAGS and SPEECH_FLAGS are passed on; HELD and FRAMES change the pool's shape.
set -eu
run=$1 heads=$2 renderer_s=$3 speech_s=$4 workers=${5:-14} people=${6:-800}
held=${HELD:-32} frames=${FRAMES:-24}
mkdir -p "$run"
rm -rf "$heads"
mkdir -p "$heads"
rm -f "$run/pool_ready"
export PYTHONUNBUFFERED=1
anchor=.train/anchor.npz
[ -e "$anchor" ] || anchor=training/assets/anchor.npz
optional() { if [ -e "$2" ]; then echo "--$1 $2"; fi; }

corpus=.train/speech_vocoded.npz
[ -e "$corpus" ] || corpus=.train/speech.npz
# shellcheck disable=SC2086
OMP_NUM_THREADS=2 python3 -m training.train_speech --run "$run" --corpus "$corpus" \
    --wait-for "$run/pool_ready" --seconds "$speech_s" ${SPEECH_FLAGS:-} >>"$run/speech.log" 2>&1 &
speech=$!
i=0
while [ "$i" -lt "$workers" ]; do
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python3 -m training.head_worker "$heads" --index "$i" \
        --workers "$workers" --count $((people + held)) --frames "$frames" >>"$run/workers.log" 2>&1 &
    i=$((i + 1))
done
# shellcheck disable=SC2046,SC2086
python3 -m training.train_renderer --run "$run" --heads "$heads" --people "$people" --held-out "$held" \
    --frames "$frames" --seconds "$renderer_s" --anchor "$anchor" \
    $(optional extra .train/anchor_lab.npz) $(optional start newsstudio_ditto/bundled/mini) ${RENDERER_FLAGS:-} \
    >>"$run/renderer.log" 2>&1
wait "$speech"
touch "$run/all_done"
