#!/bin/sh
# Searching, and why a configuration is better: samplers on a function with a
# known optimum; then configurations measured on pieces of the built-in trace,
# the causal graph learnt from them, and what it says of one parameter.
set -eu
autosched=${AUTOSCHED:-bin/autosched}
out=${1:-out/example-learn}
mkdir -p "$out"
runs=$out/runs.csv tiers=$out/tiers.json graph=$out/graph.json

"$autosched" bench search --objectives quad2 --samplers auto,random --seeds 5
"$autosched" causal dataset --trace sample --nodes 12 --scheduler tiresias --out "$runs" --tiers "$tiers"
"$autosched" causal learn --data "$runs" --tiers "$tiers" --group segment --out "$graph"
"$autosched" causal show "$graph" --format html --out "$out/graph.html"
"$autosched" causal effects --data "$runs" --tiers "$tiers" --graph "$graph" --group segment --log
"$autosched" causal whatif --data "$runs" --tiers "$tiers" --graph "$graph" --group segment --set queues=3
