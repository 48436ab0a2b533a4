#!/bin/sh
# One worker: deploy/worker.sh QUEUE NAME, for example `CUDA_VISIBLE_DEVICES=0 deploy/worker.sh gpu gpu0`.
# One run at a time in one long-lived child, which keeps models and CUDA graphs warm from run to run.
set -eu
exec "${PYTHON:-python}" -m celery -A newsstudio_ditto.worker worker -Q "$1" -n "$2@%h" \
    --concurrency=1 --pool=prefork --loglevel=INFO
