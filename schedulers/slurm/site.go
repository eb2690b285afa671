package slurm

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// unlimited is the time limit of a job without one.
const unlimited = 365 * 24 * time.Hour

// partition is a workload.Partition with derived values.
type partition struct {
	workload.Partition
	size   size
	factor float64 // JobFactor over the largest
	nodes  nodeSet // nil until it is asked for
}

// site is a workload.Site with derived values.
type site struct {
	qos        []workload.QOS
	best       int64 // priority of all QOS
	partitions []partition
	size       size // of the cluster
}

// reset takes a site over, with the priorities of QOS that a configuration has.
func (s *site) reset(from *workload.Site, c workload.Cluster, config *space.Config) {
	s.qos, s.partitions, s.best = s.qos[:0], s.partitions[:0], 0
	s.size = sizeOf(c, "")
	for _, q := range from.QOS {
		if id := QOSPriority(q.Name); config != nil && config.Has(id) {
			q.Priority = int64(config.Get(id).Float())
		}
		s.qos = append(s.qos, q)
		s.best = max(s.best, q.Priority)
	}
	factor := int64(0)
	for _, p := range from.Partitions {
		factor = max(factor, p.JobFactor)
	}
	for _, p := range from.Partitions {
		s.partitions = append(s.partitions, partition{Partition: p, size: sizeOf(c, p.Name),
			factor: share(float64(p.JobFactor), float64(factor))})
	}
}

// sizeOf counts the nodes that take jobs of a partition; of all, if no node is known to. Where the CPUs of a node
// are not known, each has one.
func sizeOf(c workload.Cluster, partition string) size {
	s := size{rationed: true}
	for _, g := range c.Groups {
		if partition != "" && !within(partition, g.Partition) {
			continue
		}
		s.nodes += float64(g.Nodes)
		s.cpus += float64(g.Nodes * g.CPUs)
		s.gpus += float64(g.Nodes * g.GPUsPerNode)
		s.rationed = s.rationed && g.CPUs > 0
	}
	if s.nodes == 0 && partition != "" {
		return sizeOf(c, "")
	}
	if !s.rationed {
		s.cpus = s.nodes
	}
	return s
}

// within reports whether a list of partitions has one.
func within(partition, list string) bool { return slices.Contains(strings.Split(list, ","), partition) }

// partition is the index of a partition; one that the site does not describe has no settings.
func (s *site) partition(name string, c workload.Cluster) int32 {
	if i := slices.IndexFunc(s.partitions, func(p partition) bool { return p.Name == name }); i >= 0 {
		return int32(i)
	}
	s.partitions = append(s.partitions, partition{Partition: workload.Partition{Name: name}, size: sizeOf(c, name)})
	return int32(len(s.partitions) - 1)
}

// qosOf is the index of a QOS; one that the site does not describe has priority 0.
func (s *site) qosOf(name string) int32 {
	if i := slices.IndexFunc(s.qos, func(q workload.QOS) bool { return q.Name == name }); i >= 0 {
		return int32(i)
	}
	s.qos = append(s.qos, workload.QOS{Name: name})
	return int32(len(s.qos) - 1)
}

// mayPreempt reports whether a job may take the place of another: its QOS the other's, or its partition that of a lower
// tier. preempt_p_preemptable in src/plugins/preempt.
func (p *policy) mayPreempt(a, b *job) bool {
	if p.settings.PreemptPartition {
		return p.site.partitions[a.part].PriorityTier > p.site.partitions[b.part].PriorityTier &&
			p.site.partitions[b.part].PreemptMode != workload.PreemptOff
	}
	return slices.Contains(p.site.qos[a.qos].Preempt, p.site.qos[b.qos].Name)
}

// preempts reports whether jobs of some QOS or partition may take the place of others.
func (p *policy) preempts() bool { return p.settings.PreemptQOS || p.settings.PreemptPartition }

// cancels reports whether a job ends when it is preempted. _job_preempt_mode in src/plugins/preempt.
func (p *policy) cancels(x *job) bool {
	mode := p.site.qos[x.qos].PreemptMode
	if p.settings.PreemptPartition {
		mode = p.site.partitions[x.part].PreemptMode
	}
	return mode == workload.PreemptCancel || mode == "" && p.settings.PreemptCancel
}

// limit returns the time limit of a job: its own, its estimated run time, or the default of its partition.
func (p *partition) limit(v *simulator.View, j simulator.ID, r workload.Request) time.Duration {
	if r.TimeLimit > 0 {
		return r.TimeLimit
	}
	if d, ok := v.JobEstimate(j); ok {
		return max(d, time.Second)
	}
	return cmp.Or(time.Duration(cmp.Or(p.DefaultMinutes, p.MaxMinutes))*time.Minute, unlimited)
}

// billing returns the charge of a second of a job: without weights its CPUs; if it asks for none, one on each
// node, or as many as GPUs.
func (p *partition) billing(r workload.Request, gpus int) int64 {
	cpus := float64(gpus)
	switch {
	case r.MilliCPUs > 0 && p.size.rationed:
		cpus = float64(r.MilliCPUs) / 1000
	case r.NodeCount > 0:
		cpus = float64(r.NodeCount)
	}
	if p.BillingCPU == 0 && p.BillingGPU == 0 {
		return int64(math.Ceil(cpus))
	}
	return int64(math.Ceil(p.BillingCPU*cpus + p.BillingGPU*float64(gpus)))
}
