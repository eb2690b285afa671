package trace

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/lines"
)

// Columns map the columns of a table of no known format.
type Columns []Column

// Column is one of them.
type Column struct {
	Field string `json:"field"` // one of ColumnFields
	// Name is that in the header, or of a number a product of several and of constants, such as workers*gpus.
	Name string `json:"column"`
	// Unit is the unit of its numbers, one of its field's. Default: seconds, bytes or
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

// ColumnFields lists the meanings of columns.
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
		"runtime run elapsed elapsedraw running execution wall walltime run_duration job_duration " +
			"wallclock_used wallclock"},
	{"gpus", "how many GPUs it asked for (required)", countUnits,
		"gpu n_gpu n_gpus num_gpu num_gpus gpu_num gpu_count gpus_count ngpu ngpus gpu_request gpus_requested " +
			"requested_gpus gpu_req req_gpus gpus_req gpus_per_worker gpus_per_pod gpus_per_node gpu_per_node gpus_per_task " +
			"gpus_per_replica allocgres reqgres gres world_size"},
	{"id", "its name, used once (default: the number of its row)", nil,
		"job_id jobid job uid uuid pod pod_name task_id workload_id run_id"},
	{"user", "the user that submitted it", nil, "user_id userid username user_name owner submitter uname"},
	{"tenant", "whose quota it counts against", nil,
		"vc virtual_cluster team project account group queue namespace org organization department"},
	{"name", "what recurs: jobs of one user and name", nil, "job_name jobname title task_name experiment"},
	{"model", "its model class", nil, "model_name model_type workload workload_type architecture"},
	{"status", "how it ended", statusUnits, "state job_state result outcome phase exit_status final_status"},
	{"wait", "how long it waited", timeUnits, "queue_delay queueing_delay wait_delay waiting waited queue queue_wait"},
	{"deadline", "by when it should have ended", timeUnits, "due due_at due_date"},
	{"time_limit", "the run time after which the cluster ends it", timeUnits,
		"limit timelimit max_runtime requested_runtime req_runtime wallclock_req"},
	{"gpu_model", "the GPU model it needs", nil, "gpu_type gputype accelerator gpu_kind"},
	{"partition", "the partition it runs in", nil, "pool node_pool"},
	{"node_count", "how many nodes it ran on, with an equal share of the GPUs on each", nil,
		"nodes num_nodes n_nodes nnodes node_num"},
	{"qos", "its quality of service", nil, "quality_of_service"},
	{"account", "the account charged", nil, ""},
	{"priority", "the priority it had, higher is earlier", nil, "prio"},
	{"cpus", "CPUs it asked for", countUnits, "cpu n_cpu num_cpus ncpus cpu_num cpu_count cpu_request processors_req"},
	{"memory", "memory it asked for", memoryUnits, "mem ram memory_request mem_request mem_req"},
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
	memoryUnits = []unit{{name: "B"}, {name: "KiB"}, {name: "MiB"}, {name: "GiB"}, {name: "TiB"}, {name: "KB"},
		{name: "MB"}, {name: "GB"}, {name: "TB"}} // for csvRow.memory
	statusUnits = []unit{{name: "slurm"}, {name: "exit"}} // numbers: Slurm's states, and 0 for success
)

// parse reads a number of the unit. Finer digits than are kept are cut off.
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

// factors are the names of the columns and constants that a column of a table is the product of.
func (c Column) factors(header [][]byte) []string {
	if f := fieldNamed(c.Field); f.units == nil || !strings.Contains(c.Name, "*") || f.Name == "status" ||
		slices.ContainsFunc(header, func(b []byte) bool { return string(bytes.TrimSpace(b)) == c.Name }) {
		return []string{c.Name}
	}
	return strings.Split(c.Name, "*")
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

// separators of foreign tables, whose fields may be in quotes; blank is that of tables without any of them.
const (
	separators = ",\t;|^~"
	blank      = ' '
)

// separatorOf is the one that cuts a header into most fields.
func separatorOf(header []byte) byte {
	best, most := separators[0], 0
	for i := range len(separators) {
		if n := bytes.Count(header, []byte{separators[i]}); n > most {
			best, most = separators[i], n
		}
	}
	if most == 0 && len(bytes.Fields(header)) > 1 {
		return blank
	}
	return best
}

// splitAt cuts a line at a separator; blanks separate as many as there are.
func splitAt(line []byte, sep byte, dst [][]byte) (fields [][]byte, reason string) {
	if sep != blank {
		return lines.Split(line, sep, dst)
	}
	for f := range bytes.FieldsSeq(line) {
		dst = append(dst, f)
	}
	return dst, ""
}

// guess names the columns of a header that look like a field's, in the order of
// ColumnFields.
func guess(header []byte) Columns {
	fields, reason := splitAt(bytes.Clone(header), separatorOf(header), nil)
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

// copies are names of columns that count the equal parts of a job, each of which has the GPUs of another column.
var copies = strings.Fields("worker_num workers num_workers n_workers nworkers worker_count replicas num_replicas " +
	"parallelism inst_num instance_num instances num_instances pods num_pods n_pods pod_count num_tasks ntasks")

// nodeCopies count as copies only beside GPUs of a node.
var nodeCopies = strings.Fields("nodes num_nodes n_nodes nnodes node_num node_count")

// perCopy returns the product that a job's GPUs are where a table has them for each of a number of parts, and the
// column of these; "" where it does not.
func perCopy(gpus string, fields [][]byte) (product, each string) {
	plain := plainName([]byte(gpus))
	for _, b := range fields {
		name := string(bytes.TrimSpace(b))
		stem := plainName([]byte(name))
		if slices.Contains(copies, stem) || slices.Contains(nodeCopies, stem) && strings.Contains(plain, "per_node") {
			return gpus + "*" + name, name
		}
	}
	return "", ""
}

// suggest says how --columns may be used on a table that has the header of no format; it is empty where nothing in the
// header is known. The flag was tried on the first rows: columns that these do not fit are left out of it.
func (in *input) suggest(head []byte) string {
	header := lines.Header(head)
	fields, _ := splitAt(bytes.Clone(header), separatorOf(header), nil)
	values := 0
	for _, f := range fields {
		if f = bytes.TrimSpace(f); isNumber(f) || isClock(f) || absent(f) {
			values++
		}
	}
	if len(fields) > 2 && 3*values >= len(fields) {
		return "its first line holds values: put a line with the names of the columns before it"
	}
	cs := guess(header)
	if len(cs) == 0 {
		return ""
	}
	about, tried := "", ""
	for i := range cs {
		if cs[i].Field != "gpus" {
			continue
		}
		if product, each := perCopy(cs[i].Name, fields); product != "" {
			tried = fmt.Sprintf(" (%s is taken to be of each of %s: if it is of the whole job, say gpus=%s)",
				cs[i].Name, each, cs[i].Name)
			cs[i].Name = product
			cs = slices.DeleteFunc(cs, func(c Column) bool { return c.Name == each })
			for k := range cs { // so are the other resources
				if f := cs[k].Field; f == "cpus" || f == "memory" {
					cs[k].Name += "*" + each
				}
			}
			break
		}
	}
	if cs.missing() == "" {
		fit, what, out := in.try(cs, head)
		if cs, tried = fit, tried+what; len(out) > 0 {
			tried += " without " + strings.Join(out, ", ")
		}
	}
	names, meanings := make([]string, len(cs)), make([]string, len(cs))
	for i, c := range cs {
		names[i], meanings[i] = c.Name, c.Field
	}
	if missing := cs.missing(); missing != "" {
		about += ", and name the column of " + missing + " too"
	}
	return fmt.Sprintf("columns %s look like %s%s: try --columns %s%s", strings.Join(names, ", "),
		strings.Join(meanings, ", "), tried, quoted(cs.String()), about)
}

// quoted puts an argument of a shell in quotes if it needs them.
func quoted(arg string) string {
	if strings.ContainsAny(arg, " *()'\"$;&|<>\\?#") {
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return arg
}

// try reads the first rows by columns, without those that the rows do not fit, which out names with the reason. what is
// a clause on the jobs.
func (in *input) try(cs Columns, head []byte) (fit Columns, what string, out []string) {
	if end := bytes.LastIndexByte(head, '\n'); end >= 0 {
		head = head[:end+1]
	}
	for {
		w, r, err := Read(context.Background(), bytes.NewReader(head), "hint", Options{Columns: cs,
			MaxLine: in.opts.MaxLine, Zone: in.opts.Zone, Shards: in.opts.Shards})
		bad := -1
		if r != nil {
			for _, x := range r.Reasons {
				at := slices.IndexFunc(cs, func(c Column) bool { return c.Name == x.Field })
				if at >= 0 && 2*x.Rows > r.Rows {
					without := slices.Delete(slices.Clone(cs), at, at+1)
					if without.missing() == "" {
						out, bad = append(out, fmt.Sprintf("%s, which %s", cs[at], x.Reason)), at
						cs = without
						break
					}
				}
			}
			for _, note := range r.Notes {
				at := slices.IndexFunc(cs, func(c Column) bool {
					return c.Field == "memory" && strings.HasPrefix(note, "column "+c.Name+" holds less")
				})
				if bad < 0 && at >= 0 {
					out, bad = append(out, fmt.Sprintf("%s, whose unit is not known (%s:GiB)", cs[at], cs[at])), at
					cs = slices.Delete(slices.Clone(cs), at, at+1)
				}
			}
		}
		if bad >= 0 {
			continue
		}
		if err != nil {
			what = ", which does not read its first rows yet: " + strings.TrimPrefix(err.Error(), "trace hint: ")
			return cs, what, out
		}
		jobs := w.Jobs()
		least, most, short, long := jobs[0].GPUs, jobs[0].GPUs, jobs[0].Duration, jobs[0].Duration
		for i := range jobs {
			least, most = min(least, jobs[i].GPUs), max(most, jobs[i].GPUs)
			short, long = min(short, jobs[i].Duration), max(long, jobs[i].Duration)
		}
		return cs, fmt.Sprintf(" (of the first %d rows it makes %d jobs of %g to %g GPUs that ran for %v to %v)",
			r.Rows, r.Jobs, least.Count(), most.Count(), short, long), out
	}
}
