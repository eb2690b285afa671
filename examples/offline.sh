#!/bin/sh
# A synthetic week on 30 nodes of 8 GPUs, from description to a tuning round.
set -eu
autosched=${AUTOSCHED:-bin/autosched}
out=${1:-out/example}
mkdir -p "$out"
trace=$out/week.csv.gz

"$autosched" trace synth --profile philly --days 7 --seed 7 --nodes 30 --gpus-per-node 8 --load 1.3 --max-duration 96h --out "$trace"
"$autosched" trace stats "$trace" --nodes 30 --gpus-per-node 8
for scheduler in fifo tiresias; do
	"$autosched" simulate --trace "$trace" --nodes 30 --gpus-per-node 8 --scheduler "$scheduler"
done
"$autosched" tune --trace "$trace" --at 2017-10-12T12:00:00Z --nodes 30 --gpus-per-node 8 --scheduler tiresias --top 5
"$autosched" evaluate --trace "$trace" --from 2017-10-12 --to 2017-10-13 --nodes 30 --gpus-per-node 8 --scheduler tiresias \
	--methods default,preset,random-preset,autosched,oracle --budget 20 --seeds 1 --out "$out/report"
