package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/lines"
	"github.com/autosched/autosched/workload"
)

// autoschedFormat is the project's own CSV, the one that is written. Its first
// line is a comment with metadata:
//
//	# autosched trace v1 zero=2017-10-09T00:00:00Z synthetic
//	job_id,user,tenant,key,model,submit_time,duration_s,gpus,status
//
// A column deadline (a time, or empty) is written where any job has one, a column
// wait_s where any job's queueing delay is known, and the columns gpu_model,
// partition, cpus, memory_bytes, time_limit_s, node_count, qos, account, priority, nice, requeue (resume or
// restart) and hold_off_s where any job asks for such, and nodes (a host list) where it is known on which
// nodes jobs ran. The comment may end with the
// nodes of the trace's own cluster: cluster=[{"nodes":20,"gpus_per_node":8}].
// Without zero= the zero is midnight UTC of the day of the first submission.
var autoschedFormat = formatOf("autosched", "the project's own CSV: RFC 3339 submit times, GPUs with three decimals",
	&table{
		required: []string{"job_id", "submit_time", "duration_s", "gpus"},
		optional: []string{"user", "tenant", "key", "model", "status", "deadline", "wait_s", "gpu_model", "partition",
			"cpus", "memory_bytes", "time_limit_s", "nodes",
			"node_count", "qos", "account", "priority", "nice", "requeue", "hold_off_s"},
		begin: func(in *input, has func(string) bool) {
			in.wallClock = !in.hasZero
			in.hasKeys = in.hasKeys || has("key")
		},
		row: func(r *csvRow) workload.Job {
			j := workload.Job{ID: r.id(0), Submit: r.clock(1), Duration: r.duration(2), GPUs: r.gpus(3),
				User: r.text(4), Tenant: r.text(5), Key: r.text(6), Model: r.text(7), Status: r.status(8),
				Deadline: r.deadline(9)}
			if len(r.value(10)) > 0 {
				j.Wait, j.HasWait = r.waited(10), true
			}
			j.Requested = workload.Request{GPUModel: r.text(11), Partition: r.text(12),
				MilliCPUs: r.atMost(13, 3, workload.MaxMilliCPUs),
				Memory:    r.atMost(14, 0, workload.MaxMemory),
				TimeLimit: time.Duration(r.atMost(15, 9, int64(workload.MaxDuration))),
				NodeCount: r.nodeCount(17, j.GPUs), QOS: r.text(18), Account: r.text(19),
				Priority: r.priority(20), Nice: r.nice(21), Requeue: r.requeue(22),
				HoldOff: time.Duration(r.atMost(23, 9, int64(workload.MaxDuration)))}.Shared()
			j.Nodes = r.hosts(16)
			return j
		},
	})

const (
	commentBegin  = "# autosched trace "
	formatVersion = "v1"
	clusterWord   = " cluster=" // the last, because names have blanks
)

// comment reads a line in front of the header. Foreign comments are skipped.
func (in *input) comment(line string) error {
	rest, ok := strings.CutPrefix(line, commentBegin)
	if !ok {
		return nil
	}
	first := in.taken == 0 // later files count from the first one's zero
	rest, cluster, hasCluster := strings.Cut(rest, clusterWord)
	words := strings.Fields(rest)
	if len(words) == 0 || words[0] != formatVersion {
		return fmt.Errorf("%w: version %q of the autosched format; this program reads %s",
			ErrFormat, rest, formatVersion)
	}
	for _, word := range words[1:] {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "zero":
			t, err := time.Parse(time.RFC3339, value)
			if err != nil {
				return fmt.Errorf("%w: zero=%s is not an RFC 3339 time", ErrFormat, lines.Excerpt([]byte(value)))
			}
			if first {
				in.zero, in.hasZero = t.UTC(), true
			}
		case "synthetic":
			in.synthetic = true
		}
	}
	if !hasCluster || !first || in.nodes != nil {
		return nil
	}
	var c workload.Cluster
	err := json.Unmarshal([]byte(cluster), &c.Groups)
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return fmt.Errorf("%w: cluster=%s: %w", ErrFormat, lines.Excerpt([]byte(cluster)), err)
	}
	in.nodes = map[string]workload.NodeGroup{} // lists of machines are of the same cluster
	in.report.Machines, in.report.Declared = c.Groups, true
	return nil
}

// comment is the line that input.comment reads.
func comment(zero time.Time, synthetic bool, machines []workload.NodeGroup) ([]byte, error) {
	line := append([]byte(commentBegin+formatVersion+" zero="), zero.Format(time.RFC3339Nano)...)
	if synthetic {
		line = append(line, " synthetic"...)
	}
	if len(machines) > 0 {
		groups, err := json.Marshal(machines)
		if err != nil {
			return nil, fmt.Errorf("trace: cluster: %w", err)
		}
		line = append(append(line, clusterWord...), groups...)
	}
	if len(line) > DefaultMaxLine {
		return nil, fmt.Errorf("trace: cluster: %d groups of nodes make a line longer than %d bytes", len(machines),
			DefaultMaxLine)
	}
	return append(line, '\n'), nil
}

// WriteCSV writes the workload in the project's own format, with the nodes of the
// cluster it belongs to, if they are known. Reading it back gives a workload of the same
// digest. It fails where the format cannot hold the workload, naming job and field: texts
// with line breaks, or times outside the years 0 to 9999.
func WriteCSV(w io.Writer, wl *workload.Workload, machines ...workload.NodeGroup) error {
	zero, jobs := wl.Zero(), wl.Jobs()
	if y := zero.Year(); y < 0 || y > 9999 {
		return fmt.Errorf("trace: zero: year %d cannot be written", y)
	}
	bw := bufio.NewWriterSize(w, 64<<10)
	line, err := comment(zero, wl.Synthetic(), machines)
	if err != nil {
		return err
	}
	line = append(line, "job_id,user,tenant,key,model,submit_time,duration_s,gpus,status"...)
	var columns []optionalColumn
	for _, c := range optionalColumns {
		if slices.ContainsFunc(jobs, func(j workload.Job) bool { return c.has(&j) }) {
			columns = append(columns, c)
			line = append(append(line, ','), c.name...)
		}
	}
	line = append(line, '\n')
	if _, err := bw.Write(line); err != nil {
		return err
	}
	for i := range jobs {
		j := &jobs[i]
		line = line[:0]
		if err := writable(zero, j); err != nil {
			return fmt.Errorf("trace: job %q: %w", j.ID, err)
		}
		for _, text := range [...]string{j.ID, j.User, j.Tenant, j.Key, j.Model} {
			line = append(appendText(line, text), ',')
		}
		line = append(zero.Add(j.Submit).AppendFormat(line, time.RFC3339Nano), ',')
		line = append(appendDecimal(line, int64(j.Duration), 9), ',')
		line = append(appendDecimal(line, int64(j.GPUs), 3), ',')
		line = append(line, j.Status.String()...)
		for _, c := range columns {
			line = append(line, ',')
			if c.has(j) {
				line = c.write(line, zero, j)
			}
		}
		line = append(line, '\n')
		if len(line)-1 > DefaultMaxLine {
			return fmt.Errorf("trace: job %s: its row is longer than %d bytes", lines.Excerpt([]byte(j.ID)),
				DefaultMaxLine)
		}
		if _, err := bw.Write(line); err != nil {
			return err
		}
	}
	return bw.Flush()
}

// optionalColumn is a column that is written where any job has it.
type optionalColumn struct {
	name  string
	has   func(*workload.Job) bool
	write func(dst []byte, zero time.Time, j *workload.Job) []byte
}

var optionalColumns = []optionalColumn{
	{"deadline", func(j *workload.Job) bool {
		return j.Deadline != 0
	}, func(dst []byte, zero time.Time, j *workload.Job) []byte {
		return zero.Add(j.Deadline).AppendFormat(dst, time.RFC3339Nano)
	}},
	numberColumn("wait_s", 9, func(j *workload.Job) (int64, bool) { return int64(j.Wait), j.HasWait }),
	textColumn("gpu_model", func(j *workload.Job) string { return j.Request().GPUModel }),
	textColumn("partition", func(j *workload.Job) string { return j.Request().Partition }),
	numberColumn("cpus", 3, func(j *workload.Job) (int64, bool) { n := j.Request().MilliCPUs; return n, n != 0 }),
	numberColumn("memory_bytes", 0, func(j *workload.Job) (int64, bool) { n := j.Request().Memory; return n, n != 0 }),
	numberColumn("time_limit_s", 9, func(j *workload.Job) (int64, bool) {
		limit := j.Request().TimeLimit
		return int64(limit), limit != 0
	}),
	textColumn("nodes", func(j *workload.Job) string { return j.Nodes }),
	numberColumn("node_count", 0, func(j *workload.Job) (int64, bool) {
		n := j.Request().NodeCount
		return int64(n), n != 0
	}),
	textColumn("qos", func(j *workload.Job) string { return j.Request().QOS }),
	textColumn("account", func(j *workload.Job) string { return j.Request().Account }),
	numberColumn("priority", 0, func(j *workload.Job) (int64, bool) { n := j.Request().Priority; return n, n != 0 }),
	numberColumn("nice", 0, func(j *workload.Job) (int64, bool) { n := j.Request().Nice; return int64(n), n != 0 }),
	textColumn("requeue", func(j *workload.Job) string { return j.Request().Requeue.String() }),
	numberColumn("hold_off_s", 9, func(j *workload.Job) (int64, bool) {
		d := j.Request().HoldOff
		return int64(d), d != 0
	}),
}

func textColumn(name string, of func(*workload.Job) string) optionalColumn {
	return optionalColumn{name, func(j *workload.Job) bool { return of(j) != "" },
		func(dst []byte, _ time.Time, j *workload.Job) []byte { return appendText(dst, of(j)) }}
}

func numberColumn(name string, decimals int, of func(*workload.Job) (int64, bool)) optionalColumn {
	return optionalColumn{name, func(j *workload.Job) bool { _, has := of(j); return has },
		func(dst []byte, _ time.Time, j *workload.Job) []byte {
			n, _ := of(j)
			return appendDecimal(dst, n, decimals)
		}}
}

// writable names the field of a job that the format cannot hold.
func writable(zero time.Time, j *workload.Job) error {
	for _, f := range [...]struct{ name, text string }{{"id", j.ID}, {"user", j.User}, {"tenant", j.Tenant},
		{"key", j.Key}, {"model", j.Model},
		{"gpu model", j.Request().GPUModel}, {"partition", j.Request().Partition}, {"nodes", j.Nodes},
		{"qos", j.Request().QOS}, {"account", j.Request().Account}} {
		if strings.ContainsAny(f.text, "\r\n") {
			return fmt.Errorf("%s: a line break cannot be written", f.name)
		}
	}
	for _, f := range [...]struct {
		name string
		at   time.Duration
	}{{"submit", j.Submit}, {"deadline", j.Deadline}} {
		if y := zero.Add(f.at).Year(); y < 0 || y > 9999 {
			return fmt.Errorf("%s: year %d cannot be written", f.name, y)
		}
	}
	return nil
}

func appendText(dst []byte, s string) []byte {
	if s == "" || !strings.ContainsAny(s, "\",") {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(s, `"`, `""`)...)
	return append(dst, '"')
}

// appendDecimal writes n/10^decimals without trailing zeros.
func appendDecimal(dst []byte, n int64, decimals int) []byte {
	pow := int64(1)
	for range decimals {
		pow *= 10
	}
	if n < 0 {
		dst, n = append(dst, '-'), -n
	}
	dst = strconv.AppendInt(dst, n/pow, 10)
	frac := n % pow
	if frac == 0 {
		return dst
	}
	dst = append(dst, '.')
	for frac > 0 {
		pow /= 10
		dst = append(dst, byte('0'+frac/pow))
		frac %= pow
	}
	return dst
}
