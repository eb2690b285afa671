#!/bin/sh
# The whole loop on one machine: a service, a scheduler emulated on a trace, and
# what was decided. Takes about half a minute.
set -eu
autosched=${AUTOSCHED:-bin/autosched}
dir=$(mktemp -d)
address=127.0.0.1:7450

"$autosched" serve --dir "$dir" --listen "$address" 2>"$dir/serve.log" &
service=$!
trap 'kill "$service" 2>/dev/null; wait "$service" 2>/dev/null || true; rm -rf "$dir"' EXIT
until "$autosched" scheduler list --server "$address" >/dev/null 2>&1; do sleep 0.2; done

"$autosched" scheduler emulate --server "$address" --id demo --trace sample --to 2017-10-10 --nodes 14 --gpus-per-node 8 --speedup 20000
echo
"$autosched" scheduler config list demo --server "$address"
echo
"$autosched" scheduler config get demo --server "$address"
