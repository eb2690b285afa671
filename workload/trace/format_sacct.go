package trace

import (
	"bytes"
	"strconv"
	"time"

	"github.com/autosched/autosched/workload"
)

// sacctFormat is what Slurm's accounting prints:
//
// sacct -X -a -D -P
// --format=JobIDRaw,JobName,User,Account,State,Submit,Eligible,Start,End,ElapsedRaw,ReqTRES,AllocTRES
//
// More columns do no harm. A job has a row per start: a requeue begins another
// (-D). Their run times add up, as those of Philly's attempts do. Rows of one id
// are one job if user and name are the same too; ids begin anew after 67 million
// jobs. A job is submitted when it becomes eligible: until then a dependency, a
// begin time or a hold keeps it, and no scheduler could start it.
var sacctFormat = func() Format {
	t := &table{
		sep:      '|',
		required: []string{"JobIDRaw/JobID", "State", "Submit", "Start", "End", "AllocTRES"},
		optional: []string{"Eligible", "ElapsedRaw", "Elapsed", "ReqTRES", "User", "Account/Partition", "JobName",
			"Partition", "TimelimitRaw"},
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
	return f
}()

type sacctJobs struct {
	jobs list[sacctJob]
	at   names   // the ids
	last []int32 // the last job of an id
	bare bool    // there is no column of names, and so no keys
}

type sacctJob struct {
	workload.Job
	name    [16]byte      // key of user and name
	first   time.Duration // start
	latest  time.Duration // start or submission
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
	submit, start  time.Duration // submission, or eligibility if that is later
	started, ended bool
	run            time.Duration
	gpus           workload.MilliGPU
	limit          time.Duration
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
	row.status, over = slurmState(r.value(1))
	row.submit = r.submitClock(2)
	row.start, row.started = r.wallClock(3)
	end, hasEnd = r.wallClock(4)
	row.ended = over && (hasEnd || !row.started)
	if eligible, ok := r.wallClock(6); ok && eligible > row.submit {
		row.submit = eligible
	}
	var reason string
	if row.gpus, reason = tresGPUs(r.value(5)); reason != "" {
		r.fault(5, reason)
	} else if row.gpus == 0 {
		if row.gpus, reason = tresGPUs(r.value(9)); reason != "" {
			r.fault(9, reason)
		}
	}
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
	row.name = workload.NameKey(r.value(10), r.value(12))
	row.user, row.account, row.partition, row.limit = r.text(10), r.text(11), r.text(13), timeLimit(r.value(14))
	return row, true
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
			name: row.name,
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
	j.Submit = min(j.Submit, row.submit)
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
		j.latest, j.Status, j.ended = at, row.status, row.ended
		j.Partition, j.TimeLimit = row.partition, row.limit
		if row.gpus > 0 {
			j.GPUs = row.gpus
		}
	} else if j.GPUs == 0 {
		j.GPUs = row.gpus
	}
}

// timeLimit reads minutes. UNLIMITED and Partition_Limit are none.
func timeLimit(b []byte) time.Duration {
	minutes, reason := parseDecimal(b, 0)
	if reason != "" || minutes < 0 || minutes > int64(workload.MaxDuration/time.Minute) {
		return 0
	}
	return time.Duration(minutes) * time.Minute
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
	for i := range s.jobs.len() {
		j := s.jobs.at(i)
		in.report.Merged += int(j.rows) - 1
		switch {
		case j.GPUs == 0:
			in.report.leaveOut(noGPU)
		case !j.ended:
			in.report.leaveOut(notEnded)
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
			if wait := j.first - j.Submit; wait >= 0 && wait <= workload.MaxDuration {
				j.Wait, j.HasWait = wait, true
			}
			if !s.bare {
				hex := j.name
				j.Key = in.own(hex[:])
			}
			in.addOnce(&j.Job)
		}
	}
	in.state = nil
	return nil
}

// slurmState maps the state of a Slurm job, as sacct and the traces of Slurm
// clusters write it, to a status. What follows the first word, such as "by 1000",
// is left out. A state that is not known is that of a job that has ended, its
// status unknown.
func slurmState(b []byte) (status workload.Status, ended bool) {
	if i := bytes.IndexByte(b, ' '); i > 0 {
		b = b[:i]
	}
	b = bytes.TrimRight(b, "+") // cut off by a narrow column
	switch string(b) {
	case "COMPLETED":
		return workload.Completed, true
	case "CANCELLED", "PREEMPTED", "REVOKED":
		return workload.Cancelled, true
	case "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "OUT_OF_ME", "BOOT_FAIL", "DEADLINE", "LAUNCH_FAILED":
		return workload.Failed, true
	case "PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESIZING",
		"CONFIGURING", "COMPLETING",
		"STOPPED", "SIGNALING", "STAGE_OUT", "RESV_DEL_HOLD", "POWER_UP_NODE", "RECONFIG_FAIL", "UPDATE_DB":
		return workload.Unknown, false
	}
	return workload.Unknown, true
}

// tresGPUs finds the GPUs in trackable resources such as
// billing=2,cpu=2,gres/gpu=4,gres/gpu:a100=4,mem=1G: the total if it is there,
// else the sum over the types.
func tresGPUs(b []byte) (workload.MilliGPU, string) {
	total, typed, hasTotal := int64(0), int64(0), false
	for len(b) > 0 {
		item, rest, _ := bytes.Cut(b, []byte{','})
		b = rest
		name, amount, _ := bytes.Cut(item, []byte{'='})
		if !bytes.HasPrefix(name, []byte("gres/gpu")) || len(name) > 8 && name[8] != ':' {
			continue
		}
		n, reason := parseDecimal(amount, 0)
		switch {
		case reason != "":
			return 0, "has a number of GPUs that is no whole number"
		case n < 0:
			return 0, "has a negative number of GPUs"
		case n > workload.MaxGPUs:
			return 0, tooWide
		}
		if len(name) == 8 {
			total, hasTotal = n, true
		} else if typed += n; typed > workload.MaxGPUs {
			return 0, tooWide
		}
	}
	if hasTotal {
		typed = total
	}
	return workload.GPUs(int(typed)), ""
}

// parseElapsed reads [days-]hours:minutes:seconds.
func parseElapsed(b []byte) (time.Duration, string) {
	const reason = "is not a span such as 1-02:03:04"
	var days int64
	if i := bytes.IndexByte(b, '-'); i >= 0 {
		n, bad := parseDecimal(b[:i], 0)
		if bad != "" || n < 0 || n > 100_000 {
			return 0, reason
		}
		days, b = n, b[i+1:]
	}
	if len(b) < 8 || b[len(b)-3] != ':' || b[len(b)-6] != ':' {
		return 0, reason
	}
	hours, bad := parseDecimal(b[:len(b)-6], 0)
	minutes, ok1 := two(b[len(b)-5:])
	seconds, ok2 := two(b[len(b)-2:])
	if bad != "" || hours < 0 || hours > 1_000_000 || !ok1 || !ok2 {
		return 0, reason
	}
	return time.Duration(((24*days+hours)*60+int64(minutes))*60+int64(seconds)) * time.Second, ""
}
