package durations

import (
	"slices"
	"time"
)

// Bins are finer than classes: hazards are estimated in each. Every bound of a
// class is one of a bin.
const Bins = 17

var binBounds = [Bins - 1]float64{60, 150, 300, 600, 900, 1200, 1800, 2400, 3000, 3600, 4500, 5400, 7200, 10800, 14400,
	28800}

func binOf(seconds float64) uint8 {
	b := uint8(0)
	for b < Bins-1 && seconds >= binBounds[b] {
		b++
	}
	return b
}

var classOfBin = func() (out [Bins]uint8) {
	for b := 1; b < Bins; b++ {
		out[b] = uint8(ClassOf(time.Duration(binBounds[b-1]) * time.Second))
	}
	return out
}()

// How many jobs a wider group's hazard counts for in that of a narrower one, so
// that a few jobs do not say more than they know.
const (
	priorEverybody = 5. // in a tenant's, by jobs
	priorTenant    = 1. // in the neighbours'
	priorKin       = 2. // in a key's
	priorEven      = 2. // by batches: everybody's in a tenant's, a tenant's in a width's
)

// survival estimates the class from jobs like the one asked about, by Kaplan and
// Meier's product of one less the hazards, in bins, among jobs that had run as
// long as it has. Jobs that still run count until now (Kaplan and Meier,
// "Nonparametric estimation from incomplete observations", 1958). The estimates
// come from its neighbours in submission, from its tenant's jobs, from its
// tenant's and its width's batches, and from its key's and its width's jobs ever.
func (t *Tracker) survival(r *row, i int32, ran time.Duration) {
	q := &t.jobs[i]
	all, tenant, width := &t.groups[everybody], &t.groups[q.tenant], &t.groups[q.width]
	from := binOf(ran.Seconds())

	var byJobs, byBatches, local [Bins]float64
	hazards(&byJobs, &all.jobs, nil, nil, 1)
	hazards(&byJobs, &tenant.jobs, nil, &byJobs, priorEverybody)
	ended, running, weight := t.near(i, ran)
	hazards(&local, &ended, &running, &byJobs, priorTenant)
	classes(r, &local, from)
	classes(r, &byJobs, from)

	hazards(&byBatches, &all.even, nil, nil, 1)
	hazards(&byBatches, &tenant.even, nil, &byBatches, priorEven)
	classes(r, &byBatches, from)
	hazards(&byBatches, &width.even, nil, &byBatches, priorEven)
	classes(r, &byBatches, from)
	r.put(weight)
	for _, n := range [...]int32{q.key, q.width} {
		if n == none {
			r.skip(Classes)
			continue
		}
		g := &t.groups[n]
		own := g.running
		own[q.bin]-- // the job is no witness of its own
		of := counts{bins: g.stopped, unit: 1}
		kin := byBatches
		hazards(&kin, &of, &own, &byBatches, priorKin)
		classes(r, &kin, from)
	}
}

// near weighs the neighbours in submission that ran longer than a job has: ended ones
// by their duration, running ones by their time so far.
func (t *Tracker) near(i int32, ran time.Duration) (ended counts, running [Bins]float64, weight float64) {
	q := &t.jobs[i]
	ended.unit = 1
	for way := range 2 {
		n := q.next(way)
		for d := 0; d < near && n != none; d++ {
			j := &t.jobs[n]
			if x := t.ran(n); x > ran {
				w := 1 / (1 + float64(d)/6)
				if j.batch != q.batch {
					w *= .3
				}
				if j.width != q.width {
					w *= .3
				}
				if j.ended {
					ended.bins[j.bin] += w
				} else {
					running[binOf(x.Seconds())] += w
				}
				weight += w
			}
			n = j.next(way)
		}
	}
	return ended, running, weight
}

// next is the neighbour in submission: the one before (0) or after (1).
func (j *tracked) next(way int) int32 {
	if way == 0 {
		return j.before
	}
	return j.after
}

// hazards of the bins: the share of jobs at risk that ended in each. Jobs that
// run in a bin are at risk for half of it. The prior weighs as much as that number of jobs; nil
// is an even one. dst may be prior.
func hazards(dst *[Bins]float64, ended *counts, running, prior *[Bins]float64, strength float64) {
	atRisk := 0.
	for b := Bins - 1; b >= 0; b-- {
		e, c := ended.bins[b]/ended.unit, 0.
		if running != nil {
			c = running[b]
		}
		n := atRisk + e + c/2
		atRisk += e + c
		h := 1 / float64(Bins-b)
		if prior != nil {
			h = prior[b]
		}
		dst[b] = (e + strength*h) / (n + strength)
	}
}

// classes puts the probabilities of the classes for a job in a bin.
func classes(r *row, hazard *[Bins]float64, from uint8) {
	var p [Classes]float64
	left := 1.
	for b := from; b < Bins-1; b++ {
		p[classOfBin[b]] += left * hazard[b]
		left *= 1 - hazard[b]
	}
	p[Classes-1] += left
	for _, v := range p {
		r.put(v)
	}
}

// similar is the median duration, in seconds, of the latest jobs that ran longer
// than a job has, of its key, its width, its tenant or of everybody: the first of
// these that has three. NaN if no job ran longer.
func (t *Tracker) similar(i int32, ran time.Duration) float64 {
	const enough = 3
	q := &t.jobs[i]
	var longer [recentEnds]time.Duration
	for _, p := range [...]int32{q.key, q.width, q.tenant, everybody} {
		if p == none {
			continue
		}
		n := 0
		g := &t.groups[p]
		for k := int32(1); k <= recentEnds; k++ {
			if e := g.latest(k); e != none && t.history[e].Ran > ran {
				longer[n] = t.history[e].Ran
				n++
			}
		}
		if n >= enough || p == everybody && n > 0 {
			slices.Sort(longer[:n])
			return longer[n/2].Seconds()
		}
	}
	return missing
}
