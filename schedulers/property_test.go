package schedulers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// TestProperties checks the invariants of every scheduler, whatever its
// configuration, on any workload. The observer sees every start and stop; a ledger
// of GPUs is kept from that alone and compared with the simulator's reports.
func TestProperties(t *testing.T) {
	forEach(t, func(t *rapid.T, c trial, used *simulator.Sim) {
		sim := new(simulator.Sim)
		r, err := c.run(sim)
		sameBytes(t, c, r, err, used)
		observerSeesLives(t, c, r)
		if err != nil {
			namesUnfinishedJob(t, c, r, err)
			t.Skip("the run failed")
		}
		everyJobEnds(t, c, r, sim)
		gpusNeverOversubscribed(t, c, r)
		gangsWhole(t, c, r)
		workConserved(t, c, r)
	})
}

func gpusNeverOversubscribed(t *rapid.T, c trial, r *record) {
	perNode := make([]int, c.cluster.Nodes())
	used := 0
	r.replay(func(at time.Duration) {
		if used > c.cluster.TotalGPUs() {
			t.Fatalf("at %v: %d GPUs in use of %d", at, used, c.cluster.TotalGPUs())
		}
		for n, g := range perNode {
			if most := c.groupOf(n).GPUsPerNode; g > most {
				t.Fatalf("at %v: node %d has %d GPUs in use of %d", at, n, g, most)
			}
		}
	}, func(s spell, sign int) {
		if s.partner >= 0 && s.partner < s.job {
			return // counted with its partner
		}
		used += sign * s.held
		for _, p := range s.seats {
			perNode[p.Node] += sign * p.GPUs
		}
	})
	if used != 0 {
		t.Fatalf("%d GPUs are in use after the last job", used)
	}
}

// gangsWhole: all GPUs of a job are on nodes of one group, which has the model and
// the partition that the job asks for.
func gangsWhole(t *rapid.T, c trial, r *record) {
	if c.opts.Placement == simulator.Count {
		return // there are no nodes to look at
	}
	for _, s := range r.spells {
		sum, nodes, job := 0, map[int]bool{}, c.job(s.job)
		for _, p := range s.seats {
			if p.GPUs <= 0 || nodes[p.Node] {
				t.Fatalf("%s is placed on %v", job.ID, s.seats)
			}
			nodes[p.Node] = true
			sum += p.GPUs
			g, asks := c.groupOf(p.Node), job.Request()
			if g != c.groupOf(s.seats[0].Node) || asks.GPUModel != "" && asks.GPUModel != g.GPUModel ||
				asks.Partition != "" && asks.Partition != g.Partition {
				t.Fatalf("%s asks for model %q and partition %q and runs on %v of %v",
					job.ID, asks.GPUModel, asks.Partition, s.seats, c.cluster)
			}
		}
		if sum != s.held {
			t.Fatalf("%s holds %d GPUs and runs on %v", c.job(s.job).ID, s.held, s.seats)
		}
	}
}

// workConserved: held time is work at the speed of the place, plus restarts, and
// every GPU-second that was held is accounted for.
func workConserved(t *rapid.T, c trial, r *record) {
	held := make([]time.Duration, c.w.Len())
	restart := make([]time.Duration, c.w.Len())
	done := make([]float64, c.w.Len()) // work, in nanoseconds
	service := make([]time.Duration, c.w.Len())
	uneven := make([]bool, c.w.Len())
	for _, s := range r.spells {
		length := s.to - s.from
		idle := max(0, min(s.to, s.ready)-s.from)
		held[s.job] += length
		restart[s.job] += idle
		service[s.job] += length * time.Duration(s.held)
		if c.opts.Peer.RestartOutsideService {
			service[s.job] -= idle * time.Duration(s.held)
		}
		done[s.job] += float64(length-idle) * s.rate(c, defaultModels)
		if s.lost {
			restart[s.job] += time.Duration(done[s.job])
			done[s.job] = 0
		}
		uneven[s.job] = uneven[s.job] || s.rate(c, defaultModels) != 1
	}
	for _, o := range r.outcomes {
		job := c.job(o.ID)
		id := job.ID
		// Progress at another speed than 1 is rounded to a nanosecond whenever it
		// is counted, at most twice per event.
		slack := 0.0
		if uneven[o.ID] {
			slack = float64(2*r.events + 2)
		}
		if math.Abs(done[o.ID]-float64(job.Duration)) > slack {
			t.Fatalf("%s did %v of work and has %v", id, time.Duration(done[o.ID]), job.Duration)
		}
		if off := o.Restart - restart[o.ID]; max(off, -off) > time.Duration(slack) {
			t.Fatalf("%s restarted for %v, reported as %v", id, restart[o.ID], o.Restart)
		}
		if o.Attained != service[o.ID] {
			t.Fatalf("%s held GPUs for %v, %v of service, reported as %v", id, held[o.ID], service[o.ID], o.Attained)
		}
		end := o.End
		if c.opts.Peer.RestartOutsideJCT {
			end += o.Restart
		}
		if o.Submit+o.Wait+held[o.ID] != end {
			t.Fatalf("%s: submitted %v, waited %v and held GPUs for %v, but ended at %v",
				id, o.Submit, o.Wait, held[o.ID], end)
		}
	}
}

func everyJobEnds(t *rapid.T, c trial, r *record, sim *simulator.Sim) {
	if len(r.outcomes) != c.w.Len() || !sim.Done() {
		t.Fatalf("%d of %d jobs ended and the run is content", len(r.outcomes), c.w.Len())
	}
	for _, o := range r.outcomes {
		if job := c.job(o.ID); o.Start < job.Submit || o.End < o.Start+job.Duration && !r.more[o.ID] {
			t.Fatalf("%s (submitted %v, duration %v) ran from %v to %v",
				job.ID, job.Submit, job.Duration, o.Start, o.End)
		}
	}
}

// namesUnfinishedJob: the error of a run says which job could not end.
func namesUnfinishedJob(t *rapid.T, c trial, r *record, err error) {
	if errors.Is(err, simulator.ErrBudget) && c.config.Get("starve_limit").Float() == 0 {
		t.Fatalf("nothing is promoted, so nothing may go round in circles: %v", err)
	}
	ended := map[string]bool{}
	for _, o := range r.outcomes {
		ended[c.job(o.ID).ID] = true
	}
	for _, job := range c.w.Jobs() {
		if strings.Contains(err.Error(), fmt.Sprintf("job %q", job.ID)) && !ended[job.ID] {
			return
		}
	}
	t.Fatalf("the error names no unfinished job: %v", err)
}

// sameBytes: the same inputs give the same bytes with fresh and with used memory.
func sameBytes(t *rapid.T, c trial, first *record, err error, used *simulator.Sim) {
	for name, sim := range map[string]*simulator.Sim{"fresh": new(simulator.Sim), "used": used} {
		again, errAgain := c.run(sim)
		if fmt.Sprint(err) != fmt.Sprint(errAgain) {
			t.Fatalf("a run ended with %v, with %s memory with %v", err, name, errAgain)
		}
		if !bytes.Equal(first.bytes(), again.bytes()) {
			t.Fatalf("a run with %s memory differs", name)
		}
	}
}

// observerSeesLives: a job is submitted, started, then stopped and resumed in
// turn, and finished, at instants that never go back.
func observerSeesLives(t *rapid.T, c trial, r *record) {
	next := map[workload.EventKind][]workload.EventKind{
		workload.EventUnknown: {workload.Submitted},
		workload.Submitted:    {workload.Started},
		workload.Started:      {workload.Resized, workload.Preempted, workload.Finished},
		workload.Preempted:    {workload.Resumed},
		workload.Resumed:      {workload.Resized, workload.Preempted, workload.Finished},
		workload.Resized:      {workload.Resized, workload.Preempted, workload.Finished},
	}
	last := make([]workload.EventKind, c.w.Len())
	preemptions := make([]int, c.w.Len())
	now := time.Duration(math.MinInt64)
	for _, e := range r.seen {
		if e.Time < now || !slices.Contains(next[last[e.Job]], e.Kind) {
			t.Fatalf("%s: %v at %v after %v at %v", c.job(e.Job).ID, e.Kind, e.Time, last[e.Job], now)
		}
		last[e.Job], now = e.Kind, e.Time
		if e.Kind == workload.Preempted {
			preemptions[e.Job]++
		}
	}
	for _, o := range r.outcomes {
		if last[o.ID] != workload.Finished || preemptions[o.ID] != o.Preemptions {
			t.Fatalf("%s: last seen %v, %d times stopped, reported as %d",
				c.job(o.ID).ID, last[o.ID], preemptions[o.ID], o.Preemptions)
		}
	}
}

// TestMoreGPUsNeverLater: under strict FIFO with a GPU counter, no job starts
// later on a larger cluster. With backfilling, or where nodes fragment, it may.
func TestMoreGPUsNeverLater(t *testing.T) {
	testshared.Full(t)
	fifo, err := schedulers.Find("fifo")
	if err != nil {
		t.Fatal(err)
	}
	config, err := fifo.Space.Parse(fifo.Space.Default(), []string{"backfill=false"})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		c := trial{scheduler: fifo, config: config, cluster: drawCluster(t),
			opts: simulator.Options{Placement: simulator.Count}}
		c.w = drawWorkload(t, c.cluster)
		if rapid.Bool().Draw(t, "rounds") {
			c.opts.Round = time.Minute
		}
		few, err := c.run(new(simulator.Sim))
		if err != nil {
			t.Fatal(err)
		}
		c.cluster.Groups = []workload.NodeGroup{{Nodes: c.cluster.Nodes() + uniform(1, 3).Draw(t, "more nodes"),
			GPUsPerNode: c.cluster.GPUsPerNode()}}
		many, err := c.run(new(simulator.Sim))
		if err != nil {
			t.Fatal(err)
		}
		for i := range few.outcomes {
			if few.outcomes[i].Start < many.outcomes[i].Start {
				t.Fatalf("%s starts at %v, with more GPUs at %v",
					c.job(few.outcomes[i].ID).ID, few.outcomes[i].Start, many.outcomes[i].Start)
			}
		}
	})
}

var defaultModels = simulator.DefaultModels()

// trial is one run to make.
type trial struct {
	scheduler *schedulers.Scheduler
	config    space.Config
	cluster   workload.Cluster
	w         *workload.Workload
	opts      simulator.Options
	watch     func(simulator.Event)
	stalls    *int // of runs of a simulator.Stallable; nil is not counted
}

func (c *trial) job(id simulator.ID) *workload.Job { return &c.w.Jobs()[id] }
func (c *trial) width(id simulator.ID) int         { return c.job(id).GPUs.Whole() }

// record is an observation of a run.
type record struct {
	spells   []spell // in order of their begin
	more     []bool  // by job: it had more GPUs than it asks for
	outcomes []simulator.Outcome
	summary  simulator.Summary
	events   int
	seen     []simulator.Event
}

// spell is a time for which a job held the same GPUs, alone or with the same
// partner.
type spell struct {
	job      simulator.ID
	from, to time.Duration
	ready    time.Duration // from when it made progress
	held     int
	partner  simulator.ID // -1 for none
	share    float64      // of its speed alone, beside a partner
	lost     bool         // with all progress before
	seats    []workload.NodeGPUs
}

// rate is the speed of progress at the spell's place.
func (s *spell) rate(c trial, models *simulator.Models) float64 {
	class := slices.IndexFunc(models.Classes, func(m simulator.Class) bool { return m.Name == c.job(s.job).Model })
	rate := 1.0
	if _, scatters := c.scheduler.New(c.config).(simulator.Scattered); len(s.seats) > 0 && !scatters {
		perNode := c.groupOf(s.seats[0].Node).GPUsPerNode
		if fewest := (s.held + perNode - 1) / perNode; len(s.seats) > fewest {
			rate /= models.Classes[class].Slowdown
		}
	}
	if s.partner >= 0 {
		rate *= s.share
	}
	if asked := c.width(s.job); s.held != asked {
		rate *= models.Speed(class, s.held) / models.Speed(class, asked)
	}
	return rate
}

func (c *trial) run(sim *simulator.Sim) (*record, error) {
	r := &record{more: make([]bool, c.w.Len())}
	open := make([]int, c.w.Len()) // the job's present spell, plus one
	begin := func(id simulator.ID, at, ready time.Duration) {
		held := sim.JobHeld(id)
		s := spell{job: id, from: at, ready: ready, held: held, partner: sim.JobPartner(id),
			seats: sim.Placement(nil, id)}
		if s.partner >= 0 {
			s.share, _ = sim.PairSpeeds(id, s.partner)
		}
		r.spells = append(r.spells, s)
		r.more[id] = r.more[id] || held > c.width(id)
		open[id] = len(r.spells)
	}
	end := func(id simulator.ID, at time.Duration) spell {
		s := &r.spells[open[id]-1]
		s.to = at
		return *s
	}
	opts := c.opts
	opts.Observer = func(e simulator.Event) {
		if c.watch != nil {
			c.watch(e)
		}
		if e.Kind.OfNode() {
			return
		}
		r.seen = append(r.seen, e)
		switch e.Kind {
		case workload.Started, workload.Resumed, workload.Resized:
			ready := e.Time
			anew := open[e.Job] > 0 && r.spells[open[e.Job]-1].lost && e.Kind == workload.Resumed
			if e.Kind != workload.Started && !c.opts.Peer.NoRestartCost && !anew {
				ready += defaultModels.Restart(sim.JobHeld(e.Job), 0)
			}
			if e.Kind == workload.Resized {
				end(e.Job, e.Time)
			}
			begin(e.Job, e.Time, ready)
			if with := sim.JobPartner(e.Job); with >= 0 {
				begin(with, e.Time, end(with, e.Time).ready)
			}
		case workload.Preempted, workload.Finished:
			r.spells[open[e.Job]-1].lost = e.Lost && e.Kind == workload.Preempted
			if with := end(e.Job, e.Time).partner; with >= 0 {
				begin(with, e.Time, end(with, e.Time).ready)
			}
		}
	}
	if err := sim.Start(c.cluster, c.w, c.scheduler.New(c.config), opts); err != nil {
		return r, err
	}
	err := sim.Run(context.Background())
	r.outcomes, r.summary, r.events = sim.Outcomes(nil), sim.Summarize(), sim.Events()
	return r, err
}

// replay moves every spell's GPUs in and out, in order of time, and calls
// settled after each instant: within one, a start may be reported before the
// stop that makes room for it.
func (r *record) replay(settled func(time.Duration), move func(spell, int)) {
	ends := map[time.Duration][]spell{}
	begins := map[time.Duration][]spell{}
	var instants []time.Duration
	for _, s := range r.spells {
		begins[s.from] = append(begins[s.from], s)
		ends[s.to] = append(ends[s.to], s)
		instants = append(instants, s.from, s.to)
	}
	slices.Sort(instants)
	for _, at := range slices.Compact(instants) {
		for _, s := range ends[at] {
			move(s, -1)
		}
		for _, s := range begins[at] {
			move(s, +1)
		}
		settled(at)
	}
}

func (r *record) bytes() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%+v\n%+v\n%+v\n%d\n", r.seen, r.outcomes, r.summary, r.events)
	return b.Bytes()
}

// forEach checks a property of every scheduler on random trials. The simulation it
// is given is used by all trials of the scheduler, and was used by another before.
func forEach(t *testing.T, property func(*rapid.T, trial, *simulator.Sim)) {
	for i, s := range schedulers.All {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			other := schedulers.All[(i+1)%len(schedulers.All)]
			c := rapid.Custom(func(t *rapid.T) trial { return drawTrial(t, other) }).Example(1)
			used := new(simulator.Sim)
			if _, err := c.run(used); err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) { property(t, drawTrial(t, s), used) })
		})
	}
}

func drawTrial(t *rapid.T, s *schedulers.Scheduler) trial {
	c := trial{scheduler: s, config: drawConfig(t, s.Space), cluster: drawGroups(t)}
	c.w = drawWorkload(t, c.cluster)
	c.opts = simulator.Options{
		Placement: []simulator.Placement{simulator.ConsolidateFewest, simulator.ConsolidateWhole, simulator.Count,
			simulator.FirstFit}[uniform(0, 3).Draw(t, "placement")],
		Round: []time.Duration{0, 0, 30 * time.Second, 5 * time.Minute}[uniform(0, 3).Draw(t, "round")],
		Peer: simulator.Peer{
			NoRestartCost:         rapid.Bool().Draw(t, "no restart cost"),
			RestartOutsideJCT:     rapid.Bool().Draw(t, "restart outside JCT"),
			RestartOutsideService: rapid.Bool().Draw(t, "restart outside service"),
			QuotaOnly:             rapid.Bool().Draw(t, "quota only"),
		},
	}
	if len(c.cluster.Groups) > 1 && c.opts.Placement == simulator.Count {
		c.opts.Placement = simulator.ConsolidateFewest
	}
	drawQuotas(t, &c)
	return c
}

// drawQuotas gives every other trial virtual clusters; strict ones can hold the
// widest jobs.
func drawQuotas(t *rapid.T, c *trial) {
	if rapid.Bool().Draw(t, "one pool") {
		return
	}
	jobs := slices.Clone(c.w.Jobs())
	for i := range jobs {
		jobs[i].Tenant = string(rune('a' + uniform(0, 3).Draw(t, "tenant")))
	}
	var err error
	if c.w, err = workload.New("tenants", c.w.Zero(), jobs); err != nil {
		t.Fatal(err)
	}
	c.opts.Quota = simulator.QuotaBorrow
	left := c.cluster.TotalGPUs()
	for _, tenant := range []string{"a", "b", "c"} { // d has none
		gpus := uniform(0, left).Draw(t, "quota")
		left -= gpus
		c.cluster.VCs = append(c.cluster.VCs,
			workload.VC{Tenant: tenant, GPUs: gpus, Weight: float64(uniform(0, 2).Draw(t, "weight"))})
	}
	if !rapid.Bool().Draw(t, "strict") {
		return
	}
	c.opts.Quota = simulator.QuotaStrict
	for i := range jobs {
		most := left
		for _, v := range c.cluster.VCs {
			if v.Tenant == jobs[i].Tenant {
				most += v.GPUs
			}
		}
		if jobs[i].GPUs.Whole() > most {
			c.opts.Quota = simulator.QuotaBorrow
		}
	}
}

// drawConfig draws from all of a space.
func drawConfig(t *rapid.T, s *space.Space) space.Config {
	x := make([]float64, s.Dims())
	for i := range x {
		x[i] = float64(uniform(0, 1000).Draw(t, s.Dim(i).Param)) / 1000
	}
	return s.Decode(x)
}

func drawCluster(t *rapid.T) workload.Cluster {
	return workload.Uniform(uniform(1, 6).Draw(t, "nodes"), 1<<uniform(0, 3).Draw(t, "GPUs per node, log 2"))
}

// drawGroups draws clusters of one group or, every other, of several.
func drawGroups(t *rapid.T) workload.Cluster {
	c := drawCluster(t)
	if rapid.Bool().Draw(t, "one group") {
		return c
	}
	for range uniform(1, 2).Draw(t, "more groups") {
		c.Groups = append(c.Groups, drawCluster(t).Groups...)
	}
	for i := range c.Groups {
		c.Groups[i].GPUModel = []string{"", "A100", "V100"}[uniform(0, 2).Draw(t, "GPU model")]
		c.Groups[i].Partition = []string{"", "batch"}[uniform(0, 1).Draw(t, "partition")]
	}
	return c
}

// groupOf is the group of a node.
func (c *trial) groupOf(node int) *workload.NodeGroup {
	return &c.cluster.Groups[c.cluster.GroupOf(node)]
}

// drawWorkload draws gangs of all sizes that fit, with ties, bursts and quiet
// times; some ask for a fraction of a GPU, and some for a kind of node.
func drawWorkload(t *rapid.T, c workload.Cluster) *workload.Workload {
	classes := defaultModels.Classes
	jobs := make([]workload.Job, uniform(1, 40).Draw(t, "jobs"))
	at := time.Duration(uniform(-1000, 1000).Draw(t, "begin")) * time.Second
	gap := uniform(0, 3000).Draw(t, "longest gap")
	for i := range jobs {
		at += time.Duration(max(0, uniform(-gap, gap).Draw(t, "gap"))) * time.Second
		group := &c.Groups[0]
		var request workload.Request
		if len(c.Groups) > 1 {
			group = &c.Groups[uniform(0, len(c.Groups)-1).Draw(t, "group")]
			if rapid.Bool().Draw(t, "asks for the model") {
				request.GPUModel = group.GPUModel
			}
			if rapid.Bool().Draw(t, "asks for the partition") {
				request.Partition = group.Partition
			}
		}
		most := group.Nodes * group.GPUsPerNode
		gpus := workload.GPUs(uniform(1, most).Draw(t, "GPUs"))
		if uniform(0, 2).Draw(t, "small") > 0 {
			gpus = workload.MilliGPU(uniform(1, 1000*min(8, most)).Draw(t, "milli-GPUs"))
		}
		work := time.Duration(uniform(1, 20000).Draw(t, "seconds")) * time.Second
		switch uniform(0, 7).Draw(t, "odd") {
		case 6:
			work = time.Duration(uniform(1, 1000).Draw(t, "nanoseconds"))
		case 7:
			work += time.Duration(uniform(1, int(time.Second)).Draw(t, "nanoseconds"))
		}
		jobs[i] = workload.Job{ID: fmt.Sprintf("job-%d", i), Submit: at, Duration: work, GPUs: gpus,
			Requested: request.Shared(), Model: classes[uniform(0, len(classes)-1).Draw(t, "model")].Name}
	}
	w, err := workload.New("random", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// uniform draws whole numbers evenly. Rapid's prefer the edges, which
// makes nearly idle clusters and configurations with everything off.
func uniform(low, high int) *rapid.Generator[int] {
	n := uint64(high - low + 1)
	bit := rapid.Bool()
	return rapid.Custom(func(t *rapid.T) int {
		v := uint64(0)
		for range bits.Len64(n) + 4 {
			v <<= 1
			if bit.Draw(t, "bit") {
				v |= 1
			}
		}
		return low + int(v%n)
	})
}

// TestBudgetEndsARun: a run that needs more events than it may is an error of
// its own kind.
func TestBudgetEndsARun(t *testing.T) {
	forEach(t, func(t *rapid.T, c trial, _ *simulator.Sim) {
		c.opts.EventBudget = uniform(1, c.w.Len()).Draw(t, "budget")
		if _, err := c.run(new(simulator.Sim)); !errors.Is(err, simulator.ErrBudget) {
			t.Fatalf("%d jobs within %d events: %v", c.w.Len(), c.opts.EventBudget, err)
		}
	})
}
