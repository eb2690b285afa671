package slurm

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/schedulers/slurm/conf"
)

// columns are the columns of sacct that are read, besides the names of jobs.
var columns = []string{"Cluster", "JobIDRaw", "DBIndex", "JobID", "User", "Account", "Partition", "QOS", "State", "Submit",
	"Eligible", "Start", "End", "ElapsedRaw", "TimelimitRaw", "ReqTRES", "AllocTRES", "NNodes", "NodeList", "Suspended"}

// row is one start of a job, or its wait for one.
type row struct {
	description
	key                          string // of the job while it is known to slurmctld
	db                           uint64
	state                        slurmtext.JobState
	submit, eligible, start, end time.Time     // zero if unknown
	elapsed                      time.Duration // without suspensions
	suspended                    bool
	nodes                        []string // nil while it waits
}

func (r *row) ended() bool { return !r.end.IsZero() }

// maxTasks bounds the rows that the rest of an array expands to.
const maxTasks = 100_000

// rowsOf reads a listing of sacct. Components of heterogeneous jobs are one row, the rest of an array that waits is a
// row each. Steps and rows without GPUs are left out. faults are texts that cannot be read, each of which leaves its
// row out, or of a list of nodes the nodes.
func rowsOf(records []slurmtext.Record, shardsPerGPU int) (rows []row, faults []error) {
	het := map[string]int{} // index by leader and submission of the components
	for _, f := range records {
		id := slurmtext.ParseJobID(f["jobid"])
		if id.Step != "" {
			continue
		}
		r, err := rowOf(f, shardsPerGPU)
		if err != nil {
			faults = append(faults, fmt.Errorf("sacct: job %s: %w", f["jobid"], err))
		}
		if r.GPUs == 0 || r.submit.IsZero() {
			continue
		}
		switch {
		case id.Component >= 0:
			r.key = id.Job
			at := id.Job + "/" + f["submit"]
			if i, there := het[at]; there {
				rows[i].join(r)
				continue
			}
			het[at] = len(rows)
			rows = append(rows, r)
		case id.Array:
			for _, r.key = range keysOf(id) {
				rows = append(rows, r)
			}
		default:
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.db, b.db) })
	return rows, faults
}

// rowOf reads a row. One that cannot be read has no GPUs.
func rowOf(f slurmtext.Record, shardsPerGPU int) (row, error) {
	db, err := strconv.ParseUint(f["dbindex"], 10, 64) // from 24.11 on, of all 64 bits
	if err != nil {
		return row{}, fmt.Errorf("DBIndex: %w", err)
	}
	t, column, err := slurmtext.JobTRES(f["alloctres"], f["reqtres"])
	share, unknown := t.Share(shardsPerGPU)
	switch {
	case err != nil:
		return row{}, fmt.Errorf("%s %w", column, err)
	case errors.Is(unknown, slurmtext.ErrShards):
		return row{}, fmt.Errorf("%s has shards of GPUs, and nodes do not have equal numbers of them", column)
	case unknown != nil:
		return row{}, fmt.Errorf("%s %w", column, unknown)
	}
	limit, err := slurmtext.ParseLimit(f["timelimitraw"])
	if err != nil {
		return row{}, fmt.Errorf("TimelimitRaw %w", err)
	}
	r := row{key: f["jobidraw"], db: db, description: description{Name: nameOf(f["jobname"]), User: f["user"],
		Account: f["account"], Partition: f["partition"], QOS: f["qos"], GPUs: milliGPUs(share.NearestMilli()),
		Limit: limit, MilliCPUs: t.MilliCPUs, Memory: t.Memory, Type: slurmtext.GPUType(f["reqtres"])},
		state:  slurmtext.ParseJobState(f["state"]),
		submit: instant(f["submit"]), eligible: instant(f["eligible"]), start: instant(f["start"]), end: instant(f["end"]),
		suspended: f["suspended"] != "00:00:00" && f["suspended"] != ""}
	seconds, _ := strconv.Atoi(f["elapsedraw"])
	r.elapsed = time.Duration(seconds) * time.Second
	if n, err := strconv.Atoi(f["nnodes"]); err == nil && n > 0 && r.GPUs.evenly(n) > 0 {
		r.Nodes = n
	}
	if !r.start.IsZero() {
		if r.nodes, err = slurmtext.HostList(f["nodelist"]); err != nil {
			return r, fmt.Errorf("NodeList: %w", err)
		}
	}
	return r, nil
}

// maxName bounds the text that the service takes for a name, in bytes.
const maxName = 128

// nameOf returns the name of a job as the service takes it: the beginning of a long one, with a mark for bytes that are
// no UTF-8.
func nameOf(name string) string { return strings.ToValidUTF8(name[:min(maxName, len(name))], "?") }

// keysOf lists the keys of the tasks of an array.
func keysOf(id slurmtext.JobID) []string {
	var keys []string
	for n := range id.Tasks.All() {
		if len(keys) == maxTasks {
			break
		}
		keys = append(keys, id.Job+"_"+strconv.Itoa(n))
	}
	return keys
}

// join adds another component of a heterogeneous job.
func (r *row) join(o row) {
	if r.Nodes == 0 || o.Nodes == 0 || r.GPUs.evenly(r.Nodes) != o.GPUs.evenly(o.Nodes) {
		r.Nodes = 0
	} else {
		r.Nodes += o.Nodes
	}
	r.GPUs, r.MilliCPUs, r.Memory = r.GPUs+o.GPUs, r.MilliCPUs+o.MilliCPUs, r.Memory+o.Memory
	if o.Type != r.Type {
		r.Type = ""
	}
	r.nodes = append(r.nodes, o.nodes...)
	r.db = min(r.db, o.db)
	if o.end.After(r.end) && r.ended() || !o.ended() {
		r.end = o.end
	}
	if r.state.Outcome == slurmtext.Completed {
		r.state = o.state
	}
}

// milliGPUs is a number of GPUs in thousandths, as the API counts them. In JSON it is a number of GPUs.
type milliGPUs int64

func (m milliGPUs) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(m)/1000, 'f', -1, 64), nil
}

func (m *milliGPUs) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseFloat(string(text), 64)
	*m = milliGPUs(math.Round(1000 * n))
	return err
}

// evenly returns the whole GPUs on each of n nodes, 0 if they cannot have equal numbers.
func (m milliGPUs) evenly(n int) int {
	if n <= 0 || int64(m)%(1000*int64(n)) != 0 {
		return 0
	}
	return int(int64(m) / (1000 * int64(n)))
}

// instant reads seconds since 1970; zero if they are not known.
func instant(text string) time.Time {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.Unix(n, 0).UTC()
}

// accounting lists the rows of jobs that were active since an instant.
func (c Commands) accounting(ctx context.Context, cluster string, since time.Time, shardsPerGPU int) ([]row, []error,
	error) {
	listing, err := slurmtext.NewListing(rand.Reader, columns...)
	if err != nil {
		return nil, nil, err
	}
	args := append([]string{"-X", "-a", "-D", "-M", cluster, "-S", fmt.Sprint("uts", since.Unix())}, listing.Args()...)
	text, err := c.Run(ctx, "sacct", args...)
	if err != nil {
		return nil, nil, err
	}
	records, bad := listing.Rows(text)
	rows, faults := rowsOf(records, shardsPerGPU)
	if bad > 0 {
		faults = append(faults, fmt.Errorf("sacct: %d rows do not have %d columns", bad, len(columns)+1))
	}
	return rows, faults, nil
}

// reasons returns slurmctld's reasons why jobs wait, by key.
func (c Commands) reasons(ctx context.Context) (map[string]string, error) {
	text, err := c.Run(ctx, "squeue", "-h", "-a", "-t", "PD,CF,R,S", "-o", "%i|%t|%r")
	if err != nil {
		return nil, err
	}
	return reasonsOf(text), nil
}

// reasonsOf reads a listing of pending and running jobs. Of an array that is throttled, slurmctld's reason is that of
// the first task: the tasks beyond the throttle wait for others of the array.
func reasonsOf(text string) map[string]string {
	type pending struct {
		id     slurmtext.JobID
		reason string
	}
	var wait []pending
	running := map[string]int{} // tasks, by array
	for l := range strings.Lines(text) {
		shown, rest, _ := strings.Cut(strings.TrimRight(l, "\n"), "|")
		state, reason, _ := strings.Cut(rest, "|")
		if id := slurmtext.ParseJobID(shown); state == "PD" {
			wait = append(wait, pending{id, reason})
		} else if id.Array {
			running[id.Job]++
		}
	}
	out := map[string]string{}
	for _, p := range wait {
		if !p.id.Array {
			out[p.id.Job] = p.reason
		}
		for i, key := range keysOf(p.id) {
			if out[key] = p.reason; p.id.Tasks.Throttle > 0 && i >= p.id.Tasks.Throttle-running[p.id.Job] {
				out[key] = "JobArrayTaskLimit"
			}
		}
	}
	return out
}

// notScheduling are reasons for which a job waits whatever the scheduler decides, by their beginnings.
// job_reason_string in src/common/slurm_protocol_defs.c.
var notScheduling = []string{"Account", "Assoc", "BadConstraints", "BeginTime", "BurstBuffer", "Cleaning",
	"Constraints", "DeadLine", "Dependency", "FedJobLock", "InvalidAccount", "InvalidQOS", "JobArrayTaskLimit",
	"JobHeld", "JobHoldMaxRequeue", "launch failed requeued held", "launch failure limit exceeded requeued held",
	"Licenses", "Max", "NodeDown", "PartitionConfig", "PartitionDown", "PartitionInactive", "PartitionNodeLimit",
	"PartitionTimeLimit", "QOS", "ReqNodeNotAvail, Reserved", "ReqNodeNotAvail, Unavailable", "Reservation",
	"user env retrieval failed requeued held"}

func withheld(reason string) bool {
	return slices.ContainsFunc(notScheduling, func(r string) bool { return strings.HasPrefix(reason, r) })
}

// node is one of the cluster.
type node struct {
	Name  string `json:"name"`
	GPUs  int    `json:"gpus"`
	State string `json:"state"` // up, draining or down
}

// nodes lists the nodes with GPUs. shardsPerGPU is the number of shards of a GPU, 0 if nodes have none or different
// numbers of them.
func (c Commands) nodes(ctx context.Context) (nodes []node, shardsPerGPU int, err error) {
	text, err := c.Run(ctx, "scontrol", "show", "node", "-o")
	if err != nil {
		return nil, 0, err
	}
	if nodes, shardsPerGPU, err = nodesOf(text); err != nil || c.Conf == "" {
		return nodes, shardsPerGPU, err
	}
	off, err := CloudNodes(c.Conf)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a machine need not have the file
		return nil, 0, err
	}
	for _, name := range slices.Sorted(maps.Keys(off)) {
		if gres, e := slurmtext.ParseNodeGPUs(off[name]["gres"]); e == nil && gres.GPUs.NearestGPUs() > 0 &&
			!slices.ContainsFunc(nodes, func(n node) bool { return n.Name == name }) {
			nodes = append(nodes, node{name, gres.GPUs.NearestGPUs(), "up"})
		}
	}
	return nodes, shardsPerGPU, nil
}

// CloudNodes returns the settings of the nodes that a slurm.conf has as CLOUD, by name. Slurm starts them for jobs, and
// lists them only while they are on.
func CloudNodes(path string) (map[string]conf.Record, error) {
	written, err := conf.Read(path, os.ReadFile)
	if err != nil {
		return nil, err
	}
	all, err := byName("nodename", written.Nodes)
	maps.DeleteFunc(all, func(_ string, r conf.Record) bool { return !strings.EqualFold(r["state"], "cloud") })
	return all, err
}

func nodesOf(text string) (nodes []node, shardsPerGPU int, err error) {
	equal := true
	for _, r := range slurmtext.Records(text, "nodename") {
		state := slurmtext.ParseNodeState(r["state"])
		if state == slurmtext.Future {
			continue
		}
		n, err := slurmtext.ParseNodeGPUs(r["gres"])
		if err != nil {
			return nil, 0, fmt.Errorf("scontrol: node %s: Gres: %w", r["nodename"], err)
		}
		gpus := n.GPUs.NearestGPUs()
		if gpus == 0 {
			continue
		}
		nodes = append(nodes, node{r["nodename"], gpus, stateNames[state]})
		if n.Shards > 0 {
			per := int(n.Shards) / gpus
			equal = equal && per*gpus == int(n.Shards) && (shardsPerGPU == 0 || per == shardsPerGPU)
			shardsPerGPU = per
		}
	}
	if !equal {
		shardsPerGPU = 0
	}
	return nodes, shardsPerGPU, nil
}

// stateNames are the names of the states of nodes.
var stateNames = [...]string{slurmtext.Up: "up", slurmtext.Draining: "draining", slurmtext.Down: "down",
	slurmtext.Future: "down"}

// outage is a time in which a node was down or drained.
type outage struct {
	node, state string
	start, end  time.Time // end is zero while it lasts
}

// outages lists the outages that lasted since an instant.
func (c Commands) outages(ctx context.Context, cluster string, since time.Time) ([]outage, error) {
	text, err := c.Run(ctx, "sacctmgr", "-P", "show", "event", "Clusters="+cluster,
		fmt.Sprint("Start=uts", since.Unix()), "format=NodeName,TimeStart,TimeEnd,State")
	if err != nil {
		return nil, err
	}
	return outagesOf(text)
}

func outagesOf(text string) ([]outage, error) {
	records, err := slurmtext.Table(text)
	if err != nil {
		return nil, fmt.Errorf("sacctmgr show event: line %w", err)
	}
	var out []outage
	for _, f := range records {
		names, err := slurmtext.HostList(f["nodename"])
		if err != nil {
			return nil, fmt.Errorf("sacctmgr show event: NodeName: %w", err)
		}
		state, start := slurmtext.ParseNodeState(f["state"]), instant(f["timestart"])
		if state == slurmtext.Up || start.IsZero() {
			continue
		}
		for _, name := range names {
			out = append(out, outage{name, stateNames[state], start, instant(f["timeend"])})
		}
	}
	return out, nil
}

// diagnostics are slurmctld's, of sdiag.
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
		case strings.HasPrefix(key, "Backfilling stats"): // in the middle of a cycle a warning follows
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
