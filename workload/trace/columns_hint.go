package trace

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/lines"
)

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
