package search

import (
	"container/list"
	"sync"

	"github.com/autosched/autosched/space"
)

// Cache holds measurements by configuration and context: all else that the result
// depends on, such as the workload's digest and the simulator's version. It evicts the
// least recently used, and is safe for concurrent use. A nil Cache is empty.
type Cache struct {
	mu      sync.Mutex
	max     int
	entries map[cacheKey]*list.Element
	recent  *list.List // of *cacheEntry, most recently used first
}

type cacheKey struct{ context, config string }

type cacheEntry struct {
	key cacheKey
	m   Measurement
}

// NewCache returns a cache of at most size measurements; 0 means 10,000, a few
// megabytes.
func NewCache(size int) *Cache {
	if size <= 0 {
		size = 10_000
	}
	return &Cache{max: size, entries: make(map[cacheKey]*list.Element), recent: list.New()}
}

// Get returns a measurement, which must not be modified.
func (c *Cache) Get(context string, config space.Config) (Measurement, bool) {
	if c == nil {
		return Measurement{}, false
	}
	key := cacheKey{context, config.Hash()}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok {
		return Measurement{}, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cacheEntry).m, true
}

// Put stores a measurement, which must not be modified afterwards.
func (c *Cache) Put(context string, config space.Config, m Measurement) {
	if c == nil {
		return
	}
	key := cacheKey{context, config.Hash()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[key]; ok {
		e.Value.(*cacheEntry).m = m
		c.recent.MoveToFront(e)
		return
	}
	c.entries[key] = c.recent.PushFront(&cacheEntry{key, m})
	if c.recent.Len() > c.max {
		oldest := c.recent.Remove(c.recent.Back()).(*cacheEntry)
		delete(c.entries, oldest.key)
	}
}
