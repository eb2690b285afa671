package slurmtext

import (
	"cmp"
	"iter"
	"strconv"
	"strings"
)

// A JobID is a job as the column JobID of sacct and %i of squeue write it.
type JobID struct {
	// Job is the number of the job; of an array the array's, of a component of a heterogeneous job the leader's.
	Job string
	// Component is the place of a component, as 1 of 123+1; -1 if the job is not heterogeneous.
	Component int
	// Array reports that the job is of an array, and Tasks are its tasks: the one that has started, or the rest.
	Array bool
	Tasks Tasks
	// Step is the name of a step, as batch of 123.batch; empty for a job.
	Step string
}

// maxComponents is a bound of the components of a heterogeneous job; Slurm's is 128 (MAX_HET_JOB_COMPS).
const maxComponents = 1 << 20

// ParseJobID reads an id such as 123, 123+1, 123_4, 123_[5-9%2] or 123.batch, as src/sacct/print.c and
// src/squeue/print.c write them. A component that is no number is left out.
func ParseJobID(text string) JobID {
	id := JobID{Component: -1}
	if list := strings.IndexByte(text, '['); list < 0 { // dots in a list cut it off
		text, id.Step, _ = strings.Cut(text, ".")
	}
	var list string
	if id.Job, list, id.Array = strings.Cut(text, "_"); id.Array {
		id.Tasks = parseTasks(list)
		return id
	}
	if leader, place, ok := strings.Cut(text, "+"); ok {
		if n, err := strconv.Atoi(place); err == nil && n >= 0 && n < maxComponents {
			id.Job, id.Component = leader, n
		}
	}
	return id
}

// Tasks are tasks of an array, in order.
type Tasks struct {
	ranges ranges
	// Throttle is the number of tasks that may run at a time, 0 if any may.
	Throttle int
	// Cut reports that the list is cut off: there are more tasks. SLURM_BITSTR_LEN=0 in the environment of the program
	// prints them all.
	Cut bool
}

// parseTasks reads the list of an array, such as 3 or [3-9:2,12%2]. xlate_array_task_str in
// src/common/slurm_protocol_defs.c writes it, with a step for the whole list alone, and three dots where it is cut off,
// perhaps within a number.
func parseTasks(text string) (t Tasks) {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	list, throttle, _ := strings.Cut(text, "%")
	t.Throttle, _ = strconv.Atoi(throttle)
	t.Throttle = max(0, t.Throttle)
	t.ranges, t.Cut = parseRanges(list)
	return t
}

// All returns the numbers of the tasks.
func (t Tasks) All() iter.Seq[int] { return t.ranges.all() }

// Len returns the number of tasks.
func (t Tasks) Len() int {
	n := 0
	for _, r := range t.ranges {
		n += r.len()
	}
	return n
}

// ranges are numbers in order, each once.
type ranges []numberRange

type numberRange struct{ first, last, step int }

func (r numberRange) len() int { return (r.last-r.first)/r.step + 1 }

// maxIndex is Slurm's bound of a task (MaxArraySize).
const maxIndex = 4_000_001

// parseRanges reads numbers such as 1,3-9:2, in order as bit_fmt of src/common/bitstring.c writes them: numbers that
// do not ascend are left out. cut reports that some part is no range, as where the list is cut off.
func parseRanges(text string) (out ranges, cut bool) {
	next := 0
	for part := range strings.SplitSeq(text, ",") {
		part, step, _ := strings.Cut(part, ":")
		low, high, ranged := strings.Cut(part, "-")
		if !ranged {
			high = low
		}
		first, err1 := strconv.ParseUint(low, 10, 31)
		last, err2 := strconv.ParseUint(high, 10, 31)
		by, err3 := strconv.ParseUint(cmp.Or(step, "1"), 10, 31)
		if err1 != nil || err2 != nil || err3 != nil || by == 0 || max(last, by) > maxIndex {
			cut = true
			continue
		}
		r := numberRange{int(first), int(last), int(by)}
		if r.first < next {
			r.first += (next - r.first + r.step - 1) / r.step * r.step
		}
		if r.first <= r.last {
			r.last = r.first + (r.len()-1)*r.step
			out, next = append(out, r), r.last+1
		}
	}
	return out, cut
}

func (r ranges) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, one := range r {
			for n := one.first; n <= one.last; n += one.step {
				if !yield(n) {
					return
				}
			}
		}
	}
}
