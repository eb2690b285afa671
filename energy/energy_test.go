package energy

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/capacity"
	"github.com/autosched/autosched/workload/trace"
)

// constant is an Assumptions in which every W is the GPUs'.
func constant(t *testing.T, text string) *Assumptions {
	t.Helper()
	a, err := Read(strings.NewReader(`
gpu: flat
constants:
  power_factor: {low: 1, middle: 1, high: 1, source: exact}
  cpu_idle: {low: 0, middle: 0, high: 0, source: none}
  cpu_max: {low: 0, middle: 0, high: 0, source: none}
  memory: {low: 0, middle: 0, high: 0, source: none}
  nic: {low: 0, middle: 0, high: 0, source: none}
  nvme: {low: 0, middle: 0, high: 0, source: none}
  context: {low: 0, middle: 0, high: 0, source: none}
`+text), "test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*math.Abs(want)) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

var zero = time.Date(2024, 3, 30, 0, 0, 0, 0, time.UTC)

// TestPublishedTraining: GPT-3's training on 10,000 GPUs took 14.8 days, 1,287 MWh and
// 552 t: the model gives 1,289 MWh from its power, 429 g/kWh follows.
func TestPublishedTraining(t *testing.T) {
	span := time.Duration(14.8 * 24 * float64(time.Hour))
	in := &Input{Assumptions: constant(t, `  pue: {low: 1.1, middle: 1.1, high: 1.1, source: survey}
  intensity: {low: 429, middle: 429, high: 429, source: survey}
gpus:
  flat: {idle: 330, max: 330, source: survey}
`), Cluster: workload.Uniform(1250, 8), Zero: zero, To: span, Jobs: []Job{{ID: "gpt-3", End: span, Ended: true}},
		Spells: []Spell{{GPUs: workload.GPUs(10000), To: span}}}
	r, err := Account(in)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "MWh", r.Cluster.Energy.Middle/1000, 1289, .001)
	near(t, "MWh as published", r.Cluster.Energy.Middle/1000, 1287, .003)
	near(t, "t", r.Cluster.CO2.Middle/1000, 552, .003)
	near(t, "g/kWh of the published", 552e6/1287e3, 429, .001)
	if r.Cluster.Energy.Low != r.Cluster.Energy.High || r.Idle.Energy.High != 0 {
		t.Errorf("%+v", r.Cluster)
	}
}

// TestByHand: two nodes of two GPUs, one of which is down in the second hour; a price that
// changes inside the job and is negative in its second hour.
func TestByHand(t *testing.T) {
	prices, err := ReadPrices(strings.NewReader("ts,price_per_mwh\n2024-03-30T00:00:00Z,100\n"+
		"2024-03-30T01:00:00Z,-50\n"+
		"2024-03-30T02:00:00Z,10\n"), "p.csv", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	as := constant(t, `  utilization: {low: .5, middle: .5, high: .5, source: given}
  pue: {low: 1, middle: 2, high: 2, source: given}
  intensity: {low: 100, middle: 100, high: 100, source: given}
  embodied_gpu: {low: 87.6, middle: 87.6, high: 87.6, source: given}
  embodied_server: {low: 0, middle: 0, high: 0, source: given}
  lifetime: {low: 1, middle: 1, high: 1, source: given}
gpus:
  flat: {idle: 100, max: 300, source: given}
`)
	in := &Input{Assumptions: as, Cluster: workload.Uniform(2, 2), Zero: zero, To: 3 * time.Hour, Prices: prices,
		Nodes: []workload.NodeEvent{{At: time.Hour, Node: 1, Kind: workload.NodeDown},
			{At: 2 * time.Hour, Node: 1, Kind: workload.NodeUp}},
		Jobs:   []Job{{ID: "a", Tenant: "x", Submit: 0, End: 150 * time.Minute, Ended: true}},
		Spells: []Spell{{GPUs: workload.GPUs(2), From: 30 * time.Minute, To: 150 * time.Minute}}}
	r, err := Account(in)
	if err != nil {
		t.Fatal(err)
	}
	// 2 GPUs of 200 W for two hours; 10 - 2 - 4 GPU-hours of 100 W free; PUE 2.
	near(t, "jobs", r.Jobs.Energy.Middle, 1.6, 1e-12)
	near(t, "idle", r.Idle.Energy.Middle, 2*.1*(10-4), 1e-12)
	near(t, "low", r.Cluster.Energy.Low, r.Cluster.Energy.Middle/2, 1e-12)
	near(t, "cost of the job", r.Jobs.Cost.Middle, .8*(.5*100-50+.5*10)/1000, 1e-12)
	near(t, "CO2", r.Cluster.CO2.Middle, .1*r.Cluster.Energy.Middle, 1e-12)
	near(t, "embodied", r.Embodied.Middle, 4*87.6*3/8760, 1e-12)
	near(t, "SCI of a GPU-hour", r.SCI.GPUHour.Middle, (r.Cluster.CO2.Middle+r.Embodied.Middle)/4, 1e-12)
	near(t, "SCI of a job", r.SCI.Job.Middle, r.Cluster.CO2.Middle+r.Embodied.Middle, 1e-12)
	near(t, "SCI of a day", r.SCI.ClusterDay.Middle, (r.Cluster.CO2.Middle+r.Embodied.Middle)*8, 1e-12)
	near(t, "EDP", r.EDP.Middle, r.Cluster.Energy.Middle*2.5, 1e-12)
	near(t, "ED2P", r.ED2P.Middle, r.Cluster.Energy.Middle*2.5*2.5, 1e-12)
	for i, want := range []float64{2 * (.4 + .1), .4 * 2, 2 * (.4 + .1)} {
		near(t, "kW", r.Hourly[i].Power.Middle, want, 1e-12)
	}
	twice := *in
	two, err := ReadPrices(strings.NewReader("ts,price_per_mwh\n2024-03-30T00:00:00Z,200\n2024-03-30T01:00:00Z,-100\n"+
		"2024-03-30T02:00:00Z,20\n"), "p.csv", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	twice.Prices = two
	if r2, err := Account(&twice); err != nil || r2.Cluster.Cost.Middle != 2*r.Cluster.Cost.Middle {
		t.Errorf("twice the price: cost %v, %v", r2.Cluster.Cost, err)
	}
}

// hostile is a random timeline in whole minutes on two kinds of nodes, with gangs over nodes,
// shared GPUs and an outage.
func hostile() *Input {
	r := rand.New(rand.NewPCG(1, 1))
	in := &Input{Assumptions: Default(), Zero: zero, To: 20 * time.Hour, Cluster: workload.Cluster{
		Groups: []workload.NodeGroup{{Nodes: 2, GPUsPerNode: 4, GPUModel: "V100"},
			{Nodes: 3, GPUsPerNode: 2, GPUModel: "NVIDIA A100-SXM4"}}},
		Nodes: []workload.NodeEvent{{At: 5 * time.Hour, Node: 4, Kind: workload.NodeDown},
			{At: 7 * time.Hour, Node: 4, Kind: workload.NodeUp}}}
	places := [][]workload.NodeGPUs{{{Node: 0, GPUs: 3}},
		{{Node: 1, GPUs: 4}, {Node: 2, GPUs: 1}}, {{Node: 3, GPUs: 2}}}
	until := make([]time.Duration, len(places))
	add := func(s Spell) {
		s.Job = len(in.Jobs)
		in.Jobs = append(in.Jobs, Job{ID: string(rune('a' + s.Job)), Tenant: string(rune('x' + s.Job%3)),
			Submit: s.From, End: s.To, Ended: true})
		in.Spells = append(in.Spells, s)
	}
	for i := range 30 {
		p := i % len(places)
		s := Spell{At: places[p], From: until[p] + time.Duration(r.IntN(30))*time.Minute, Shared: i%4 == 0}
		s.To = s.From + time.Duration(1+r.IntN(60))*time.Minute
		until[p] = s.To
		for _, n := range s.At {
			s.GPUs += workload.GPUs(n.GPUs)
		}
		if add(s); s.Shared {
			add(s)
		}
	}
	return in
}

// TestJobsAndIdleAreTheCluster: the parts add up to the power of every instant, whatever the
// prices, and tenants and jobs to each other.
func TestJobsAndIdleAreTheCluster(t *testing.T) {
	in := hostile()
	prices, err := ReadPrices(strings.NewReader("ts,price_per_mwh\n2024-03-30T00:00:00Z,80\n2024-03-30T05:30:00Z,-20\n"+
		"2024-03-30T09:00:00Z,140\n"), "p.csv", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	in.Prices = prices
	r, err := Account(in)
	if err != nil {
		t.Fatal(err)
	}
	for k := range bands {
		e, cost := 0.0, 0.0
		for i := range r.Hourly {
			e += *r.Hourly[i].Power.at(k)
		}
		near(t, "power over the hours", e, *r.Cluster.Energy.at(k), 1e-9)
		var jobs, tenants Amount
		for i := range r.ByJob {
			jobs.add(&r.ByJob[i].Amount)
		}
		for i := range r.Tenants {
			tenants.add(&r.Tenants[i].Amount)
			cost += *r.Tenants[i].Cost.at(k)
		}
		near(t, "jobs", *jobs.Energy.at(k)+*r.Idle.Energy.at(k), *r.Cluster.Energy.at(k), 1e-9)
		near(t, "tenants", *tenants.Energy.at(k), *jobs.Energy.at(k), 1e-9)
		near(t, "cost", cost+*r.Idle.Cost.at(k), *r.Cluster.Cost.at(k), 1e-9)
	}
	// The same by looking at each minute.
	perMinute := 0.0
	v100, err := in.Assumptions.wattsOf(&in.Cluster.Groups[0])
	if err != nil {
		t.Fatal(err)
	}
	a100, err := in.Assumptions.wattsOf(&in.Cluster.Groups[1])
	if err != nil {
		t.Fatal(err)
	}
	for at := time.Duration(0); at < in.To; at += time.Minute {
		w := v100.base[1]*8 + a100.base[1]*6
		if at >= 5*time.Hour && at < 7*time.Hour {
			w -= 2 * a100.base[1]
		}
		for _, s := range in.Spells {
			if at < s.From || at >= s.To {
				continue
			}
			for _, n := range s.At {
				x := &v100
				if n.Node >= 2 {
					x = &a100
				}
				if s.Shared {
					w += x.half[1] * float64(n.GPUs)
				} else {
					w += x.alone[1] * float64(n.GPUs)
				}
			}
		}
		perMinute += w / 1000 / 60 * 1.58
	}
	near(t, "minute by minute", perMinute, r.Cluster.Energy.Middle, 1e-9)
	if r.Cluster.Energy.Low >= r.Cluster.Energy.Middle || r.Cluster.Energy.Middle >= r.Cluster.Energy.High {
		t.Errorf("band %+v", r.Cluster.Energy)
	}
}

// TestSharesOfGPUs: jobs on shares of a GPU use the power of their part of it, and hold no more than it.
func TestSharesOfGPUs(t *testing.T) {
	run := func(n int, gpus workload.MilliGPU) *Report {
		jobs := make([]workload.Job, n)
		for i := range jobs {
			jobs[i] = workload.Job{ID: string(rune('a' + i)), GPUs: gpus, Duration: time.Hour, HasWait: true,
				Status: workload.Completed}
		}
		in := &Input{Assumptions: constant(t, "gpus:\n  flat: {idle: 100, max: 400, source: exact}\n"),
			Cluster: workload.Uniform(1, 1), Zero: zero, To: time.Hour}
		var err error
		if in.Jobs, in.Spells, err = Recorded(workload.NewSorted("t", zero, jobs, false)); err != nil {
			t.Fatal(err)
		}
		r, err := Account(in)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	whole := run(1, 1000)
	for n, share := range map[int]workload.MilliGPU{2: 500, 4: 250, 7: 143} {
		r := run(n, share)
		near(t, "energy of jobs", r.Jobs.Energy.Middle, whole.Jobs.Energy.Middle, .002)
		near(t, "energy of the cluster", r.Cluster.Energy.Middle, whole.Cluster.Energy.Middle, .002)
	}
	near(t, "half a GPU", run(1, 500).Jobs.Energy.Middle, whole.Jobs.Energy.Middle/2, 1e-9)
}

// TestInputs: seven instances of a seventh of a GPU are one GPU-hour, as 10a of shared/inputs has it.
func TestInputs(t *testing.T) {
	w, _, err := trace.Open(t.Context(), testshared.Path(t, "inputs", "10a.psv"), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := capacity.Infer(w, capacity.Evidence{})
	if err != nil || cluster.Cluster.TotalGPUs() != 1 {
		t.Fatalf("%v, %v", cluster, err)
	}
	in := &Input{Assumptions: Default(), Cluster: cluster.Cluster, Zero: w.Zero(), From: 8 * time.Hour,
		To: 9 * time.Hour}
	if in.Jobs, in.Spells, err = Recorded(w); err != nil {
		t.Fatal(err)
	}
	r, err := Account(in)
	if err != nil {
		t.Fatal(err)
	}
	whole := *in
	whole.Spells = []Spell{{GPUs: 1000, From: in.From, To: in.To}}
	one, err := Account(&whole)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "energy", r.Jobs.Energy.Middle, one.Jobs.Energy.Middle, .002)
	if len(r.Notes) > 0 {
		t.Errorf("%q", r.Notes)
	}
}
