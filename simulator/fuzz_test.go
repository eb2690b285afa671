package simulator_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// supply gives numbers from fuzzed bytes, zeros when they are used up.
type supply []byte

func (b *supply) upTo(n int) int {
	v := 0
	for k := n; k > 0; k >>= 8 {
		v <<= 8
		if len(*b) > 0 {
			v |= int((*b)[0])
			*b = (*b)[1:]
		}
	}
	return v % (n + 1)
}

func (b *supply) bool() bool { return b.upTo(1) == 1 }

// whim is a policy that starts, stops, exchanges and sets alarms as its bytes
// say, and once they are used up starts whatever fits.
type whim struct {
	supply
	s    *simulator.View
	plan *simulator.Plan
}

func (p *whim) Reset(v *simulator.View, plan *simulator.Plan) { p.s, p.plan = v, plan }
func (p *whim) Admit(simulator.ID, simulator.Seen)            {}
func (p *whim) Finish(simulator.ID)                           {}
func (p *whim) Quantum(simulator.ID)                          {}
func (p *whim) soon() time.Duration {
	return p.s.Now() + time.Duration(p.upTo(4000)-1000)*time.Second
}
func (p *whim) Report(j simulator.ID) simulator.Seen { return simulator.Seen{HasLevel: true} }

func (p *whim) Plan(plan *simulator.Plan) {
	if len(p.supply) == 0 {
		for id := range p.s.Submitted() {
			if p.s.JobActive(id) && !p.s.JobRunning(id) {
				plan.Start(id)
			}
		}
		return
	}
	p.plan.WakeAt(p.soon())
	var stop, start []simulator.ID
	for id := range p.s.Submitted() {
		if !p.s.JobActive(id) {
			continue
		}
		switch p.upTo(7) {
		case 0:
			p.plan.AllowSpread(id, p.bool())
		case 1, 2:
			if !p.s.JobRunning(id) {
				plan.Start(id)
			}
		case 3:
			if p.s.JobRunning(id) {
				plan.Preempt(id)
			}
		case 4:
			if p.s.JobRunning(id) {
				p.plan.SetQuantum(id, p.soon())
			}
		case 5, 6:
			if p.s.JobRunning(id) {
				stop = append(stop, id)
			} else {
				start = append(start, id)
			}
		}
	}
	plan.Exchange(stop, start)
}

// FuzzRun simulates any workload from any state under any options and a policy that
// does as it likes: the run ends, gives all GPUs back, and every GPU-second is
// work or restart.
func FuzzRun(f *testing.F) {
	f.Add([]byte("a few bytes make a small run"), []byte("and others a policy"), false)
	f.Add([]byte{3, 7, 0, 1, 2, 200, 9, 0, 5, 1, 1, 1, 250, 4, 60, 7, 30, 8, 90, 1, 20},
		[]byte{5, 5, 5, 5, 1, 1, 1, 3, 3, 3, 0, 0, 1, 9, 7, 5, 3, 200, 100, 1, 1, 1}, true)
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, []byte{}, true)
	f.Add([]byte{}, []byte{255, 0, 255, 0}, true)
	f.Fuzz(func(t *testing.T, input, whims []byte, resume bool) {
		b := supply(input)
		c := workload.Uniform(1+b.upTo(7), 1+b.upTo(15))
		o := simulator.Options{
			Placement: simulator.Placement(b.upTo(2)), Round: time.Duration(b.upTo(600)) * time.Second / 2,
			EventBudget: b.upTo(1000),
			Peer:        simulator.Peer{NoRestartCost: b.bool(), RestartOutsideService: b.bool(), QuotaOnly: b.bool()},
		}
		var state *workload.State
		var left []time.Duration
		work := map[string]time.Duration{}
		before := map[string]time.Duration{} // attained before the run
		if resume {
			state = &workload.State{At: time.Duration(b.upTo(100_000)-50_000) * time.Second, Cluster: c}
			for i := range b.upTo(10) {
				spell := time.Duration(b.upTo(5000)) * time.Second
				a := workload.ActiveJob{Job: workload.Job{ID: fmt.Sprintf("active-%d", i),
					GPUs: workload.MilliGPU(1 + b.upTo(1000*c.TotalGPUs()-1)), Model: model(&b)},
					Running: b.bool(), Since: state.At - spell, Starts: b.upTo(2),
					Attained: time.Duration(b.upTo(1000)) * time.Second}
				a.Submit = a.Since - time.Duration(b.upTo(5000))*time.Second
				for range b.upTo(3) {
					a.Placement = append(a.Placement,
						workload.NodeGPUs{Node: b.upTo(c.Nodes()+1) - 1, GPUs: b.upTo(c.GPUsPerNode() + 1)})
				}
				state.Jobs = append(state.Jobs, a)
				left = append(left, time.Duration(b.upTo(10_000))*time.Second)
				work[a.ID], before[a.ID] = max(1, left[i]), a.Attained
			}
		}
		var arrivals []workload.Job
		at := time.Duration(b.upTo(1000)) * time.Second
		if state != nil {
			at += state.At
		}
		for i := range 1 + b.upTo(15) {
			at += time.Duration(b.upTo(3000)) * time.Second
			j := workload.Job{ID: fmt.Sprintf("new-%d", i), Submit: at,
				GPUs: workload.MilliGPU(1 + b.upTo(1000*c.TotalGPUs()-1)), Model: model(&b),
				Duration: time.Duration(1+b.upTo(20_000_000)) * time.Millisecond}
			arrivals = append(arrivals, j)
			work[j.ID] = j.Duration
		}
		w, err := workload.New("fuzz", time.Time{}, arrivals)
		if err != nil {
			t.Fatal(err)
		}

		var sim simulator.Sim
		slowed := map[string]bool{}
		o.Observer = func(e simulator.Event) {
			if sim.Free() < 0 || sim.Free() > c.TotalGPUs() {
				t.Fatalf("%d GPUs free of %d", sim.Free(), c.TotalGPUs())
			}
			// Slower only on more nodes than needed; where an observed job runs is
			// reported by no event.
			g := sim.JobGPUs(e.Job)
			if seats := sim.Placement(nil, e.Job); len(seats) > (g+c.GPUsPerNode()-1)/c.GPUsPerNode() {
				slowed[sim.JobName(e.Job)] = true
			}
		}
		policy := &whim{supply: whims}
		if state != nil {
			err = sim.Resume(state, left, w, policy, o)
		} else {
			err = sim.Start(c, w, policy, o)
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range left {
			id := simulator.ID(i)
			if len(sim.Placement(nil, id)) > (sim.JobGPUs(id)+c.GPUsPerNode()-1)/c.GPUsPerNode() {
				slowed[sim.JobName(id)] = true
			}
		}
		if err = sim.Run(context.Background()); err != nil {
			if sim.Active() > 0 && !strings.Contains(err.Error(), `job "`) {
				t.Fatalf("names no job: %v", err)
			}
			if !errors.Is(err, simulator.ErrBudget) {
				t.Fatal(err) // every job fits the cluster, and the policy ends by starting fitting jobs
			}
			return
		}
		if sim.Free() != c.TotalGPUs() {
			t.Fatalf("%d GPUs free of %d at the end", sim.Free(), c.TotalGPUs())
		}
		out := sim.Outcomes(nil)
		if len(out) != len(work) {
			t.Fatalf("%d of %d jobs ended", len(out), len(work))
		}
		for i := range out {
			x := &out[i]
			name := sim.JobName(x.ID)
			g := time.Duration(x.GPUs)
			want := work[name]
			if !o.Peer.RestartOutsideService {
				want += x.Restart
			}
			got := x.Attained - before[name]
			if !slowed[name] && got != g*want {
				t.Errorf("%s: %d GPUs attained %v for %v of work and %v of restarts",
					name, x.GPUs, got, work[name], x.Restart)
			}
			if slowed[name] && got < g*want-g*time.Duration(sim.Events()) {
				t.Errorf("%s: %d GPUs attained only %v for %v of work", name, x.GPUs, got, work[name])
			}
			if x.JCT() < x.Floor {
				t.Errorf("%s took %v, less than its floor %v", name, x.JCT(), x.Floor)
			}
			if !(x.Rho > 0) || math.IsInf(x.Rho, 0) {
				t.Errorf("%s: rho %v", name, x.Rho)
			}
		}
	})
}

func model(b *supply) string { return []string{"resnet50", "vgg16", "", "unheard-of"}[b.upTo(3)] }
