package inject

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/autosched/autosched/workload"
)

// The cluster of a stream of quotas: tenants with nodes as large as their quotas.
const (
	quotaTenants = 24
	quotaDays    = 12
	quotaNodes   = 5 // of sceneGPUs
	quotaJobs    = 20
	quotaJobGPUs = quotaNodes * sceneGPUs / quotaJobs
)

// NewQuotas makes a stream of tenants with quotas, twelve days from Options.From on and without
// telemetry: the definition of quota_hoarding looks at a week. In a case a tenant uses less than
// half of its quota for all but a twentieth of a week, while jobs of others wait for more than an
// hour a day.
func NewQuotas(o Options) (*Stream, error) {
	o.defaults()
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("inject: %w", err)
	}
	s := &Stream{Zero: o.Trace.Zero(), From: o.From, To: o.From + quotaDays*24*time.Hour, Period: o.Period,
		Units: map[string]int{}, seed: o.Seed, varied: o.Varied, labels: map[string][]string{},
		scripted: map[string]bool{}}
	if !o.wants("quota_hoarding") {
		s.addNodes("quotas", 1, sceneGPUs)
		return s, nil
	}
	s.GPUDays = quotaTenants * quotaNodes * sceneGPUs * quotaDays
	c := s.newScene("quotas", quotaTenants*quotaNodes)
	x := s.stream("quotas")
	waits := span(x, 2*time.Hour, 8*time.Hour) // of others, a day
	switch x.IntN(8) {
	case 0:
		waits = 0
	case 1:
		waits = span(x, 35*time.Minute, 50*time.Minute)
	case 2, 3, 4:
		waits = span(x, 66*time.Minute, 78*time.Minute)
	}
	for day := range quotaDays {
		if waits > 0 {
			c.job("wait"+strconv.Itoa(day), "others", s.From+time.Duration(day)*24*time.Hour+span(x, 0, 12*time.Hour),
				waits, time.Hour, 1)
		}
	}
	positives := count(x, o.Prevalence, quotaTenants)
	negatives := max(2, positives)
	for i, n := range x.Perm(quotaTenants) {
		name := "tenant" + strconv.Itoa(n)
		s.Cluster.VCs = append(s.Cluster.VCs, workload.VC{Tenant: name, GPUs: quotaNodes * sceneGPUs})
		u := &quotaUse{level: between(x, .6, .95)}
		if s.varied {
			u.swing, u.wide = between(x, .05, .1), x.IntN(2) == 0
		}
		near := x.IntN(2) == 0
		switch {
		case i < positives:
			u.low(x, near)
			if waits > time.Hour {
				from := s.From + u.until
				s.label("quota_hoarding", name, from, s.To, near, (1-u.level)*quotaNodes*sceneGPUs*(s.To-from).Hours())
			}
		case i < positives+negatives:
			u.enough(x, near)
		}
		s.use(c, x, n, name, u)
	}
	s.Units["quota_hoarding"] = quotaTenants
	s.events = append(s.events, c.events...)
	s.finish()
	return s, nil
}

// quotaUse is a tenant's use of its quota.
type quotaUse struct {
	level  float64
	peak   float64       // for a time of every so often
	length time.Duration // of a peak
	every  time.Duration // from one peak to the next, 0 for none
	until  time.Duration // of another level before
	before float64
	swing  float64 // of a wave a day, around the level
	wide   bool    // jobs of two slots
}

func (u *quotaUse) low(x *rand.Rand, near bool) {
	u.level = between(x, .1, .3)
	if near {
		u.level = between(x, .38, .46) - u.swing
	}
	if u.swing > 0 && x.IntN(2) == 0 { // from the middle on
		u.before, u.until = between(x, .6, .9), span(x, 24*time.Hour, 4*24*time.Hour)
	}
	if x.IntN(2) == 0 { // for less than a twentieth of the week
		u.peak, u.every, u.length = between(x, .7, .95), 7*24*time.Hour, span(x, 2*time.Hour, 6*time.Hour)
	}
}

// enough is use that looks low and is not.
func (u *quotaUse) enough(x *rand.Rand, near bool) {
	switch {
	case near && x.IntN(2) == 0:
		u.level = between(x, .56, .65) - u.swing // for half of the day it is above
	case near: // peaks in more than a twentieth of the week
		u.level, u.peak, u.every, u.length = between(x, .2, .4), between(x, .6, .9), 24*time.Hour, 2*time.Hour
	default: // not for a whole week
		u.level, u.before, u.until = between(x, .1, .2), between(x, .7, .9), span(x, 6*24*time.Hour, 8*24*time.Hour)
	}
}

func (u *quotaUse) at(into time.Duration) float64 {
	switch {
	case into < u.until:
		return u.before
	case u.every > 0 && into%u.every < u.length:
		return u.peak
	}
	return u.level + u.swing*(2*wave(into, 24*time.Hour)-1)
}

// use makes the jobs of a tenant: as many at once as its use needs, each for eight hours at most.
func (s *Stream) use(c *scene, x *rand.Rand, n int, tenant string, u *quotaUse) {
	var since [quotaJobs]time.Duration
	var runs [quotaJobs]bool
	id := 0
	for t := s.From; t < s.To; t += 15 * time.Minute {
		want := int(u.at(t-s.From)*quotaJobs + .5)
		if u.wide {
			want = want / 2 * 2
		}
		for i := range quotaJobs {
			if runs[i] && (i >= want || t-since[i] >= 8*time.Hour || t+15*time.Minute >= s.To) {
				c.job("t"+strconv.Itoa(n)+"-"+strconv.Itoa(id), tenant, since[i], 0, t-since[i], quotaJobGPUs,
					n*quotaNodes+i*quotaNodes/quotaJobs)
				id, runs[i] = id+1, false
			}
			if !runs[i] && i < want {
				since[i], runs[i] = t, true
				if t == s.From { // they do not all end at once
					since[i] -= 15 * time.Minute * time.Duration(x.IntN(32))
				}
			}
		}
	}
}
