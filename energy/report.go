package energy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Spell is a time in which a job held GPUs.
type Spell struct {
	Job int                 // index in Input.Jobs
	At  []workload.NodeGPUs // empty if the nodes are not known
	// GPUs is their number; Shared says that another job has all of them, too.
	GPUs     workload.MilliGPU
	Shared   bool
	From, To time.Duration
}

// Job is a job of a timeline.
type Job struct {
	ID, Tenant string
	Submit     time.Duration
	End        time.Duration
	Ended      bool // in the timeline
}

// Input is a timeline with its prices.
type Input struct {
	Assumptions *Assumptions
	Cluster     workload.Cluster
	Nodes       []workload.NodeEvent // nodes that are down draw nothing
	Zero        time.Time
	From, To    time.Duration // the nodes are on in between
	Jobs        []Job
	Spells      []Spell
	Naps        []simulator.Nap // of nodes that sleep
	// Prices in $/MWh and Intensities in g/kWh; nil means the constants.
	Prices, Intensities *Series
	// Measured is the power of the cluster, nil if it was not measured.
	Measured *Measured
	// GPUs is the measured energy of jobs' GPUs, by the job's id. It takes the place of the model of these GPUs.
	GPUs map[string]GPUEnergy
}

// Amount is energy at the facility's meter, its cost and its emissions.
type Amount struct {
	Energy Band `json:"energy_kwh"`
	Cost   Band `json:"cost_usd"`
	CO2    Band `json:"co2_kg"`
}

func (a *Amount) add(b *Amount) {
	for k := range bands {
		*a.Energy.at(k) += *b.Energy.at(k)
		*a.Cost.at(k) += *b.Cost.at(k)
		*a.CO2.at(k) += *b.CO2.at(k)
	}
}

// set sets place k of the bands.
func (a *Amount) set(k int, d simulator.Draw) {
	*a.Energy.at(k), *a.Cost.at(k), *a.CO2.at(k) = d.Energy, d.Cost, d.CO2
}

// Tenant is the usage of a tenant's jobs. GPU-hours that two jobs share count half for
// each.
type Tenant struct {
	Name     string  `json:"tenant"`
	Jobs     int     `json:"jobs"`
	GPUHours float64 `json:"gpu_hours"`
	Amount
}

// JobAmount is the usage of a job.
type JobAmount struct {
	ID       string
	Tenant   string
	GPUHours float64
	Measured float64 // the share of GPU-hours with measured GPUs
	Amount
}

// Report is the account of a timeline. Jobs and Idle add up to Cluster.
type Report struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Ended jobs have a mean JCT.
	Ended       int     `json:"ended_jobs"`
	AvgJCT      float64 `json:"avg_jct_s"`
	GPUHours    float64 `json:"gpu_hours"`
	Capacity    float64 `json:"capacity_gpu_hours"`
	Cluster     Amount  `json:"cluster"`
	Jobs        Amount  `json:"jobs"`
	Idle        Amount  `json:"idle"`
	CapitalCost Band    `json:"capital_usd"` // GPU-hours held times gpu_hour_price
	// Slept is the saving of sleeping nodes; absent where none slept.
	Slept *Slept `json:"slept,omitempty"`
	// Embodied emissions of the cluster over the timeline, in kg.
	Embodied Band `json:"embodied_co2_kg"`
	// SCI is the software carbon intensity in kg: operation and embodied, by unit.
	SCI struct {
		GPUHour    Band `json:"per_gpu_hour"`
		Job        Band `json:"per_job"`
		ClusterDay Band `json:"per_cluster_day"`
	} `json:"sci_kg"`
	// EDP and ED2P are the energy times the mean JCT in hours, and times its square.
	EDP  Band `json:"edp_kwh_h"`
	ED2P Band `json:"ed2p_kwh_h2"`
	// MeasuredShare of the timeline has measured power.
	MeasuredShare float64 `json:"measured_share"`
	// MeasuredGPUHours are GPU-hours of jobs with measured GPUs.
	MeasuredGPUHours float64  `json:"measured_gpu_hours,omitempty"`
	Tenants          []Tenant `json:"tenants"`
	// Hourly has the means of hours.
	Hourly []Hour   `json:"hourly"`
	Notes  []string `json:"notes,omitempty"`
	// Prices and Intensities are the files that took the constants' place.
	Prices      string `json:"prices,omitempty"`
	Intensities string `json:"intensities,omitempty"`
	Version     int    `json:"assumptions_version"`
	Assumptions []Row  `json:"assumptions"`

	ByJob []JobAmount `json:"-"` // in the order of Input.Jobs
}

// Slept is the sleep of nodes.
type Slept struct {
	NodeHours float64 `json:"node_hours"`
	Share     float64 `json:"share"` // of the node-hours of the timeline
	WakeUps   int     `json:"wake_ups"`
	// Saved is the additional energy of the nodes had they been idle, waking counted.
	Saved Amount `json:"saved"`
}

// Hour is the cluster in an hour, or less at the end.
type Hour struct {
	At        time.Time `json:"at"`
	Power     Band      `json:"power_kw"` // at the facility's meter
	GPUs      float64   `json:"gpus_held"`
	Price     float64   `json:"price_usd_per_mwh"` // the middle
	Intensity float64   `json:"intensity_g_per_kwh"`
}

// account is the state of an Account.
type account struct {
	in      *Input
	watts   []watts        // by group
	group   []int          // by node; nil if the cluster counts as one group
	weights [bands]*Series // measured over modelled power; nil is 1
	prices  [bands]*Series // times weights; nil where the constant holds
	carbon  [bands]*Series
	metered bool          // at the facility: PUE is in it
	gpus    []measuredGPU // by job; nil if no GPU was measured
}

// Account computes the report of a timeline.
func Account(in *Input) (*Report, error) {
	a := &account{in: in}
	if len(in.Naps) > 0 && len(in.Cluster.Groups) > 1 &&
		slices.ContainsFunc(in.Spells, func(s Spell) bool { return len(s.At) == 0 }) {
		return nil, errors.New("energy: nodes sleep, but where jobs ran is not known")
	}
	if in.To <= in.From {
		return nil, fmt.Errorf("energy: the timeline ends at %v, which is not after %v", in.To, in.From)
	}
	if err := a.groups(); err != nil {
		return nil, err
	}
	r := &Report{From: a.clock(in.From), To: a.clock(in.To), Version: in.Assumptions.Version,
		Assumptions: in.Assumptions.Rows(in.Cluster)}
	a.gpuParts(r)
	levels, beyond, err := a.levels()
	if err != nil {
		return nil, err
	}
	replaced := func(s *Series, constant string) string {
		if s == nil {
			return ""
		}
		r.Assumptions = slices.DeleteFunc(r.Assumptions, func(x Row) bool { return x.Name == constant })
		return s.Name
	}
	r.Prices, r.Intensities = replaced(in.Prices, "price"), replaced(in.Intensities, "intensity")
	r.Notes = a.notes(beyond)
	if in.Measured != nil {
		a.measure(levels, r)
	}
	for k := range bands {
		if in.Prices != nil {
			a.prices[k] = in.Prices.times(a.weights[k])
		}
		if in.Intensities != nil {
			a.carbon[k] = in.Intensities.times(a.weights[k])
		}
	}
	a.jobs(r)
	for i := range levels {
		l := &levels[i]
		x := a.amount(l.free, l.from, l.to)
		r.Idle.add(&x)
		r.Capacity += l.gpus * (l.to - l.from).Hours()
	}
	a.slept(r)
	r.Cluster = r.Jobs
	r.Cluster.add(&r.Idle)
	a.derive(r)
	a.hourly(r, levels)
	return r, nil
}

func (a *account) clock(at time.Duration) time.Time { return a.in.Zero.Add(at).UTC() }

// groups finds the power of each group. If the nodes of a spell are not known, the GPUs of
// all groups count as equal.
func (a *account) groups() error {
	unknown := slices.ContainsFunc(a.in.Spells, func(s Spell) bool { return len(s.At) == 0 })
	var mean watts
	total := float64(a.in.Cluster.TotalGPUs())
	for i := range a.in.Cluster.Groups {
		g := &a.in.Cluster.Groups[i]
		w, err := a.in.Assumptions.wattsOf(g)
		if err != nil {
			return fmt.Errorf("energy: %w", err)
		}
		a.watts = append(a.watts, w)
		share := float64(g.Nodes*g.GPUsPerNode) / total
		mean.asleep, mean.waking = w.asleep, w.waking // the same for all groups
		for k := range bands {
			mean.base[k] += w.base[k] * share
			mean.alone[k] += w.alone[k] * share
			mean.gpu[k] += w.gpu[k] * share
			mean.half[k] += w.half[k] * share
		}
		for range g.Nodes {
			a.group = append(a.group, i)
		}
	}
	if unknown || len(a.watts) == 1 {
		a.watts, a.group = []watts{mean}, nil
	}
	return nil
}

// parts calls f with the GPUs of a spell in each group.
func (a *account) parts(s *Spell, f func(group int, gpus workload.MilliGPU)) {
	if a.group == nil {
		f(0, s.GPUs)
		return
	}
	for _, n := range s.At {
		f(a.group[n.Node], workload.GPUs(n.GPUs))
	}
}

// level is a time in which nothing changes.
type level struct {
	from, to time.Duration
	free     [bands]float64 // W of free GPUs of nodes that are up
	held     [bands]float64 // W of the others
	gpus     float64        // of nodes that are up
	busy     float64        // GPUs held
}

// change is one of held half GPUs, by whether they are shared, of GPUs that are up, or of nodes that sleep or wake.
type change struct {
	at             time.Duration
	group, gpus    int
	alone, half    workload.MilliGPU
	asleep, waking int
	beyond         [bands]float64 // W measured beyond the model
}

// levels are the parts of the timeline in order. beyond is the GPU-time held beyond
// the cluster.
func (a *account) levels() (out []level, beyond time.Duration, err error) {
	in := a.in
	changes, err := a.capacity()
	if err != nil {
		return nil, 0, err
	}
	for i := range in.Spells {
		s := &in.Spells[i]
		if s.To < s.From {
			return nil, 0, fmt.Errorf("energy: job %d holds GPUs from %v to %v", s.Job, s.From, s.To)
		}
		a.parts(s, func(group int, gpus workload.MilliGPU) {
			c := change{group: group, alone: gpus}
			if s.Shared {
				c.alone, c.half = 0, gpus
			}
			c.at, c.beyond = s.From, a.beyond(s, group, gpus)
			changes = append(changes, c)
			c.at, c.alone, c.half = s.To, -c.alone, -c.half
			for k := range bands {
				c.beyond[k] = -c.beyond[k]
			}
			changes = append(changes, c)
		})
	}
	changes = append(changes, a.napping()...)
	slices.SortStableFunc(changes, func(x, y change) int { return cmp.Compare(x.at, y.at) })
	now := make([]change, len(a.watts))
	at := in.From
	if len(changes) > 0 {
		at = min(at, changes[0].at)
	}
	emit := func(to time.Duration) {
		if to <= at {
			return
		}
		l := level{from: at, to: to}
		for g := range now {
			held := now[g].alone.Count() + now[g].half.Count()/2
			off := float64(now[g].asleep * a.in.Cluster.Groups[g].GPUsPerNode)
			free := float64(now[g].gpus) - held - off
			if free < 0 {
				beyond += time.Duration(-free * float64(to-at))
				free = 0
			}
			asleep, waking := float64(now[g].asleep), float64(now[g].waking)
			if at < in.From || at >= in.To {
				free, off, asleep, waking = 0, 0, 0, 0 // the time outside counts for jobs alone
			}
			l.gpus += held + free + off
			l.busy += held
			for k := range bands {
				w := &a.watts[g]
				l.free[k] += w.base[k]*free + w.asleep[k]*asleep + w.waking[k]*waking
				l.held[k] += (w.base[k]+w.alone[k])*now[g].alone.Count() +
					(w.base[k]/2+w.half[k])*now[g].half.Count() + now[g].beyond[k]
			}
		}
		out = append(out, l)
		at = to
	}
	bounds := []time.Duration{in.From, in.To}
	for _, c := range changes {
		for len(bounds) > 0 && bounds[0] <= c.at {
			emit(bounds[0])
			bounds = bounds[1:]
		}
		emit(c.at)
		n := &now[c.group]
		n.alone, n.half, n.gpus = n.alone+c.alone, n.half+c.half, n.gpus+c.gpus
		n.asleep, n.waking = n.asleep+c.asleep, n.waking+c.waking
		for k := range bands {
			n.beyond[k] += c.beyond[k]
		}
	}
	for _, b := range bounds {
		emit(b)
	}
	return out, beyond, nil
}

// capacity is when GPUs come up and go down. Draining nodes are on.
func (a *account) capacity() ([]change, error) {
	var out []change
	nodes := a.in.Cluster.Nodes()
	begin := a.in.From
	for i := range a.in.Spells {
		begin = min(begin, a.in.Spells[i].From)
	}
	down := make([]bool, nodes)
	gpus := func(node int) (group, n int) {
		g := a.in.Cluster.GroupOf(node)
		if a.group != nil {
			group = g
		}
		return group, a.in.Cluster.Groups[g].GPUsPerNode
	}
	for n := range nodes {
		g, c := gpus(n)
		out = append(out, change{at: begin, group: g, gpus: c})
	}
	for _, e := range a.in.Nodes {
		if e.Node < 0 || e.Node >= nodes {
			return nil, fmt.Errorf("energy: node events: node %d is not one of the cluster's %d", e.Node, nodes)
		}
		g, c := gpus(e.Node)
		at := max(e.At, begin)
		switch {
		case e.Kind == workload.NodeDown && !down[e.Node]:
			out = append(out, change{at: at, group: g, gpus: -c})
			down[e.Node] = true
		case e.Kind == workload.NodeUp && down[e.Node]:
			out = append(out, change{at: at, group: g, gpus: c})
			down[e.Node] = false
		}
	}
	return out, nil
}

// amount returns the amount of watts over a time.
func (a *account) amount(w [bands]float64, from, to time.Duration) (out Amount) {
	if to <= from {
		return out
	}
	for k := range bands {
		out.set(k, a.used(k, w[k], from, to))
	}
	return out
}

// used returns the use of watts over a time, at place k of the band: kWh, $ and kg of CO2.
func (a *account) used(k int, watts float64, from, to time.Duration) (d simulator.Draw) {
	t0, t1 := a.clock(from), a.clock(to)
	over := func(s *Series) float64 {
		if s == nil {
			return (to - from).Hours()
		}
		return s.Over(t0, t1)
	}
	c := a.in.Assumptions.constant
	kw := watts / 1000
	if !a.metered {
		kw *= c("pue", k)
	}
	d.Energy = kw * over(a.weights[k])
	if d.Cost = d.Energy * c("price", k) / 1000; a.in.Prices != nil {
		d.Cost = kw * over(a.prices[k]) / 1000
	}
	if d.CO2 = d.Energy * c("intensity", k) / 1000; a.in.Intensities != nil {
		d.CO2 = kw * over(a.carbon[k]) / 1000
	}
	return d
}

// jobs adds up the usage of jobs and tenants.
func (a *account) jobs(r *Report) {
	in := a.in
	r.ByJob = make([]JobAmount, len(in.Jobs))
	for i := range in.Spells {
		s := &in.Spells[i]
		j := &r.ByJob[s.Job]
		a.parts(s, func(group int, gpus workload.MilliGPU) {
			w, n := &a.watts[group], gpus.Count()
			p := a.beyond(s, group, gpus)
			for k := range bands {
				if s.Shared {
					p[k] = (w.base[k]/2 + w.half[k]) * n
				} else {
					p[k] += (w.base[k] + w.alone[k]) * n
				}
			}
			x := a.amount(p, s.From, s.To)
			j.add(&x)
			hours := n * (s.To - s.From).Hours()
			if s.Shared {
				hours /= 2
			}
			j.GPUHours += hours
		})
	}
	tenants := map[string]int{}
	for i := range in.Jobs {
		j, x := &in.Jobs[i], &r.ByJob[i]
		x.ID, x.Tenant = j.ID, j.Tenant
		if a.gpus != nil {
			x.Measured = a.gpus[i].share
		}
		t, ok := tenants[j.Tenant]
		if !ok {
			t = len(r.Tenants)
			tenants[j.Tenant] = t
			r.Tenants = append(r.Tenants, Tenant{Name: j.Tenant})
		}
		r.Tenants[t].Jobs++
		r.Tenants[t].GPUHours += x.GPUHours
		r.Tenants[t].add(&x.Amount)
		r.Jobs.add(&x.Amount)
		r.GPUHours += x.GPUHours
		if j.Ended {
			r.Ended++
			r.AvgJCT += (j.End - j.Submit).Seconds()
		}
	}
	r.AvgJCT /= float64(max(1, r.Ended))
	slices.SortFunc(r.Tenants, func(x, y Tenant) int { return cmp.Compare(x.Name, y.Name) })
}

// derive computes the functions of the sums.
func (a *account) derive(r *Report) {
	in := a.in
	c := in.Assumptions.constant
	hours := (in.To - in.From).Hours()
	delay := r.AvgJCT / 3600
	servers := float64(in.Cluster.Nodes())
	gpus := float64(in.Cluster.TotalGPUs())
	for k := range bands {
		lifetime := c("lifetime", bands-1-k) * 365 * 24 // the longest is the least
		m := (c("embodied_server", k)*servers + c("embodied_gpu", k)*gpus) * hours / lifetime
		*r.Embodied.at(k) = m
		*r.CapitalCost.at(k) = r.GPUHours * c("gpu_hour_price", k)
		total := *r.Cluster.CO2.at(k) + m
		if r.GPUHours > 0 {
			*r.SCI.GPUHour.at(k) = total / r.GPUHours
		}
		if r.Ended > 0 {
			*r.SCI.Job.at(k) = total / float64(r.Ended)
		}
		*r.SCI.ClusterDay.at(k) = total / (hours / 24)
		e := *r.Cluster.Energy.at(k)
		*r.EDP.at(k), *r.ED2P.at(k) = e*delay, e*delay*delay
	}
}

// hourly fills the means of hours.
func (a *account) hourly(r *Report, levels []level) {
	in, c := a.in, a.in.Assumptions.constant
	step, i := time.Hour, 0
	for from := in.From; from < in.To; from += step {
		to := min(from+step, in.To)
		h := Hour{At: a.clock(from), Price: c("price", 1), Intensity: c("intensity", 1)}
		span := (to - from).Hours()
		if in.Prices != nil {
			h.Price = in.Prices.Over(a.clock(from), a.clock(to)) / span
		}
		if in.Intensities != nil {
			h.Intensity = in.Intensities.Over(a.clock(from), a.clock(to)) / span
		}
		for i > 0 && levels[i].from > from {
			i--
		}
		for ; i < len(levels) && levels[i].from < to; i++ {
			l := &levels[i]
			x, y := max(l.from, from), min(l.to, to)
			if y <= x {
				continue
			}
			var w [bands]float64
			for k := range bands {
				w[k] = l.free[k] + l.held[k]
			}
			e := a.amount(w, x, y)
			for k := range bands {
				*h.Power.at(k) += *e.Energy.at(k) / span
			}
			h.GPUs += l.busy * (y - x).Hours() / span
		}
		i = min(max(0, i-1), max(0, len(levels)-1))
		r.Hourly = append(r.Hourly, h)
	}
}

// notes names the faults of the input.
func (a *account) notes(beyond time.Duration) (out []string) {
	in := a.in
	if beyond.Hours() >= .05 { // shares are rounded
		out = append(out, fmt.Sprintf("jobs hold %.1f GPU-hours beyond what the cluster has: name it with --nodes and "+
			"--gpus-per-node", beyond.Hours()))
	}
	for _, s := range []*Series{in.Prices, in.Intensities} {
		if s == nil {
			continue
		}
		gaps := s.Gaps(a.clock(in.From), a.clock(in.To))
		for i, g := range gaps {
			if i == 3 {
				out = append(out, fmt.Sprintf("%s: %d more gaps", s.Name, len(gaps)-i))
				break
			}
			out = append(out, fmt.Sprintf("%s: no value from %s to %s: the one before holds, or the first", s.Name,
				g.From.Format(time.RFC3339), g.To.Format(time.RFC3339)))
		}
	}
	return out
}

var errNoStarts = errors.New("the trace has no start times: name a scheduler to simulate it with (--scheduler)")

// Recorded is the timeline of a trace's jobs as they ran: from the end of their recorded
// wait, for their duration.
func Recorded(w *workload.Workload) (jobs []Job, spells []Spell, err error) {
	for _, j := range w.Jobs() {
		if j.Status == workload.Pending {
			continue
		}
		if !j.HasWait {
			return nil, nil, fmt.Errorf("energy: job %q: %w", j.ID, errNoStarts)
		}
		start := j.Submit + j.Wait
		jobs = append(jobs, Job{ID: j.ID, Tenant: j.Tenant, Submit: j.Submit, End: start + j.Duration,
			Ended: j.Status.Ended()})
		spells = append(spells, Spell{Job: len(jobs) - 1, GPUs: j.GPUs, From: start, To: start + j.Duration})
	}
	return jobs, spells, nil
}
