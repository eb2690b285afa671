#!/bin/sh
# An operator's day: a scheduler is registered in mode recommend, a round proposes
# a configuration, the operator inspects and approves it, it is applied; then the
# operator rolls it back, parks its values, and pauses tuning. Takes up to half a minute.
set -eu
autosched=${AUTOSCHED:-bin/autosched}
dir=$(mktemp -d)
server=127.0.0.1:7451

"$autosched" serve --dir "$dir" --listen "$server" 2>"$dir/serve.log" &
service=$!
scheduler=
trap 'kill $scheduler "$service" 2>/dev/null; wait 2>/dev/null || true; rm -rf "$dir"' EXIT
until "$autosched" scheduler list --server "$server" >/dev/null 2>&1; do sleep 0.2; done

"$autosched" scheduler emulate --server "$server" --id demo --mode recommend --trace sample --nodes 14 --gpus-per-node 8 --speedup 7200 >"$dir/emulate.log" 2>&1 &
scheduler=$!

proposal=
until [ -n "$proposal" ]; do
	sleep 0.5
	proposal=$("$autosched" scheduler config list demo --server "$server" 2>/dev/null | awk '$2 == "PROPOSED" { print $1 }')
done
echo "--- a proposal"
"$autosched" scheduler pause demo --server "$server" # so that no newer one takes its place meanwhile
proposal=$("$autosched" scheduler config list demo --server "$server" | awk '$2 == "PROPOSED" { print $1 }')
"$autosched" scheduler config get demo --revision "$proposal" --server "$server"

echo "--- approved"
"$autosched" scheduler config approve demo --revision "$proposal" --server "$server"
until "$autosched" scheduler config list demo --server "$server" | grep -q "^$proposal *ROLLED_OUT"; do sleep 0.2; done
echo "the scheduler applied it"

echo "--- and gone back from"
"$autosched" scheduler config rollback demo --park --server "$server"
sleep 1
"$autosched" scheduler config list demo --server "$server"
