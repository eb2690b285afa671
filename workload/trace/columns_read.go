package trace

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/lines"
	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/workload"
)

var errColumns = errors.New("--columns names no column of")

// foreign is the format of a table whose columns the caller names.
func foreign(cs Columns) (Format, error) {
	if missing := cs.missing(); missing != "" {
		return Format{}, fmt.Errorf("%w %s; fields are %s", errColumns, missing, fieldNames())
	}
	f := Format{Name: "columns"}
	tableOf := func(head []byte) *table { return foreignTable(cs, lines.Header(head)) }
	f.detect = func(head []byte) bool { return tableOf(head).matches(head) }
	f.read = func(in *input) error {
		head, err := in.source.Peek()
		if err != nil {
			return err
		}
		return tableOf(head).read(in)
	}
	return f, nil
}

// foreignColumn is a column as a row reads it.
type foreignColumn struct {
	at    int // place among the names, -1 if there is none
	units []unit
	fixed bool  // the unit is that of the caller
	more  []int // places of further factors
	by    int64 // constant factor, in thousandths
}

// foreignRow reads the rows of a table by its columns, some of which it may lack.
type foreignRow struct {
	id, user, tenant, name, model, status, gpuModel, partition foreignColumn
	submit, start, end, duration, wait, deadline, timeLimit    foreignColumn
	gpus, cpus, memory, nodeCount, qos, account, priority      foreignColumn
}

func foreignTable(cs Columns, header []byte) *table {
	separator := separatorOf(header)
	names, _ := splitAt(bytes.Clone(header), separator, nil)
	t := &table{quoted: separator, exact: true}
	for _, c := range cs { // a constant that comes first has no column
		factors := c.factors(names)
		first := slices.IndexFunc(factors, func(f string) bool { return !isNumber([]byte(f)) })
		t.required = append(t.required, factors[max(0, first)])
	}
	column := func(field string) foreignColumn {
		i := slices.IndexFunc(cs, func(c Column) bool { return c.Field == field })
		if i < 0 {
			return foreignColumn{at: -1}
		}
		f := fieldNamed(field)
		c := foreignColumn{at: i, units: f.units, by: 1000}
		if u, ok := f.unit(cs[i].Unit); ok {
			c.units, c.fixed = []unit{u}, true
		}
		seen := false
		for _, factor := range cs[i].factors(names) {
			switch n, reason := parseDecimal([]byte(factor), 3); {
			case factor == t.required[i] && !seen:
				seen = true
			case reason == "":
				c.by = n
			default:
				c.more = append(c.more, len(t.required))
				t.required = append(t.required, factor)
			}
		}
		return c
	}
	row := foreignRow{
		id: column("id"), user: column("user"), tenant: column("tenant"), name: column("name"),
		model: column("model"), status: column("status"), gpuModel: column("gpu_model"),
		partition: column("partition"), submit: column("submit"), start: column("start"), end: column("end"),
		duration: column("duration"), wait: column("wait"), deadline: column("deadline"),
		timeLimit: column("time_limit"), gpus: column("gpus"), cpus: column("cpus"), memory: column("memory"),
		nodeCount: column("node_count"), qos: column("qos"), account: column("account"), priority: column("priority"),
	}
	t.row = row.job
	t.begin = func(in *input, _ func(string) bool) {
		in.wallClock = !in.hasZero
		if in.report.Columns == nil {
			in.report.Columns = slices.Clone(cs)
		}
	}
	return t
}

func (f *foreignRow) job(r *csvRow) workload.Job {
	r.earliest = math.MinInt64
	var j workload.Job
	if f.id.at >= 0 {
		j.ID = r.id(f.id.at)
	} else {
		j.ID = fmt.Sprintf("row-%d", r.in.report.Rows)
	}
	f.times(r, &j)
	j.User, j.Tenant, j.Model = r.foreignText(f.user), r.foreignText(f.tenant), r.foreignText(f.model)
	asks := workload.Request{GPUModel: r.foreignText(f.gpuModel), Partition: r.foreignText(f.partition)}
	if r.has(f.name) {
		var owner []byte
		if f.user.at >= 0 {
			owner = r.value(f.user.at)
		}
		hex := workload.NameKey(owner, r.value(f.name.at))
		j.Key = r.in.text(hex[:])
	}
	if d, ok := r.moment(f.deadline); ok {
		j.Deadline = workload.DeadlineAt(d)
	}
	asks.MilliCPUs = r.amount(f.cpus, workload.MaxMilliCPUs)
	asks.Memory = r.memory(f.memory)
	if r.has(f.timeLimit) && string(r.value(f.timeLimit.at)) != "UNLIMITED" {
		if asks.TimeLimit = r.foreignSpan(f.timeLimit); asks.TimeLimit > workload.MaxDuration {
			asks.TimeLimit = 0
		} else if asks.TimeLimit < 0 {
			r.fault(f.timeLimit.at, isNegative)
		}
	}
	if n := r.whole(f.nodeCount, workload.MaxPlaces); n > 0 && int64(j.GPUs)%(1000*n) == 0 {
		asks.NodeCount = int32(n)
	}
	asks.QOS, asks.Account = r.foreignText(f.qos), r.foreignText(f.account)
	if r.has(f.priority) {
		asks.Priority = r.priority(f.priority.at)
	}
	j.Requested = asks.Shared()
	return j
}

// times reads when a job was submitted, how long it waited and ran, and on how many GPUs.
func (f *foreignRow) times(r *csvRow, j *workload.Job) {
	var known bool
	if j.Submit, known = r.moment(f.submit); !known {
		r.fault(f.submit.at, isEmpty)
	}
	from, started := r.momentAfter(f.start, j.Submit)
	to, ended := r.momentAfter(f.end, j.Submit)
	j.GPUs = r.foreignGPUs(f.gpus)
	over := true
	if f.status.at >= 0 {
		j.Status, over = r.foreignStatus(f.status)
	}
	switch {
	case f.start.at >= 0 && !started:
		r.leaveOut(neverRan)
	case r.has(f.duration):
		if j.Duration = r.foreignSpan(f.duration); r.ok() {
			j.Duration = r.ran(f.duration.at, j.Duration)
		}
		if !over {
			j.Status = workload.Running
		}
	case !over || f.end.at >= 0 && !ended:
		r.leaveOut(notEnded)
	case f.duration.at >= 0 && (f.end.at < 0 || f.start.at < 0):
		r.leaveOut(neverRan)
	case r.ok() && to < from:
		r.fault(f.end.at, "is before the job's start")
	case r.ok():
		j.Duration = r.ran(f.end.at, to-from)
	}
	if r.has(f.wait) {
		wait := r.foreignSpan(f.wait)
		if setWait(j, wait); wait > workload.MaxDuration {
			r.fault(f.wait.at, "is more than ten years: a wait is a time span, not an instant")
		}
	} else if started {
		setWait(j, from-j.Submit)
	}
}

// has reports whether a row has a value in a column, and in those that it is multiplied by.
func (r *csvRow) has(c foreignColumn) bool {
	return c.at >= 0 && !absent(r.value(c.at)) &&
		!slices.ContainsFunc(c.more, func(i int) bool { return absent(r.value(i)) })
}

// product multiplies a number by the further factors of its column.
func (r *csvRow) product(c foreignColumn, n int64) int64 {
	multiply := func(at int, by int64) {
		if f := float64(n) * float64(by) / 1000; !(f > -1<<62 && f < 1<<62) || n > 1<<62/max(1, by) || by < 0 {
			r.fault(at, outOfRange)
			n = 0
		}
		n = n * by / 1000
	}
	for _, i := range c.more {
		by, reason := parseDecimal(bytes.TrimSpace(r.value(i)), 3)
		if reason != "" {
			r.fault(i, reason)
			return 0
		}
		multiply(i, by)
	}
	if c.by != 1000 && c.by != 0 {
		multiply(c.at, c.by)
	}
	return n
}

// foreignText is the text of a column, "" without a value.
func (r *csvRow) foreignText(c foreignColumn) string {
	if !r.has(c) {
		return ""
	}
	return r.text(c.at)
}

// foreignStatus understands the usual words for how jobs end, and numbers: Slurm's in a column of states, and in one of
// exit codes 0 for success. over is false where a job has not ended.
func (r *csvRow) foreignStatus(c foreignColumn) (status workload.Status, over bool) {
	v := bytes.TrimSpace(r.value(c.at))
	unit := ""
	if isDigits(bytes.TrimPrefix(v, []byte{'-'})) {
		if unit = c.units[0].name; !c.fixed {
			stem, _ := fieldNamed("status").stem([]byte(r.name(c.at)))
			unit = map[string]string{"state": "slurm", "job_state": "slurm", "exit_code": "exit", "exit": "exit",
				"exit_status": "exit"}[stem]
		}
	}
	switch unit {
	case "slurm":
		if s := slurmtext.ParseJobState(string(v)); !isDigits([]byte(s.Name)) {
			r.readAs(c.at, "Slurm's numbers of states")
			return statusOf[s.Outcome], s.Ended
		}
	case "exit":
		if r.readAs(c.at, "exit codes"); string(v) == "0" {
			return workload.Completed, true
		}
		return workload.Failed, true
	}
	status, over, known := statusWord(v)
	if !known && !absent(v) {
		r.in.note(fmt.Sprintf("%s of column %s is no status that is known: such jobs have none (numbers of Slurm: "+
			"status=%s:slurm, exit codes: status=%s:exit)", lines.Excerpt(v), r.name(c.at), r.name(c.at), r.name(c.at)))
	}
	return status, over
}

// statusWord understands the usual words for how jobs end; over is false where they have not.
func statusWord(b []byte) (status workload.Status, over, known bool) {
	switch strings.ToLower(string(b)) {
	case "completed", "complete", "succeeded", "success", "successful", "done", "finished", "pass", "passed", "ok",
		"terminated":
		return workload.Completed, true, true
	case "cancelled", "canceled", "killed", "stopped", "aborted", "preempted", "deleted":
		return workload.Cancelled, true, true
	case "timeout", "timed_out":
		return workload.TimedOut, true, true
	case "failed", "failure", "error", "errored", "node_fail":
		return workload.Failed, true, true
	case "oom", "out_of_memory":
		return workload.OutOfMemory, true, true
	case "running", "active", "started", "pending", "queued", "waiting", "submitted", "suspended":
		return workload.Unknown, false, true
	}
	return workload.Unknown, true, false
}

// How instants were read, as Column.Read says it.
const (
	readClock  = "times of day"
	notInstant = "is not an instant: not a time such as 2006-01-02 15:04:05, nor a number since 1970"
)

// momentAfter is moment for an instant of a job that was submitted at another: 0 is none where that counts from 1970.
func (r *csvRow) momentAfter(c foreignColumn, submit time.Duration) (at time.Duration, known bool) {
	const some = 1e8 * time.Second // years after 1970, more than a trace that counts from its own zero spans
	if r.has(c) && string(bytes.TrimSpace(r.value(c.at))) == "0" && !r.in.hasZero && submit > some {
		return 0, false
	}
	return r.moment(c)
}

// moment reads an instant: a time of day and date, or a number since 1970, in seconds
// if it has at most 11 digits before the point, milliseconds up to 14, microseconds up
// to 17, else nanoseconds.
func (r *csvRow) moment(c foreignColumn) (at time.Duration, known bool) {
	if !r.has(c) || string(bytes.TrimSpace(r.value(c.at))) == "-1" {
		return 0, false
	}
	v := bytes.TrimSpace(r.value(c.at))
	var buf [40]byte
	if w, ok := parseWallClock(plainClock(buf[:0], v)); ok && !c.fixed {
		r.readAs(c.at, readClock)
		if !w.zoned {
			w.seconds = r.zoned(c.at, w.seconds)
		}
		r.earliest = max(r.earliest, w.seconds)
		return r.sinceZero(c.at, w.seconds, w.nanos), true
	}
	u := c.units[0]
	if !c.fixed {
		digits := len(bytes.TrimLeft(v, "+-"))
		if point := bytes.IndexByte(v, '.'); point >= 0 {
			digits -= len(v) - point
		}
		u = timeUnits[min(3, max(0, digits-9)/3)]
	}
	n, reason := u.parse(v)
	if reason != "" {
		r.fault(c.at, notInstant)
		return 0, false
	}
	r.readAs(c.at, u.since)
	t := time.Unix(0, n)
	return r.sinceZero(c.at, t.Unix(), t.Nanosecond()), true
}

// plainClock writes 2006/01/02, a missing second and a zone UTC as parseWallClock
// reads them.
func plainClock(dst, b []byte) []byte {
	if len(b) < 16 || len(b) > cap(dst)-3 {
		return b
	}
	b = append(dst, b...)
	if b[4] == '/' && b[7] == '/' {
		b[4], b[7] = '-', '-'
	}
	if rest, ok := bytes.CutSuffix(b, []byte(" UTC")); ok {
		b = append(rest, 'Z')
	}
	if len(b) > 13 && b[13] == ':' && (len(b) == 16 || b[16] == 'Z') {
		zone := string(b[16:])
		b = append(append(b[:16], ":00"...), zone...)
	}
	return b
}

// readAs notes how a column's instants were read.
func (r *csvRow) readAs(i int, how string) {
	c := &r.in.report.Columns[i]
	switch {
	case c.Read == how || strings.Contains(c.Read, how):
	case c.Read == "":
		c.Read = how
	default:
		c.Read += ", " + how
	}
}

// foreignSpan reads how long something took: a number, or [days-]hours:minutes:seconds.
func (r *csvRow) foreignSpan(c foreignColumn) time.Duration {
	v := bytes.TrimSpace(r.value(c.at))
	if bytes.IndexByte(v, ':') >= 0 {
		if i := bytes.Index(v, []byte(" day")); i > 0 { // 1 day 02:03:04, 2 days, 02:03:04
			if j := bytes.LastIndexByte(v, ' '); j > i {
				v = append(append(bytes.Clone(v[:i]), '-'), v[j+1:]...)
			}
		}
		d, reason := parseElapsed(v)
		if reason != "" {
			r.fault(c.at, reason)
		}
		return time.Duration(r.product(c, int64(d)))
	}
	n, reason := c.units[0].parse(v)
	if reason != "" {
		r.fault(c.at, reason)
	}
	return time.Duration(r.product(c, n))
}

// foreignGPUs reads a number of GPUs; a job without is left out.
func (r *csvRow) foreignGPUs(c foreignColumn) workload.MilliGPU {
	if v := bytes.TrimSpace(r.value(c.at)); bytes.ContainsAny(v, ":=") || bytes.HasPrefix(v, []byte("gpu")) {
		return r.slurmGPUs(c, string(v))
	}
	n := r.amount(c, int64(workload.GPUs(workload.MaxGPUs)))
	if n == 0 {
		r.leaveOut(noGPU)
	}
	return workload.MilliGPU(n)
}

// whole reads a whole number that is not negative, or nothing for 0.
func (r *csvRow) whole(c foreignColumn, most int64) int64 {
	if !r.has(c) {
		return 0
	}
	return r.atMost(c.at, 0, most)
}

// amount reads a number that is not negative, or nothing for 0.
func (r *csvRow) amount(c foreignColumn, most int64) int64 {
	if !r.has(c) {
		return 0
	}
	n, reason := c.units[0].parse(bytes.TrimSpace(r.value(c.at)))
	return r.within(c.at, r.product(c, n), reason, most, outOfRange)
}

// memory reads bytes, a number in the column's unit, or one with a suffix (62.5G).
func (r *csvRow) memory(c foreignColumn) int64 {
	if !r.has(c) {
		return 0
	}
	v := bytes.TrimSpace(r.value(c.at))
	if c.units[0].name != "B" {
		v = append(bytes.Clone(v), c.units[0].name[0])
	} else if n, reason := parseDecimal(v, 0); reason == "" && n >= 0 && n <= workload.MaxMemory {
		if !c.fixed && n > 0 && n < 1<<20 {
			r.in.note(fmt.Sprintf("column %s holds less than a MiB of memory, in bytes: if its numbers are of another unit, "+
				"name it, as in memory=%s:GiB", r.name(c.at), r.name(c.at)))
		}
		return r.product(c, n)
	}
	n, err := slurmtext.ParseMemory(string(v))
	if n = r.product(c, n); err != nil {
		r.fault(c.at, "is not a memory such as 62.5G")
	} else if n > workload.MaxMemory {
		r.fault(c.at, outOfRange)
	}
	return n
}

// slurmGPUs reads GPUs as Slurm writes them: gpu:a100:4, gres/gpu=2, or 1001=2 of slurmdbd.
func (r *csvRow) slurmGPUs(c foreignColumn, text string) workload.MilliGPU {
	t, err := slurmtext.ParseTRES(text)
	if !strings.Contains(text, "=") {
		t, err = slurmtext.ParseGresGPUs(text, false, 1)
	}
	if t.Numbered && t.HasGPUs() {
		r.in.note(numberedTRES)
	}
	var gpus slurmtext.Share
	if err == nil {
		gpus, err = t.Share(r.in.opts.Shards)
	}
	if err != nil {
		r.fault(c.at, err.Error())
		return 0
	}
	n := r.product(c, gpus.NearestMilli())
	switch {
	case n > int64(workload.GPUs(workload.MaxGPUs)):
		r.fault(c.at, outOfRange)
	case n == 0:
		r.leaveOut(noGPU)
	}
	return workload.MilliGPU(n)
}
