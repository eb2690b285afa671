package history

import (
	"hash/maphash"
	"time"

	"github.com/autosched/autosched/workload"
)

// identity recognises a repeated event by its content and its minute.
type identity struct {
	content uint32
	at      int32
}

var hashSeed = maphash.MakeSeed()

// hashID stands for an id: of a million, two are alike with a probability of 3e-8.
func hashID(id string) uint64 { return maphash.String(hashSeed, id) }

func identify(e *workload.Event) identity { return identity{uint32(contentOf(e)), minutes(e.Time)} }

func minutes(at time.Duration) int32 { return int32(at / time.Minute) }

// contentOf hashes all of an event that is stored.
func contentOf(e *workload.Event) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	writeContent(&h, e)
	return h.Sum64()
}

func writeContent(h *maphash.Hash, e *workload.Event) {
	j := e.Job
	maphash.WriteComparable(h, struct {
		kind                                 workload.EventKind
		at, attained, level, lease, deadline time.Duration
		hasAttained, hasLevel                bool
		job, user, tenant, key, model        string
		gpus                                 workload.MilliGPU
		status                               workload.Status
		request                              workload.Request
		shares, node, revision, labels       string
		pool, nodeGPUs, placed, active       int
		instance, hash                       string
		epoch                                workload.Epoch
	}{
		e.Kind, e.Time, e.Attained, e.LevelAttained, e.LeaseUntil, j.Deadline, e.HasAttained, e.HasLevel,
		j.ID, j.User, j.Tenant, j.Key, j.Model, j.GPUs, j.Status, j.Request(), e.SharesWith, e.Node, e.Revision,
		e.Labels,
		e.Pool, e.NodeGPUs, len(e.Placement), len(e.Active), e.Instance, e.Hash, e.Epoch,
	})
	for _, n := range e.Placement {
		maphash.WriteComparable(h, n)
	}
	for i := range e.Active {
		maphash.WriteComparable(h, e.Active[i].Job.Submit)
		writeContent(h, &e.Active[i])
	}
}
