package trace

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/workload"
)

// sacctFormat is the output of Slurm's accounting:
//
// SacctCommand. More columns do no harm. A job has a row per start: a requeue begins
// another (-D). Their run times add up, as with Philly's attempts, unless
// Options.RequeueRestarts. Rows of one id are one job if user and name are the same
// too; ids begin anew after 67 million jobs. The components of a heterogeneous job
// (JobID 123+0, 123+1) start together and are one gang. A job is submitted when it
// becomes eligible: until then a dependency, a begin time or a hold keeps it, and no
// scheduler could start it. The waiting jobs of an array are one row, and a job each.
var sacctFormat = sacctBy("Account/Partition")

// sacctBy is sacctFormat with a column for the tenant.
func sacctBy(tenant string) Format {
	t := &table{
		sep:      '|',
		required: []string{"JobIDRaw/JobID", "State", "Submit", "Start", "End", "AllocTRES"},
		optional: []string{"Eligible", "ElapsedRaw", "Elapsed", "ReqTRES", "User", tenant, "JobName",
			"Partition", "TimelimitRaw", "Timelimit", "JobID", "NodeList", "QOS", "Account", "NNodes"},
		begin: func(in *input, has func(string) bool) {
			in.wallClock = !in.hasZero
			if in.state == nil {
				in.state = &sacctJobs{}
			}
			if !has("JobName") {
				in.state.(*sacctJobs).bare = true
			}
		},
		fold: foldSacct,
	}
	f := formatOf("sacct",
		"Slurm, sacct -X -a -D -P: a row per start of a job, GPUs from AllocTRES, jobs without GPU left out", t)
	f.finish = finishSacct
	f.hint = hintSacct
	f.withTenant = sacctBy
	return f
}

// SacctCommand prints the input of sacctFormat.
const SacctCommand = "sacct -X -a -D --parsable2 --format=JobIDRaw,JobID,JobName,User,Account,Partition,QOS,State," +
	"Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,ReqTRES,AllocTRES,NNodes,NodeList"

// hintSacct recognises output of sacct that is no table with bars, or lacks columns.
func hintSacct(header []byte) string {
	words := bytes.FieldsFunc(header, func(r rune) bool { return r == ' ' || r == '\t' || r == '|' || r == ',' })
	has := func(name string) bool {
		return slices.ContainsFunc(words, func(w []byte) bool { return string(w) == name })
	}
	if !has("JobID") && !has("JobIDRaw") || !has("State") && !has("AllocTRES") && !has("Partition") {
		return ""
	}
	if bytes.IndexByte(header, '|') < 0 {
		return "it looks like sacct's columns of fixed width, which cut values off; run " + SacctCommand
	}
	return "it looks like sacct with other columns; run " + SacctCommand
}

type sacctJobs struct {
	jobs list[sacctJob]
	at   names   // the ids
	last []int32 // the last job of an id
	bare bool    // there is no column of names, and so no keys
	// running counts the tasks that run, by array.
	running map[string]int
	// allocated are the resources of jobs with GPUs by the text of AllocTRES: few texts recur.
	allocated map[string]resources
}

// resources are the resources of a job, summed over its nodes.
type resources struct {
	gpus              workload.MilliGPU
	milliCPUs, memory int64
}

type sacctJob struct {
	workload.Job
	workload.Request
	name    [16]byte      // key of user and name
	asked   time.Duration // first submission, eligible or not
	first   time.Duration // start
	latest  time.Duration // start or submission
	lastRun time.Duration // run time of the latest row
	leader  string        // id of the heterogeneous job of which it is a component
	array   string        // of a job that waits: JobID, such as 15_[3-9%2]
	task    string        // of a task that has started: the array's id
	held    bool          // it may not start yet
	offset  int32         // its place among the components
	file    string
	line    int32
	rows    int32
	before  int32 // the job of the same id before, -1 if there is none
	started bool
	ended   bool
}

// sacctRow is one start of a job, as a row of sacct has it.
type sacctRow struct {
	id             []byte
	name           [16]byte // key of user and name
	user, account  string
	partition      string
	status         workload.Status
	asked          time.Duration // submission
	submit, start  time.Duration // submission, or eligibility if that is later
	started, ended bool
	run            time.Duration
	tres           resources
	limit          time.Duration
	leader         string // of a heterogeneous job
	array, task    string // JobID of the waiting jobs of an array; the array of a task that has started
	held           bool   // it waits for more than the scheduler
	offset         int32
	nodes          string
	qos, accounted string // accounted is the account if it is not the tenant
	count          int32  // of nodes
}

// sacct reads a row. It is not ok where r has a fault or leaves the row out.
func (r *csvRow) sacct() (row sacctRow, ok bool) {
	row.id = r.value(0)
	switch {
	case len(row.id) == 0:
		r.fault(0, isEmpty)
	case bytes.IndexByte(row.id, '.') >= 0:
		r.leaveOut("it is a step of a job (sacct -X lists none)")
		return row, false
	}
	var hasEnd, over bool
	var end time.Duration
	row.status, over = r.slurmState(1)
	row.asked = r.submitClock(2)
	row.submit = row.asked
	if eligible, ok := r.wallClock(6); ok {
		row.submit = max(row.submit, eligible)
	} else {
		row.held = len(r.value(6)) > 0
	}
	row.start, row.started = r.wallClock(3)
	end, hasEnd = r.wallClock(4)
	row.ended = over && (hasEnd || !row.started)
	row.tres = r.tres(5, 9)
	switch {
	case !row.started:
	case !absent(r.value(7)):
		row.run = r.elapsed(7, parseSeconds)
	case !absent(r.value(8)):
		row.run = r.elapsed(8, parseElapsed)
	case hasEnd:
		if row.run = end - row.start; row.run < 0 {
			r.fault(4, "is before Start")
		}
	}
	if !r.ok() {
		return row, false
	}
	if row.nodes = r.hosts(17); !r.ok() {
		return row, false
	}
	row.name = workload.NameKey(r.value(10), r.value(12))
	row.user, row.account, row.partition = r.text(10), r.text(11), r.text(13)
	if row.qos = r.text(18); r.text(19) != row.account {
		row.accounted = r.text(19)
	}
	if n, reason := parseDecimal(r.value(20), 0); reason == "" && n > 0 && n <= workload.MaxPlaces {
		row.count = int32(n)
	}
	if row.limit = r.timeLimit(14); absent(r.value(14)) {
		row.limit = r.timeLimit(15)
	}
	shown := r.value(16)
	if len(shown) == 0 {
		shown = row.id
	}
	if bytes.ContainsAny(shown, "+_") {
		switch id := slurmtext.ParseJobID(string(shown)); {
		case id.Component >= 0:
			row.leader, row.offset = r.in.text([]byte(id.Job)), int32(id.Component)
		case id.Array && row.started:
			row.task = r.in.text([]byte(id.Job))
		case id.Array:
			row.array = r.in.text(shown)
		}
	}
	return row, r.ok()
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
		for k = s.last[number]; k >= 0 && s.jobs.at(int(k)).name != row.name; {
			k = s.jobs.at(int(k)).before
		}
	}
	if k < 0 {
		k = int32(s.jobs.len())
		j := sacctJob{Job: workload.Job{ID: in.own(row.id), User: row.user, Tenant: row.account, Submit: row.submit},
			name: row.name, asked: row.asked, leader: row.leader, offset: row.offset,
			file: in.file, line: int32(in.line), before: -1, latest: row.submit}
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
	if row.started && (!j.started || row.start < j.first) {
		j.started, j.first = true, row.start
	}
	j.Duration = min(j.Duration+min(row.run, workload.MaxDuration+1), workload.MaxDuration+1)
	// Rows may come in any order: the latest says how the job ended and, if it
	// held GPUs, how many.
	at := row.submit
	if row.started {
		at = max(row.submit, row.start)
	}
	if at >= j.latest || j.rows == 1 {
		j.latest, j.Status, j.ended, j.lastRun = at, row.status, row.ended, row.run
		j.Partition, j.TimeLimit, j.Nodes = row.partition, row.limit, cmp.Or(row.nodes, j.Nodes)
		j.QOS, j.Account = row.qos, row.accounted
		j.held, j.array, j.task = row.held, row.array, row.task
		if row.count > 0 {
			j.NodeCount = row.count
		}
		if row.tres.gpus > 0 || j.GPUs == 0 {
			j.ask(&row.tres)
		}
	} else if j.GPUs == 0 {
		j.ask(&row.tres)
	}
}

func (j *sacctJob) ask(t *resources) { j.GPUs, j.MilliCPUs, j.Memory = t.gpus, t.milliCPUs, t.memory }

// tres reads AllocTRES or, for a job that has no GPU there, ReqTRES.
func (r *csvRow) tres(alloc, requested int) resources {
	s := r.in.state.(*sacctJobs)
	if known, ok := s.allocated[string(r.value(alloc))]; ok {
		return known
	}
	t, column, err := slurmtext.JobTRES(string(r.value(alloc)), string(r.value(requested)))
	var gpus slurmtext.Share
	if err == nil {
		gpus, err = t.Share(r.in.opts.Shards)
	}
	at := alloc
	if column == "ReqTRES" {
		at = requested
	}
	if err != nil {
		r.fault(at, err.Error())
		return resources{}
	}
	out := resources{workload.MilliGPU(gpus.NearestMilli()), t.MilliCPUs, t.Memory}
	if at == alloc && out.gpus > 0 {
		if s.allocated == nil {
			s.allocated = map[string]resources{}
		}
		s.allocated[string(r.value(alloc))] = out
	}
	return out
}

// timeLimit reads a time limit, 0 if it is none.
func (r *csvRow) timeLimit(i int) time.Duration {
	v := r.value(i)
	if absent(v) {
		return 0
	}
	limit, err := slurmtext.ParseLimit(string(v))
	if err != nil {
		r.fault(i, err.Error())
	}
	return limit
}

func (r *csvRow) elapsed(i int, parse func([]byte) (time.Duration, string)) time.Duration {
	d, reason := parse(r.value(i))
	switch {
	case reason != "":
		r.fault(i, reason)
	case d < 0:
		r.fault(i, isNegative)
	case d > workload.MaxDuration:
		r.fault(i, tooLong)
	}
	return d
}

func finishSacct(in *input) error {
	s := in.state.(*sacctJobs)
	s.at = names{}
	if in.opts.RequeueRestarts {
		for i := range s.jobs.len() {
			j := s.jobs.at(i)
			j.Duration = j.lastRun
		}
	}
	s.joinComponents()
	var pending []workload.Job
	for i := range s.jobs.len() {
		j := s.jobs.at(i)
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
			if !s.bare {
				hex := j.name
				j.Key = in.own(hex[:])
			}
			j.shareNodes()
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
			if wait := j.first - j.Submit; wait >= 0 && wait <= workload.MaxDuration {
				j.Wait, j.HasWait = wait, true
			}
			if !s.bare {
				hex := j.name
				j.Key = in.own(hex[:])
			}
			if j.rows > 1 && j.TimeLimit > 0 && !in.opts.RequeueRestarts {
				j.TimeLimit = max(j.TimeLimit, j.Duration) // it counts from each start, the duration is of all
			}
			j.shareNodes()
			in.addOnce(&j.Job)
		}
	}
	in.addPending(pending)
	in.state = nil
	return nil
}

// shareNodes completes the job's request: a number of nodes only if they share its GPUs equally.
func (j *sacctJob) shareNodes() {
	if j.NodeCount > 0 && j.GPUs%(1000*workload.MilliGPU(j.NodeCount)) != 0 {
		j.NodeCount = 0
	}
	j.Requested = j.Request.Shared()
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
	if !strings.Contains(j.array, "[") {
		return []workload.Job{j.Job}, nil
	}
	id := slurmtext.ParseJobID(j.array)
	most, reason := maxTasks, oneTooFar
	if n := id.Tasks.Throttle; n > 0 {
		if s.running == nil {
			s.running = map[string]int{}
			for i := range s.jobs.len() {
				if k := s.jobs.at(i); k.task != "" && k.started && !k.ended {
					s.running[k.task]++
				}
			}
		}
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
	return j.GPUs <= workload.GPUs(workload.MaxGPUs) && j.MilliCPUs <= workload.MaxMilliCPUs &&
		j.Memory <= workload.MaxMemory
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
		if j := s.jobs.at(i); j.leader != "" {
			k := gang{j.leader, j.asked}
			if g := first[k]; g == nil || j.offset < g.offset {
				first[k] = j
			}
		}
	}
	for i := range s.jobs.len() {
		j := s.jobs.at(i)
		if j.leader == "" {
			continue
		}
		g := first[gang{j.leader, j.asked}]
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
	switch { // nodes with equal shares
	case c.GPUs == 0:
	case j.GPUs == 0:
		j.NodeCount = c.NodeCount
	case int64(j.GPUs)*int64(c.NodeCount) == int64(c.GPUs)*int64(j.NodeCount):
		j.NodeCount += c.NodeCount
	default:
		j.NodeCount = 0
	}
	j.GPUs, j.MilliCPUs, j.Memory = j.GPUs+c.GPUs, j.MilliCPUs+c.MilliCPUs, j.Memory+c.Memory
	j.Submit, j.first, j.Duration = max(j.Submit, c.Submit), max(j.first, c.first), max(j.Duration, c.Duration)
	j.started, j.ended = j.started && c.started, j.ended && c.ended
	if j.Partition != c.Partition {
		j.Partition = ""
	}
	if c.TimeLimit == 0 || j.TimeLimit == 0 {
		j.TimeLimit = 0
	} else {
		j.TimeLimit = max(j.TimeLimit, c.TimeLimit)
	}
}

// statusOf are the statuses of outcomes.
var statusOf = [...]workload.Status{slurmtext.Completed: workload.Completed, slurmtext.Cancelled: workload.Cancelled,
	slurmtext.Failed: workload.Failed, slurmtext.TimedOut: workload.TimedOut,
	slurmtext.OutOfMemory: workload.OutOfMemory}

// slurmState reads a state, as sacct and the traces of Slurm clusters write it. A state that is not known is that of a
// job that has ended, its status unknown.
func (r *csvRow) slurmState(i int) (status workload.Status, ended bool) {
	state := slurmtext.ParseJobState(string(r.value(i)))
	return statusOf[state.Outcome], state.Ended
}

// parseElapsed reads [days-]hours:minutes:seconds.
func parseElapsed(b []byte) (time.Duration, string) {
	d, err := slurmtext.ParseElapsed(string(b))
	if err != nil {
		return 0, err.Error()
	}
	return d, ""
}
