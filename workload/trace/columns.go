package trace

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/workload"
)

// Columns say what the columns of a table of no known format mean.
type Columns []Column

// Column is one of them.
type Column struct {
	Field string `json:"field"`  // one of ColumnFields
	Name  string `json:"column"` // in the header
	// Unit is that of its numbers, one of those of its field. Default: seconds, bytes or
	// whole ones; instants are known by their size, see docs/traces.md.
	Unit string `json:"unit,omitempty"`
	// Read says how its instants were read, in a report.
	Read string `json:"read,omitempty"`
}

func (c Column) String() string {
	if c.Unit != "" {
		return c.Field + "=" + c.Name + ":" + c.Unit
	}
	return c.Field + "=" + c.Name
}

func (cs Columns) String() string {
	texts := make([]string, len(cs))
	for i, c := range cs {
		texts[i] = c.String()
	}
	return strings.Join(texts, ",")
}

// ColumnFields are what a column may mean.
var ColumnFields = []ColumnField{
	{"submit", "when the job was submitted (required)", timeUnits,
		"submitted submit_at submitted_at submission created created_at creation queued queued_at enqueued arrival " +
			"arrived arrival_at"},
	{"start", "when it started first", timeUnits,
		"started start_at started_at began admitted admitted_at scheduled scheduled_at launched running_since"},
	{"end", "when it ended", timeUnits,
		"ended end_at ended_at finish finished finish_at finished_at completed completed_at completion stop stopped " +
			"stopped_at deleted deleted_at deletion"},
	{"duration", "how long it ran (required without start and end)", timeUnits,
		"runtime run elapsed elapsedraw running execution wall walltime run_duration job_duration"},
	{"gpus", "how many GPUs it asked for (required)", countUnits,
		"gpu n_gpu n_gpus num_gpu num_gpus gpu_num gpu_count gpus_count ngpu ngpus gpu_request gpus_requested " +
			"requested_gpus gpu_req req_gpus world_size"},
	{"id", "its name, used once (default: the number of its row)", nil,
		"job_id jobid job uid uuid pod pod_name task_id workload_id run_id"},
	{"user", "the user that submitted it", nil, "user_id userid username user_name owner submitter uname"},
	{"tenant", "whose quota it counts against", nil,
		"vc virtual_cluster team project account group queue namespace org organization department"},
	{"name", "what recurs: jobs of one user and name", nil, "job_name jobname title task_name experiment"},
	{"model", "its model class", nil, "model_name model_type workload workload_type architecture"},
	{"status", "how it ended", nil, "state job_state result outcome phase exit_status final_status"},
	{"wait", "how long it waited", timeUnits, "queue_delay queueing_delay wait_delay waiting waited queue"},
	{"deadline", "by when it should have ended", timeUnits, "due due_at due_date"},
	{"time_limit", "the run time after which the cluster ends it", timeUnits,
		"limit timelimit max_runtime requested_runtime req_runtime"},
	{"gpu_model", "the GPU model it needs", nil, "gpu_type gputype accelerator gpu_kind"},
	{"partition", "the partition it runs in", nil, "pool node_pool"},
	{"cpus", "CPUs it asked for", countUnits, "cpu n_cpu num_cpus ncpus cpu_num cpu_count"},
	{"memory", "memory it asked for", memoryUnits, "mem ram memory_request mem_request"},
}

// ColumnField is one thing that a column may mean.
type ColumnField struct {
	Name, About string
	units       []unit
	synonyms    string // names that it has elsewhere
}

// unit of a number: times factor, divided by 10^decimals, are nanoseconds, bytes or
// thousandths.
type unit struct {
	name     string
	factor   int64
	decimals int
	since    string // an instant in it, in words
}

var (
	timeUnits = []unit{{"s", 1, 9, "seconds since 1970"}, {"ms", 1, 6, "milliseconds since 1970"},
		{"us", 1, 3, "microseconds since 1970"}, {"ns", 1, 0, "nanoseconds since 1970"},
		{"min", 60, 9, "minutes since 1970"}, {"h", 3600, 9, "hours since 1970"}, {"d", 86400, 9, "days since 1970"}}
	countUnits  = []unit{{"whole", 1, 3, ""}, {"percent", 1, 1, ""}, {"milli", 1, 0, ""}}
	memoryUnits = []unit{{name: "B"}, {name: "KiB"}, {name: "MiB"}, {name: "GiB"}} // for csvRow.memory
)

// parse reads a number of the unit. What is finer than is kept is cut off.
func (u unit) parse(b []byte) (int64, string) {
	n, reason := parseDecimal(b, u.decimals)
	if point := bytes.IndexByte(b, '.'); reason == tooFine && point >= 0 {
		n, reason = parseDecimal(b[:min(len(b), point+1+u.decimals)], u.decimals)
	}
	if reason == "" && (n > 1<<62/u.factor || n < -(1<<62)/u.factor) {
		reason = outOfRange
	}
	return n * u.factor, reason
}

func fieldNamed(name string) *ColumnField {
	for i := range ColumnFields {
		if ColumnFields[i].Name == name {
			return &ColumnFields[i]
		}
	}
	return nil
}

func (f *ColumnField) unit(name string) (unit, bool) {
	for _, u := range f.units {
		if u.name == name {
			return u, true
		}
	}
	return unit{}, false
}

// ParseColumns reads "submit=created,start=admitted,gpus=n_gpu": a field, the name of
// its column, and perhaps a unit ("duration=run_ms:ms").
func ParseColumns(text string) (Columns, error) {
	var out Columns
	for pair := range strings.SplitSeq(text, ",") {
		field, name, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not FIELD=COLUMN, such as submit=created", pair)
		}
		f := fieldNamed(field)
		if f == nil {
			return nil, fmt.Errorf("%q is not a field; there are %s", field, fieldNames())
		}
		c := Column{Field: field, Name: name}
		if i := strings.LastIndexByte(name, ':'); i > 0 {
			if _, ok := f.unit(name[i+1:]); ok {
				c.Name, c.Unit = name[:i], name[i+1:]
			}
		}
		if slices.ContainsFunc(out, func(o Column) bool { return o.Field == field }) {
			return nil, fmt.Errorf("%s is named twice", field)
		}
		out = append(out, c)
	}
	return out, nil
}

func fieldNames() string {
	names := make([]string, len(ColumnFields))
	for i := range ColumnFields {
		names[i] = ColumnFields[i].Name
	}
	return strings.Join(names, ", ")
}

// missing names the fields without which there is no job, "" if all are there.
func (cs Columns) missing() string {
	has := func(field string) bool {
		return slices.ContainsFunc(cs, func(c Column) bool { return c.Field == field })
	}
	var out []string
	for _, field := range []string{"submit", "gpus"} {
		if !has(field) {
			out = append(out, field)
		}
	}
	if !has("duration") && !(has("start") && has("end")) {
		out = append(out, "duration (or start and end)")
	}
	return strings.Join(out, ", ")
}

// separators of foreign tables. Fields may be in quotes.
const separators = ",\t;|"

// separatorOf is the one that cuts a header into most fields.
func separatorOf(header []byte) byte {
	best, most := separators[0], 0
	for i := range len(separators) {
		if n := bytes.Count(header, []byte{separators[i]}); n > most {
			best, most = separators[i], n
		}
	}
	return best
}

// guess names the columns of a header that look like a field's, in the order of
// ColumnFields.
func guess(header []byte) Columns {
	fields, reason := splitCSV(bytes.Clone(header), separatorOf(header), nil)
	if reason != "" || len(fields) < 2 {
		return nil
	}
	var out Columns
	taken := make([]bool, len(fields))
	for i := range ColumnFields {
		f := &ColumnFields[i]
		for _, name := range append([]string{f.Name}, strings.Fields(f.synonyms)...) {
			at := slices.IndexFunc(fields, func(b []byte) bool { stem, _ := f.stem(b); return stem == name })
			if at < 0 || taken[at] {
				continue
			}
			taken[at] = true
			_, unit := f.stem(fields[at])
			out = append(out, Column{Field: f.Name, Name: string(bytes.TrimSpace(fields[at])), Unit: unit})
			break
		}
	}
	return out
}

// suffixes of column names that say the unit, or nothing.
var suffixes = []struct{ suffix, unit string }{
	{"_ms", "ms"}, {"_millis", "ms"}, {"_us", "us"}, {"_ns", "ns"}, {"_min", "min"}, {"_mins", "min"},
	{"_minutes", "min"}, {"_h", "h"}, {"_hours", "h"}, {"_days", "d"}, {"_percent", "percent"}, {"_milli", "milli"},
	{"_mb", "MiB"}, {"_mib", "MiB"}, {"_gb", "GiB"}, {"_gib", "GiB"},
	{"_s", ""}, {"_sec", ""}, {"_secs", ""}, {"_seconds", ""}, {"_time", ""}, {"_timestamp", ""}, {"_ts", ""},
	{"_date", ""}, {"_bytes", ""},
}

// plainName writes "Run Time (s)" and runTimeS as run_time_s.
func plainName(name []byte) string {
	var b []byte
	for i, c := range name {
		lower, digit, upper := c >= 'a' && c <= 'z', c >= '0' && c <= '9', c >= 'A' && c <= 'Z'
		inWord := len(b) > 0 && b[len(b)-1] != '_'
		switch {
		case lower || digit:
			b = append(b, c)
		case upper:
			if inWord && name[i-1] >= 'a' && name[i-1] <= 'z' {
				b = append(b, '_')
			}
			b = append(b, c+'a'-'A')
		case inWord:
			b = append(b, '_')
		}
	}
	return string(bytes.TrimRight(b, "_"))
}

// stem is a column's name in lower case without a suffix, and the unit that this says.
func (f *ColumnField) stem(name []byte) (stem, unit string) {
	stem = plainName(name)
	for cut := true; cut; {
		cut = false
		for _, s := range suffixes {
			if _, known := f.unit(s.unit); s.unit != "" && !known {
				continue
			}
			if rest, ok := strings.CutSuffix(stem, s.suffix); ok && rest != "" {
				stem, unit, cut = rest, unit+s.unit, true
			}
		}
	}
	if _, known := f.unit(unit); unit != "" && !known {
		unit = ""
	}
	return stem, unit
}

// suggest says how --columns may be used on a header that no format has; it is empty
// where nothing in the header is known.
func suggest(header []byte) string {
	cs := guess(header)
	if len(cs) == 0 {
		return ""
	}
	names, fields := make([]string, len(cs)), make([]string, len(cs))
	for i, c := range cs {
		names[i], fields[i] = c.Name, c.Field
	}
	out := fmt.Sprintf("columns %s look like %s: try --columns %s", strings.Join(names, ", "),
		strings.Join(fields, ", "), cs)
	if missing := cs.missing(); missing != "" {
		out += ", and name the column of " + missing + " too"
	}
	return out
}

var errColumns = errors.New("--columns names no column of")

// foreign is the format of a table whose columns the caller names.
func foreign(cs Columns) (Format, error) {
	if missing := cs.missing(); missing != "" {
		return Format{}, fmt.Errorf("%w %s; fields are %s", errColumns, missing, fieldNames())
	}
	f := Format{Name: "columns"}
	tableOf := func(head []byte) *table { return foreignTable(cs, separatorOf(headerLine(head))) }
	f.detect = func(head []byte) bool { return tableOf(head).matches(head) }
	f.read = func(in *input) error {
		head, err := in.source.peek()
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
	fixed bool // the unit is that of the caller
}

func foreignTable(cs Columns, separator byte) *table {
	t := &table{quoted: separator, exact: true}
	at := map[string]foreignColumn{}
	for i := range ColumnFields {
		at[ColumnFields[i].Name] = foreignColumn{at: -1}
	}
	for i, c := range cs {
		f := fieldNamed(c.Field)
		col := foreignColumn{at: i, units: f.units}
		if u, ok := f.unit(c.Unit); ok {
			col.units, col.fixed = []unit{u}, true
		}
		at[c.Field] = col
		t.required = append(t.required, c.Name)
	}
	id, submit, start, end, duration := at["id"], at["submit"], at["start"], at["end"], at["duration"]
	wait, gpus, status, user, name := at["wait"], at["gpus"], at["status"], at["user"], at["name"]
	t.begin = func(in *input, _ func(string) bool) {
		in.wallClock = !in.hasZero
		if in.report.Columns == nil {
			in.report.Columns = slices.Clone(cs)
		}
	}
	t.row = func(r *csvRow) workload.Job {
		r.earliest = math.MinInt64
		var j workload.Job
		if id.at >= 0 {
			j.ID = r.id(id.at)
		} else {
			j.ID = fmt.Sprintf("row-%d", r.in.report.Rows)
		}
		var known bool
		if j.Submit, known = r.moment(submit); !known {
			r.fault(submit.at, isEmpty)
		}
		from, started := r.moment(start)
		to, ended := r.moment(end)
		j.GPUs = r.foreignGPUs(gpus)
		over := true
		if status.at >= 0 {
			j.Status, over = foreignStatus(r.value(status.at))
		}
		switch {
		case start.at >= 0 && !started:
			r.leaveOut(neverRan)
		case duration.at >= 0 && !absent(r.value(duration.at)):
			if j.Duration = r.span(duration); r.ok() {
				j.Duration = r.ran(duration.at, j.Duration)
			}
			if !over {
				j.Status = workload.Running
			}
		case !over || end.at >= 0 && !ended:
			r.leaveOut(notEnded)
		case duration.at >= 0 && (end.at < 0 || start.at < 0):
			r.leaveOut(neverRan)
		case r.ok() && to < from:
			r.fault(end.at, "is before the job's start")
		case r.ok():
			j.Duration = r.ran(end.at, to-from)
		}
		if wait.at >= 0 && !absent(r.value(wait.at)) {
			j.Wait, j.HasWait = r.span(wait), true
		} else if started && from >= j.Submit {
			j.Wait, j.HasWait = from-j.Submit, true
		}
		if j.HasWait && (j.Wait < 0 || j.Wait > workload.MaxDuration) {
			j.Wait, j.HasWait = 0, false
		}
		text := func(field string) string {
			if c := at[field]; c.at >= 0 && !absent(r.value(c.at)) {
				return r.text(c.at)
			}
			return ""
		}
		j.User, j.Tenant, j.Model = text("user"), text("tenant"), text("model")
		j.GPUModel, j.Partition = text("gpu_model"), text("partition")
		if name.at >= 0 && !absent(r.value(name.at)) {
			var owner []byte
			if user.at >= 0 {
				owner = r.value(user.at)
			}
			hex := workload.NameKey(owner, r.value(name.at))
			j.Key = r.in.text(hex[:])
		}
		if d, ok := r.moment(at["deadline"]); ok {
			j.Deadline = workload.DeadlineAt(d)
		}
		j.MilliCPUs = r.amount(at["cpus"], workload.MaxMilliCPUs)
		j.Memory = r.memory(at["memory"])
		if limit := at["time_limit"]; limit.at >= 0 && !absent(r.value(limit.at)) &&
			string(r.value(limit.at)) != "UNLIMITED" {
			if j.TimeLimit = r.span(limit); j.TimeLimit > workload.MaxDuration {
				j.TimeLimit = 0
			} else if j.TimeLimit < 0 {
				r.fault(limit.at, isNegative)
			}
		}
		return j
	}
	return t
}

// foreignStatus understands the usual words for how jobs end; over is false where they
// have not.
func foreignStatus(b []byte) (status workload.Status, over bool) {
	switch strings.ToLower(string(bytes.TrimSpace(b))) {
	case "completed", "complete", "succeeded", "success", "successful", "done", "finished", "pass", "passed", "ok",
		"terminated":
		return workload.Completed, true
	case "cancelled", "canceled", "killed", "stopped", "aborted", "preempted", "deleted":
		return workload.Cancelled, true
	case "failed", "failure", "error", "errored", "timeout", "timed_out", "oom", "node_fail", "out_of_memory":
		return workload.Failed, true
	case "running", "active", "started", "pending", "queued", "waiting", "submitted", "suspended":
		return workload.Unknown, false
	}
	return workload.Unknown, true
}

// How instants were read, as Column.Read says it.
const (
	readClock  = "times of day"
	notInstant = "is not an instant: not a time such as 2006-01-02 15:04:05, nor a number since 1970"
)

// moment reads an instant: a time of day and date, or a number since 1970, in seconds
// if it has at most 11 digits before the point, milliseconds up to 14, microseconds up
// to 17, else nanoseconds.
func (r *csvRow) moment(c foreignColumn) (at time.Duration, known bool) {
	if c.at < 0 || absent(r.value(c.at)) {
		return 0, false
	}
	v := bytes.TrimSpace(r.value(c.at))
	var buf [40]byte
	if seconds, nanos, zoned, _, ok := parseWallClock(plainClock(buf[:0], v)); ok && !c.fixed {
		r.readAs(c.at, readClock)
		if !zoned && r.in.clock.zone != nil {
			seconds = r.zoned(c.at, seconds)
		}
		r.earliest = max(r.earliest, seconds)
		return r.sinceZero(c.at, seconds, nanos), true
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
	return r.sinceZero(c.at, int64(floorBy(int(n), 1e9)), int(n-1e9*int64(floorBy(int(n), 1e9)))), true
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
	if b[13] == ':' && (len(b) == 16 || b[16] == 'Z') {
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

// span reads how long something took: a number, or [days-]hours:minutes:seconds.
func (r *csvRow) span(c foreignColumn) time.Duration {
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
		return d
	}
	n, reason := c.units[0].parse(v)
	if reason != "" {
		r.fault(c.at, reason)
	}
	return time.Duration(n)
}

// foreignGPUs reads a number of GPUs; a job without is left out.
func (r *csvRow) foreignGPUs(c foreignColumn) workload.MilliGPU {
	n := r.amount(c, int64(workload.GPUs(workload.MaxGPUs)))
	if n == 0 {
		r.leaveOut(noGPU)
	}
	return workload.MilliGPU(n)
}

// amount reads a number that is not negative, or nothing for 0.
func (r *csvRow) amount(c foreignColumn, most int64) int64 {
	if c.at < 0 || absent(r.value(c.at)) {
		return 0
	}
	n, reason := c.units[0].parse(bytes.TrimSpace(r.value(c.at)))
	switch {
	case reason != "":
		r.fault(c.at, reason)
	case n < 0:
		r.fault(c.at, isNegative)
	case n > most:
		r.fault(c.at, outOfRange)
	}
	return n
}

// memory reads bytes, a number in the column's unit, or one with a suffix (62.5G).
func (r *csvRow) memory(c foreignColumn) int64 {
	if c.at < 0 || absent(r.value(c.at)) {
		return 0
	}
	v := bytes.TrimSpace(r.value(c.at))
	if c.units[0].name != "B" {
		v = append(bytes.Clone(v), c.units[0].name[0])
	} else if n, reason := parseDecimal(v, 0); reason == "" && n >= 0 && n <= workload.MaxMemory {
		return n
	}
	n, ok := parseMemory(v)
	if !ok {
		r.fault(c.at, "is not a memory such as 62.5G")
	}
	return n
}
