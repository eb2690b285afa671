package watch

import (
	"sync"
	"sync/atomic"
	"testing"
)

func received(s *Subscription) int {
	n := 0
	for {
		select {
		case <-s.Changed():
			n++
		default:
			return n
		}
	}
}

func TestChangesCoalesce(t *testing.T) {
	var h Hub
	h.Notify() // without subscribers
	a, b := h.Subscribe(), h.Subscribe()
	if n := received(a); n != 0 {
		t.Errorf("woken %d times before a change", n)
	}
	for range 3 {
		h.Notify() // a slow subscriber does not block it
	}
	if n := received(a); n != 1 {
		t.Errorf("woken %d times by three changes, want once", n)
	}
	h.Notify()
	if n := received(a); n != 1 {
		t.Errorf("woken %d times by the next change, want once", n)
	}
	if n := received(b); n != 1 {
		t.Errorf("woken %d times after four changes, want once", n)
	}
	a.Close()
	a.Close() // again
	h.Notify()
	if n := received(a); n != 0 || h.Len() != 1 {
		t.Errorf("closed, woken %d times; %d subscriptions are left, want 1", n, h.Len())
	}
}

// A subscriber that looks at the state after each wake-up sees the last one.
func TestTheLastChangeIsSeen(t *testing.T) {
	var h Hub
	var state atomic.Int64
	const last = 1000
	var subscribers sync.WaitGroup
	for range 4 {
		s := h.Subscribe()
		subscribers.Go(func() {
			defer s.Close()
			for state.Load() < last {
				<-s.Changed()
			}
		})
	}
	for i := range last {
		state.Store(int64(i + 1))
		h.Notify()
	}
	subscribers.Wait()
	if h.Len() != 0 {
		t.Errorf("%d subscriptions are left", h.Len())
	}
}
