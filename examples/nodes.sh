#!/bin/sh
# Three nodes of one service on one machine: a scheduler is emulated, the node that leads is killed, and another one
# goes on. Takes about a minute.
set -eu
autosched=${AUTOSCHED:-bin/autosched}
dir=$(mktemp -d)
servers=127.0.0.1:7461,127.0.0.1:7462,127.0.0.1:7463
pids=
trap 'kill $pids 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT

for i in 1 2 3; do
	cat >"$dir/$i.yaml" <<END
node: n$i
dir: $dir/n$i
peer: 127.0.0.1:747$i
replicas: 3
embedded:
  cluster: 127.0.0.1:748$i
  routes: [127.0.0.1:7481, 127.0.0.1:7482, 127.0.0.1:7483]
END
	"$autosched" serve --cluster "$dir/$i.yaml" --listen 127.0.0.1:746$i --operations 127.0.0.1:949$i 2>"$dir/$i.log" &
	pids="$pids $!"
	eval "pid$i=$!"
done

leader() {
	for i in 1 2 3; do
		if curl -fs "http://127.0.0.1:949$i/readyz" 2>/dev/null | grep -qx 'role: leader'; then
			echo "$i"
			return
		fi
	done
}
until [ -n "$(leader)" ]; do sleep 0.5; done

emulate() {
	"$autosched" scheduler emulate --server "$servers" --id demo --trace sample --to 2017-10-10 --nodes 14 \
		--gpus-per-node 8 --speedup 20000
}
emulate
first=$(leader)
echo
echo "n$first leads and is killed"
eval "kill -9 \$pid$first"
start=$(date +%s)
until "$autosched" scheduler config list demo --server "$servers" 2>/dev/null; do sleep 0.2; done
echo "n$(leader) answers after $(($(date +%s) - start)) s"
