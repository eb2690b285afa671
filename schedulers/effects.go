package schedulers

import "strings"

// effects say, by parameter, what a larger value does to which jobs: for parameters that are on or off, on; for ones
// with named values, each. A scheduler's own parameter follows its name.
var effects = map[string]string{
	"backfill": "On, small and short jobs start earlier, past a job that waits for more GPUs; wide jobs " +
		"may wait longer.",
	"interval": "Larger, jobs change their number of GPUs less often: fewer restarts, and a free GPU stays " +
		"unused for longer.",
	"lease_term": "Larger, jobs are stopped less often; short jobs wait longer for a turn.",
	"max_scale": "Larger, a job may grow further while others are few: it ends earlier, and those that " +
		"come next find fewer free GPUs.",
	"queues": "Larger, jobs are told apart more finely by the service that they had: short jobs overtake " +
		"longer ones more often.",
	"round_length":          "Larger, jobs are stopped less often; new jobs wait longer for their first turn.",
	"chronus/slo_gpus":      "Larger, more jobs with deadlines are in time; jobs without one wait longer.",
	"chronus/slo_share":     "Larger, more jobs count as having a deadline, and fewer fill the rest.",
	"chronus/slo_factor":    "Larger, deadlines given to jobs are later: more are met, and the jobs run later.",
	"astraea/tenant_weight": "Larger, tenants that had little come first; jobs of busy tenants wait longer.",

	"gandiva/slice": "Larger, jobs are stopped less often; a job that comes while the cluster is full " +
		"waits longer for its turn.",
	"gandiva/packing_limit": "Larger, more jobs share GPUs: fewer wait, and the ones that share run slower.",

	"gavel/policy": "max_min divides GPU-time evenly; finish_time_fairness puts the jobs first that would " +
		"end latest against an even share.",

	"kueue/queueingStrategy": "BestEffortFIFO lets small jobs pass a wide one that does not fit; under StrictFIFO " +
		"they wait behind it, and it waits less.",
	"kueue/preemption.withinClusterQueue": "Under LowerPriority urgent jobs evict others of their queue, whose " +
		"work is lost; LowerOrNewerEqualPriority evicts newer jobs, too; under Never they wait.",
	"kueue/preemption.reclaimWithinCohort": "Under Any the owner of quota gets it back at once and borrowers lose " +
		"work; under LowerPriority only from less urgent jobs; under Never it waits.",
	"kueue/preemption.borrowWithinCohort.policy": "LowerPriority lets a job that borrows evict less urgent ones " +
		"of other queues; under Never it waits.",
	"kueue/borrowingLimit": "Larger, a queue uses more idle GPUs of others: its jobs wait less, and owners " +
		"find fewer free at once.",
	"kueue/lendingLimit":       "Larger, more idle GPUs of a queue are used by others; its own jobs find fewer free at once.",
	"kueue/fairSharing.weight": "Larger, the queue borrows more before others come first.",

	"lucid/profiler_nodes": "Larger, more new jobs are profiled at once, and short ones end there; fewer " +
		"nodes are left for others.",
	"lucid/profiler_time": "Larger, more short jobs end while they are profiled; longer ones begin their " +
		"real run later.",
	"lucid/profiler_factor": "Larger, wider jobs are profiled, too: they wait for a place in the profiler first.",
	"lucid/priority":        "gpu_time puts jobs of few GPU-hours first, time those that end soon, however wide.",
	"lucid/share_limit":     "Larger, heavier jobs share GPUs: fewer wait, and the ones that share run slower.",
	"lucid/share_when": "always shares GPUs even while some are free: they stay free for later jobs, and " +
		"jobs run slower.",
	"lucid/share_factor": "Larger, a short job may share with a much longer one: more jobs share, and the " +
		"long one is slowed for less of its run.",
	"lucid/memory_limit": "Larger, jobs that need more memory together may share a GPU.",
	"lucid/share_load":   "Larger, jobs share GPUs in busy hours only: in quiet ones each runs at full speed.",

	"pollux/interval": "Larger, jobs change their number of GPUs less often: fewer restarts, and free GPUs " +
		"stay unused for longer.",
	"pollux/fairness": "Larger, GPUs go to the jobs that use them best; jobs that scale badly get fewer.",
	"pollux/noise_scale": "Larger, jobs are expected to use large batches well, and get more GPUs each " +
		"while others wait.",

	"pooling/grace": "Larger, borrowers keep their GPUs for longer; owners of the quota wait longer for them.",
	"pooling/lend": "Larger, more idle GPUs of a quota are used by other tenants; its owner finds fewer " +
		"free at once.",
	"pooling/guarantee": "Larger, an owner finds more of its quota free at once; other tenants borrow less.",
	"pooling/weights": "declared divides borrowed GPUs by the weights of virtual clusters, quota by their " +
		"quotas, even equally.",

	"actions": "enqueue,allocate,backfill lets jobs in by overcommit-factor, allocate,backfill all of them: " +
		"small jobs pass wide ones more.",
	"overcommit-factor": "Larger, more jobs are let in beside wide ones that wait for a place: fewer GPUs idle.",
	"binpack.weight": "Larger, pods go to nodes in use, so that others stay empty for wide jobs; jobs share " +
		"their nodes with more others.",
	"binpack.resources.gpu": "Larger, GPUs count more in which nodes are in use; off, they do not count.",
	"leastrequested.weight": "Larger, pods spread over nodes; wide jobs wait longer for an empty one.",
	"mostrequested.weight":  "Larger, pods go to nodes in use, so that others stay empty for wide jobs.",
	"sla-waiting-time":      "Larger, jobs wait longer until they are let in whatever the room.",
	"plugins": "sla,priority starts jobs of a queue in order of submission, priority,sla those of high " +
		"priority first.",

	"PriorityWeightAge": "Larger, jobs start more in order of waiting: none waits without end, and small " +
		"jobs pass wide ones less.",
	"PriorityWeightFairshare": "Larger, users and accounts that used little lately come first; heavy users " +
		"wait longer.",
	"PriorityWeightJobSize": "Larger, size decides more against waiting: wide jobs come first, or with " +
		"PriorityFavorSmall small ones, and the others wait longer.",
	"PriorityWeightQOS": "Larger, jobs of a high QOS pass the others more surely.",
	"PriorityWeightTRES.gpu": "Larger, the number of GPUs decides more: wide jobs come first, or with a " +
		"negative weight jobs of few GPUs, and the others wait longer.",
	"PriorityWeightTRES.gpu.negative": "On, jobs of few GPUs come first; wide jobs wait longer, without " +
		"end if age weighs little.",
	"PriorityFavorSmall": "On, small jobs come first; wide jobs wait longer, without end if age weighs " +
		"little.",
	"PriorityMaxAge":        "Larger, waiting raises priority more slowly and for longer.",
	"PriorityDecayHalfLife": "Larger, use of weeks ago still counts against its users.",

	"SchedulerParameters.bf_interval": "Larger, jobs that fit into gaps start later; slurmctld has less to " +
		"do.",
	"SchedulerParameters.bf_resolution": "Larger, plans are coarser: small gaps stay unused; slurmctld has " +
		"less to do.",
	"SchedulerParameters.bf_window": "Larger, backfill sees the end of longer jobs: wide jobs are not " +
		"passed without end; slurmctld has more to do.",
	"SchedulerParameters.bf_max_job_test": "Larger, jobs further behind in the queue may fill gaps; " +
		"slurmctld has more to do.",
	"SchedulerParameters.bf_max_job_user": "Larger, one user's many jobs fill more gaps; other users' jobs " +
		"behind them are tried less.",
	"SchedulerParameters.bf_min_age_reserve": "Larger, young wide jobs get no reservation: small jobs pass " +
		"them for longer.",
	"SchedulerParameters.bf_job_part_count_reserve": "Larger, more waiting jobs have reservations: they " +
		"start as planned, and fewer small jobs pass them.",
	"SchedulerParameters.sched_interval": "Larger, jobs behind the first ones of the queue start later; " +
		"slurmctld has less to do.",
	"SchedulerParameters.default_queue_depth": "Larger, more waiting jobs are looked at whenever one ends; " +
		"slurmctld has more to do.",

	"srtf/by": "time puts jobs first that end soon, however wide; gpu_time those with few GPU-hours left.",
	"sjf/by":  "time puts jobs first that end soon, however wide; gpu_time those of few GPU-hours.",

	"themis/lease_priority": "gpu_time offers GPUs again to wide jobs sooner than time does.",
	"themis/fraction": "Larger, fewer jobs are offered GPUs at once: the ones worst off come first, and " +
		"places fit less well.",
	"themis/consolidation_threshold": "Larger, more jobs may be spread over nodes: they start earlier, and " +
		"run slower.",

	"tiresias/queue_thresholds": "Larger, jobs stay in a queue for longer: fewer are stopped, and short " +
		"jobs wait longer behind long ones.",
	"tiresias/priority": "gittins puts the jobs first that are likely to end soon, by the jobs that have " +
		"ended; las those that had least service.",
	"tiresias/order": "running_first stops fewer jobs; by_submission lets jobs that came first go on " +
		"first.",
	"tiresias/starve_limit": "Larger, long jobs wait longer before they count as new; short jobs are " +
		"passed by them less often.",
	"tiresias/pack_limit": "Larger, more jobs may be spread over nodes: they start earlier, and run slower.",
}

// Effect says what a larger value of a parameter does to which jobs; "" of one that is not known. A setting of a group
// of queues has the effect of the setting.
func (s *Scheduler) Effect(id string) string {
	for of := id; ; {
		if text := effects[s.Name+"/"+of]; text != "" {
			return text
		}
		_, setting, grouped := strings.Cut(of, ".")
		if !grouped {
			return effects[id]
		}
		of = setting
	}
}
