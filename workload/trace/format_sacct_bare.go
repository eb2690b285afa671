package trace

import (
	"bytes"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/slurmtext"
)

// bareOrders are the columns of exports without a header whose order is known: SacctCommand's, and that of Open XDMoD's
// shredder in its versions.
var bareOrders = []string{
	strings.ReplaceAll(SacctCommand[strings.IndexByte(SacctCommand, '=')+1:], ",", "|"),
	"JobID|JobIDRaw|Cluster|Partition|Account|Group|GID|User|UID|Submit|Eligible|Start|End|Elapsed|ExitCode|State|" +
		"NNodes|NCPUS|ReqCPUS|ReqMem|ReqTRES|AllocTRES|Timelimit|NodeList|JobName",
	"JobID|JobIDRaw|Cluster|Partition|QOS|Account|Group|GID|User|UID|Submit|Eligible|Start|End|Elapsed|ExitCode|" +
		"State|NNodes|NCPUS|ReqCPUS|ReqMem|ReqTRES|AllocTRES|Timelimit|NodeList|JobName",
	"JobID|JobIDRaw|Cluster|Partition|Account|Group|GID|User|UID|Submit|Eligible|Start|End|Elapsed|ExitCode|State|" +
		"NNodes|NCPUS|ReqCPUS|ReqMem|ReqGRES|ReqTRES|Timelimit|NodeList|JobName",
}

// bareSample bounds the lines that are looked at.
const bareSample = 200

// bareSacct returns the header of rows of sacct that lack it, "" where the columns are not certain.
func bareSacct(head []byte) string {
	names, certain := bareColumns(head)
	if !certain {
		return ""
	}
	return strings.Join(names, "|")
}

// hintBareSacct is the advice on a line that looks like sacct without its header.
func hintBareSacct(line []byte) string {
	names, _ := bareColumns(line)
	if names == nil {
		return ""
	}
	for i := range names {
		if names[i] == "" {
			names[i] = "?"
		}
	}
	return "it looks like sacct without its header: put the names of its --format before it, in a first line such as " +
		strings.Join(names, "|") + " with a name in place of each ?"
}

// bareColumns names the columns of rows of sacct without a header by their content, "" where it does not say; nil if
// they are no such rows. Certain are a known order that all rows fit, or the id, the state, the times, which follow
// each other in every row, and the resources.
func bareColumns(head []byte) (names []string, certain bool) {
	sample, most := bareRows(head)
	if len(sample) == 0 || len(sample[0]) < 5 || slices.ContainsFunc(sample[0], func(b []byte) bool {
		return string(b) == "State" || string(b) == "JobID" || string(b) == "JobIDRaw"
	}) {
		return nil, false
	}
	for _, order := range bareOrders {
		if fitsOrder(head, order) {
			return strings.Split(order, "|"), true
		}
	}
	names = make([]string, len(sample[0]))
	has := func(c int, is func(b []byte) bool) bool {
		return !slices.ContainsFunc(sample, func(row [][]byte) bool { return !is(row[c]) })
	}
	any := func(c int, is func(b []byte) bool) bool {
		return slices.ContainsFunc(sample, func(row [][]byte) bool { return is(row[c]) })
	}
	var ids, states, times, resources []int
	for c := range names {
		switch {
		case has(c, formOf("submit")) && any(c, isClock):
			times = append(times, c)
		case has(c, isJobID) && len(ids) == c:
			ids = append(ids, c)
		case has(c, isJobState):
			states = append(states, c)
		case has(c, formOf("alloctres")) && any(c, func(b []byte) bool {
			return bytes.Contains(b, []byte("cpu=")) ||
				bytes.Contains(b, []byte("gres/gpu"))
		}):
			resources = append(resources, c)
		}
	}
	if len(states) != 1 || len(times) < 2 {
		return nil, false
	}
	names[states[0]] = "State"
	if certain = len(ids) > 0 && most; certain {
		names[0] = "JobID"
	}
	if len(ids) > 1 { // equal where a job is of no array
		if !slices.ContainsFunc(sample, func(row [][]byte) bool {
			return isDigits(row[0]) && isDigits(row[1]) && !bytes.Equal(row[0], row[1])
		}) && slices.ContainsFunc(sample, func(row [][]byte) bool { return bytes.Equal(row[0], row[1]) }) {
			if names[1] = "JobIDRaw"; !has(1, isDigits) {
				names[0], names[1] = names[1], names[0]
			}
		}
	}
	order := map[int][]string{3: {"Submit", "Start", "End"}, 4: {"Submit", "Eligible", "Start", "End"}}[len(times)]
	if certain = certain && order != nil && inOrder(sample, times); certain {
		for i, c := range times {
			names[c] = order[i]
		}
	}
	switch waits := func(row [][]byte) bool { return absent(row[times[len(times)-2]]) }; {
	case len(resources) == 1:
		names[resources[0]] = "AllocTRES"
	case len(resources) == 2 && (sameGPUs(sample, resources) || emptyWhere(sample, waits, resources[1])):
		names[resources[0]], names[resources[1]] = "ReqTRES", "AllocTRES"
	case len(resources) == 2 && emptyWhere(sample, waits, resources[0]):
		names[resources[0]], names[resources[1]] = "AllocTRES", "ReqTRES"
	default:
		certain = false
	}
	return names, certain
}

// bareRows are the first rows of a table with bars of the number of fields that most have; most reports that they are
// four fifths of the lines at least.
func bareRows(head []byte) (rows [][][]byte, most bool) {
	var all [][][]byte
	of := map[int]int{}
	for line := range bytes.Lines(head) {
		whole := bytes.HasSuffix(line, []byte{'\n'})
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 || !whole && len(all) > 0 {
			continue
		}
		fields := bytes.Split(line, []byte{'|'})
		of[len(fields)]++
		if all = append(all, fields); len(all) == bareSample {
			break
		}
	}
	width := 0
	for n := range of {
		if of[n] > of[width] || of[n] == of[width] && n > width {
			width = n
		}
	}
	for _, row := range all {
		if len(row) == width {
			rows = append(rows, row)
		}
	}
	return rows, 5*len(rows) >= 4*len(all)
}

// fitsOrder reports whether the lines of a sample have the columns of an order, but for a fifth. Lines of fewer fields
// are parts of rows that text continues.
func fitsOrder(head []byte, order string) bool {
	t := &table{sep: '|'}
	names := bytes.Split([]byte(order), []byte{'|'})
	x := newRows(nil, t, nil, names, len(names))
	fit, n := 0, 0
	for line := range bytes.Lines(head) {
		whole := bytes.HasSuffix(line, []byte{'\n'})
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 || !whole && n > 0 {
			continue
		}
		if bytes.Count(line, []byte{'|'})+1 < len(names) {
			continue
		}
		if n++; x.fits(line) {
			fit++
		}
		if n == bareSample {
			break
		}
	}
	return fit > 0 && 5*fit >= 4*n
}

func isClock(b []byte) bool {
	_, ok := parseWallClock(b)
	return ok
}

// isJobState recognises the states of jobs that Slurm writes.
func isJobState(b []byte) bool {
	s := slurmtext.ParseJobState(string(b))
	return s.Name != "" && !isDigits(b) && (!s.Ended || s.Outcome != slurmtext.Undetermined)
}

// inOrder reports whether the times of each row follow each other, those that are there.
func inOrder(rows [][][]byte, times []int) bool {
	for _, row := range rows {
		last := int64(0)
		for _, c := range times {
			if w, ok := parseWallClock(row[c]); ok {
				if w.seconds < last {
					return false
				}
				last = w.seconds
			}
		}
	}
	return true
}

// sameGPUs reports whether two columns of resources have the same GPUs in each row.
func sameGPUs(rows [][][]byte, columns []int) bool {
	return !slices.ContainsFunc(rows, func(row [][]byte) bool {
		a, err := slurmtext.ParseTRES(string(row[columns[0]]))
		b, err2 := slurmtext.ParseTRES(string(row[columns[1]]))
		return err != nil || err2 != nil || a.GPUs != b.GPUs || a.Shards != b.Shards
	})
}

// emptyWhere reports whether a column is empty in the rows of a kind, of which there must be one, and the rows alone.
func emptyWhere(rows [][][]byte, kind func(row [][]byte) bool, column int) bool {
	return slices.ContainsFunc(rows, kind) && !slices.ContainsFunc(rows, func(row [][]byte) bool {
		return kind(row) != (len(row[column]) == 0)
	})
}
