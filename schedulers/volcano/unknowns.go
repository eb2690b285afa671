package volcano

import (
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Unknowns are the part of a run that neither the configuration nor events tell. The zero value is sessions at the
// multiples of the period that take no time, and the first of nodes of equal score.
type Unknowns struct {
	// Phase is the instant of a session.
	Phase time.Duration
	// Session is how long a session takes at least, up to twice that by chance, and PerJob how much longer for
	// each waiting job.
	Session, PerJob time.Duration
	// Seed draws between nodes of equal score, and the length of sessions.
	Seed uint64
}

// Draw returns one of n draws of the unknowns, with a common seed, and the time from a pod's start or end to when the
// scheduler, or the job, knows of it. Phases come from all parts of the period.
func Draw(k, n int, period time.Duration, seed uint64) (u Unknowns, overhead time.Duration) {
	u = Unknowns{Phase: period * time.Duration(2*k+1) / time.Duration(2*n), Session: 60 * time.Millisecond,
		PerJob: 4 * time.Millisecond, Seed: mix(seed + uint64(k))}
	return u, 100*time.Millisecond + time.Duration(mix(u.Seed)%200)*time.Millisecond
}

// Members makes policies of a configuration that differ in the unknowns. Delays that are many times the scale do not
// depend on them.
func Members(c space.Config) (members []simulator.Member, scale time.Duration) {
	const n = 12
	period := Defaults().SchedulePeriod
	for k := range n {
		u, overhead := Draw(k, n, period, 0)
		members = append(members, simulator.Member{Epilog: overhead, Policy: &policy{config: &c, unknowns: u}})
	}
	return members, period
}

// length is how much longer than a period it takes from a session to the next.
func (u *Unknowns) length(at time.Duration, waiting int) time.Duration {
	if u.Session == 0 {
		return 0
	}
	return u.Session + time.Duration(mix(u.Seed^uint64(at))%uint64(u.Session)) + time.Duration(waiting)*u.PerJob
}

// tie is a node's rank among ones of equal score in a session; 0 for all without a seed.
func (u *Unknowns) tie(at time.Duration, node int) uint64 {
	if u.Seed == 0 {
		return 0
	}
	return mix(u.Seed ^ mix(uint64(at)+uint64(node)<<48))
}

// mix is SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
