package round

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/workload"
)

// JobChange is a job with its results before a change of settings and after it.
type JobChange struct {
	Job           *workload.Job
	Before, After JobResult
}

// JobResult is the result of a job under a configuration, in seconds.
type JobResult struct {
	// Wait is the queueing delay. It is counted of a job that has not ended, too: until the end of the simulation.
	Wait float64 `json:"wait_s"`
	JCT  float64 `json:"jct_s"` // 0 unless Ended
	// Ended is false of a job whose run time is not known or that the simulation does not reach the end of.
	Ended bool `json:"ended"`
}

// The kinds of Groups.
const (
	ByAll       = "all"
	ByWidth     = "GPUs"       // classes that double: 1, 2, 3-4, 5-8, ...
	ByLimit     = "time limit" // classes; absent where no job has one
	ByPartition = "partition"  // absent where all jobs have the same
	ByTenant    = "tenant"     // accounts, where the jobs have them
	ByUser      = "user"
)

var groupKinds = []string{ByAll, ByWidth, ByLimit, ByPartition, ByTenant, ByUser}

// Group is how long jobs that have something in common wait before a change of settings and after it.
type Group struct {
	By     string `json:"by"` // ByAll, ByWidth ...
	Name   string `json:"name,omitempty"`
	Jobs   int    `json:"jobs"`
	Before Waits  `json:"before"`
	After  Waits  `json:"after"`
	// Slower jobs have a JCT that is more than 1 % longer after the change, of those that ended both times. Worst is
	// the most that the wait of a job grows, in seconds.
	Slower int     `json:"slower"`
	Worst  float64 `json:"worst_s"`

	least, most int // GPUs of the jobs
}

// Waits in seconds.
type Waits struct {
	Mean float64 `json:"mean_s"`
	P95  float64 `json:"p95_s"`
}

// A group loses if its mean wait grows by more than losesShare of it and losesSlack.
const (
	losesShare = .1
	losesSlack = 60. // seconds
)

// Loses reports whether the mean wait grows by more than a tenth of it and a minute.
func (g *Group) Loses() bool { return g.After.Mean > (1+losesShare)*g.Before.Mean+losesSlack }

// String says how long the jobs of a group wait: 64-GPU jobs wait 102 h, before 10 h (4 jobs).
func (g *Group) String() string {
	was, is := twoWaits(g.Before.Mean, g.After.Mean)
	return fmt.Sprintf("%s wait %s, before %s (%s)", g.who(), is, was, units.Plural(g.Jobs, "job"))
}

// who names the jobs of a group.
func (g *Group) who() string {
	switch g.By {
	case ByWidth:
		return widthText(g.least, g.most) + "-GPU jobs"
	case ByLimit:
		if g.Name == noLimit {
			return "jobs without a time limit"
		}
		return "jobs with a time limit of " + g.Name
	case ByPartition, ByTenant, ByUser:
		return "jobs of " + g.By + " " + g.Name
	}
	return "all jobs"
}

// usualNode is the number of GPUs of a usual node.
const usualNode = 8

// Wide reports whether the group is a class of jobs that a usual node does not hold.
func (g *Group) Wide() bool { return g.By == ByWidth && g.least > usualNode }

// twoWaits formats two waits in one unit, that of the longer.
func twoWaits(a, b float64) (string, string) {
	in, unit := 1., "s"
	switch longer := max(a, b); {
	case longer >= 2*3600:
		in, unit = 3600, "h"
	case longer >= 2*60:
		in, unit = 60, "min"
	}
	text := func(seconds float64) string {
		v, digits := seconds/in, 0
		if v > 0 && v < 9.95 {
			digits = 1
		}
		return strconv.FormatFloat(v, 'f', digits, 64) + " " + unit
	}
	return text(a), text(b)
}

// WidthClass is the class of a number of GPUs: 0 for 1, 1 for 2, 2 for 3 and 4, 3 for 5 to 8.
func WidthClass(gpus int) int { return bits.Len(uint(max(gpus, 1) - 1)) }

// WidthName is the name of a class of widths: 1, 2, 3-4, 5-8.
func WidthName(class int) string {
	if class == 0 {
		return "1"
	}
	return widthText(1<<(class-1)+1, 1<<class)
}

func widthText(least, most int) string {
	if least == most {
		return strconv.Itoa(most)
	}
	return fmt.Sprintf("%d-%d", least, most)
}

// limits are the upper ends of the classes of time limits.
var limits = []time.Duration{10 * time.Minute, time.Hour, 4 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	48 * time.Hour, 96 * time.Hour, 7 * 24 * time.Hour}

const noLimit = "none"

// limitClass is the class of a time limit; the last is that of none.
func limitClass(limit time.Duration) int {
	if limit <= 0 {
		return len(limits) + 1
	}
	at, _ := slices.BinarySearch(limits, limit)
	return at
}

func limitName(class int) string {
	text := func(k int) string { return units.Duration(limits[k].Seconds()) }
	switch {
	case class == 0:
		return "at most " + text(0)
	case class == len(limits):
		return "more than " + text(class-1)
	case class > len(limits):
		return noLimit
	}
	return text(class-1) + " to " + text(class)
}

// groupKey identifies a group: its place among the kinds, its class or its name.
type groupKey struct {
	kind, class int
	name        string
}

func keysOf(j *workload.Job) [6]groupKey {
	r := j.Request()
	return [...]groupKey{{}, {1, WidthClass(j.GPUs.Whole()), ""}, {2, limitClass(r.TimeLimit), ""}, {3, 0, r.Partition},
		{4, 0, cmp.Or(r.Account, j.Tenant)}, {5, 0, j.User}}
}

func (k *groupKey) title() string {
	switch groupKinds[k.kind] {
	case ByWidth:
		return WidthName(k.class)
	case ByLimit:
		return limitName(k.class)
	}
	return k.name
}

// Groups compares the waits of jobs before a change with those after it: of all jobs, by width, time limit, partition,
// tenant and user, in this order, classes in theirs and others by name. The order of the jobs does not matter.
func Groups(jobs []JobChange) []Group {
	out, _ := groupsOf(jobs)
	return out
}

// groupsOf returns the groups with the places of their members.
func groupsOf(jobs []JobChange) (out []Group, members [][]int) {
	of := map[groupKey]*[]int{}
	kinds := make([]int, len(groupKinds)) // groups of each kind
	for i := range jobs {
		for _, k := range keysOf(jobs[i].Job) {
			all := of[k]
			if all == nil {
				all = new([]int)
				of[k] = all
				kinds[k.kind]++
			}
			*all = append(*all, i)
		}
	}
	var keys []groupKey
	for k := range of {
		switch by := groupKinds[k.kind]; {
		case by == ByLimit && kinds[k.kind] == 1 && k.class > len(limits),
			by == ByPartition && kinds[k.kind] == 1,
			by != ByAll && by != ByWidth && by != ByLimit && k.name == "":
		default:
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b groupKey) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.class, b.class), cmp.Compare(a.name, b.name))
	})
	for _, k := range keys {
		out, members = append(out, groupOf(&k, jobs, *of[k])), append(members, *of[k])
	}
	return out, members
}

func groupOf(k *groupKey, jobs []JobChange, members []int) Group {
	g := Group{By: groupKinds[k.kind], Name: k.title(), least: workload.MaxGPUs}
	was, is := make([]float64, 0, len(members)), make([]float64, 0, len(members))
	for _, i := range members {
		j := &jobs[i]
		for range j.Job.Size() {
			was, is = append(was, j.Before.Wait), append(is, j.After.Wait)
		}
		g.Worst = max(g.Worst, j.After.Wait-j.Before.Wait)
		if j.Before.Ended && j.After.Ended && j.After.JCT > 1.01*j.Before.JCT {
			g.Slower += j.Job.Size()
		}
		n := max(1, j.Job.GPUs.Whole())
		g.least, g.most = min(g.least, n), max(g.most, n)
	}
	g.Jobs, g.Before, g.After = len(was), waitsOf(was), waitsOf(is)
	return g
}

// waitsOf sorts its argument, so that the mean does not depend on the order of the jobs.
func waitsOf(seconds []float64) Waits {
	slices.Sort(seconds)
	return Waits{stats.Mean(seconds), stats.Quantile(seconds, .95)}
}

// Losers returns the groups that lose, the one whose mean wait grows most first. A group is left out if at least half
// of the time that its jobs lose is that of losing groups of a kind before it (see Groups): the tenant of the only
// wide jobs, say.
func Losers(jobs []JobChange) []Group {
	groups, members := groupsOf(jobs)
	var out []Group
	explained := make([]bool, len(jobs))
	var next []int // members of losing groups of the kind in turn, which explain the kinds after it
	for i := range groups {
		g := &groups[i]
		if i > 0 && g.By != groups[i-1].By {
			for _, j := range next {
				explained[j] = true
			}
			next = next[:0]
		}
		if !g.Loses() {
			continue
		}
		lost, known := int64(0), int64(0) // milliseconds: sums in any order are equal
		for _, j := range members[i] {
			by := int64(1000 * max(0, jobs[j].After.Wait-jobs[j].Before.Wait))
			if lost += by; explained[j] {
				known += by
			}
		}
		if 2*known >= lost {
			continue
		}
		if out = append(out, *g); g.By != ByAll {
			next = append(next, members[i]...)
		}
	}
	slices.SortStableFunc(out, func(a, b Group) int {
		return cmp.Compare(b.After.Mean-b.Before.Mean, a.After.Mean-a.Before.Mean)
	})
	return out
}

// LosersText says which groups lose, at most a number of them, the worst first; "" if none does. The price of a change
// that wide jobs pay is named as such.
func LosersText(losers []Group, most int) string {
	if len(losers) == 0 {
		return ""
	}
	var parts []string
	for i := range losers[:min(most, len(losers))] {
		parts = append(parts, losers[i].String())
	}
	text := strings.Join(parts, "; ")
	if n := len(losers) - len(parts); n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	if losers[0].Wide() {
		return "The price is paid by wide jobs: " + text
	}
	return "Longer waits: " + text
}
