package nodetest

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// Events counts events by batch. Its methods may be called from several goroutines.
type Events struct {
	wrong *Violations

	mu    sync.Mutex
	sizes []int32 // by batch
	acked []bool
	total int
}

// NewEvents returns a count of no events.
func NewEvents(wrong *Violations) *Events { return &Events{wrong: wrong} }

// Batch begins a batch of n events and returns its number.
func (c *Events) Batch(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizes, c.acked = append(c.sizes, int32(n)), append(c.acked, false)
	return len(c.sizes) - 1
}

// EventID is the id of an event of a batch.
func EventID(batch, i int) string { return fmt.Sprintf("%d-%d", batch, i) }

// Answer is the service's answer to a batch.
type Answer struct{ Stored, Duplicate, Late, Rejected int }

// Answered records an answer. again says that an earlier attempt may have stored the batch.
func (c *Events) Answered(batch int, a Answer, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := int(c.sizes[batch])
	switch {
	case a.Stored+a.Duplicate != size:
		c.wrong.Addf("batch %d of %d events was answered with %+v", batch, size, a)
	case c.acked[batch] && a.Stored > 0:
		c.wrong.Addf("batch %d was acknowledged, and %d of its events were stored when it was sent again", batch,
			a.Stored)
	case !c.acked[batch] && !again && a.Duplicate > 0:
		c.wrong.Addf("batch %d was sent once, and %d of its events were known", batch, a.Duplicate)
	}
	if !c.acked[batch] {
		c.acked[batch] = true
		c.total += size
	}
}

// Acked is the number of events acknowledged.
func (c *Events) Acked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// Sample returns up to n batches that are acknowledged, drawn by pick, which returns a number below its argument.
func (c *Events) Sample(n int, pick func(int) int) (batches []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n {
		if len(c.acked) == 0 {
			break
		}
		if b := pick(len(c.acked)); c.acked[b] {
			batches = append(batches, b)
		}
	}
	return batches
}

// Stored is a reader of the ids of all events that are stored.
type Stored func(each func(id string) error) error

// Check reads a store: each acknowledged event must be in it once, and others at most once.
func (c *Events) Check(where string, read Stored) (lost, double int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := make([][]uint8, len(c.sizes))
	for b, n := range c.sizes {
		found[b] = make([]uint8, n)
	}
	err = read(func(id string) error {
		batch, i, ok := strings.Cut(id, "-")
		b, err1 := strconv.Atoi(batch)
		at, err2 := strconv.Atoi(i)
		if !ok || err1 != nil || err2 != nil || b < 0 || b >= len(found) || at < 0 || at >= len(found[b]) {
			return fmt.Errorf("%s has event %q, which no client sent", where, id)
		}
		if found[b][at]++; found[b][at] > 1 {
			double++
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	for b, events := range found {
		for _, n := range events {
			if c.acked[b] && n == 0 {
				lost++
			}
		}
	}
	if lost+double > 0 {
		c.wrong.Addf("%s: %d acknowledged events are lost, %d are stored twice", where, lost, double)
	}
	return lost, double, nil
}
