package slurm

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// columns are those of sacct that are read.
const columns = "Cluster,JobIDRaw,DBIndex,JobID,JobName,User,Account,Partition,QOS,State,Submit,Eligible,Start,End," +
	"ElapsedRaw,TimelimitRaw,ReqTRES,AllocTRES,NNodes,NodeList,Suspended"

// row is one start of a job, or its wait for one.
type row struct {
	key                                 string // of the job while it is known to slurmctld
	db                                  int64
	name, user, account, partition, qos string
	state                               string
	submit, eligible, start, end        time.Time // zero if unknown
	limit                               time.Duration
	elapsed                             time.Duration // without suspensions
	suspended                           bool
	gpus                                int
	milliCPUs, memory                   int64    // 0 if unknown
	count                               int      // nodes, 0 if they have unequal shares
	nodes                               []string // nil while it waits
}

func (r *row) ended() bool { return !r.end.IsZero() }

// rowsOf reads a listing of sacct. Components of heterogeneous jobs are one row, the rest of an array that waits is a
// row each. Rows that say nothing of GPUs, as they ask for none, are left out.
func rowsOf(text string) []row {
	var rows []row
	het := map[string]int{} // index by leader, submission and start of the components
	for _, f := range table(text) {
		db, err := strconv.ParseInt(f["DBIndex"], 10, 64)
		if err != nil {
			continue
		}
		r := row{key: f["JobIDRaw"], db: db, name: f["JobName"], user: f["User"], account: f["Account"],
			partition: f["Partition"], qos: f["QOS"], submit: instant(f["Submit"]), eligible: instant(f["Eligible"]),
			start: instant(f["Start"]), end: instant(f["End"]), suspended: f["Suspended"] != "00:00:00" && f["Suspended"] != ""}
		r.state, _, _ = strings.Cut(f["State"], " ") // CANCELLED by 0
		r.gpus = max(gpusOf(f["AllocTRES"]), 0)
		r.milliCPUs, r.memory = rationsOf(f["AllocTRES"])
		if r.start.IsZero() || r.gpus == 0 {
			r.gpus = max(r.gpus, gpusOf(f["ReqTRES"]))
			r.milliCPUs, r.memory = rationsOf(f["ReqTRES"])
		}
		minutes, _ := strconv.Atoi(f["TimelimitRaw"]) // UNLIMITED and Partition_Limit are none
		r.limit = time.Duration(minutes) * time.Minute
		seconds, _ := strconv.Atoi(f["ElapsedRaw"])
		r.elapsed = time.Duration(seconds) * time.Second
		if n, err := strconv.Atoi(f["NNodes"]); err == nil && n > 0 && r.gpus%n == 0 {
			r.count = n
		}
		if !r.start.IsZero() {
			r.nodes = expand(f["NodeList"])
		}
		leader, _, isHet := strings.Cut(f["JobID"], "+")
		switch {
		case isHet:
			r.key = leader
			at := fmt.Sprint(leader, "/", f["Submit"])
			if i, there := het[at]; there {
				rows[i].join(r)
				continue
			}
			het[at] = len(rows)
			rows = append(rows, r)
		case strings.Contains(f["JobID"], "_"):
			for _, task := range tasks(f["JobID"]) {
				r.key = task
				rows = append(rows, r)
			}
		default:
			rows = append(rows, r)
		}
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { return r.gpus == 0 || r.submit.IsZero() })
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.db, b.db) })
	return rows
}

// join adds another component of a heterogeneous job.
func (r *row) join(o row) {
	if r.count == 0 || o.count == 0 || r.gpus/r.count != o.gpus/o.count {
		r.count = 0
	} else {
		r.count += o.count
	}
	r.gpus, r.milliCPUs, r.memory = r.gpus+o.gpus, r.milliCPUs+o.milliCPUs, r.memory+o.memory
	r.nodes = append(r.nodes, o.nodes...)
	r.db = min(r.db, o.db)
	if o.end.After(r.end) && r.ended() || !o.ended() {
		r.end = o.end
	}
	if r.state == "COMPLETED" {
		r.state = o.state
	}
}

// table reads a listing with a head and bars between its columns.
func table(text string) []map[string]string {
	var head []string
	var rows []map[string]string
	for l := range strings.Lines(text) {
		fields := strings.Split(strings.TrimRight(l, "\n"), "|")
		if head == nil {
			head = fields
			continue
		}
		f := map[string]string{}
		for i, name := range head[:min(len(head), len(fields))] {
			f[name] = fields[i]
		}
		rows = append(rows, f)
	}
	return rows
}

// instant reads seconds since 1970; zero if they are not known.
func instant(text string) time.Time {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.Unix(n, 0).UTC()
}

// gpusOf is the number of GPUs of a list of TRES, without those of parts of GPUs.
func gpusOf(tres string) int {
	sum, typed := 0, 0
	for item := range strings.SplitSeq(tres, ",") {
		name, value, _ := strings.Cut(item, "=")
		n, err := strconv.Atoi(value)
		if err != nil {
			continue
		}
		switch {
		case name == "gres/gpu":
			sum += n
		case strings.HasPrefix(name, "gres/gpu:"):
			typed += n
		}
	}
	if sum == 0 {
		return typed
	}
	return sum
}

// rationsOf are the CPUs, in thousandths, and the bytes of memory of a list of TRES such as cpu=4,mem=62.5G; mebibytes
// are the default. What cannot be read, or is more than the API takes, is not known.
func rationsOf(tres string) (milliCPUs, memory int64) {
	for item := range strings.SplitSeq(tres, ",") {
		name, value, _ := strings.Cut(item, "=")
		unit, most := 1000.0, 1e9
		if name == "mem" {
			unit, most = 1<<20, 1<<50
			if at := strings.IndexAny(value, "KMGTP"); at > 0 && at == len(value)-1 {
				unit = math.Ldexp(1, 10*(1+strings.IndexByte("KMGTP", value[at])))
				value = value[:at]
			}
		}
		n, err := strconv.ParseFloat(value, 64)
		if n *= unit; err != nil || !(n >= 0 && n <= most) {
			continue
		}
		switch name {
		case "cpu":
			milliCPUs = int64(n)
		case "mem":
			memory = int64(n)
		}
	}
	return milliCPUs, memory
}

// maxExpanded bounds what a list of nodes or tasks expands to.
const maxExpanded = 100_000

// expand lists the nodes of a list such as g[1,3-5],h1.
func expand(list string) []string {
	var out []string
	for len(list) > 0 {
		end := len(list)
		depth := 0
		for i, c := range list {
			if c == '[' {
				depth++
			} else if c == ']' {
				depth--
			} else if c == ',' && depth == 0 {
				end = i
				break
			}
		}
		out = append(out, expandOne(list[:end])...)
		list = strings.TrimPrefix(list[end:], ",")
		if len(out) > maxExpanded {
			return nil
		}
	}
	return out
}

// expandOne expands the first brackets of a name, and then the rest.
func expandOne(name string) []string {
	before, rest, found := strings.Cut(name, "[")
	if !found {
		return []string{name}
	}
	inside, after, _ := strings.Cut(rest, "]")
	var out []string
	for _, n := range numbers(inside) {
		for _, tail := range expandOne(after) {
			out = append(out, before+n+tail)
		}
	}
	return out
}

// numbers lists those of 1,3-5 or 1-9:2, with the zeros before them.
func numbers(list string) []string {
	var out []string
	for part := range strings.SplitSeq(list, ",") {
		part, stride, _ := strings.Cut(part, ":")
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		a, err1 := strconv.Atoi(low)
		b, err2 := strconv.Atoi(high)
		step, err3 := strconv.Atoi(cmp.Or(stride, "1"))
		if err1 != nil || err2 != nil || err3 != nil || step < 1 || b-a > maxExpanded {
			continue // as in 1,3,... of a list that is cut off
		}
		for n := a; n <= b && len(out) <= maxExpanded; n += step {
			out = append(out, fmt.Sprintf("%0*d", len(low), n))
		}
	}
	return out
}

// tasks lists those of an array such as 15_[3-9%2].
func tasks(id string) []string {
	array, which, _ := strings.Cut(id, "_")
	inside, isList := strings.CutPrefix(which, "[")
	if !isList {
		return []string{id}
	}
	inside, _, _ = strings.Cut(strings.TrimSuffix(inside, "]"), "%")
	var out []string
	for _, n := range numbers(inside) {
		out = append(out, array+"_"+n)
	}
	return out
}

// accounting lists the rows of jobs that were active since an instant.
func (c Commands) accounting(ctx context.Context, cluster string, since time.Time) ([]row, error) {
	text, err := c.Run(ctx, "sacct", "-X", "-a", "-D", "-P", "-M", cluster, "-S", fmt.Sprint("uts", since.Unix()),
		"--format="+columns)
	if err != nil {
		return nil, err
	}
	return rowsOf(text), nil
}

// reasons are why jobs wait, by key, as slurmctld says.
func (c Commands) reasons(ctx context.Context) (map[string]string, error) {
	text, err := c.Run(ctx, "squeue", "-h", "-a", "-t", "PD", "-o", "%i|%r")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for l := range strings.Lines(text) {
		id, reason, _ := strings.Cut(strings.TrimRight(l, "\n"), "|")
		id, _, _ = strings.Cut(id, "+")
		for _, key := range tasks(id) {
			out[key] = reason
		}
	}
	return out, nil
}

// notScheduling are reasons for which a job waits whatever the scheduler decides, by their beginnings.
// job_reason_string in src/common/slurm_protocol_defs.c.
var notScheduling = []string{"Account", "Assoc", "BadConstraints", "BeginTime", "BurstBuffer", "Dependency", "FedJobLock",
	"InvalidAccount", "InvalidQOS", "JobArrayTaskLimit", "JobHeld", "JobHoldMaxRequeue", "launch failed requeued held",
	"Licenses", "Max", "PartitionDown", "PartitionInactive", "PartitionNodeLimit", "PartitionTimeLimit", "QOS",
	"Reservation"}

func withheld(reason string) bool {
	return slices.ContainsFunc(notScheduling, func(r string) bool { return strings.HasPrefix(reason, r) })
}

// node is one of the cluster.
type node struct {
	Name  string `json:"name"`
	GPUs  int    `json:"gpus"`
	State string `json:"state"` // up, draining or down
}

// nodes lists those with GPUs.
func (c Commands) nodes(ctx context.Context) ([]node, error) {
	text, err := c.Run(ctx, "scontrol", "show", "node", "-o")
	if err != nil {
		return nil, err
	}
	return nodesOf(text), nil
}

func nodesOf(text string) []node {
	var out []node
	for l := range strings.Lines(text) {
		f := map[string]string{}
		for field := range strings.FieldsSeq(l) {
			if key, value, ok := strings.Cut(field, "="); ok && f[key] == "" {
				f[key] = value
			}
		}
		if n := gpusOf(f["CfgTRES"]); n > 0 {
			out = append(out, node{f["NodeName"], n, stateOf(f["State"])})
		}
	}
	return out
}

// stateOf says what a state such as IDLE+DRAIN means for the scheduler.
func stateOf(state string) string {
	for _, s := range []string{"DOWN", "FAIL", "ERROR", "FUTURE", "POWERED_DOWN", "UNKNOWN", "NOT_RESPONDING"} {
		if strings.Contains(state, s) {
			return "down"
		}
	}
	if strings.Contains(state, "DRAIN") || strings.Contains(state, "MAINT") {
		return "draining"
	}
	return "up"
}

// outage is a time in which a node was down or drained.
type outage struct {
	node, state string
	start, end  time.Time // end is zero while it lasts
}

// outages lists those that lasted since an instant.
func (c Commands) outages(ctx context.Context, cluster string, since time.Time) ([]outage, error) {
	text, err := c.Run(ctx, "sacctmgr", "-P", "show", "event", "Clusters="+cluster,
		fmt.Sprint("Start=uts", since.Unix()), "format=NodeName,TimeStart,TimeEnd,State")
	if err != nil {
		return nil, err
	}
	return outagesOf(text), nil
}

func outagesOf(text string) []outage {
	var out []outage
	for _, f := range table(text) {
		o := outage{f["NodeName"], stateOf(f["State"]), instant(f["TimeStart"]), instant(f["TimeEnd"])}
		if o.node != "" && o.state != "up" && !o.start.IsZero() {
			out = append(out, o)
		}
	}
	return out
}

// diagnostics are what sdiag says of slurmctld.
type diagnostics struct {
	now       time.Time     // slurmctld's
	queue     int           // records that slurmdbd has yet to take
	backfill  time.Duration // last cycle
	meanCycle time.Duration
}

func (c Commands) diagnostics(ctx context.Context) (diagnostics, error) {
	text, err := c.Run(ctx, "sdiag")
	return diagnosticsOf(text), err
}

func diagnosticsOf(text string) (d diagnostics) {
	backfill := false
	for l := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(l), ":")
		value = strings.TrimSpace(value)
		n, _ := strconv.Atoi(value)
		switch {
		case strings.HasPrefix(key, "sdiag output at"):
			if _, at, found := strings.Cut(l, "("); found {
				d.now = instant(strings.TrimRight(strings.TrimSpace(at), ")"))
			}
		case key == "Backfilling stats":
			backfill = true
		case !ok:
		case key == "DBD Agent queue size":
			d.queue = n
		case backfill && key == "Last cycle":
			d.backfill = time.Duration(n) * time.Microsecond
		case backfill && key == "Mean cycle":
			d.meanCycle = time.Duration(n) * time.Microsecond
		}
	}
	return d
}
