package slurm

import (
	"fmt"
	"testing"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// TestLimits: which of four jobs start at once, and that one beyond a limit keeps no later one waiting.
func TestLimits(t *testing.T) {
	gpus := func(own int64, s workload.Scope) workload.Limit {
		return workload.Limit{Scope: s, Resource: workload.LimitedGPUs, Own: own}
	}
	jobs := func(own int64, s workload.Scope) workload.Limit {
		return workload.Limit{Scope: s, Resource: workload.LimitedJobs, Own: own}
	}
	qos := func(each workload.Each) workload.Scope { return workload.Scope{QOS: "q", Each: each} }
	for name, c := range map[string]struct {
		limits    []workload.Limit
		partition string // its QOS
		want      string // "1" of a job that starts at once
	}{
		"none":           {nil, "", "1111"},
		"QOS":            {[]workload.Limit{gpus(8, qos(""))}, "", "1101"},
		"user":           {[]workload.Limit{gpus(4, qos(workload.EachUser))}, "", "1011"},
		"account":        {[]workload.Limit{gpus(8, qos(workload.EachAccount))}, "", "1111"},
		"narrow account": {[]workload.Limit{gpus(4, qos(workload.EachAccount))}, "", "1011"},
		"jobs of a user": {[]workload.Limit{jobs(1, qos(workload.EachUser))}, "", "1011"},
		"jobs":           {[]workload.Limit{jobs(2, qos(""))}, "", "1101"},
		"another QOS":    {[]workload.Limit{gpus(0, workload.Scope{QOS: "p"})}, "", "1111"},
		"partition":      {[]workload.Limit{gpus(4, workload.Scope{QOS: "p"}), gpus(16, qos(""))}, "p", "1000"},
		// The QOS of the partition goes before that of the job, and both before associations.
		"partition first": {[]workload.Limit{gpus(16, workload.Scope{QOS: "p"}), gpus(4, qos(""))}, "p", "1111"},
		"QOS first":       {[]workload.Limit{gpus(16, qos("")), gpus(4, workload.Scope{Account: "a"})}, "", "1111"},
		"association":     {[]workload.Limit{gpus(4, workload.Scope{Account: "a"})}, "", "1011"},
		"parent":          {[]workload.Limit{gpus(8, workload.Scope{Account: "all"})}, "", "1101"},
		"jobs of a kind":  {[]workload.Limit{jobs(9, qos(workload.EachUser)), jobs(1, workload.Scope{Account: "a", User: "x"})}, "", "1111"},
		"user's jobs":     {[]workload.Limit{jobs(1, workload.Scope{Account: "a", User: "x"})}, "", "1011"},
		"all of root":     {[]workload.Limit{gpus(8, workload.Scope{Account: "root"})}, "", "1100"},
		"user there":      {[]workload.Limit{jobs(1, workload.Scope{Account: "a", User: "x", Partition: "all"})}, "", "1011"},
		"user elsewhere":  {[]workload.Limit{jobs(1, workload.Scope{Account: "a", User: "x", Partition: "p"})}, "", "1111"},
		"user there, not elsewhere": {[]workload.Limit{
			jobs(9, workload.Scope{Account: "a", User: "x", Partition: "all"}), jobs(1, workload.Scope{Account: "a", User: "x"})}, "", "1111"},
		"too wide": {[]workload.Limit{gpus(3, qos(""))}, "", "0001"},
	} {
		cluster := workload.Uniform(4, 8)
		cluster.Site = workload.Site{Limits: c.limits, QOS: []workload.QOS{{Name: "q"}, {Name: "p"}},
			Partitions: []workload.Partition{{Name: "all", QOS: c.partition}},
			Accounts: []workload.Account{{Name: "all", Shares: 1}, {Name: "a", Parent: "all", Shares: 1},
				{Name: "b", Parent: "all", Shares: 1}}}
		var all []workload.Job
		for i, x := range []struct{ account, user, qos string }{{"a", "x", "q"}, {"a", "x", "q"}, {"b", "y", "q"},
			{"other", "z", ""}} {
			asks := workload.Request{Partition: "all", Account: x.account, QOS: x.qos, TimeLimit: time.Hour}
			all = append(all, workload.Job{ID: fmt.Sprint(i), User: x.user, GPUs: workload.GPUs(4),
				Duration: 10 * time.Minute, Requested: asks.Shared()})
		}
		sim, p := midway(t, cluster, all)
		got := ""
		for j := range all {
			if got += "0"; sim.JobRunning(simulator.ID(j)) {
				got = got[:j] + "1"
			}
		}
		if got != c.want {
			t.Errorf("%s: %s start, want %s", name, got, c.want)
		}
		if name == "too wide" {
			continue // it waits forever
		}
		if err := sim.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, c := range p.limits.counters {
			if c.held != 0 {
				t.Errorf("%s: counter %d is at %d once all jobs have ended", name, i, c.held)
			}
		}
	}
}

// midway runs jobs for five minutes.
func midway(t *testing.T, cluster workload.Cluster, jobs []workload.Job) (*simulator.Sim, *policy) {
	t.Helper()
	w, err := workload.New("t", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	p, sim := NewPolicy(Defaults()).(*policy), new(simulator.Sim)
	if err := sim.Start(cluster, w, p, simulator.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := sim.RunUntil(t.Context(), 5*time.Minute); err != nil {
		t.Fatal(err)
	}
	return sim, p
}

// TestLimitOfWholeNodes: a running job that has its node whole counts with all GPUs of it, a waiting one with the GPUs
// that it asks for.
func TestLimitOfWholeNodes(t *testing.T) {
	cluster := workload.Uniform(4, 8)
	cluster.Groups[0].Partition = "all"
	cluster.Site = workload.Site{Partitions: []workload.Partition{{Name: "all", QOS: "p", Exclusive: true}},
		QOS:    []workload.QOS{{Name: "p"}},
		Limits: []workload.Limit{{Scope: workload.Scope{QOS: "p"}, Resource: workload.LimitedGPUs, Own: 12}}}
	asks := workload.Request{Partition: "all", TimeLimit: time.Hour}
	var jobs []workload.Job
	for i := range 3 {
		jobs = append(jobs, workload.Job{ID: fmt.Sprint(i), GPUs: workload.GPUs(4), Duration: 10 * time.Minute,
			Requested: asks.Shared()})
	}
	sim, p := midway(t, cluster, jobs)
	if held := p.limits.counters[0].held; held != 16 || !sim.JobRunning(1) || sim.JobRunning(2) {
		t.Errorf("%d GPUs are held, want 16 of two jobs", held)
	}
	if err := sim.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held := p.limits.counters[0].held; held != 0 {
		t.Errorf("%d GPUs are held in the end", held)
	}
}

// TestUsageFactor: usage under a QOS is charged by its factor.
func TestUsageFactor(t *testing.T) {
	half := .5
	s := Defaults()
	s.PriorityWeightFairshare, s.PriorityDecayHalfLife, s.PriorityCalcPeriod = 1, 0, time.Minute
	var u usage
	u.reset(&s, nil)
	x, y := u.of("a", "x"), u.of("a", "y")
	u.starts(spell{job: 0, user: x, billing: 2, to: never})
	u.starts(spell{job: 1, user: y, billing: 2, factor: &half, to: never})
	u.advance(time.Minute)
	if u.tree[x].usage != 120 || u.tree[y].usage != 60 {
		t.Errorf("usage is %g and %g, want 120 and 60", u.tree[x].usage, u.tree[y].usage)
	}
}
