package fidelity

import "context"

// Ensemble measures the effect of unknowns of a recorded scheduler, such as when its cycles came.
type Ensemble struct {
	Members int `json:"members"` // simulations, the first included
	// Least and Greatest are the mean delays of the members in seconds. The member that is closest is compared.
	Least    float64 `json:"least_mean_s"`
	Greatest float64 `json:"greatest_mean_s"`
}

// longDelays is how many times the scale of the unknown delays are on average where it does not matter.
const longDelays = 20

// ensemble simulates the window under the members of the scheduler, and compares the one whose delays are closest. It
// returns own where nothing is unknown, or nothing depends on it.
func (in *Input) ensemble(ctx context.Context, r *Report, own *run) (*run, error) {
	if in.Scheduler.Members == nil {
		return own, nil
	}
	members, scale := in.Scheduler.Members(in.Config)
	if min(r.Delay.Recorded, r.Delay.Simulated) > longDelays*scale.Seconds() {
		return own, nil
	}
	e := &Ensemble{Members: 1 + len(members), Least: r.Delay.Simulated, Greatest: r.Delay.Simulated}
	best, epilog := own, in.Simulate.Epilog
	for _, m := range members {
		one := *in
		one.Simulate.Epilog = max(epilog, m.Epilog)
		x, err := one.run(ctx, m.Policy)
		if err != nil {
			return nil, err
		}
		d := x.delay()
		e.Least, e.Greatest = min(e.Least, d.Simulated), max(e.Greatest, d.Simulated)
		if x.off() < best.off() {
			best, in.closest, in.Simulate.Epilog = x, m.Policy, one.Simulate.Epilog
		}
	}
	r.Ensemble = e
	if best != own {
		r.Graded = Graded{}
		r.compare(in, best)
	}
	return best, nil
}
