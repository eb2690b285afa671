package trace

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/lines"
	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/workload"
)

// sacctFormat is Slurm's accounting as a table: what sacct -P prints (SacctCommand), the same saved again with other
// separators and quotes, without its header, with GPUs in GRES columns of old versions, or the job table of slurmdbd.
// More columns do no harm. A job has a row per start: a requeue begins another (-D). Their run times add up, as with
// Philly's attempts, unless Options.RequeueRestarts. RESIZING ends a part of a start. Rows of one id are one job if
// user and name are the same or the start is, and if none was submitted long after another's end; ids begin anew after
// 67 million jobs. The components of a heterogeneous job (JobID 123+0, 123+1) start together and are one gang. A job
// is submitted when it becomes eligible: until then a dependency, a begin time or a hold keeps it, and no scheduler
// could start it. The waiting jobs of an array are one row, and a job each.
var sacctFormat = sacctBy("Account/Partition")

// Columns of sacctFormat.
const (
	sacctID = iota
	sacctState
	sacctSubmit
	sacctStart
	sacctAnyGPUs
	sacctEnd
	sacctEligible
	sacctElapsedRaw
	sacctElapsed
	sacctAllocTRES
	sacctReqTRES
	sacctAllocGRES
	sacctReqGRES
	sacctUser
	sacctTenant
	sacctName
	sacctPartition
	sacctLimitRaw
	sacctLimit
	sacctJobID
	sacctNodes
	sacctQOS
	sacctAccount
	sacctNodeCount
	sacctCluster
	sacctSuspended
	sacctArray
	sacctTask
	sacctTasks
	sacctLeader
	sacctOffset
)

// sacctColumns are the names of the columns in their order, those of sacct first.
var sacctColumns = [...]string{
	sacctID: "JobIDRaw/JobID/id_job", sacctState: "State", sacctSubmit: "Submit/time_submit",
	sacctStart:   "Start/time_start",
	sacctAnyGPUs: "AllocTRES/ReqTRES/AllocGRES/ReqGRES/tres_alloc/tres_req/gres_used/gres_alloc",
	sacctEnd:     "End/time_end", sacctEligible: "Eligible/time_eligible", sacctElapsedRaw: "ElapsedRaw",
	sacctElapsed: "Elapsed", sacctAllocTRES: "AllocTRES/tres_alloc", sacctReqTRES: "ReqTRES/tres_req",
	sacctAllocGRES: "AllocGRES/gres_used/gres_alloc", sacctReqGRES: "ReqGRES/gres_req", sacctUser: "User/id_user",
	sacctName: "JobName/job_name", sacctPartition: "Partition", sacctLimitRaw: "TimelimitRaw",
	sacctLimit: "Timelimit", sacctJobID: "JobID", sacctNodes: "NodeList", sacctQOS: "QOS", sacctAccount: "Account",
	sacctNodeCount: "NNodes/AllocNodes/nodes_alloc", sacctCluster: "Cluster", sacctSuspended: "time_suspended",
	sacctArray: "id_array_job", sacctTask: "id_array_task", sacctTasks: "array_task_str",
	sacctLeader: "het_job_id/pack_job_id", sacctOffset: "het_job_offset/pack_job_offset",
}

// sacctTable is the table with a column for the tenant, separated by sep.
func sacctTable(tenant string, sep byte) *table {
	names := sacctColumns
	names[sacctTenant] = tenant
	t := &table{quoted: sep, anyCase: true, required: names[:sacctAnyGPUs+1], optional: names[sacctAnyGPUs+1:],
		begin: func(in *input, has func(string) bool) { in.beginSacct(has(names[sacctName])) }, fold: foldSacct}
	if sep == '|' {
		t.sep, t.quoted = sep, 0
	}
	return t
}

func (in *input) beginSacct(named bool) {
	in.wallClock = !in.hasZero
	if in.state == nil {
		in.state = &sacctJobs{past: map[int32][]spell{}}
	}
	if !named {
		in.state.(*sacctJobs).bare = true
	}
}

// sacctBy is sacctFormat with a column for the tenant.
func sacctBy(tenant string) Format {
	of := func(head []byte) *table {
		header := lines.Header(head)
		t := sacctTable(tenant, separatorOf(header))
		if t.matches(head) {
			return t
		}
		if named := bareSacct(head); named != "" {
			t = sacctTable(tenant, '|')
			t.given = named
			return t
		}
		return nil
	}
	return Format{
		Name: "sacct",
		About: "Slurm, sacct -X -a -D -P (also without header, as CSV or from slurmdbd): a row per start of a job, jobs " +
			"without GPU left out",
		Header: strings.ReplaceAll(SacctCommand[strings.IndexByte(SacctCommand, '=')+1:], ",", "|"),
		detect: func(head []byte) bool { return of(head) != nil },
		read: func(in *input) error {
			head, err := in.source.Peek()
			if err != nil {
				return err
			}
			t := of(head)
			if t == nil { // an error that says what is missing
				t = sacctTable(tenant, separatorOf(lines.Header(head)))
			}
			return t.read(in)
		},
		finish: finishSacct, hint: hintSacct, withTenant: sacctBy,
	}
}

// SacctCommand prints the input of sacctFormat.
const SacctCommand = "sacct -X -a -D --parsable2 --format=JobIDRaw,JobID,JobName,User,Account,Partition,QOS,State," +
	"Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,ReqTRES,AllocTRES,NNodes,NodeList"

// hintSacct recognises output of sacct that cuts values off, or lacks columns.
func hintSacct(header []byte) string {
	words := bytes.FieldsFunc(header, func(r rune) bool { return r == ' ' || strings.ContainsRune(separators, r) })
	has := func(name string) bool {
		return slices.ContainsFunc(words, func(w []byte) bool { return strings.EqualFold(string(w), name) })
	}
	if !has("JobID") && !has("JobIDRaw") || !has("State") && !has("AllocTRES") && !has("Partition") {
		return hintBareSacct(header)
	}
	if !bytes.ContainsAny(header, separators) {
		return "it looks like sacct's columns of fixed width, which cut values off; run " + SacctCommand
	}
	var lacks []string
	for i, names := range sacctColumns[:sacctAnyGPUs+1] {
		if !slices.ContainsFunc(strings.Split(names, "/"), has) {
			first, _, _ := strings.Cut(sacctColumns[i], "/")
			lacks = append(lacks, first)
		}
	}
	return "it looks like sacct with other columns; run " + SacctCommand + " (it lacks " + strings.Join(lacks, ", ") + ")"
}

// sacctRow is one start of a job, as a row of sacct has it.
type sacctRow struct {
	id            []byte
	name          [16]byte // key of user and name
	user, account string
	status        workload.Status
	asked         time.Duration // submission
	submit        time.Duration // submission, or eligibility if that is later
	spell         spell
	started       bool
	ended         bool
	tres          resources
	requested     workload.Requested
	shown         string
	held          bool // it waits for more than the scheduler
	offset        int32
	nodes         string
	cluster       string
}

// sacct reads a row. It is not ok where r has a fault or leaves the row out.
func (r *csvRow) sacct() (row sacctRow, ok bool) {
	row.id = r.value(sacctID)
	switch {
	case len(row.id) == 0:
		r.fault(sacctID, isEmpty)
	case bytes.IndexByte(row.id, '.') >= 0:
		r.leaveOut("it is a step of a job (sacct -X lists none)")
		return row, false
	}
	row.status, row.ended = r.slurmState(sacctState)
	row.asked = r.submitClock(sacctSubmit)
	row.submit = row.asked
	if eligible, ok := r.slurmClock(sacctEligible); ok {
		row.submit = max(row.submit, eligible)
	} else {
		row.held = len(r.value(sacctEligible)) > 0
	}
	row.spell.ended = row.ended
	row.spell.start, row.started = r.slurmClock(sacctStart)
	row.spell.resized = row.started && !row.ended && slurmtext.ParseJobState(string(r.value(sacctState))).Name == "RESIZING"
	end, hasEnd := r.slurmClock(sacctEnd)
	hasEnd = hasEnd && (row.ended || row.spell.resized) // of a job that runs it is expected
	shown, leader := r.shownID()
	row.tres = r.tres()
	row.spell.gpus = row.tres.gpus
	run := &row.spell.run
	switch {
	case !row.started:
	case !absent(r.value(sacctElapsedRaw)):
		elapsed, reason := parseSeconds(r.value(sacctElapsedRaw))
		*run = r.span(sacctElapsedRaw, elapsed, reason)
	case !absent(r.value(sacctElapsed)):
		elapsed, reason := parseElapsed(r.value(sacctElapsed))
		*run = r.span(sacctElapsed, elapsed, reason)
	case hasEnd:
		if *run = end - row.spell.start; *run < 0 {
			r.fault(sacctEnd, "is before Start")
		}
		if n, reason := parseDecimal(r.value(sacctSuspended), 0); reason == "" && n > 0 {
			if held := *run - time.Duration(min(n, 1<<32))*time.Second; held >= 0 {
				*run = held
			}
		}
	case row.ended:
		r.fault(sacctState, "has ended, and no column says when")
	default:
		row.spell.open = true
	}
	if !r.ok() {
		return row, false
	}
	if row.tres.gpus > 0 && hasEnd && row.started && *run > end-row.spell.start {
		r.in.note("jobs have an Elapsed that is longer than End less Start, and Elapsed counts")
	}
	if row.tres.gpus == 0 && !leader {
		if !row.started && r.column[sacctReqTRES] < 0 && r.column[sacctReqGRES] < 0 {
			r.leaveOut("it never started, and no column (ReqTRES) says what it asks for")
		} else {
			r.leaveOut(noGPU)
		}
		return row, false
	}
	until := &r.in.state.(*sacctJobs).until
	if *until = max(*until, row.asked); row.started {
		*until = max(*until, row.spell.end())
	}
	if row.nodes = r.hosts(sacctNodes); !r.ok() {
		return row, false
	}
	row.name = workload.NameKey(r.value(sacctUser), r.value(sacctName))
	row.user, row.account, row.cluster = r.text(sacctUser), r.text(sacctTenant), r.text(sacctCluster)
	asks := workload.Request{Partition: r.text(sacctPartition), QOS: r.text(sacctQOS), MilliCPUs: row.tres.milliCPUs,
		Memory: row.tres.memory, NodeCount: r.slurmNodes()}
	if asked := r.value(sacctReqTRES); bytes.Contains(asked, []byte("gpu:")) {
		asks.GPUModel = slurmtext.GPUType(string(asked))
	}
	if account := r.text(sacctAccount); account != row.account {
		asks.Account = account
	}
	if asks.TimeLimit = r.timeLimit(sacctLimitRaw); absent(r.value(sacctLimitRaw)) {
		asks.TimeLimit = r.timeLimit(sacctLimit)
	}
	row.requested, row.offset = asks.Shared(), -1
	if bytes.ContainsAny(shown, "+_") {
		switch id := slurmtext.ParseJobID(string(shown)); {
		case id.Component >= 0:
			row.shown, row.offset = r.in.text([]byte(id.Job)), int32(id.Component)
		case id.Array && row.started:
			row.shown = r.in.text([]byte(id.Job))
		case id.Array:
			row.shown = r.in.text(shown)
		}
	}
	return row, r.ok()
}

// shownID is the id as the column JobID has it; leader reports that it is of a component. slurmdbd's table has its
// parts in columns of their own.
func (r *csvRow) shownID() (id []byte, component bool) {
	if id = r.value(sacctJobID); len(id) == 0 {
		id = r.value(sacctID)
	}
	number := func(i int) []byte {
		if v := r.value(i); string(v) != "0" && isDigits(v) && string(v) != noValue {
			return v
		}
		return nil
	}
	switch array, leader := number(sacctArray), number(sacctLeader); {
	case array != nil && isDigits(r.value(sacctTask)) && string(r.value(sacctTask)) != noValue:
		id = slices.Concat(array, []byte{'_'}, r.value(sacctTask))
	case array != nil && !absent(r.value(sacctTasks)):
		id = slices.Concat(array, []byte("_["), bytes.Trim(r.value(sacctTasks), "[]"), []byte{']'})
	case leader != nil && isDigits(r.value(sacctOffset)):
		id = slices.Concat(leader, []byte{'+'}, r.value(sacctOffset))
	}
	return id, bytes.IndexByte(id, '+') >= 0
}

// noValue is Slurm's NO_VAL.
const noValue = "4294967294"

// slurmClock is wallClock where 0, -1 and Slurm's marks for no value are no time.
func (r *csvRow) slurmClock(i int) (at time.Duration, known bool) {
	switch string(r.value(i)) {
	case "0", "-1", noValue, "4294967295":
		return 0, false
	}
	return r.wallClock(i)
}

// slurmNodes is the number of nodes of a job, 0 if it is not known.
func (r *csvRow) slurmNodes() int32 {
	n, reason := parseDecimal(r.value(sacctNodeCount), 0)
	if reason != "" || n < 0 || n > workload.MaxPlaces {
		return 0
	}
	return int32(n)
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

// statusOf are the statuses of outcomes.
var statusOf = [...]workload.Status{slurmtext.Completed: workload.Completed, slurmtext.Cancelled: workload.Cancelled,
	slurmtext.Failed: workload.Failed, slurmtext.TimedOut: workload.TimedOut,
	slurmtext.OutOfMemory: workload.OutOfMemory}

// slurmState reads a state, as sacct and the traces of Slurm clusters write it. A state that is not known is that of a
// job that has ended, its status unknown.
func (r *csvRow) slurmState(i int) (status workload.Status, ended bool) {
	if string(r.value(i)) == "COMPLETED" { // most
		return workload.Completed, true
	}
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

// resources are the resources of a job, summed over its nodes.
type resources struct {
	gpus              workload.MilliGPU
	milliCPUs, memory int64
}

// tres reads the GPUs, CPUs and memory of a row: AllocTRES, and if that has no GPU AllocGRES, ReqTRES or ReqGRES, of
// which the last counts for each node. In slurmdbd's table resources have numbers, and a GRES column that names GPUs
// comes first.
func (r *csvRow) tres() resources {
	s := r.in.state.(*sacctJobs)
	alloc := r.value(sacctAllocTRES)
	if known, ok := s.allocated[string(alloc)]; ok {
		return known
	}
	if plainTRES(alloc) && plainTRES(r.value(sacctReqTRES)) && len(r.value(sacctAllocGRES)) == 0 &&
		len(r.value(sacctReqGRES)) == 0 && bytes.IndexByte(r.value(sacctJobID), '+') < 0 {
		return resources{} // most jobs of most clusters
	}
	t, column, err := slurmtext.JobTRES(string(alloc), string(r.value(sacctReqTRES)))
	at := sacctAllocTRES
	if column == "ReqTRES" {
		at = sacctReqTRES
	}
	numbered := t.Numbered
	if err == nil && (numbered || at == sacctReqTRES || !t.HasGPUs()) {
		for _, c := range [...]int{sacctAllocGRES, sacctReqGRES} {
			if v := r.value(c); !absent(v) && (c == sacctAllocGRES || !t.HasGPUs()) {
				g, failed := slurmtext.ParseGresGPUs(string(v), c == sacctReqGRES, max(1, int64(r.slurmNodes())))
				if failed != nil {
					at, err = c, failed
				} else if g.HasGPUs() {
					if numbered && t.HasGPUs() && t.GPUs != g.GPUs {
						r.in.note(otherTRES)
					}
					t.GPUs, t.Shards, numbered, at = g.GPUs, g.Shards, false, c
					break
				}
			}
		}
	}
	if numbered && t.HasGPUs() {
		r.in.note(numberedTRES)
	}
	var gpus slurmtext.Share
	if err == nil {
		gpus, err = t.Share(r.in.opts.Shards)
	}
	if err != nil {
		r.fault(at, err.Error())
		return resources{}
	}
	if t.Unsure != "" {
		slices, of, _ := slurmtext.MIGSlices(t.Unsure)
		r.in.note(fmt.Sprintf("gres/gpu:%s counts as %d/%d of a GPU: GPUs of other numbers of slices have this profile, too",
			t.Unsure, slices, of))
	}
	out := resources{workload.MilliGPU(gpus.NearestMilli()), t.MilliCPUs, t.Memory}
	if at == sacctAllocTRES && out.gpus > 0 && !t.Numbered {
		if s.allocated == nil {
			s.allocated = map[string]resources{}
		}
		s.allocated[string(alloc)] = out
	}
	return out
}

// plainTRES reports that resources have names, none of which is of a generic resource.
func plainTRES(b []byte) bool {
	return len(b) == 0 || (b[0] < '0' || b[0] > '9') && bytes.IndexByte(b, '/') < 0
}

// Notes on resources that have numbers.
const (
	numberedTRES = "resource 1001 is taken for gres/gpu: slurmdbd gives this number to the first of AccountingStorageTRES " +
		"(sacctmgr show tres lists the numbers)"
	otherTRES = "resource 1001 has another number than the column of GRES has GPUs, and the latter counts"
)
