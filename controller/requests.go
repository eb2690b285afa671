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

// RequestKey identifies a request: ids are those of a scheduler, "" of a request about several.
type RequestKey struct{ Scheduler, ID string }

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

// Key returns the key of a request.
func (r *Request) Key() RequestKey { return RequestKey{r.Scheduler, r.ID} }

// requests are the remembered ones and the ones under way.
type requests struct {
	mu       sync.Mutex
	known    map[RequestKey]Request
	order    map[string][]RequestKey // by scheduler, oldest first
	evicted  []RequestKey            // forgotten, and stored still
	underway map[RequestKey]*RequestRecord
}

func newRequests(saved []Request) *requests {
	r := &requests{known: map[RequestKey]Request{}, order: map[string][]RequestKey{},
		underway: map[RequestKey]*RequestRecord{}}
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
	key := one.Key()
	of := r.order[one.Scheduler]
	if _, again := r.known[key]; again {
		of = slices.DeleteFunc(of, func(k RequestKey) bool { return k == key })
	}
	r.known[key] = one
	of = append(of, key)
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
func (r *requests) purge(now time.Time, remove func(keys []RequestKey) error) error {
	r.mu.Lock()
	removal := &RequestRecord{done: make(chan struct{}), over: true}
	ids := map[RequestKey]bool{}
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
	err := remove(slices.SortedFunc(maps.Keys(ids), func(a, b RequestKey) int {
		return cmp.Or(cmp.Compare(a.Scheduler, b.Scheduler), cmp.Compare(a.ID, b.ID))
	}))
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
	gone := func(k RequestKey) bool { return ids[k] }
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

// RequestRecord returns the request of a call about a scheduler, nil if the call has none that is under way.
func (s *Service) RequestRecord(call Call, scheduler string) *RequestRecord {
	if call.Request == "" {
		return nil
	}
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	return cmp.Or(s.requests.underway[RequestKey{scheduler, call.Request}],
		s.requests.underway[RequestKey{"", call.Request}])
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

// Once makes a call with the id of a request of a scheduler, unless a call with it succeeded within a day: that one is
// returned, or an ErrRequestReuse if it was another. Calls with the same id wait for each other. Changes made by
// change with the id as Call.Request store the request; change returns the name of the changed resource.
func (s *Service) Once(ctx context.Context, r Request, change func() (name string, err error)) (before *Request,
	err error) {
	key := r.Key()
	for {
		s.requests.mu.Lock()
		known, ok := s.requests.known[key]
		if ok && s.now().Sub(known.Created) < requestsFor {
			s.requests.mu.Unlock()
			if known.Digest != r.Digest || known.Method != "" && known.Method != r.Method {
				return nil, fmt.Errorf("%w, of %s: use a new id for each", ErrRequestReuse,
					known.Created.Format(time.RFC3339))
			}
			return &known, nil
		}
		other := s.requests.underway[key]
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
	s.requests.underway[key] = p
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
		delete(s.requests.underway, key)
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
