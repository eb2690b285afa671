package slurm

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// TestPriority is what squeue showed of jobs of a recording: 30,000 by size favouring small, 3,000 by fair share,
// 1,000 by GPUs, on 16 nodes of 64 CPUs and 8 GPUs.
func TestPriority(t *testing.T) {
	s := Defaults()
	s.PriorityWeightJobSize, s.PriorityFavorSmall = 30000, true
	s.PriorityWeightFairshare, s.PriorityWeightGPU = 3000, 1000
	all := size{nodes: 16, cpus: 1024, gpus: 128}
	for _, tt := range []struct {
		f    factors
		want int64
	}{
		{factors{fairshare: 2. / 18, nodes: 1, cpus: 1, gpus: 1}, 29388},
		{factors{fairshare: 1, nodes: 1, cpus: 1, gpus: 1}, 32055},
		{factors{fairshare: 1, nodes: 1, cpus: 1, gpus: 2}, 32063},
		{factors{fairshare: 1, nodes: 4, cpus: 4, gpus: 32}, 29441},
		{factors{fairshare: 1, nodes: 1, cpus: 1, gpus: 1, nice: 40000}, 1},
	} {
		if got := s.priority(tt.f, all, all); got != tt.want {
			t.Errorf("%+v: priority %d, want %d", tt.f, got, tt.want)
		}
	}
	s.PriorityWeightAge, s.PriorityMaxAge = 1000, time.Hour
	old := s.priority(factors{age: 90 * time.Minute, nodes: 1, cpus: 1}, all, all)
	if half := s.priority(factors{age: 30 * time.Minute, nodes: 1, cpus: 1}, all, all); old-half != 500 {
		t.Errorf("half the age is %d less than all of it, want 500", old-half)
	}
}

// recordingAccounts is the tree of the recordings.
func recordingAccounts() []workload.Account {
	out := []workload.Account{{User: "root", Shares: 1}}
	for i, shares := range []float64{10, 20, 10, 5, 5, 5, 5, 5} {
		vc := "vc" + string(rune('1'+i))
		out = append(out, workload.Account{Name: vc, Shares: shares},
			workload.Account{Name: vc, User: vc + "a", Shares: 1},
			workload.Account{Name: vc, User: vc + "b", Shares: 1})
	}
	return append(out, workload.Account{Name: "vc1", User: "root", Shares: 1})
}

// TestFairTree: without usage all users are first. Then accounts that used more of what they are owed come last,
// and within them users; root of an account that is used comes first in it.
func TestFairTree(t *testing.T) {
	var s shares
	s.reset(recordingAccounts())
	s.fairTree()
	for i := range s.tree {
		if a := &s.tree[i]; a.user != "" && (a.rank != 18 || a.factor != 1) {
			t.Fatalf("user %s of %s has rank %d of %d before any usage", a.user, a.name, a.rank, s.users)
		}
	}
	// As recorded: 32 GPUs in vc2, less in vc1, where one user has used less.
	s.charge(s.of("vc2", "vc2a"), 8e10)
	s.charge(s.of("vc2", "vc2b"), 4e10)
	s.charge(s.of("vc1", "vc1a"), 1e10)
	s.charge(s.of("vc1", "vc1b"), 3e10)
	s.tick(1)
	s.fairTree()
	got := map[string]int32{}
	for i := range s.tree {
		if a := &s.tree[i]; a.user != "" {
			got[a.name+" "+a.user] = a.rank
		}
	}
	want := map[string]int32{"vc2 vc2a": 1, "vc2 vc2b": 2, "vc1 vc1b": 3, "vc1 vc1a": 4, "vc1 root": 5, " root": 18}
	for user, rank := range want {
		if got[user] != rank {
			t.Errorf("user %q has rank %d, want %d", user, got[user], rank)
		}
	}
}

// TestClassic: 2^-(usage/shares), where an account's users share what it used.
func TestClassic(t *testing.T) {
	var s shares
	s.reset([]workload.Account{{Name: "a", Shares: 1}, {Name: "b", Shares: 3}, {Name: "a", User: "x", Shares: 1},
		{Name: "b", User: "y", Shares: 1}})
	s.charge(s.of("a", "x"), 1e9)
	s.charge(s.of("b", "y"), 3e9)
	s.tick(1)
	s.classic(1)
	for _, user := range [][2]string{{"a", "x"}, {"b", "y"}} {
		if f := s.tree[s.index[user]].factor; math.Abs(f-.5) > 1e-12 {
			t.Errorf("%v has used its share and has factor %g, want 0.5", user, f)
		}
	}
}

// TestUsage: what was used decays, and half of it is gone after the half-life.
func TestUsage(t *testing.T) {
	s := Defaults()
	s.PriorityWeightFairshare, s.PriorityDecayHalfLife, s.PriorityCalcPeriod = 1, time.Hour, time.Minute
	var u usage
	u.reset(&s, nil)
	x := u.of("a", "x")
	u.starts(spell{job: 0, user: x, billing: 2, from: 0, to: never})
	u.ends(0, 30*time.Second)
	u.advance(time.Minute)
	if got := u.tree[x].usage; math.Abs(got-60) > .5 {
		t.Errorf("usage is %g after a minute, want 60 less a half-minute's decay", got)
	}
	u.advance(61 * time.Minute)
	if got := u.tree[x].usage; math.Abs(got-30) > .3 {
		t.Errorf("usage is %g an hour later, want half of 60", got)
	}
}

func setOf(nodes ...int) nodeSet {
	s := make(nodeSet, 2)
	for _, n := range nodes {
		s.add(n)
	}
	return s
}

// TestChoose: the first nodes of the shortest run that suffices, or the longest runs first.
func TestChoose(t *testing.T) {
	for _, tt := range []struct {
		nodes nodeSet
		n     int
		want  []int32
	}{
		{setOf(0, 1, 2, 4, 6, 7), 1, []int32{4}},
		{setOf(0, 1, 2, 4, 6, 7), 2, []int32{6, 7}},
		{setOf(0, 1, 2, 4, 6, 7), 4, []int32{0, 1, 2, 4}},
		{setOf(0, 1, 2, 4, 6, 7), 5, []int32{0, 1, 2, 6, 7}},
		{setOf(62, 63, 64, 65, 70, 71, 72), 4, []int32{62, 63, 64, 65}},
		{setOf(126, 127), 2, []int32{126, 127}},
	} {
		if got := nodeWeights(nil).choose(tt.nodes, nil, tt.n, nil); !slices.Equal(got, tt.want) {
			t.Errorf("%d of %b: %v, want %v", tt.n, tt.nodes, got, tt.want)
		}
	}
}

// later is the plain form of what usable returns: it walks all rows.
func (t *table) later(from, to time.Duration) (time.Duration, bool) {
	for i := int32(0); i >= 0; i = t.after[i] {
		if n := t.after[i]; n >= 0 && t.end[i] > from && !t.row(n).within(t.row(i)) {
			return t.end[i], true
		}
		if t.begin[i] > to {
			break
		}
	}
	return 0, false
}

// TestTable compares the table with a list of reservations.
func TestTable(t *testing.T) {
	type resv struct {
		nodes    nodeSet
		from, to time.Duration
	}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var tb table
		all := setOf(0, 1, 2, 3, 4, 5, 6, 7)
		tb.reset(0, 100*time.Second, 10*time.Second, all)
		var list []resv
		for range 10 {
			x := resv{setOf(r.IntN(8), r.IntN(8)), time.Duration(r.IntN(90)) * time.Second, 0}
			x.to = x.from + time.Duration(r.IntN(50))*time.Second
			tb.reserve(x.nodes, x.from, x.to)
			x.from = x.from.Truncate(10 * time.Second)
			x.to = max(x.to.Truncate(10*time.Second), x.from+10*time.Second)
			list = append(list, x)
		}
		for range 20 {
			from := time.Duration(r.IntN(90)) * time.Second
			to := min(from+time.Duration(1+r.IntN(40))*time.Second, 99*time.Second)
			got := slices.Clone(all)
			later, more := tb.usable(got, 0, tb.from(0, from), to)
			want := slices.Clone(all)
			for _, x := range list {
				if x.to > from && x.from <= to {
					want.minus(x.nodes)
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: usable from %v to %v: %b, want %b", seed, from, to, got, want)
			}
			if l, m := tb.later(from, to); l != later || m != more {
				t.Fatalf("seed %d: other nodes from %v on: %v, %v, want %v, %v", seed, from, later, more, l, m)
			}
			least := 1 + r.IntN(8)
			got = slices.Clone(all)
			l, m := tb.usable(got, least, tb.from(0, from), to)
			if l != later || m != more || want.count() >= least && !slices.Equal(got, want) ||
				want.count() < least && got.count() >= least {
				t.Fatalf("seed %d: at least %d usable from %v to %v: %b, %v, %v, want %b, %v, %v", seed, least,
					from, to, got, l, m, want, later, more)
			}
		}
	}
}

// TestWhen: running jobs that end close in time are removed together, and those elsewhere do not count.
func TestWhen(t *testing.T) {
	f := future{free: make([]int32, 128)}
	for i, ends := range []time.Duration{65, 100, 110, 400} {
		f.running = append(f.running, busy{id: simulator.ID(i), ends: ends * time.Second,
			at: []workload.NodeGPUs{{Node: i, GPUs: 8}}})
	}
	for _, tt := range []struct {
		nodes       nodeSet
		count, each int32
		want        int32
		ok          bool
	}{
		{setOf(0, 1, 2, 3), 1, 8, 2, true}, // up to 90 + 30 s
		{setOf(0, 1, 2, 3), 4, 8, 3, true},
		{setOf(1, 3), 1, 1, 3, true}, // the job after one that does not count is removed in any case
		{setOf(3), 1, 8, 3, true},
		{setOf(0, 1), 3, 8, 0, false},
		{setOf(0), 1, 9, 0, false},
	} {
		if got, ok := f.when(tt.nodes, tt.count, need{gpus: tt.each}); ok != tt.ok || ok && got != tt.want {
			t.Errorf("%d of %b with %d GPUs: job %d, %v, want %d, %v", tt.count, tt.nodes, tt.each, got, ok,
				tt.want, tt.ok)
		}
	}
}

// TestFutureOn: a running job is on a set of nodes if one of its places is.
func TestFutureOn(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 5))
		f := future{free: make([]int32, 1+r.IntN(200))}
		nodes := make(nodeSet, (len(f.free)+63)/64)
		for i := range 20 {
			f.running = append(f.running, busy{id: simulator.ID(i), ends: time.Duration(r.IntN(5))})
			for range 1 + r.IntN(3) {
				at := &f.running[i].at
				*at = append(*at, workload.NodeGPUs{Node: r.IntN(len(f.free)), GPUs: 1})
			}
			nodes.add(r.IntN(len(f.free)))
		}
		f.index()
		for i, b := range f.running {
			want := slices.ContainsFunc(b.at, func(a workload.NodeGPUs) bool { return nodes.has(a.Node) })
			if got := f.on(i, nodes); got != want {
				t.Fatalf("seed %d: %v is on %b: %v", seed, b.at, nodes, got)
			}
		}
	}
}

func TestClock(t *testing.T) {
	c := newClock(7, 10)
	for _, tt := range [][3]time.Duration{{6, longAgo, 7}, {7, 7, 7}, {8, 7, 17}, {17, 17, 17}} {
		if last, next := c.last(tt[0]), c.next(tt[0]); last != tt[1] || next != tt[2] {
			t.Errorf("at %d: last %d, next %d, want %v", tt[0], last, next, tt)
		}
	}
	if c = newClock(0, 10); c.last(-1) != -10 || c.next(-1) != 0 {
		t.Errorf("before 0: last %d, next %d", c.last(-1), c.next(-1))
	}
}

// TestSet: settings are read, and what is not simulated or out of range is refused by name.
func TestSet(t *testing.T) {
	got := Defaults()
	for _, line := range []string{"PriorityType=priority/basic", "PriorityWeightTRES=GRES/gpu=-60000,CPU=5",
		"PriorityMaxAge=0-00:05:30", "PriorityDecayHalfLife=14-0", "PriorityCalcPeriod=2", "PriorityFlags=NO_FAIR_TREE",
		"SchedulerParameters=bf_interval=-1,bf_max_job_user=3,defer,bf_continue", "PreemptType=preempt/qos"} {
		key, value, _ := strings.Cut(line, "=")
		if err := got.Set(key, value); err != nil {
			t.Error(err)
		}
	}
	want := Defaults()
	want.Basic, want.PriorityWeightGPU, want.PriorityWeightCPU, want.PriorityMaxAge = true, -60000, 5, 6*time.Minute
	want.PriorityDecayHalfLife, want.PriorityCalcPeriod = 14*24*time.Hour, 2*time.Minute
	want.NoFairTree, want.BFInterval, want.BFMaxJobUser, want.Defer, want.PreemptQOS = true, 0, 3, true, true
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for line, names := range map[string]string{"Epilog=x": "epilog", "SchedulerParameters=bf_busy_nodes": "bf_busy_nodes",
		"SchedulerParameters=bf_interval=0": "bf_interval", "SchedulerParameters=defer=no": "defer",
		"PriorityFlags=MAX_TRES": "MAX_TRES", "PriorityWeightAge=-1": "-1", "PriorityMaxAge=soon": "soon",
		"PriorityWeightTRES=GRES/foo=3": "GRES/foo", "PreemptMode=SUSPEND,GANG": "suspend,gang",
		"OverTimeLimit=65534": "65534", "OverTimeLimit=5 hours": "5 hours"} {
		key, value, _ := strings.Cut(line, "=")
		if err := got.Set(key, value); err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("%s: %v, want an error that names %s", line, err, names)
		}
	}
}

// TestNotSimulated: what a line has besides is set, and each item that is not simulated is named.
func TestNotSimulated(t *testing.T) {
	for line, c := range map[string]struct {
		not  []string
		want func(*Settings)
	}{
		"SchedulerParameters=BF_Busy_Nodes,BF_INTERVAL=7,preempt_reorder_count=3,,Defer": {
			[]string{"bf_busy_nodes", "preempt_reorder_count"},
			func(s *Settings) { s.BFInterval, s.Defer = 7*time.Second, true }},
		"schedulerparameters=Ignore_NUMA,reduce_completing_frag,bf_max_job_test=9": {
			nil, func(s *Settings) { s.BFMaxJobTest = 9 }},
		"SchedulerParameters=preempt_strict_order,pack_serial_at_end,bf_max_job_array_resv=5,bf_running_job_reserve," +
			"bf_hetjob_prio=min": {[]string{"preempt_strict_order", "pack_serial_at_end", "bf_max_job_array_resv",
			"bf_running_job_reserve", "bf_hetjob_prio"}, nil},
		"PriorityFlags=INCR_ONLY,no_fair_tree,SMALL_RELATIVE_TO_TIME,DEPTH_OBLIVIOUS": {
			[]string{"INCR_ONLY", "SMALL_RELATIVE_TO_TIME", "DEPTH_OBLIVIOUS"},
			func(s *Settings) { s.NoFairTree = true }},
		"PriorityWeightTRES=Mem=5,GRES/gpu=8":  {[]string{"Mem"}, func(s *Settings) { s.PriorityWeightGPU = 8 }},
		"SchedulerParameters=assoc_limit_stop": {[]string{"assoc_limit_stop"}, nil},
		"SelectTypeParameters=CR_Core,CR_LLN":  {[]string{"cr_lln"}, nil},
		"PriorityUsageResetPeriod=MONTHLY":     {[]string{"monthly"}, nil},
		"PreemptExemptTime=-1":                 {},
		"PreemptExemptTime=00:00:00":           {},
		"PreemptExemptTime=01:00:00":           {[]string{"01:00:00"}, nil},
		"CompleteWait=0 sec":                   {},
		"CompleteWait=32":                      {[]string{"completewait"}, nil},
		"OverTimeLimit=0 min":                  {},
		"OverTimeLimit=5 min":                  {nil, func(s *Settings) { s.OverTimeLimit = 5 * time.Minute }},
		"OverTimeLimit=Unlimited":              {nil, func(s *Settings) { s.OverTimeLimit = unlimited }},
		"PriorityFavorSmall=TRUE":              {nil, func(s *Settings) { s.PriorityFavorSmall = true }},
		"PriorityParameters=x":                 {[]string{"priorityparameters"}, nil},
	} {
		key, value, _ := strings.Cut(line, "=")
		got, want := Defaults(), Defaults()
		err := got.Set(key, value)
		var not NotSimulated
		if err != nil && !errors.As(err, &not) || len(not) != len(c.not) {
			t.Errorf("%s: %v, want %q", line, err, c.not)
			continue
		}
		for i, name := range c.not {
			if !strings.Contains(not[i], name) {
				t.Errorf("%s: %q, want %q", line, not[i], name)
			}
		}
		if c.want != nil {
			c.want(&want)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", line, d)
		}
	}
	s := Defaults()
	var not NotSimulated
	if err := s.Set("SchedulerParameters", "bf_busy_nodes,bf_interval=0"); err == nil || errors.As(err, &not) {
		t.Errorf("a value that Slurm does not accept: %v", err)
	}
}

// TestPreemptedAtOnce: a job of a higher tier that starts, and at the same instant makes room for one whose QOS may
// preempt it, is in the queue once.
func TestPreemptedAtOnce(t *testing.T) {
	cluster := workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 1, GPUsPerNode: 8, Partition: "a,b"}},
		Site: workload.Site{QOS: []workload.QOS{{Name: "high", Priority: 2, Preempt: []string{"low"}},
			{Name: "low", Priority: 1}},
			Partitions: []workload.Partition{{Name: "a", PriorityTier: 2}, {Name: "b", PriorityTier: 1}}}}
	var jobs []workload.Job
	for i, asks := range []workload.Request{{}, {Partition: "a", QOS: "low"}, {Partition: "b", QOS: "high"}} {
		asks.TimeLimit, asks.Requeue = 5*time.Minute, workload.RequeueRestarts
		jobs = append(jobs, workload.Job{ID: fmt.Sprint(i), Submit: time.Duration(i) * time.Second,
			GPUs: workload.GPUs(8), Duration: time.Minute, Requested: asks.Shared()})
	}
	w, err := workload.New("t", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	s := Defaults()
	s.PreemptQOS = true
	p := &policy{settings: s}
	var sim simulator.Sim
	if err := sim.Start(cluster, w, p, simulator.Options{}); err != nil {
		t.Fatal(err)
	}
	preempted := false
	for at := time.Second; at < 10*time.Minute; at += time.Second {
		if err := sim.RunUntil(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		for i, e := range p.queue {
			preempted = preempted || p.jobs[e.id].held
			if slices.ContainsFunc(p.queue[:i], func(o entry) bool { return o.id == e.id }) {
				t.Fatalf("at %v job %d waits twice", at, e.id)
			}
		}
	}
	if got := sim.Summarize(); !preempted || got.Jobs != 3 {
		t.Errorf("preempted is %v, %d jobs ended", preempted, got.Jobs)
	}
}

// TestOverTimeLimit: a job runs on beyond its limit, as the site's configuration has it, while backfill counts on the
// limit, and keeps the GPUs for the job that it is to make room for.
func TestOverTimeLimit(t *testing.T) {
	cluster := workload.Uniform(1, 8)
	cluster.Site.Settings = map[string]string{"OverTimeLimit": "2 min"}
	var jobs []workload.Job
	for i, x := range []struct {
		gpus       int
		run, limit time.Duration
	}{
		{6, 10 * time.Minute, 4 * time.Minute}, // killed 6 minutes after its start
		{8, time.Minute, 5 * time.Minute},
		{2, time.Minute, 3 * time.Minute},  // ends before the first one's limit
		{2, 3 * time.Minute, time.Hour},    // does not
		{8, time.Minute, 20 * time.Minute}, // behind it
	} {
		jobs = append(jobs, workload.Job{ID: fmt.Sprint(i), Submit: time.Duration(i) * time.Second,
			GPUs: workload.GPUs(x.gpus), Duration: x.run, Requested: workload.Request{TimeLimit: x.limit}.Shared()})
	}
	w, err := workload.New("t", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	sp, err := space.New(Space(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var sim simulator.Sim
	if err := sim.Start(cluster, w, New(sp.Default()), simulator.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := sim.Outcomes(nil)
	if first := out[0]; !first.TimedOut || first.End-first.Start != 6*time.Minute {
		t.Errorf("the first job ends %v after its start, killed %v", first.End-first.Start, first.TimedOut)
	}
	if out[2].Start > time.Minute || out[3].Start < out[1].End || out[1].Start < out[0].End {
		t.Errorf("%+v", out)
	}
}
