package slurm

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// TestNodeSet compares sets of nodes with lists of booleans.
func TestNodeSet(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 31))
		words := 1 + r.IntN(3)
		draw := func() (nodeSet, []bool) {
			s, plain := make(nodeSet, words), make([]bool, 64*words)
			dense := r.IntN(4)
			for n := range plain {
				if plain[n] = r.IntN(4) <= dense; plain[n] {
					s.add(n)
				}
			}
			return s, plain
		}
		a, x := draw()
		b, y := draw()
		both, left := slices.Clone(a), slices.Clone(a)
		both.and(b)
		left.minus(b)
		count, within := 0, true
		for n := range x {
			if x[n] {
				count++
			}
			within = within && (!x[n] || y[n])
			if a.has(n) != x[n] || both.has(n) != (x[n] && y[n]) || left.has(n) != (x[n] && !y[n]) {
				t.Fatalf("seed %d: node %d", seed, n)
			}
			next := slices.Index(x[n:], true)
			if next >= 0 {
				next += n
			}
			run := run{}
			if next >= 0 {
				run.first = next
				for m := next; m < len(x) && x[m]; m++ {
					run.nodes++
				}
			}
			if a.next(n) != next || a.nextRun(n) != run {
				t.Fatalf("seed %d: behind node %d comes %d and %+v, want %d and %+v", seed, n, a.next(n),
					a.nextRun(n), next, run)
			}
		}
		if a.count() != count || a.within(b) != within || !both.within(a) || a.next(len(x)) != -1 {
			t.Fatalf("seed %d: count %d, want %d; within %v, want %v", seed, a.count(), count, a.within(b), within)
		}
		if count == 0 {
			continue
		}
		n := 1 + r.IntN(count)
		if got, want := nodeWeights(nil).choose(a, nil, n, nil), plainChoose(x, n); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d of %v: %v, want %v", seed, n, a, got, want)
		}
	}
}

// plainChoose lists runs and takes the shortest that suffices, or the longest and again for the rest.
func plainChoose(nodes []bool, n int) []int32 {
	nodes = slices.Clone(nodes)
	var out []int32
	for n > 0 {
		var runs [][]int32
		for i, is := range nodes {
			if is && (i == 0 || !nodes[i-1]) {
				runs = append(runs, nil)
			}
			if is {
				runs[len(runs)-1] = append(runs[len(runs)-1], int32(i))
			}
		}
		slices.SortStableFunc(runs, func(a, b []int32) int {
			enoughA, enoughB := len(a) >= n, len(b) >= n
			switch {
			case enoughA != enoughB:
				return map[bool]int{true: -1, false: 1}[enoughA]
			case enoughA:
				return cmp.Compare(len(a), len(b))
			}
			return cmp.Compare(len(b), len(a))
		})
		for _, i := range runs[0][:min(n, len(runs[0]))] {
			out = append(out, i)
			nodes[i] = false
			n--
		}
	}
	return out
}

// TestClockStrikes compares a clock with a list of its strokes.
func TestClockStrikes(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 32))
		phase, interval := time.Duration(r.IntN(20)), time.Duration(1+r.IntN(15))
		c := newClock(phase, interval)
		for at := time.Duration(-30); at < 60; at++ {
			last, next := longAgo, never
			for k := time.Duration(-40); k < 90; k++ {
				stroke := phase + k*interval
				if phase > 0 && stroke < phase {
					continue
				}
				if stroke <= at {
					last = max(last, stroke)
				} else {
					next = min(next, stroke)
				}
			}
			if last == at {
				next = at
			}
			if c.last(at) != last || c.next(at) != next {
				t.Fatalf("phase %d, interval %d: at %d %d and %d, want %d and %d", phase, interval, at, c.last(at),
					c.next(at), last, next)
			}
		}
	}
	if c := newClock(5, 0); c.last(100) != longAgo || c.next(100) != never {
		t.Error("a clock without an interval strikes")
	}
}

// plainWhen removes the running jobs one by one, in groups that end within a window, and looks after each group whether
// enough nodes are free.
func plainWhen(f *future, nodes nodeSet, count, each int32) (int32, bool) {
	free := slices.Clone(f.free)
	on := func(i int) bool {
		return slices.ContainsFunc(f.running[i].at, func(a workload.NodeGPUs) bool { return nodes.has(a.Node) })
	}
	remove := func(i int) {
		for _, a := range f.running[i].at {
			free[a.Node] += int32(a.GPUs)
		}
	}
	fits := func() bool {
		n := int32(0)
		for i, gpus := range free {
			if nodes.has(i) && gpus >= each {
				n++
			}
		}
		return n >= count
	}
	first, lastOn := -1, -1
	for i := range f.running {
		if remove(i); on(i) {
			lastOn = i
			if first < 0 {
				first = i
			}
		}
	}
	if !fits() || first < 0 {
		return 0, false
	}
	free = slices.Clone(f.free)
	const step = 30 * time.Second
	base, window := f.running[first].ends.Truncate(step)+step, step
	for i, k := 0, first; k < len(f.running); {
		for base+window < f.running[k].ends {
			window *= 2
		}
		for i < len(f.running) { // up to the first one of the nodes behind which a later end comes
			remove(i)
			i++
			if on(i-1) && i > k && (i == len(f.running) || f.running[i].ends > base+window) {
				break
			}
		}
		if i == len(f.running) {
			break
		}
		if fits() {
			return int32(i - 1), true
		}
		for k = i; k < len(f.running) && !on(k); k++ {
		}
		window *= 2
	}
	return int32(lastOn), true
}

// TestWhenPlain compares the instant at which nodes get free with the removal of jobs one by one; the nodes are those
// that are free by then.
func TestWhenPlain(t *testing.T) {
	found := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 33))
		f := future{free: make([]int32, 6)}
		total := int32(8)
		left := []int32{8, 8, 8, 8, 8, 8}
		for i := range 1 + r.IntN(12) {
			b := busy{id: simulator.ID(i), ends: time.Duration(r.IntN(900)) * time.Second}
			for n := range left {
				if g := r.Int32N(total); r.IntN(3) == 0 && g > 0 && g <= left[n] {
					left[n] -= g
					b.at = append(b.at, workload.NodeGPUs{Node: n, GPUs: int(g)})
				}
			}
			if b.at != nil {
				f.running = append(f.running, b)
			}
		}
		slices.SortFunc(f.running, soon)
		copy(f.free, left)
		nodes := make(nodeSet, 1)
		for n := range left {
			if r.IntN(4) > 0 {
				nodes.add(n)
			}
		}
		for each := int32(1); each <= total+1; each++ {
			count := 1 + r.Int32N(5)
			enough := slices.Clone(nodes)
			for n, gpus := range f.free {
				if gpus < each && enough.has(n) {
					enough.remove(n)
				}
			}
			if enough.count() >= int(count) {
				continue // it fits now, and nothing is asked
			}
			got, ok := f.when(nodes, count, need{gpus: each})
			want, can := plainWhen(&f, nodes, count, each)
			if ok != can || ok && got != want {
				t.Fatalf("seed %d: %d of %b with %d GPUs: %d, %v, want %d, %v\n%+v", seed, count, nodes, each, got,
					ok, want, can, f.running)
			}
			if !ok {
				continue
			}
			found++
			kept := slices.Clone(nodes)
			f.until(kept, got, need{gpus: each})
			for n, gpus := range f.free {
				for _, b := range f.running[:got+1] {
					for _, a := range b.at {
						if a.Node == n {
							gpus += int32(a.GPUs)
						}
					}
				}
				if kept.has(n) != (nodes.has(n) && gpus >= each) {
					t.Fatalf("seed %d: node %d is kept: %v, with %d GPUs of %d", seed, n, kept.has(n), gpus, each)
				}
			}
		}
	}
	if found < 3000 {
		t.Errorf("%d instants were found", found)
	}
}

// tree draws accounts with users, all with usage.
func tree(r *rand.Rand) *shares {
	var accounts []workload.Account
	names := []string{""}
	for i := range 2 + r.IntN(6) {
		name := fmt.Sprint("a", i)
		accounts = append(accounts, workload.Account{Name: name, Parent: names[r.IntN(len(names))],
			Shares: float64(1 + r.IntN(9))})
		names = append(names, name)
		for u := range 1 + r.IntN(3) {
			accounts = append(accounts, workload.Account{Name: name, User: fmt.Sprint(name, "u", u),
				Shares: float64(1 + r.IntN(9))})
		}
	}
	s := &shares{}
	s.reset(accounts)
	for i := range s.tree {
		if s.tree[i].user != "" {
			s.charge(int32(i), 1+r.Int64N(1e12))
		}
	}
	s.tick(1)
	return s
}

// TestFairTreePlain: without ties the users are ranked depth first, each level by shares over usage.
func TestFairTreePlain(t *testing.T) {
	for seed := range uint64(200) {
		s := tree(rand.New(rand.NewPCG(seed, 34)))
		var order []int32
		var walk func(i int32)
		walk = func(i int32) {
			if s.tree[i].user != "" {
				order = append(order, i)
			}
			shares, usage := 0.0, s.tree[i].usage
			for _, c := range s.tree[i].children {
				shares += s.tree[c].shares
			}
			level := func(c int32) float64 { return s.tree[c].shares / shares / (s.tree[c].usage / usage) }
			children := slices.Clone(s.tree[i].children)
			slices.SortFunc(children, func(a, b int32) int { return cmp.Compare(level(b), level(a)) })
			for _, c := range children {
				walk(c)
			}
		}
		walk(0)
		s.fairTree()
		if len(order) != s.users {
			t.Fatalf("seed %d: %d users of %d", seed, len(order), s.users)
		}
		for i, user := range order {
			want := float64(s.users-i) / float64(s.users)
			if got := s.tree[user]; math.Abs(got.factor-want) > 1e-12 || int(got.rank) != s.users-i {
				t.Fatalf("seed %d: user %s has factor %g and rank %d, want %g and %d", seed, got.user, got.factor,
					got.rank, want, s.users-i)
			}
		}
	}
}

// TestMoreUsageNeverHelps: a user's factor falls with its usage, by either way of sharing, and the usage of an account
// is that of its children.
func TestMoreUsageNeverHelps(t *testing.T) {
	for seed := range uint64(100) {
		for name, calculate := range map[string]func(*shares){"fair tree": (*shares).fairTree,
			"classic": func(s *shares) { s.classic(1) }} {
			r := rand.New(rand.NewPCG(seed, 35))
			s := tree(r)
			calculate(s)
			user := int32(r.IntN(len(s.tree)))
			for s.tree[user].user == "" {
				user = (user + 1) % int32(len(s.tree))
			}
			before := s.tree[user].factor
			s.charge(user, 1e12)
			s.tick(1)
			calculate(s)
			if after := s.tree[user].factor; after > before+1e-12 || after < 0 || before > 1 {
				t.Fatalf("seed %d, %s: user %s had %g and has %g", seed, name, s.tree[user].user, before, after)
			}
			for i, a := range s.tree {
				sum := 0.0
				for _, c := range a.children {
					sum += s.tree[c].usage
				}
				if a.user == "" && math.Abs(sum-a.usage) > 1e-6*sum {
					t.Fatalf("seed %d: association %d has used %g, and its children %g", seed, i, a.usage, sum)
				}
			}
		}
	}
}

// TestUsagePlain compares usage with a sum over all spells at each tick, however far a call advances.
func TestUsagePlain(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 36))
		s := Defaults()
		s.PriorityWeightFairshare, s.PriorityCalcPeriod = 1, time.Duration(1+r.IntN(5))*time.Minute
		s.PriorityDecayHalfLife = time.Duration(r.IntN(3)) * time.Hour
		var u usage
		u.reset(&s, nil)
		x := u.of("a", "x")
		var spells []spell
		for i := range 1 + r.IntN(6) {
			from := time.Duration(r.IntN(3600)) * time.Second
			b := spell{job: int32(i), user: x, billing: 1 + r.Int64N(9), from: from,
				to: from + time.Duration(r.IntN(3600))*time.Second}
			spells = append(spells, b)
			running := b
			running.to = never
			u.starts(running)
			u.ends(b.job, b.to)
		}
		end := 3 * time.Hour
		for at := time.Duration(0); at < end; {
			at += time.Duration(1+r.IntN(3000)) * time.Second
			u.advance(min(at, end))
		}
		perSecond := 1.0
		if s.PriorityDecayHalfLife > 0 {
			perSecond = 1 - .693/s.PriorityDecayHalfLife.Seconds()
		}
		want := 0.0
		for at := s.PriorityCalcPeriod; at <= end; at += s.PriorityCalcPeriod {
			want *= math.Pow(perSecond, s.PriorityCalcPeriod.Seconds())
			for _, b := range spells {
				if ran := (min(b.to, at) - max(b.from, at-s.PriorityCalcPeriod)).Seconds(); ran > 0 {
					want += ran * math.Pow(perSecond, ran) * float64(b.billing)
				}
			}
		}
		if got := u.tree[x].usage; math.Abs(got-want) > 1e-6*want+1e-6 {
			t.Fatalf("seed %d: usage is %g, want %g", seed, got, want)
		}
	}
}

// TestPartitionLimits: a job has its own limit, else that of its partition, else none; a second of it is charged as the
// weights of the partition say.
func TestPartitionLimits(t *testing.T) {
	for _, c := range []struct {
		partition workload.Partition
		request   workload.Request
		want      int64 // billing of 4 GPUs
	}{
		{workload.Partition{}, workload.Request{}, 4},
		{workload.Partition{}, workload.Request{NodeCount: 2}, 2},
		{workload.Partition{}, workload.Request{MilliCPUs: 6000}, 6},
		{workload.Partition{BillingGPU: 2}, workload.Request{MilliCPUs: 6000}, 8},
		{workload.Partition{BillingGPU: 2, BillingCPU: .5}, workload.Request{MilliCPUs: 6000}, 11},
	} {
		p := partition{Partition: c.partition, size: size{rationed: true}}
		if got := p.billing(c.request, 4); got != c.want {
			t.Errorf("%+v: %d a second, want %d", c, got, c.want)
		}
	}
	for want, c := range map[time.Duration]struct {
		partition workload.Partition
		request   workload.Request
	}{
		time.Hour:        {workload.Partition{DefaultMinutes: 5}, workload.Request{TimeLimit: time.Hour}},
		5 * time.Minute:  {workload.Partition{DefaultMinutes: 5, MaxMinutes: 50}, workload.Request{}},
		50 * time.Minute: {workload.Partition{MaxMinutes: 50}, workload.Request{}},
		unlimited:        {},
	} {
		c.partition.Name, c.request.Partition = "p", "p"
		jobs := []workload.Job{{ID: "0", GPUs: workload.GPUs(1), Duration: time.Minute, Requested: c.request.Shared()}}
		w, err := workload.New("t", time.Time{}, jobs)
		if err != nil {
			t.Fatal(err)
		}
		cluster := workload.Uniform(1, 1)
		cluster.Site.Partitions = []workload.Partition{c.partition}
		p := NewPolicy(Defaults()).(*policy)
		var sim simulator.Sim
		if err := sim.Start(cluster, w, p, simulator.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := sim.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := p.jobs[0].limit; got != want {
			t.Errorf("%+v: limit %v, want %v", c, got, want)
		}
	}
}

// TestMembers: in twelve members each clock strikes in each twelfth of its interval once, in whole seconds within it.
func TestMembers(t *testing.T) {
	sp, err := space.New(Space(), Rules())
	if err != nil {
		t.Fatal(err)
	}
	members, scale := Members(sp.Default())
	s := Of(sp.Default())
	if len(members) != 12 || scale != max(s.BFInterval, s.SchedInterval) {
		t.Errorf("%d members of scale %v", len(members), scale)
	}
	strokes := [3]map[time.Duration]bool{{}, {}, {}}
	epilogs := map[time.Duration]int{}
	for _, m := range members {
		phases := m.Policy.(*policy).shares.phases(&s)
		for i, x := range []struct{ at, interval time.Duration }{{phases.Backfill, s.BFInterval},
			{phases.Full, s.SchedInterval}, {phases.Tick, s.PriorityCalcPeriod}} {
			if x.at <= 0 || x.at > x.interval || x.at%time.Second != 0 {
				t.Errorf("a clock of %v strikes at %v", x.interval, x.at)
			}
			strokes[i][12*x.at/x.interval] = true
		}
		epilogs[m.Epilog]++
	}
	for i, twelfths := range strokes {
		if len(twelfths) != 12 {
			t.Errorf("clock %d strikes in %d twelfths", i, len(twelfths))
		}
	}
	if epilogs[0] != 6 || epilogs[time.Second] != 6 {
		t.Errorf("epilogs are %v", epilogs)
	}
}
