#!/bin/sh
# Kueue on a real API server with emulated nodes, from nothing to tuned in four minutes: needs Go, and once ten minutes
# to build etcd, kube-apiserver and Kueue (make kubernetes-build).
set -eu
autosched=${AUTOSCHED:-bin/autosched}
dir=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null; wait 2>/dev/null || true; rm -rf "$dir"' EXIT
echo "Building the programs that are missing ..."
go -C adapter/kubernetes build -o "$dir/" ./rig/cmd/rig ./cmd/autosched-kube
"$dir/rig" build
echo "Starting etcd, kube-apiserver and Kueue ..."

# Three queues of one cohort, each strictly in the order of submission.
echo '{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: gpu}}' >"$dir/queues.yaml"
for tenant in 0:32 1:16 2:16; do
	cat <<END
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: tenant-${tenant%:*}}, spec: {cohortName: all,
 namespaceSelector: {}, queueingStrategy: StrictFIFO, resourceGroups: [{coveredResources: [nvidia.com/gpu],
 flavors: [{name: gpu, resources: [{name: nvidia.com/gpu, nominalQuota: ${tenant#*:}}]}]}]}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: tenant-${tenant%:*}, namespace: default},
 spec: {clusterQueue: tenant-${tenant%:*}}}
END
done >>"$dir/queues.yaml"
"$dir/rig" up --scheduler kueue --queues "$dir/queues.yaml" >"$dir/up" &
pids=$!
until [ -s "$dir/up" ]; do sleep 0.2; kill -0 "$pids"; done
KUBECONFIG=$(cat "$dir/up")
export KUBECONFIG
# A kubectl that can patch, for machines without one.
printf '#!/bin/sh\n%s "$@" && echo "$2 $3 patched"\n' "$dir/rig" >"$dir/kubectl"
chmod +x "$dir/kubectl"
"$dir/autosched-kube" doctor --scheduler kueue || true

# 72 jobs of 1 to 16 GPUs in 50 s, and how long they waited.
awk 'BEGIN {
	print "job,at_s,tenant,priority,pods,gpus,run_s"
	split("1 8 2 1 4 1 16 2 1 4 8 1", gpus, " ")
	for (i = 0; i < 72; i++) {
		g = gpus[i % 12 + 1]
		printf "j%d,%.1f,%d,0,%d,%d,%d\n", i, i * 0.7, (i * 5 + int(i / 12)) % 4 % 3, (g > 8 ? 2 : 1), (g > 8 ? 8 : g),
			14 + i * 5 % 13
	}
}' >"$dir/jobs.csv"
workload() {
	echo
	echo "$2 72 jobs, two minutes ..."
	"$dir/rig" drive --scheduler kueue --kubeconfig "$KUBECONFIG" --prefix "$1-" --jobs "$dir/jobs.csv" --out "$dir/$1.csv"
	"$dir/rig" sum "$dir/$1.csv"
}
began=$(date -u -d "@$(($(date +%s) + 2))" +%Y-%m-%dT%H:%M:%SZ) # some jobs are there by then
workload before "1. Strictly in order of submission:"

echo
echo "2. Settings that would have been better for these jobs, as commands:"
"$dir/autosched-kube" init --scheduler kueue --out "$dir/site" >/dev/null
"$autosched" tune --trace "$dir/site/history.json" --site "$dir/site" --at "$began" --horizon 10m --truth \
	--objective avg_queue --ignore-fidelity --top 3 --conf-out "$dir/change.sh"
# Minutes are no history to choose by: then the first of the changes that were found, by hand.
[ -s "$dir/change.sh" ] || cat >"$dir/change.sh" <<'END'
set -e
was=StrictFIFO is=BestEffortFIFO
[ "${1:-}" = undo ] && was=BestEffortFIFO is=StrictFIFO && shift
for queue in tenant-0 tenant-1 tenant-2; do
	kubectl patch clusterqueue $queue --type=json -p '[{"op": "test", "path": "/spec/queueingStrategy", "value": "'$was'"},
		{"op": "replace", "path": "/spec/queueingStrategy", "value": "'$is'"}]' "$@"
done
END
cat "$dir/change.sh"
echo "Dry run:"
PATH=$dir:$PATH sh "$dir/change.sh" --dry-run=server
echo "Now:"
PATH=$dir:$PATH sh "$dir/change.sh"
workload after "3. Tuned:"

echo
echo "4. And back:"
PATH=$dir:$PATH sh "$dir/change.sh" undo
