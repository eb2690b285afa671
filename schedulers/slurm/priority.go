package slurm

import (
	"math"
	"time"
)

// size is that of the cluster or of a partition, for the size factors of a priority.
type size struct {
	nodes, cpus, gpus float64
	rationed          bool // CPUs are known
}

// factors are the inputs of a job's priority.
type factors struct {
	age       time.Duration // for which it has waited
	fairshare float64
	partition float64 // JobFactor over the largest
	qos       float64 // priority over the largest
	nodes     float64
	cpus      float64
	gpus      float64
	nice      int64
}

// priority is the multifactor priority of a job. _get_priority_internal in
// src/plugins/priority/multifactor/priority_multifactor.c.
func (s *Settings) priority(f factors, cluster, partition size) int64 {
	if s.Basic {
		return 1
	}
	p := float64(s.PriorityWeightFairshare)*f.fairshare +
		float64(s.PriorityWeightPartition)*f.partition + float64(s.PriorityWeightQOS)*f.qos
	if s.PriorityMaxAge > 0 {
		p += float64(s.PriorityWeightAge) * min(1, max(0, f.age.Seconds())/s.PriorityMaxAge.Seconds())
	}
	if w := float64(s.PriorityWeightJobSize); w != 0 {
		nodes, cpus := f.nodes, f.cpus
		if s.PriorityFavorSmall {
			nodes, cpus = max(0, cluster.nodes-nodes), max(0, cluster.cpus-cpus)
		}
		p += w * min(1, (share(nodes, cluster.nodes)+share(cpus, cluster.cpus))/2)
	}
	p += float64(s.PriorityWeightGPU)*share(f.gpus, partition.gpus) +
		float64(s.PriorityWeightCPU)*share(f.cpus, partition.cpus) +
		float64(s.PriorityWeightNode)*share(f.nodes, partition.nodes)
	return int64(min(max(math.Trunc(p-float64(f.nice)), 1), math.MaxUint32))
}

func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}
