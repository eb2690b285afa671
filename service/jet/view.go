package jet

import (
	"maps"
	"slices"
	"sync"

	"github.com/autosched/autosched/service/store"
)

// Changes are what entries changed of the records that readers keep in memory.
type Changes struct {
	All        bool     // more than the ones below
	Schedulers []string // ids of those whose records changed
	Reports    []string // uids of those with new reports
}

// changes collects Changes.
type changes struct {
	mu                  sync.Mutex
	all                 bool
	schedulers, reports map[string]bool
}

func (c *changes) add(ops []*store.Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.schedulers == nil {
		c.schedulers, c.reports = map[string]bool{}, map[string]bool{}
	}
	for _, op := range ops {
		switch {
		case op.Change != nil:
			c.schedulers[op.Change.Scheduler.ID] = true
		case op.Purge != nil:
			c.schedulers[op.Purge.Scheduler] = true
		case op.Reports != nil:
			c.reports[op.Reports.UID] = true
		case op.Epoch != nil:
			c.all = true
		}
	}
}

// View returns the present directory of the replica, to be read only, and the last entry whose changes are in it. Later
// ones may be, too. The directory is closed if the replica is made anew.
func (r *Replica) View() (dir *store.Store, applied uint64) {
	dir = r.view.Load() // first: that of a replica made anew comes after its place
	return dir, r.applied.Load()
}

// Changed returns the changes since its last call. Those of the entries up to the one that a View before it returned
// are there.
func (r *Replica) Changed() Changes {
	c := &r.changed
	c.mu.Lock()
	defer c.mu.Unlock()
	out := Changes{All: c.all, Schedulers: slices.Sorted(maps.Keys(c.schedulers)),
		Reports: slices.Sorted(maps.Keys(c.reports))}
	c.all = false
	clear(c.schedulers)
	clear(c.reports)
	return out
}

// Acknowledged returns an entry of the log, up to which all writes are whose callers had an answer before the call.
func (s *Store) Acknowledged() uint64 { return s.r.applied.Load() }
