package trace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/workload"
)

// sacctJobs are the jobs of which rows were read, in the order of their first rows.
type sacctJobs struct {
	jobs list[sacctJob]
	at   names   // the ids
	last []int32 // the last job of an id
	bare bool    // there is no column of names, and so no keys
	past map[int32][]spell
	// until is the last instant in the rows: what runs without a run time ran until then.
	until time.Duration
	// running counts the tasks that run, by array.
	running map[string]int
	// allocated are the resources of jobs with GPUs by the text of AllocTRES: few texts recur.
	allocated map[string]resources
}

// spell is one start of a job.
type spell struct {
	start, run  time.Duration
	gpus        workload.MilliGPU
	ended, open bool // open: it runs, and for how long is not said
	resized     bool // the job went on with other resources
}

func (s *spell) end() time.Duration { return s.start + s.run }

type sacctJob struct {
	workload.Job
	name    [16]byte      // key of user and name
	asked   time.Duration // first submission, eligible or not
	first   time.Duration // start
	latest  time.Duration // start or submission of the row that says how the job ended
	spell   spell         // the last one; others are in sacctJobs.past
	shown   string        // JobID of a component, a task that has started or the tasks that wait
	cluster string
	file    string
	line    int32
	rows    int32
	before  int32 // the job of the same id before, -1 if there is none
	offset  int32 // its place among the components of a heterogeneous job, -1 if it is none
	held    bool  // it may not start yet
	waits   bool  // the latest row has not started
	started bool
	ended   bool
}

// longAfter is how long after the end of one job another of its id may be submitted and be the same job, requeued:
// Slurm forgets an ended job long before (MinJobAge).
const longAfter = 24 * time.Hour

// is reports whether a row is of the job.
func (s *sacctJobs) is(k int32, row *sacctRow) bool {
	j := s.jobs.at(int(k))
	if j.cluster != row.cluster {
		return false
	}
	if row.started && s.spellAt(k, row.spell.start) != nil {
		return true
	}
	return j.name == row.name && !(j.spell.ended && j.started && row.asked > j.spell.end()+longAfter) &&
		!(row.spell.ended && row.started && j.asked > row.spell.end()+longAfter)
}

// spellAt is a job's start at an instant, nil if there is none.
func (s *sacctJobs) spellAt(k int32, start time.Duration) *spell {
	if j := s.jobs.at(int(k)); j.started && j.spell.start == start {
		return &j.spell
	}
	for i := range s.past[k] {
		if p := &s.past[k][i]; p.start == start {
			return p
		}
	}
	return nil
}

// foldSacct adds a row to its job.
func foldSacct(r *csvRow) {
	row, ok := r.sacct()
	if !ok {
		return
	}
	in := r.in
	s := in.state.(*sacctJobs)
	number, hash := s.at.find(string(row.id))
	k := int32(-1)
	if number >= 0 {
		for k = s.last[number]; k >= 0 && !s.is(k, &row); {
			k = s.jobs.at(int(k)).before
		}
	}
	if k < 0 {
		k = int32(s.jobs.len())
		j := sacctJob{Job: workload.Job{ID: in.own(row.id), User: row.user, Tenant: row.account, Submit: row.submit},
			name: row.name, asked: row.asked, file: in.file, line: int32(in.line), before: -1, cluster: row.cluster}
		if number < 0 {
			s.at.add(j.ID, hash)
			s.last = append(s.last, k)
		} else { // the id serves another job
			j.before, s.last[number] = s.last[number], k
			j.ID += "." + strconv.Itoa(int(k))
		}
		s.jobs.append(j)
	}
	j := s.jobs.at(int(k))
	j.rows++
	j.Submit, j.asked = min(j.Submit, row.submit), min(j.asked, row.asked)
	// Rows may come in any order: the latest says how the job ended and, if it held GPUs, how many. Of two rows of one
	// start it is the one that has ended.
	at, newer := row.submit, j.rows == 1
	if row.started {
		at = max(at, row.spell.start)
		known := s.spellAt(k, row.spell.start)
		switch {
		case known != nil:
			better := row.ended && !known.ended || row.ended == known.ended && row.spell.run > known.run
			if newer = better && known == &j.spell && !j.waits; better {
				*known = row.spell
			}
		case !j.started:
			j.spell = row.spell
			newer = newer || at >= j.latest
		case row.spell.start > j.spell.start:
			s.past[k], j.spell = append(s.past[k], j.spell), row.spell
			newer = at >= j.latest
		default:
			s.past[k] = append(s.past[k], row.spell)
		}
		if !j.started || row.spell.start < j.first {
			j.started, j.first = true, row.spell.start
		}
	} else {
		newer = newer || at > j.latest || at == j.latest && !j.started
	}
	if !newer {
		if j.GPUs == 0 {
			j.GPUs, j.Requested = row.tres.gpus, row.requested
		}
		return
	}
	j.latest, j.Status, j.ended, j.waits = at, row.status, row.ended, !row.started
	j.Nodes = cmp.Or(row.nodes, j.Nodes)
	j.held, j.shown, j.offset = row.held, row.shown, row.offset
	if row.tres.gpus > 0 || j.GPUs == 0 {
		j.GPUs, j.Requested = row.tres.gpus, row.requested
	}
}

// run is how long a job ran: all its starts, or the last one alone, which may have several parts. If it was resized,
// gpus is the mean number of GPUs that it held, else 0.
func (s *sacctJobs) run(k int, last bool) (sum time.Duration, gpus workload.MilliGPU) {
	j := s.jobs.at(k)
	switch {
	case last && (!j.started || j.waits):
		return 0, 0
	case len(s.past[int32(k)]) == 0 && !j.spell.open:
		return j.spell.run, 0
	}
	parts := append(slices.Clone(s.past[int32(k)]), j.spell)
	slices.SortStableFunc(parts, func(a, b spell) int { return cmp.Compare(a.start, b.start) })
	held, resized := 0.0, false
	for i := len(parts) - 1; i >= 0; i-- {
		p := &parts[i]
		if i < len(parts)-1 && !p.resized && last {
			break
		}
		if p.open {
			p.run = max(0, s.until-p.start)
		}
		resized = resized || p.gpus != parts[len(parts)-1].gpus && p.resized
		sum = min(sum+p.run, workload.MaxDuration+1)
		held += p.gpus.Count() * p.run.Seconds()
	}
	if resized && sum > 0 {
		gpus = workload.MilliGPU(math.Round(1000 * held / sum.Seconds()))
	}
	return sum, gpus
}

// finishSacct makes jobs of the rows.
func finishSacct(in *input) error {
	s := in.state.(*sacctJobs)
	s.at = names{}
	for i := range s.jobs.len() {
		j := s.jobs.at(i)
		gpus := workload.MilliGPU(0)
		if j.Duration, gpus = s.run(i, in.opts.RequeueRestarts); gpus > 0 {
			in.note("jobs that were resized count with the mean number of GPUs that they held, and without their nodes")
			asks := j.Request()
			asks.NodeCount = 0
			j.GPUs, j.Nodes, j.Requested = gpus, "", asks.Shared()
		}
		if j.spell.open && j.started && !j.ended {
			in.note("jobs that run and have no elapsed time are taken to run until the last instant of the trace")
		}
	}
	s.joinComponents()
	s.running = map[string]int{}
	for i := range s.jobs.len() {
		if k := s.jobs.at(i); k.shown != "" && k.offset < 0 && k.started && !k.ended {
			s.running[k.shown]++
		}
	}
	var pending []workload.Job
	for i := range s.jobs.len() {
		j := s.jobs.at(i)
		if i > 0 && i%chunkLen == 0 {
			s.jobs.chunks[i/chunkLen-1] = nil // its jobs are in the input's list
		}
		if j.rows == 0 { // part of a gang
			continue
		}
		in.report.Merged += int(j.rows) - 1
		switch {
		case j.GPUs == 0:
			in.report.leaveOut(noGPU)
		case !j.ended && j.Duration == 0 && j.held:
			in.report.leaveOut("it may not start yet: it is held, or waits for another job or a time")
		case !j.ended && j.Duration == 0:
			s.complete(in, j)
			tasks, rest := s.tasks(j)
			for _, r := range rest {
				in.report.leaveOutMany(r.Reason, r.Jobs)
				in.report.Expanded += r.Jobs
			}
			in.report.Expanded += len(tasks) - 1
			if pending = append(pending, tasks...); len(pending) > in.opts.MaxRows {
				return fmt.Errorf("%s: line %d: %w: more than %d jobs wait in arrays", j.file, j.line, ErrLimit,
					in.opts.MaxRows)
			}
		case !j.started:
			in.report.leaveOut(neverRan)
		case j.Duration == 0:
			in.report.leaveOut(tooShort)
		default:
			in.file, in.line = j.file, int(j.line)
			if j.Duration > workload.MaxDuration {
				in.reject("ElapsedRaw", "adds up to more than ten years", []byte(j.Duration.String()))
				continue
			}
			if !j.fits() {
				in.reject("AllocTRES", "adds up to more than a cluster has", []byte(j.ID))
				continue
			}
			if !j.ended {
				j.Status = workload.Running
			}
			setWait(&j.Job, j.first-j.Submit)
			s.complete(in, j)
			asks := j.Request()
			if j.rows > 1 && asks.TimeLimit > 0 && !in.opts.RequeueRestarts && j.Duration > asks.TimeLimit {
				asks.TimeLimit = j.Duration // it counts from each start, the duration is of all
				j.Requested = asks.Shared()
			}
			in.addOnce(&j.Job)
		}
	}
	in.addPending(pending)
	in.state = nil
	return nil
}

// complete gives a job its key, and its request a number of nodes only if they share the GPUs equally.
func (s *sacctJobs) complete(in *input, j *sacctJob) {
	if !s.bare {
		hex := j.name
		j.Key = in.own(hex[:])
	}
	asks := j.Request()
	if asks.NodeCount > 0 && j.GPUs%(1000*workload.MilliGPU(asks.NodeCount)) != 0 {
		asks.NodeCount = 0
		j.Requested = asks.Shared()
	}
}

// maxTasks bounds the jobs that the rest of an array expands to.
const maxTasks = 100_000

// Why tasks of an array that waits are no jobs.
const (
	throttled = "its array's throttle does not let it start yet"
	oneTooFar = "it waits behind the first 100,000 tasks of its array"
	cutOff    = "its array's list of tasks is cut off: set SLURM_BITSTR_LEN=0 for sacct"
)

// tasks are the jobs that wait of an array: the ones that its throttle lets start beside the ones that run; rest counts
// the others. Of a job that is no array it is the job.
func (s *sacctJobs) tasks(j *sacctJob) (tasks []workload.Job, rest []ReasonCount) {
	if !strings.Contains(j.shown, "[") {
		return []workload.Job{j.Job}, nil
	}
	id := slurmtext.ParseJobID(j.shown)
	most, reason := maxTasks, oneTooFar
	if n := id.Tasks.Throttle; n > 0 {
		if n -= s.running[id.Job]; n < most {
			most, reason = max(0, n), throttled
		}
	}
	for n := range id.Tasks.All() {
		if len(tasks) == most {
			break
		}
		task := j.Job
		task.ID = j.ID + "_" + strconv.Itoa(n)
		tasks = append(tasks, task)
	}
	if waiting := id.Tasks.Len() - len(tasks); waiting > 0 {
		rest = append(rest, ReasonCount{reason, waiting})
	}
	if id.Tasks.Cut {
		rest = append(rest, ReasonCount{cutOff, 1}) // it does not say how many
	}
	return tasks, rest
}

// fits reports whether the sums of a gang are within the limits of a job.
func (j *sacctJob) fits() bool {
	asks := j.Request()
	return j.GPUs <= workload.GPUs(workload.MaxGPUs) && asks.MilliCPUs <= workload.MaxMilliCPUs &&
		asks.Memory <= workload.MaxMemory
}

// joinComponents makes one job of the components of each heterogeneous job, that of
// the first one; the others are left without rows.
func (s *sacctJobs) joinComponents() {
	type gang struct {
		leader string
		asked  time.Duration // ids begin anew
	}
	first := map[gang]*sacctJob{}
	for i := range s.jobs.len() {
		if j := s.jobs.at(i); j.offset >= 0 {
			k := gang{j.shown, j.asked}
			if g := first[k]; g == nil || j.offset < g.offset {
				first[k] = j
			}
		}
	}
	for i := range s.jobs.len() {
		j := s.jobs.at(i)
		if j.offset < 0 {
			continue
		}
		g := first[gang{j.shown, j.asked}]
		if g == j {
			j.ID = strings.Replace(j.ID, "+"+strconv.Itoa(int(j.offset)), "", 1)
			continue
		}
		g.join(j)
	}
}

// join adds a component: the gang runs from the last component's start for as long as
// the longest.
func (j *sacctJob) join(c *sacctJob) {
	j.rows, c.rows = j.rows+c.rows, 0
	switch { // nodes of components without GPU are none of the gang's
	case c.GPUs == 0:
	case j.GPUs == 0:
		j.Nodes = c.Nodes
	case j.Nodes == "" || c.Nodes == "":
		j.Nodes = ""
	default:
		j.Nodes += "," + c.Nodes
	}
	asks, more := j.Request(), c.Request()
	switch { // nodes with equal shares
	case c.GPUs == 0:
	case j.GPUs == 0:
		asks.NodeCount = more.NodeCount
	case int64(j.GPUs)*int64(more.NodeCount) == int64(c.GPUs)*int64(asks.NodeCount):
		asks.NodeCount += more.NodeCount
	default:
		asks.NodeCount = 0
	}
	j.GPUs, asks.MilliCPUs, asks.Memory = j.GPUs+c.GPUs, asks.MilliCPUs+more.MilliCPUs, asks.Memory+more.Memory
	j.Submit, j.first, j.Duration = max(j.Submit, c.Submit), max(j.first, c.first), max(j.Duration, c.Duration)
	j.started, j.ended = j.started && c.started, j.ended && c.ended
	if asks.Partition != more.Partition {
		asks.Partition = ""
	}
	if more.TimeLimit == 0 || asks.TimeLimit == 0 {
		asks.TimeLimit = 0
	} else {
		asks.TimeLimit = max(asks.TimeLimit, more.TimeLimit)
	}
	j.Requested = asks.Shared()
}
