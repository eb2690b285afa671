package fidelity

import (
	"fmt"

	"github.com/autosched/autosched/internal/units"
)

// Grade is how far conclusions from the simulation hold for the recorded cluster.
type Grade string

// The grades. Describes: gains that the simulation shows hold in sign and about in size. Roughly: in sign. Barely: the
// sign is likely to hold. Not: neither holds. Incomparable: another scheduler ran the history, or too little is
// recorded, and conclusions are about the simulated cluster.
const (
	Describes    Grade = "describes"
	Roughly      Grade = "describes roughly"
	Barely       Grade = "barely describes"
	Not          Grade = "does not describe"
	Incomparable Grade = "not comparable"
)

// Graded is a grade with its reason.
type Graded struct {
	Grade Grade  `json:"grade"`
	Why   string `json:"why"` // a clause
	// Refused says that no conclusion about the recorded cluster holds.
	Refused bool `json:"refused"`
}

// String is a sentence without its full stop.
func (g *Graded) String() string {
	if g.Grade == Incomparable {
		return "The simulation is not comparable with the history, and conclusions are about the simulated cluster " +
			"alone: " + g.Why
	}
	verb, so := string(g.Grade), ""
	switch g.Grade {
	case Roughly:
		verb = "roughly describes"
	case Barely:
		so = ", so that a gain may be of the other sign"
	}
	return fmt.Sprintf("The simulation %s the history%s: %s", verb, so, g.Why)
}

// limits of a grade.
type limits struct {
	grade Grade
	// ratio bounds the mean delays over each other. A configuration gains on the
	// delays: a queue that is wrong by a quarter makes a gain of 10 % one of 8 to 12.5 %.
	ratio float64
	// factor bounds how far the delay of a job is off, typically.
	factor float64
	// ks bounds the share of jobs that are on the wrong side of any delay.
	ks float64
	// rank bounds the correlation from below: which jobs wait decides the gain of an order.
	rank float64
}

var grades = []limits{{Describes, 1.25, 1.5, .1, .8}, {Roughly, 2, 2, .25, .5}, {Barely, 2.25, 2.25, .3, .45}}

// NoDelays says why a history is not comparable that has none.
const NoDelays = "it records no queueing delays"

// negligible is the share of the mean JCT below which delays, or their difference, cannot
// carry a conclusion.
const negligible = .01

// few grades a comparison with too few jobs, and reports whether it has.
func (r *Report) few() bool {
	if r.Compared >= minJobs {
		return false
	}
	r.Grade, r.Why = Incomparable, fmt.Sprintf("%d jobs can be compared, and a grade takes %d", r.Compared, minJobs)
	if r.Jobs > 0 && r.Unrecorded == r.Jobs {
		r.Why = NoDelays
	}
	return true
}

// grade sets the grade and its reason from the agreement.
func (r *Report) grade() {
	d := r.Delay
	small := negligible * r.JCT.Recorded
	means := r.means()
	if r.Recorded != r.Scheduler {
		ran := "it is not known which scheduler ran the history (--recorded-scheduler)"
		if r.Recorded != Unknown {
			ran = "the scheduler that ran the history is " + r.Recorded
			if r.Recorded == Other {
				ran = "another scheduler ran the history"
			}
		}
		r.Grade, r.Why = Incomparable, fmt.Sprintf("%s, and %s is simulated; %s", ran, r.Scheduler, means)
		return
	}
	if max(d.Recorded, d.Simulated) <= small {
		r.Grade, r.Why = Describes, means+", both below 1 % of the JCT"
		return
	}
	r.Grade = Not
	r.Why = fmt.Sprintf("%s, and a job's delay is off by a factor of %.2f typically", means, d.Factor)
	for _, l := range grades {
		wrong := d.beyond(l, small)
		if wrong == "" {
			r.Grade = l.grade
			return
		}
		if l.grade != Describes { // of a barely described history it says why
			r.Why = means + ", " + wrong
		}
	}
	r.Refused = true
}

// beyond names the first limit that the delays do not keep, "" if they keep all.
func (d *Agreement) beyond(l limits, small float64) string {
	low, high := min(d.Recorded, d.Simulated), max(d.Recorded, d.Simulated)
	switch {
	case high-low > small && high > l.ratio*low:
		return fmt.Sprintf("which is more than %g times apart", l.ratio)
	case d.Factor > l.factor:
		return fmt.Sprintf("and a job's delay is off by a factor of %.2f typically, at most %g", d.Factor, l.factor)
	case d.KS > l.ks:
		return fmt.Sprintf("and the distributions are %.2f apart (KS, at most %.2f)", d.KS, l.ks)
	case d.Delayed >= minJobs && d.Rank < l.rank:
		return fmt.Sprintf("and other jobs wait: rank correlation %.2f, at least %.2f", d.Rank, l.rank)
	}
	return ""
}

// outOfProportion reports whether a mean simulated queue differs by more than another
// scheduler explains: it is above ten times the recorded delay and a minute, and above it by more than
// the recorded JCT.
func (r *Report) outOfProportion(queue float64) bool {
	return queue > 10*(r.Delay.Recorded+grain.Seconds()) && queue-r.Delay.Recorded > r.JCT.Recorded
}

// doubt refuses conclusions, whichever scheduler ran the history, if the queue is out of
// proportion and the cluster is another one: recorded jobs held more GPUs on average than it has, or
// the queue is out of proportion under every scheduler that was simulated.
func (r *Report) doubt() {
	if r.Refused || !r.outOfProportion(r.Queue) {
		return
	}
	if n := r.Cluster.TotalGPUs(); r.MeanGPUs > float64(n) {
		why := fmt.Sprintf("%s, where %.0f GPUs were in use on average, and the cluster has %d", r.means(),
			r.MeanGPUs, n)
		r.Graded = Graded{Not, why, true}
		return
	}
	for i := range r.Orders {
		if !r.outOfProportion(r.Orders[i].Queue) {
			return
		}
	}
	r.Graded = Graded{Not, r.means() + ", and no simulated scheduler explains it", true}
}

// means is a clause with the mean delays.
func (r *Report) means() string {
	text := fmt.Sprintf("jobs wait %s on average in the simulation", units.Duration(r.Delay.Simulated))
	if r.Queue > r.Delay.Simulated+grain.Seconds() {
		text += fmt.Sprintf(" until they start (%s with the time after preemptions)", units.Duration(r.Queue))
	}
	return fmt.Sprintf("%s and %s in the history", text, units.Duration(r.Delay.Recorded))
}
