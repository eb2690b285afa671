package replay

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/workload"
)

// SettingsChange is a change of a site's settings: the file that makes it, and which jobs wait longer by it.
type SettingsChange struct {
	// From and To bound the window on which the waits are simulated.
	From  string      `json:"from"`
	To    string      `json:"to"`
	Waits []WaitGroup `json:"waits"`
	// Text is the file of settings, Patch its difference to the one in force, Commands the commands that put it there.
	Text     string   `json:"text"`
	Patch    string   `json:"patch"`
	Commands []string `json:"commands"`
	// QOS are the additional commands of sacctmgr, where priorities of QOS change.
	QOS []string `json:"qos,omitempty"`
}

// WaitGroup is how long jobs with a width, account or partition in common wait before a change of settings and after.
type WaitGroup struct {
	By     string `json:"by"` // "all", "GPUs", "account" or "partition"
	Name   string `json:"name,omitempty"`
	Jobs   int    `json:"jobs"`
	Before Waits  `json:"before"`
	After  Waits  `json:"after"`
	// Slower jobs have a JCT that is more than 1 % longer after the change. Worst is the most that the wait of a job
	// grows, in seconds.
	Slower int     `json:"slower"`
	Worst  float64 `json:"worst_s"`
}

// Waits in seconds.
type Waits struct {
	Mean float64 `json:"mean_s"`
	P95  float64 `json:"p95_s"`
}

// CompareWaits simulates the jobs of a window under each of two configurations, held, and compares their waits: over
// all jobs, by width, by account and by partition, accounts and partitions by name. Partitions are left out if
// there is one.
func CompareWaits(ctx context.Context, o CompareOptions) ([]WaitGroup, error) {
	if len(o.Rows) != 2 || len(o.Windows) != 1 {
		return nil, errors.New("compare waits: want one window and a configuration before and after")
	}
	r, err := Compare(ctx, o)
	if err != nil {
		return nil, err
	}
	byID := map[string]*workload.Job{}
	jobs := o.Trace.Window(o.Windows[0].From, o.Windows[0].To).Jobs()
	for i := range jobs {
		byID[jobs[i].ID] = &jobs[i]
	}
	w := &r.Windows[0]
	return groupWaits(w.JobIDs, byID, &w.Results[0], &w.Results[1]), nil
}

type width struct {
	most int
	name string
}

// widths are the groups of jobs by GPUs, up to each number.
var widths = []width{{1, "1"}, {4, "2-4"}, {8, "5-8"}, {15, "9-15"}, {workload.MaxGPUs, "16+"}}

func groupWaits(ids []string, jobs map[string]*workload.Job, before, after *Result) []WaitGroup {
	type key struct {
		by   int // place in the order of kinds
		rank int // of a width
		name string
	}
	kinds := []string{"all", "GPUs", "account", "partition"}
	members := map[key][]int{}
	partitions := map[string]bool{}
	for i, id := range ids {
		j := jobs[id]
		at := slices.IndexFunc(widths, func(w width) bool { return j.GPUs.Whole() <= w.most })
		r := j.Request()
		partitions[r.Partition] = true
		for _, k := range []key{{}, {1, at, widths[at].name}, {by: 2, name: cmp.Or(r.Account, j.Tenant)},
			{by: 3, name: r.Partition}} {
			members[k] = append(members[k], i)
		}
	}
	var keys []key
	for k := range members {
		if k.by < 2 || k.name != "" && (k.by == 2 || len(partitions) > 1) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.by, b.by), cmp.Compare(a.rank, b.rank), cmp.Compare(a.name, b.name))
	})
	var out []WaitGroup
	for _, k := range keys {
		g := WaitGroup{By: kinds[k.by], Name: k.name, Jobs: len(members[k])}
		var was, is []float64
		for _, i := range members[k] {
			was, is = append(was, before.Waits[i]), append(is, after.Waits[i])
			g.Worst = max(g.Worst, after.Waits[i]-before.Waits[i])
			if after.JCTs[i] > 1.01*before.JCTs[i] {
				g.Slower++
			}
		}
		g.Before, g.After = waitsOf(was), waitsOf(is)
		out = append(out, g)
	}
	return out
}

func waitsOf(seconds []float64) Waits {
	mean := stats.Mean(seconds)
	slices.Sort(seconds)
	return Waits{mean, stats.Quantile(seconds, .95)}
}
