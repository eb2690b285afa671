#!/bin/sh
# A real Slurm with emulated nodes, from nothing to tuned, offline and by the service, in three minutes: needs root, Go, and
# Debian's packages slurmctld slurmd slurm-client slurmdbd munge mariadb-server.
set -eu
autosched=${AUTOSCHED:-bin/autosched}
dir=$(mktemp -d)
server=127.0.0.1:7451
pids=
trap 'kill $pids 2>/dev/null; wait 2>/dev/null || true; rm -rf "$dir"' EXIT

go build -o "$dir/slurmcluster" ./examples/slurmcluster
"$dir/slurmcluster" --nodes 4 --include 'PriorityWeightAge=1000;PriorityWeightTRES=GRES/gpu=1;SchedulerParameters=bf_interval=5,bf_continue' \
	>"$dir/slurm.conf.path" &
pids=$!
until [ -s "$dir/slurm.conf.path" ]; do sleep 0.5; kill -0 "$pids"; done
SLURM_CONF=$(cat "$dir/slurm.conf.path")
export SLURM_CONF
slurm=$(dirname "$SLURM_CONF")
"$autosched" slurm doctor --log "$slurm/slurmctld.log"

in_force() { scontrol show config | grep "^$1 .*= $2"; }

# 24 jobs of 1 to 32 GPUs, and how long they waited.
workload() {
	for n in 1 2 3 4 5 6; do
		for gpus in 8 1 4 2; do
			sbatch --parsable --uid=games -A vc1 -N 1 --mem=100 --gres=gpu:$gpus -t 2 -o /dev/null --chdir=/ "$slurm/job.sh" 6 >/dev/null
		done
	done
	until [ -z "$(squeue -h)" ]; do sleep 1; done
	sleep 2
	sacct -X -n -P -S "$1" --format=Submit,Start | awk -F'|' -v what="$2" '{ n++; s += $2 - $1 } END { printf "%s: %d jobs waited %.1f s on average\n", what, n, s / n }'
}
SLURM_TIME_FORMAT=%s
export SLURM_TIME_FORMAT
began=$(date +%s)
workload "uts$began" "as it was"

echo
echo "1. Offline: what would have been better for these jobs, as a patch, and in force by hand."
"$autosched" slurm init --out "$dir/site" >/dev/null
sacct -X -a -D -P -S "uts$began" --format=JobIDRaw,JobID,JobName,User,Account,Partition,QOS,State,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,ReqTRES,AllocTRES,NNodes,NodeList >"$dir/sacct.psv"
"$autosched" tune --trace "$dir/sacct.psv" --site "$dir/site" --at "$(date -u -d "@$began" +%Y-%m-%dT%H:%M:%SZ)" --horizon 5m --truth \
	--objective avg_queue --ignore-fidelity --top 3 --conf-out "$dir/tuned.conf"
# Minutes are no history to choose by: then settings of one's own, jobs of few GPUs first.
[ -s "$dir/tuned.conf" ] || sed 's#^PriorityWeightTRES=.*#PriorityWeightTRES=GRES/gpu=-60000#' "$dir/site/autosched.conf" >"$dir/tuned.conf"
"$autosched" slurm apply "$dir/tuned.conf" --log "$slurm/slurmctld.log"
sleep 2
began=$(date +%s)
workload "uts$began" "tuned"
"$autosched" slurm rollback --original
rm -rf "$slurm/autosched/.autosched"

echo
echo "2. Live: the service, the adapter beside slurmctld, and values that an operator pins."
"$autosched" admin certs "$dir/pki" --host 127.0.0.1 --id prod >/dev/null
"$autosched" serve --dir "$dir/data" --listen "$server" --tls-cert "$dir/pki/server.pem" --tls-key "$dir/pki/server.key" \
	--client-ca "$dir/pki/ca.pem" --roles "$dir/pki/roles.yaml" 2>"$dir/serve.log" &
pids="$pids $!"
# access CERTIFICATE: how a client reaches the service. as CERTIFICATE COMMAND...: one that does.
access() { echo "--server $server --tls-ca $dir/pki/ca.pem --tls-cert $dir/pki/$1.pem --tls-key $dir/pki/$1.key"; }
as() {
	flags=$(access "$1")
	shift
	"$autosched" "$@" $flags
}
until as admin scheduler list >/dev/null 2>&1; do sleep 0.2; done
as admin scheduler register --id prod "$dir/site/scheduler.json" | head -4
flags=$(access scheduler-prod)
"$autosched" slurm run --id prod --mode recommend --poll-interval 2s --log "$slurm/slurmctld.log" $flags 2>"$dir/run.log" &
pids="$pids $!"

until as operator scheduler get prod | grep -q 'runs revision 1'; do sleep 1; done
as operator scheduler config pin prod --reason 'jobs of few GPUs first' \
	--set PriorityWeightTRES.gpu=60000 --set PriorityWeightTRES.gpu.negative=true
until in_force PriorityWeightTRES 'GRES/gpu=-60000$'; do sleep 1; done
sleep 2
began=$(date +%s)
workload "uts$began" "configured"

as operator scheduler get prod | sed -n 1,8p
"$autosched" slurm rollback
cat "$dir/run.log"
