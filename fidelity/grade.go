package fidelity

import "fmt"

// Grade is how far conclusions from the simulation hold for the recorded cluster.
type Grade string

// The grades. Describes: gains that the simulation shows hold in sign and about in size.
// Roughly: in sign. Not: in neither. Incomparable: another scheduler ran the history, or
// too little is recorded, and conclusions are about the simulated cluster.
const (
	Describes    Grade = "describes"
	Roughly      Grade = "describes roughly"
	Not          Grade = "does not describe"
	Incomparable Grade = "not comparable"
)

// limits of a grade.
type limits struct {
	grade Grade
	// ratio bounds the mean delays over each other. What a configuration gains, it gains on the
	// delays: a queue that is wrong by a quarter makes a gain of 10 % one of 8 to 12.5 %.
	ratio float64
	// factor bounds how far the delay of a job is off, typically.
	factor float64
	// ks bounds the share of jobs that are on the wrong side of any delay.
	ks float64
	// rank bounds the correlation from below: which jobs wait decides what an order gains.
	rank float64
}

var grades = []limits{{Describes, 1.25, 1.5, .1, .8}, {Roughly, 2, 2, .25, .5}}

// negligible is the share of the mean JCT below which delays, or their difference, cannot
// carry a conclusion.
const negligible = .01

// grade sets the grade and its reason from the agreement.
func (r *Report) grade() {
	d := r.Delay
	small := negligible * r.JCT.Recorded
	means := fmt.Sprintf("jobs wait %s on average in the simulation and %s in the history", Span(d.Simulated),
		Span(d.Recorded))
	if r.Recorded != r.Scheduler {
		ran := "it is not known which scheduler ran the history"
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
	for _, l := range grades {
		if wrong := d.beyond(l, small); wrong == "" {
			r.Grade, r.Why = l.grade, fmt.Sprintf("%s, and a job's delay is off by a factor of %.2f typically", means,
				d.Factor)
			return
		} else {
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

// outOfProportion reports whether mean delays differ by more than another scheduler explains:
// ten times the recorded one and a minute, and by more than the recorded JCT.
func (d *Agreement) outOfProportion(jct float64) bool {
	return d.Simulated > 10*(d.Recorded+grain.Seconds()) && d.Simulated-d.Recorded > jct
}

// doubt refuses conclusions, whichever scheduler ran the history, if the delays are out of
// proportion under every scheduler that was simulated: the cluster is another one.
func (r *Report) doubt() {
	if r.Refused || !r.Delay.outOfProportion(r.JCT.Recorded) {
		return
	}
	for i := range r.Orders {
		if !r.Orders[i].Delay.outOfProportion(r.JCT.Recorded) {
			return
		}
	}
	r.Grade, r.Refused = Not, true
	r.Why = fmt.Sprintf("jobs wait %s on average in the simulation and %s in the history, and no simulated scheduler "+
		"explains it", Span(r.Delay.Simulated), Span(r.Delay.Recorded))
}
