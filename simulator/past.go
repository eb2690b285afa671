package simulator

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/autosched/autosched/workload"
)

// EndedJob is a scheduler's record of a job that has ended.
type EndedJob struct {
	Submit, End time.Duration
	Key, Tenant string
	User        string
	GPUs        int           // whole ones
	RunTime     time.Duration // held GPUs, restarts included
	workload.Requested
}

// Past is a scheduler's memory of the jobs that ended before a run began. It
// does not change and may be shared by simulations. A nil Past has no jobs.
type Past struct {
	jobs     []EndedJob
	runTimes func() map[Likeness]*runTimes
	digest   func() string
	rationed func() bool
}

// Likeness is the common property of recurring jobs: their key, their tenant and
// width, or their width (LikeKey, LikeTenant, LikeWidth).
type Likeness struct {
	kind uint8
	name string
	gpus int
}

// LikeKey is jobs of a key.
func LikeKey(key string) Likeness { return Likeness{kind: 0, name: key} }

// LikeTenant is jobs of a tenant and a width.
func LikeTenant(tenant string, gpus int) Likeness { return Likeness{kind: 1, name: tenant, gpus: gpus} }

// LikeWidth is jobs of a width.
func LikeWidth(gpus int) Likeness { return Likeness{kind: 2, gpus: gpus} }

// runTimes are the ends of similar jobs, and the sum of the run times up to each.
type runTimes struct {
	ends []time.Duration
	sums []int64 // whole seconds
}

// NewPast takes jobs in order of their end. The caller must not change them.
func NewPast(jobs []EndedJob) *Past {
	p := &Past{jobs: jobs}
	p.runTimes = sync.OnceValue(p.index)
	p.rationed = sync.OnceValue(func() bool {
		return slices.ContainsFunc(jobs, func(j EndedJob) bool { return rationed(j.Requested) })
	})
	p.digest = sync.OnceValue(func() string {
		h := sha256.New()
		for i := range jobs {
			j := jobs[i]
			j.Requested = workload.Requested{} // the address of the request
			fmt.Fprintf(h, "%+v %+v\n", j, jobs[i].Request())
		}
		return hex.EncodeToString(h.Sum(nil))
	})
	return p
}

func (p *Past) index() map[Likeness]*runTimes {
	out := map[Likeness]*runTimes{}
	add := func(x Likeness, j *EndedJob) {
		r := out[x]
		if r == nil {
			r = new(runTimes)
			out[x] = r
		}
		sum := int64(j.RunTime / time.Second)
		if n := len(r.sums); n > 0 {
			sum += r.sums[n-1]
		}
		r.ends, r.sums = append(r.ends, j.End), append(r.sums, sum)
	}
	for i := range p.jobs {
		j := &p.jobs[i]
		if j.Key != "" {
			add(LikeKey(j.Key), j)
		}
		add(LikeTenant(j.Tenant, j.GPUs), j)
		add(LikeWidth(j.GPUs), j)
	}
	return out
}

// Jobs are the jobs in order of their end. The caller must not change them.
func (p *Past) Jobs() []EndedJob {
	if p == nil {
		return nil
	}
	return p.jobs
}

// Services appends the GPU-times that the jobs took, in order of their end.
func (p *Past) Services(dst []time.Duration) []time.Duration {
	for _, j := range p.Jobs() {
		dst = append(dst, j.RunTime*time.Duration(j.GPUs))
	}
	return dst
}

// RunTimes are the sum of the run times, in whole seconds, and the number of the
// similar jobs that ended up to an instant.
func (p *Past) RunTimes(x Likeness, until time.Duration) (sum, n int64) {
	if p == nil {
		return 0, 0
	}
	r := p.runTimes()[x]
	if r == nil {
		return 0, 0
	}
	i := sort.Search(len(r.ends), func(i int) bool { return r.ends[i] > until })
	if i == 0 {
		return 0, 0
	}
	return r.sums[i-1], int64(i)
}

// SubmittedAfter appends the instants of submission after one, in order.
func (p *Past) SubmittedAfter(dst []time.Duration, after time.Duration) []time.Duration {
	jobs, from := p.Jobs(), len(dst)
	for i := len(jobs) - 1; i >= 0 && jobs[i].End > after; i-- {
		if jobs[i].Submit > after {
			dst = append(dst, jobs[i].Submit)
		}
	}
	slices.Sort(dst[from:])
	return dst
}

// Digest identifies the jobs.
func (p *Past) Digest() string {
	if len(p.Jobs()) == 0 {
		return ""
	}
	return p.digest()
}
