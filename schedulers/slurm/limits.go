package slurm

import (
	"cmp"
	"slices"

	"github.com/autosched/autosched/workload"
)

// limits count what running jobs hold against limits of QOS and associations. src/slurmctld/acct_policy.c.
type limits struct {
	all      []workload.Limit
	counters []counter
	index    map[counterKey]int32
	bounds   map[boundsKey][]bound
}

// counter is the number of jobs or GPUs that a limit counts together.
type counter struct {
	limit workload.Limit
	held  int64
}

// counterKey is a limit and, where it divides its scope, the user or association.
type counterKey struct{ limit, of int32 }

// boundsKey has the properties that jobs with equal bounds share.
type boundsKey struct{ qos, part, user, uid int32 }

// bound is a counter of a job. It holds the job back unless a QOS has a limit of its kind that goes before.
type bound struct {
	counter       int32
	gpus, binding bool
}

func (l *limits) reset(all []workload.Limit) {
	l.all, l.counters = all, l.counters[:0]
	l.index, l.bounds = map[counterKey]int32{}, map[boundsKey][]bound{}
}

// boundsOf returns the bounds of a job: of the QOS of its partition, of its own, and of its association and the
// accounts above it. Of two QOS the first that has a kind of limit counts, and an association's only where none has it:
// acct_policy_set_qos_order, _validate_tres_usage_limits and acct_policy_job_runnable_pre_select.
func (p *policy) boundsOf(x *job) []bound {
	if len(p.limits.all) == 0 {
		return nil
	}
	key := boundsKey{x.qos, x.part, x.user, x.uid}
	if b, ok := p.limits.bounds[key]; ok {
		return b
	}
	type kind struct {
		each     workload.Each
		resource workload.Resource
	}
	set := map[kind]bool{}
	var out []bound
	add := func(l workload.Limit, limit int, of int32, binding bool) {
		k := counterKey{int32(limit), of}
		i, ok := p.limits.index[k]
		if !ok {
			i = int32(len(p.limits.counters))
			p.limits.index[k] = i
			p.limits.counters = append(p.limits.counters, counter{limit: l})
		}
		out = append(out, bound{i, l.Resource == workload.LimitedGPUs, binding})
	}
	names := slices.Compact([]string{p.site.partitions[x.part].QOS, p.site.qos[x.qos].Name})
	for _, name := range names {
		var found []kind
		for i, l := range p.limits.all {
			if name == "" || l.QOS != name {
				continue
			}
			k, of := kind{l.Each, l.Resource}, int32(0)
			switch l.Each {
			case workload.EachUser:
				of = x.uid
			case workload.EachAccount:
				of = p.tree[x.user].parent
			}
			add(l, i, of, !set[k])
			found = append(found, k)
		}
		for _, k := range found {
			set[k] = true
		}
	}
	jobsOfEach := set[kind{workload.EachUser, workload.LimitedJobs}] ||
		set[kind{workload.EachAccount, workload.LimitedJobs}]
	there := p.site.partitions[x.part].Name // of the user there
	if !slices.ContainsFunc(p.limits.all, func(l workload.Limit) bool {
		return l.Partition == there && p.tree[x.user].is(l.Scope)
	}) {
		there = ""
	}
	for a := x.user; a >= 0; a = p.tree[a].parent {
		for i, l := range p.limits.all {
			if !p.tree[a].is(l.Scope) || l.User != "" && l.Partition != there {
				continue
			}
			over := set[kind{"", l.Resource}]
			if l.User != "" && l.Resource == workload.LimitedJobs {
				over = jobsOfEach // MaxJobs
			}
			add(l, i, 0, !over)
		}
	}
	p.limits.bounds[key] = out
	return out
}

// is reports whether a limit is of an association.
func (a *association) is(s workload.Scope) bool {
	return s.QOS == "" && s.Account == cmp.Or(a.name, "root") && s.User == a.user
}

// limited reports whether a limit holds a job back now. The GPUs that it asks for count, also if it takes nodes whole;
// those of a running job are all that it has. acct_policy_job_runnable_post_select and acct_policy_job_begin.
func (p *policy) limited(x *job) bool {
	asks := int64(p.layouts[x.layout].gpus)
	for _, b := range x.bounds {
		if c := &p.limits.counters[b.counter]; b.binding && !c.limit.Allows(c.held, b.of(asks)) {
			return true
		}
	}
	return false
}

// of returns how much a job of some GPUs adds to a counter.
func (b bound) of(gpus int64) int64 {
	if b.gpus {
		return gpus
	}
	return 1
}

// count adds a job that starts to its counters, and takes one that ends off them.
func (p *policy) count(x *job, runs bool) {
	if x.counted == runs {
		return
	}
	x.counted = runs
	for _, b := range x.bounds {
		if n := b.of(x.gpus); runs {
			p.limits.counters[b.counter].held += n
		} else {
			p.limits.counters[b.counter].held -= n
		}
	}
}
