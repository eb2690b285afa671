#!/bin/sh
# What is coming: the built-in trace described, its next hours forecast, and the
# durations of its jobs predicted.
set -eu
autosched=${AUTOSCHED:-bin/autosched}
out=${1:-out/example-forecast}
mkdir -p "$out"

"$autosched" trace stats sample --nodes 20 --gpus-per-node 8 --plot "$out/sample.html"
"$autosched" forecast eval --trace sample --from 2017-10-11 --to 2017-10-12 --methods all
"$autosched" forecast durations train --trace sample --out "$out/durations.model" --replace
