#!/bin/sh
# Postgres and Redis from Debian's packages, where they are missing. Starts nothing.
set -eu
missing=""
command -v redis-server >/dev/null || missing="$missing redis-server"
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
[ -z "$missing" ] && exit 0
[ "$(id -u)" = 0 ] || { echo "needed:$missing (run this as root, or install them yourself)" >&2; exit 1; }
apt-get update -q
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
