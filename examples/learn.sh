#!/bin/sh
# Why a configuration is better: configurations measured on pieces of the built-in
# trace, the causal graph learnt from them, and what it says of one parameter.
set -eu
autosched=${AUTOSCHED:-bin/autosched}
out=${1:-out/example-learn}
mkdir -p "$out"
runs=$out/runs.csv tiers=$out/tiers.json graph=$out/graph.json

"$autosched" explain dataset --trace sample --nodes 12 --scheduler tiresias --out "$runs" --tiers-out "$tiers"
"$autosched" explain learn --data "$runs" --tiers "$tiers" --group segment --out "$graph"
"$autosched" explain show "$graph" --as dot --out "$out/graph.dot"
"$autosched" explain effects --data "$runs" --tiers "$tiers" --graph "$graph" --group segment --log-objectives
"$autosched" explain whatif --data "$runs" --tiers "$tiers" --graph "$graph" --group segment --set queues=3
