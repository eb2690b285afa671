package schedulers

import (
	"github.com/autosched/autosched/schedulers/pooling"
	"github.com/autosched/autosched/space"
)

var (
	poolingSpace = must(space.New(pooling.Space(), nil))

	// Reclaiming without grace: 27,973 s of average completion time (29,157) on two
	// weeks of the Philly trace on 70 nodes, with quotas by share of GPU-time;
	// 13,338 (13,344) on 100 nodes, where jobs hardly queue.
	poolingPresets = []Preset{preset(poolingSpace, "reclaim-at-once", "grace=0")}
)
