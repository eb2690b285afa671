package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// store is an API server with one lease, and the clock of the adapters.
type store struct {
	t       *testing.T
	mu      sync.Mutex
	now     time.Time
	lease   map[string]any
	version int
	away    map[string]bool // adapters that do not reach it
	latency time.Duration   // of answers; the request has taken effect
}

func (s *store) time() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *store) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// link is the way of an adapter to the store.
type link struct {
	*store
	from string
}

func (l link) RoundTrip(req *http.Request) (*http.Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away[l.from] {
		return nil, errors.New("no route to host")
	}
	answer := func(code int, v any) (*http.Response, error) {
		body, err := json.Marshal(v)
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(bytes.NewReader(body)), Request: req}, err
	}
	refuse := func(code int, reason string) (*http.Response, error) {
		return answer(code, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
			"reason": reason, "message": reason})
	}
	if req.Method == http.MethodGet {
		if l.lease == nil {
			return refuse(404, "NotFound")
		}
		return answer(200, l.lease)
	}
	var in map[string]any
	if err := json.NewDecoder(req.Body).Decode(&in); err != nil {
		return nil, err
	}
	meta := in["metadata"].(map[string]any)
	switch {
	case req.Method == http.MethodPost && l.lease != nil:
		return refuse(409, "AlreadyExists")
	case req.Method == http.MethodPut && meta["resourceVersion"] != fmt.Sprint(l.version):
		return refuse(409, "Conflict")
	}
	l.version++
	meta["resourceVersion"] = fmt.Sprint(l.version)
	l.lease = in
	l.now = l.now.Add(l.latency)
	return answer(200, in)
}

func (s *store) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	spec, _ := s.lease["spec"].(map[string]any)
	holder, _ := spec["holderIdentity"].(string)
	return holder
}

// adapter is one that takes part. It says by turns that it waits, and goes on by goes.
type adapter struct {
	turns chan time.Duration
	goes  chan struct{}
	lead  chan *Lease
	lost  chan error
	end   chan error
	news  chan error
	stop  context.CancelFunc
}

func (s *store) start(name string) *adapter {
	a := &adapter{turns: make(chan time.Duration), goes: make(chan struct{}), lead: make(chan *Lease, 1),
		lost: make(chan error), end: make(chan error, 1), news: make(chan error, 100)}
	client, err := dynamic.NewForConfig(&rest.Config{Host: "http://store", Transport: link{s, name}, QPS: -1})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.t.Context())
	a.stop = stop
	o := Options{Client: client, Namespace: "n", Name: "l", Identity: name, Now: s.time,
		Notify: func(err error) { a.news <- err },
		Sleep: func(ctx context.Context, d time.Duration) bool {
			select {
			case <-ctx.Done():
				return false
			case a.turns <- d:
			}
			select {
			case <-ctx.Done():
				return false
			case <-a.goes:
				return true
			}
		}}
	go func() {
		a.end <- Run(ctx, o, func(ctx context.Context, l *Lease) error {
			a.lead <- l
			<-ctx.Done()
			a.lost <- ctx.Err()
			return nil
		})
	}()
	s.t.Cleanup(func() {
		stop()
		select {
		case <-a.lost:
		case <-a.end:
			return
		}
		<-a.end
	})
	return a
}

// turn lets an adapter go on, a time later.
func (s *store) turn(a *adapter, later time.Duration) {
	<-a.turns
	s.set(func() { s.now = s.now.Add(later) })
	a.goes <- struct{}{}
}

// TestLease: one adapter leads at a time; another one does after the lease has not been renewed for its duration by
// the other's own clock, when the first one's writes have ended; a lease that is given up is free at once.
func TestLease(t *testing.T) {
	t.Parallel()
	s := &store{t: t, now: time.Unix(1e9, 0), away: map[string]bool{}}
	a := s.start("a")
	first := <-a.lead
	if got := first.Until().Sub(s.time()); got != Deadline || s.holder() != "a" {
		t.Fatalf("until %v, held by %s", got, s.holder())
	}
	b := s.start("b")
	for range 20 { // held as long as it is renewed
		s.turn(a, Retry)
		s.turn(b, 0)
	}
	s.turn(a, Retry)
	s.turn(b, 0)
	if s.holder() != "a" {
		t.Fatal(s.holder())
	}
	begun := s.time()
	s.set(func() { s.away["a"] = true })
	for lost := false; !lost; {
		select {
		case <-a.turns:
			s.set(func() { s.now = s.now.Add(Retry) })
			a.goes <- struct{}{}
		case <-a.lost:
			lost = true
		}
	}
	if ended := s.time(); ended.Sub(begun) > Deadline+Retry || s.holder() != "a" {
		t.Errorf("stopped after %v", ended.Sub(begun))
	}
	for leads := false; !leads; {
		select {
		case <-b.turns:
			s.set(func() { s.now = s.now.Add(Retry) })
			b.goes <- struct{}{}
		case <-b.lead:
			leads = true
		}
	}
	if free := s.time().Sub(first.Until()); free < Duration-Deadline {
		t.Errorf("taken %v after the last write", free)
	}
	// The first one comes back, and waits.
	s.set(func() { s.away["a"] = false })
	s.turn(a, 0)
	<-a.turns
	b.stop()
	<-b.lost
	if err := <-b.end; err != nil {
		t.Error(err)
	}
	if s.holder() != "" {
		t.Errorf("not given up: %s", s.holder())
	}
	a.goes <- struct{}{}
	<-a.lead
	spec := s.lease["spec"].(map[string]any)
	if spec["leaseTransitions"] != 2.0 {
		t.Errorf("%v transitions", spec["leaseTransitions"])
	}
	b.end <- nil // for the cleanup
}

// TestSlow: a renewal counts from its request, as it took effect at some time since.
func TestSlow(t *testing.T) {
	t.Parallel()
	s := &store{t: t, now: time.Unix(1e9, 0), latency: 4 * time.Second}
	a := s.start("a")
	l := <-a.lead
	if got := l.Until().Sub(s.time()); got != Deadline-s.latency {
		t.Errorf("%v left", got)
	}
	// One that took the lease meanwhile has it.
	s.set(func() {
		s.version++
		s.lease["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint(s.version)
		s.lease["spec"].(map[string]any)["holderIdentity"] = "b"
	})
	s.turn(a, 0) // the renewal is refused
	s.turn(a, 0) // and the lease read again
	<-a.lost
	for err := range a.news {
		if strings.Contains(err.Error(), "b took it") {
			break
		}
	}
}
