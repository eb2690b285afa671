// Package watch wakes up subscribers when something changed. It holds no queue:
// however many changes a subscriber misses, it is woken once and looks at the
// newest state. A notification never blocks.
package watch

import "sync"

// Hub wakes its subscribers. The zero Hub is ready for use, by any number of
// goroutines.
type Hub struct {
	mu   sync.Mutex
	subs map[*Subscription]struct{}
}

// Subscription is one subscriber's.
type Subscription struct {
	hub *Hub
	c   chan struct{}
}

// Subscribe returns a subscription, to be closed by the caller.
func (h *Hub) Subscribe() *Subscription {
	s := &Subscription{hub: h, c: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = map[*Subscription]struct{}{}
	}
	h.subs[s] = struct{}{}
	return s
}

// Changed has an element when something changed since it was last received
// from.
func (s *Subscription) Changed() <-chan struct{} { return s.c }

// Close ends the subscription.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	delete(s.hub.subs, s)
}

// Notify wakes every subscriber.
func (h *Hub) Notify() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		select {
		case s.c <- struct{}{}:
		default: // not received yet
		}
	}
}

// Len is the number of subscriptions.
func (h *Hub) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs)
}
