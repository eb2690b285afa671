package fidelity

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/workload"
)

// Cause is something in the data that explains a difference.
type Cause struct {
	Name     string `json:"cause"` // one of the constants
	Evidence string `json:"evidence"`
	Do       string `json:"do"` // how to take it into account
}

// The names of causes.
const (
	MoreCapacity   = "capacity higher than assumed"
	LessCapacity   = "capacity lower than assumed"
	KeptRoom       = "room for wider jobs" // jobs wait beside free GPUs that are kept for wider ones
	Limit          = "a limit"             // of a tenant, a partition or a GPU model
	OtherOrder     = "another order"
	OtherScheduler = "another scheduler"
	TimeLimits     = "time limits"
)

// A cause is named from these on, so that chance in a good simulation is not.
const (
	minExcess     = .1  // share of the recorded delay
	concentrated  = .8  // share of an excess that few jobs have
	fewJobs       = .6  // share of the jobs, at most
	minOvertaking = .1  // difference of shares
	minBetter     = .8  // share of the error's logarithm
	minEarly      = .05 // share of the jobs
	minOver       = .01 // share of the time, or of the jobs
	minReserved   = .5  // share of the waiting beside free GPUs
)

// causes explain the difference of own from the record. best is the run of the
// scheduler that describes the record best.
func causes(in *Input, r *Report, rec *record, own, best *run) []Cause {
	out := []Cause{}
	add := func(c *Cause) {
		if c != nil {
			out = append(out, *c)
		}
	}
	add(moreCapacity(in, r, rec, own))
	add(lessCapacity(in, r, rec, own, best))
	if len(out) == 0 || len(r.Orders) > 0 && r.Orders[0].Delay.Factor < 1+minOvertaking {
		add(otherScheduler(r)) // on a cluster of another size, orders are not told apart
	}
	add(otherOrder(r, own))
	add(timeLimits(own))
	return out
}

// moreCapacity says that jobs held more GPUs than the assumed cluster has.
func moreCapacity(in *Input, r *Report, rec *record, own *run) *Cause {
	over, total := time.Duration(0), time.Duration(0)
	for i := 1; i < len(rec.free.at); i++ {
		from, to := max(rec.free.at[i-1], in.From), min(rec.free.at[i], in.To)
		if to <= from {
			continue
		}
		total += to - from
		if rec.free.level[i-1] < 0 {
			over += to - from
		}
	}
	early := 0
	for i := range own.pairs {
		if p := &own.pairs[i]; p.simulated-p.recorded > grain {
			early++
		}
	}
	// Jobs that were preempted held their GPUs in parts, which the record does not have.
	if float64(over) < minOver*float64(total) || float64(early) < minEarly*float64(len(own.pairs)) {
		return nil
	}
	per := max(1, in.Cluster.GPUsPerNode())
	return &Cause{MoreCapacity, fmt.Sprintf("recorded jobs held more GPUs than the cluster's %d in %.0f %% of the time, "+
		"%.0f at most, and %.0f %% of the jobs started earlier than simulated", in.Cluster.TotalGPUs(),
		100*float64(over)/float64(total), r.PeakGPUs, 100*float64(early)/float64(len(own.pairs))),
		fmt.Sprintf("give at least %d nodes (--nodes), or node events (--node-events) if they came later",
			int(math.Ceil(r.PeakGPUs/float64(per))))}
}

// idle is how long each job waited while the GPUs that it asks for were free.
func idle(pairs []pair, free *steps, delay func(*pair) time.Duration) []time.Duration {
	enough := free.byLevel()
	out := make([]time.Duration, len(pairs))
	for i := range pairs {
		p := &pairs[i]
		until := enough(int64(p.job.GPUs))
		out[i] = until(p.job.Submit+delay(p)) - until(p.job.Submit)
	}
	return out
}

func recordedDelay(p *pair) time.Duration  { return p.recorded }
func simulatedDelay(p *pair) time.Duration { return p.simulated }

// excessOf is how many seconds longer each recorded job waited beside free GPUs of its pool than a simulated one, with
// the sum.
func excessOf(was []time.Duration, own, best *run) (excess []float64, sum float64) {
	ours, bests := idle(own.pairs, &own.free, simulatedDelay), idle(best.pairs, &best.free, simulatedDelay)
	excess = make([]float64, len(was))
	for i := range was {
		excess[i] = max(0, (was[i] - max(ours[i], bests[i])).Seconds())
		sum += excess[i]
	}
	return excess, sum
}

// lessCapacity says that recorded jobs waited while the assumed cluster had room for them,
// and the simulated ones did not: nodes were down or reserved, or a limit held the jobs.
func lessCapacity(in *Input, r *Report, rec *record, own, best *run) *Cause {
	if 10*r.Unrecorded > r.Jobs {
		return nil // too little is known of the nodes in use
	}
	parts := poolsOf(in)
	was, reserved := parts.idle(own.pairs)
	excess, sum := excessOf(was, own, best)
	waited := r.Delay.Recorded * float64(len(own.pairs))
	n := float64(len(own.pairs))
	if sum < minExcess*waited || sum/n < negligible*r.JCT.Recorded {
		return nil
	}
	evidence := fmt.Sprintf("%.0f %% of the recorded delay passed while the assumed cluster had the GPUs free that the "+
		"job asks for, beyond what is simulated", 100*sum/waited)
	kept := 0.
	for i := range excess {
		if was[i] > 0 {
			kept += excess[i] * float64(reserved[i]) / float64(was[i])
		}
	}
	if kept >= minReserved*sum {
		return &Cause{KeptRoom, fmt.Sprintf("%s; in %.0f %% of it a wider job that was submitted before waited for more "+
			"GPUs than were free: backfill, or a strict order, keeps room for it", evidence, 100*kept/sum),
			"there is no limit to declare: simulate the scheduler in force; with backfill also the jobs' time limits, as " +
				"jobs that ask for less time than they do pass such gaps"}
	}
	if who := concentration(own.pairs, excess, sum, in, parts); who != "" {
		return &Cause{Limit, evidence + "; " + who,
			"declare the limit: --vc TENANT=GPUs --quota strict, or simulate its nodes and jobs alone"}
	}
	evidence += fmt.Sprintf("; %.0f of its %d GPUs were in use then (95th percentile)",
		usedWhile(own.pairs, excess, rec), in.Cluster.TotalGPUs())
	if days := fewDays(in, own.pairs, excess, sum); days != "" {
		evidence += "; " + days
	}
	return &Cause{LessCapacity, evidence,
		"give fewer nodes (--nodes), or the nodes that were down or reserved (--node-events)"}
}

// usedWhile is the 95th percentile of the GPUs in use while jobs had an excess of delay,
// weighted by it.
func usedWhile(pairs []pair, excess []float64, rec *record) float64 {
	type sample struct{ gpus, weight float64 }
	var all []sample
	total := 0.0
	for i := range pairs {
		if excess[i] > 0 {
			p := &pairs[i]
			all = append(all, sample{float64(rec.used.value(p.job.Submit+p.recorded/2)) / 1000, excess[i]})
			total += excess[i]
		}
	}
	slices.SortFunc(all, func(a, b sample) int {
		return cmp.Or(cmp.Compare(a.gpus, b.gpus), cmp.Compare(a.weight, b.weight))
	})
	sum := 0.0
	for _, s := range all {
		if sum += s.weight; sum >= .95*total {
			return s.gpus
		}
	}
	return 0
}

// concentration names the tenant, partition or GPU model whose jobs have nearly all of an
// excess, "" if there is none.
func concentration(pairs []pair, excess []float64, sum float64, in *Input, parts *pools) string {
	for _, by := range []struct {
		name string
		of   func(*workload.Job) string
	}{
		{"tenant", func(j *workload.Job) string { return j.Tenant }},
		{"partition", func(j *workload.Job) string { return j.Request().Partition }},
		{"GPU model", func(j *workload.Job) string { return j.Request().GPUModel }},
	} {
		share, jobs, size := map[string]float64{}, map[string]int{}, map[string]int64{}
		for i := range pairs {
			name := by.of(pairs[i].job)
			share[name] += excess[i] / sum
			jobs[name]++
			size[name] = max(size[name], parts.all[parts.of(pairs[i].job)].size)
		}
		for _, name := range slices.Sorted(maps.Keys(share)) {
			if name == "" || share[name] < concentrated || float64(jobs[name]) > fewJobs*float64(len(pairs)) {
				continue
			}
			var used []delta
			for i := range in.Trace.Jobs() {
				if j := &in.Trace.Jobs()[i]; j.HasWait && by.of(j) == name {
					used = append(used, occupied(j)...)
				}
			}
			own := record{used: stepsOf(used)}
			if own.peak() >= size[name] { // all that its jobs can run on
				continue
			}
			return fmt.Sprintf("%s %s has %.0f %% of it with %.0f %% of the jobs, and never held more than %.0f GPUs",
				by.name, name, 100*share[name], 100*float64(jobs[name])/float64(len(pairs)), float64(own.peak())/1000)
		}
	}
	return ""
}

// fewDays names the days on which most of an excess was submitted, "" if they are most days.
func fewDays(in *Input, pairs []pair, excess []float64, sum float64) string {
	by := map[string]float64{}
	for i := range pairs {
		by[in.Trace.Clock(pairs[i].job.Submit).Format("2006-01-02")] += excess[i]
	}
	days := slices.Sorted(maps.Keys(by))
	slices.SortStableFunc(days, func(a, b string) int { return cmp.Compare(by[b], by[a]) })
	share, n := 0.0, 0
	for ; n < len(days) && share < concentrated*sum; n++ {
		share += by[days[n]]
	}
	if 2*n > len(days) {
		return ""
	}
	most := slices.Sorted(slices.Values(days[:n]))
	if n > 10 {
		return fmt.Sprintf("%.0f %% of it on %d of %d days from %s to %s", 100*share/sum, n, len(days), most[0],
			most[n-1])
	}
	return fmt.Sprintf("%.0f %% of it on %s", 100*share/sum, strings.Join(most, ", "))
}

// otherScheduler says that another simulated scheduler describes the record clearly better.
func otherScheduler(r *Report) *Cause {
	if len(r.Orders) == 0 || r.Orders[0].Simulated || r.Delay.Factor < 1+minOvertaking ||
		math.Log(r.Orders[0].Delay.Factor) > minBetter*math.Log(r.Delay.Factor) {
		return nil
	}
	best := &r.Orders[0]
	return &Cause{OtherScheduler, fmt.Sprintf("%s describes the recorded delays better: they are off by a factor of "+
		"%.2f typically, and of %.2f as simulated", best.Name(), best.Delay.Factor, r.Delay.Factor),
		fmt.Sprintf("simulate --scheduler %s with %s", best.Scheduler, best.Configuration)}
}

// otherOrder says that recorded jobs overtake their like more or less often than simulated ones.
func otherOrder(r *Report, own *run) *Cause {
	was, ofWas := overtaking(own.pairs, recordedDelay)
	is, ofIs := overtaking(own.pairs, simulatedDelay)
	if min(ofWas, ofIs) < minJobs {
		return nil
	}
	x, y := float64(was)/float64(ofWas), float64(is)/float64(ofIs)
	if math.Abs(x-y) < minOvertaking {
		return nil
	}
	return &Cause{OtherOrder, fmt.Sprintf("of two jobs of one tenant and width that wait at once, the later one starts "+
		"first in %.0f %% of the recorded cases and in %.0f %% of the simulated ones", 100*x, 100*y),
		"simulate the order in force: priorities, fair share or size"}
}

// timeLimits says that jobs ended at their time limit, so that their recorded run time is the limit's.
func timeLimits(own *run) *Cause {
	ended, limited := 0, 0
	for i := range own.pairs {
		j := own.pairs[i].job
		if limit := j.Request().TimeLimit; limit > 0 {
			limited++
			if j.Duration >= limit {
				ended++
			}
		}
	}
	if float64(ended) < minOver*float64(len(own.pairs)) {
		return nil
	}
	return &Cause{TimeLimits, fmt.Sprintf("%d of %d jobs with a time limit ended at it: their run time is the limit, "+
		"whatever the work they had left", ended, limited),
		"read JCTs of these jobs as those of the limit"}
}
