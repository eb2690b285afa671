#!/usr/bin/env bash
# Fills a folder with a service's data of an emulated day, for the dashboard: examples/dashboard.sh DIR. It leaves no
# process.
set -euo pipefail
autosched=${AUTOSCHED:-bin/autosched}
dir=${1:?a folder}
rm -rf "$dir"
mkdir -p "$dir"
log=$(mktemp)
"$autosched" serve --dir "$dir" --listen 127.0.0.1:0 2>"$log" &
server=$!
trap 'kill -INT $server 2>/dev/null && wait $server; rm -f "$log"' EXIT
address=
until [[ -n $address ]]; do
	kill -0 $server || { cat "$log" >&2; exit 1; }
	address=$(sed -n 's/.*msg=serving address=\([^ ]*\).*/\1/p' "$log")
	sleep 0.1
done
"$autosched" scheduler emulate --server "$address" --id demo --trace sample --to 2017-10-10T00:00:00Z --nodes 14 \
	--gpus-per-node 8 --mode recommend --adoption paper --budget 12 --interval 6h --speedup 36000
