package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// requestsFor is how long ids of requests are remembered.
	requestsFor = 24 * time.Hour
	// maxRequests bounds the ids that are remembered of a scheduler; the oldest is forgotten first.
	maxRequests = 10_000
)

// Request remembers a mutation by its caller's id.
type Request struct {
	ID        string `json:"id"`
	Digest    string `json:"digest"` // of the content
	Scheduler string `json:"scheduler"`
	// Method is which mutation it was; "" in a record of an older version, which remembered registrations.
	Method string `json:"method,omitempty"`
	// Name is the resource that it made, where the request does not say it.
	Name string `json:"name,omitempty"`
	// Created is when it was used; zero in a record of an older version.
	Created time.Time `json:"created,omitzero"`
}

// requests are the remembered ones and the ones under way.
type requests struct {
	mu       sync.Mutex
	known    map[string]Request
	order    map[string][]string // ids by scheduler, oldest first
	evicted  []string            // forgotten, and stored still
	underway map[string]*RequestRecord
}

func newRequests(saved []Request) *requests {
	r := &requests{known: map[string]Request{}, order: map[string][]string{}, underway: map[string]*RequestRecord{}}
	slices.SortFunc(saved, func(a, b Request) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	for _, one := range saved {
		r.put(one)
	}
	return r
}

// put remembers a request. mu is held, if the service is in use.
func (r *requests) put(one Request) {
	before, again := r.known[one.ID]
	if again {
		of := r.order[before.Scheduler]
		r.order[before.Scheduler] = slices.DeleteFunc(of, func(id string) bool { return id == one.ID })
	}
	r.known[one.ID] = one
	of := append(r.order[one.Scheduler], one.ID)
	if n := len(of) - maxRequests; n > 0 {
		for _, id := range of[:n] {
			delete(r.known, id)
		}
		r.evicted = append(r.evicted, of[:n]...)
		of = of[n:]
	}
	r.order[one.Scheduler] = of
}

// purge has expired and forgotten ones removed from the store. Calls with their ids wait meanwhile.
func (r *requests) purge(now time.Time, remove func(ids []string) error) error {
	r.mu.Lock()
	removal := &RequestRecord{done: make(chan struct{}), over: true}
	ids := map[string]bool{}
	for _, id := range r.evicted {
		if _, again := r.known[id]; !again {
			ids[id] = true
		}
	}
	for id, one := range r.known {
		if now.Sub(one.Created) >= requestsFor {
			ids[id] = true
		}
	}
	for id := range ids {
		if r.underway[id] != nil {
			delete(ids, id)
		} else {
			r.underway[id] = removal
		}
	}
	r.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	err := remove(slices.Sorted(maps.Keys(ids)))
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range ids {
		delete(r.underway, id)
		if err == nil {
			delete(r.known, id)
		}
	}
	close(removal.done)
	if err != nil {
		return err
	}
	gone := func(id string) bool { return ids[id] }
	r.evicted = slices.DeleteFunc(r.evicted, gone)
	for scheduler, of := range r.order {
		if r.order[scheduler] = slices.DeleteFunc(of, gone); len(r.order[scheduler]) == 0 {
			delete(r.order, scheduler)
		}
	}
	return nil
}

// RequestRecord is the request of a call that is under way. A change stores it, so that either both are durable or
// none. All methods may be called on nil, of a call without a request.
type RequestRecord struct {
	done chan struct{} // closed at the end of the call

	mu     sync.Mutex
	r      Request
	stored bool
	over   bool // the call has ended: changes that it left running do not store it
}

// RequestRecord returns the request of a call, nil if the call has none that is under way.
func (s *Service) RequestRecord(call Call) *RequestRecord {
	if call.Request == "" {
		return nil
	}
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	return s.requests.underway[call.Request]
}

// SetName names the resource that the request makes.
func (p *RequestRecord) SetName(name string) {
	if p != nil {
		p.mu.Lock()
		p.r.Name = name
		p.mu.Unlock()
	}
}

// Request returns the request to store with a change, nil if there is none to store.
func (p *RequestRecord) Request() *Request {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stored || p.over {
		return nil
	}
	r := p.r
	return &r
}

// MarkStored must be called once the change with the request is durable.
func (p *RequestRecord) MarkStored() {
	if p != nil {
		p.mu.Lock()
		p.stored = true
		p.mu.Unlock()
	}
}

// Once makes a call with the id of a request, unless a call with it succeeded within a day: that one is
// returned, or an ErrRequestReuse if it was another. Calls with the same id wait for each other. Changes made by
// change with the id as Call.Request store the request; change returns the name of the changed resource.
func (s *Service) Once(ctx context.Context, r Request, change func() (name string, err error)) (before *Request,
	err error) {
	for {
		s.requests.mu.Lock()
		known, ok := s.requests.known[r.ID]
		if ok && s.now().Sub(known.Created) < requestsFor {
			s.requests.mu.Unlock()
			if known.Digest != r.Digest || known.Method != "" && known.Method != r.Method {
				return nil, fmt.Errorf("%w, of %s: use a new id for each", ErrRequestReuse,
					known.Created.Format(time.RFC3339))
			}
			return &known, nil
		}
		other := s.requests.underway[r.ID]
		if other == nil {
			break
		}
		s.requests.mu.Unlock()
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	r.Created = s.now()
	p := &RequestRecord{r: r, done: make(chan struct{})}
	s.requests.underway[r.ID] = p
	s.requests.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.over = true
		keep := p.stored
		r := p.r
		p.mu.Unlock()
		s.requests.mu.Lock()
		defer s.requests.mu.Unlock()
		if keep {
			s.requests.put(r)
		}
		delete(s.requests.underway, r.ID)
		close(p.done)
	}()
	name, err := change()
	if err != nil {
		return nil, err
	}
	if r := p.Request(); r != nil { // nothing was to be changed
		r.Name = cmp.Or(r.Name, name)
		if err := s.o.Store.Remember(ctx, *r); err != nil {
			return nil, err
		}
		p.SetName(r.Name)
		p.MarkStored()
	}
	return nil, nil
}
