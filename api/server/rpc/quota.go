package rpc

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
)

// Limits bound the use of the service by callers and schedulers; 0 is no limit. Callers that are not
// identified share theirs.
type Limits struct {
	// Schedulers that are registered, deleted ones included until they are purged, in all and by
	// one caller.
	Schedulers, SchedulersPerCaller int
	// Events per second, of one scheduler and from one caller.
	Events, EventsPerCaller int
	// Samples of GPUs and training steps per second, of one scheduler.
	Samples int
	// Acknowledgements of configurations per second, of one scheduler.
	Acknowledgements int
	// Streams of events that are open, of one scheduler and of one caller.
	Streams, StreamsPerCaller int
	// Watches that are open, of one scheduler and of one caller.
	Watches, WatchesPerCaller int
	// Requests per second of one caller; a stream is one request.
	Requests int
	// Message is the size of a request in bytes; if 0, that of package grpc, 4 MiB.
	Message int
}

// DefaultLimits returns limits far above the needs of schedulers.
func DefaultLimits() Limits {
	return Limits{Schedulers: 1000, SchedulersPerCaller: 500, Events: 100_000, EventsPerCaller: 200_000,
		Samples:          50_000,
		Acknowledgements: 500, Streams: 256, StreamsPerCaller: 1000, Watches: 20_000, WatchesPerCaller: 20_000,
		Requests: 20_000, Message: 4 << 20}
}

// quotaError is the refusal of a request that is beyond a limit, which has the name of its flag.
type quotaError struct {
	limit string
	most  int
	of    string
	retry time.Duration // 0: the same request never passes
}

func (e *quotaError) Error() string {
	text := fmt.Sprintf("%s is beyond the limit %s=%d", e.of, e.limit, e.most)
	if e.retry == 0 {
		return text + ": ask for less at a time"
	}
	return fmt.Sprintf("%s: try again in %v", text, e.retry.Round(time.Millisecond))
}

func (e *quotaError) status() error {
	st := status.New(codes.ResourceExhausted, e.Error())
	info := &errdetails.ErrorInfo{Reason: reasonQuota, Domain: pb.ErrorDomain,
		Metadata: map[string]string{"limit": e.limit, "value": strconv.Itoa(e.most)}}
	full, err := st.WithDetails(info)
	if err == nil && e.retry > 0 {
		full, err = full.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(e.retry)})
	}
	if err != nil {
		full = st
	}
	return full.Err()
}

// Quota counts uses against the limits. Its keys are names of callers, ids of registered schedulers and the addresses
// of open streams, whose number is bounded: requests cannot make it grow.
type Quota struct {
	Limits
	now      func() time.Time
	Refusals *prometheus.CounterVec

	creating sync.Mutex // from the count of the schedulers until another is registered

	mu    sync.Mutex
	rates map[string]*rate.Limiter // by limit and key
	open  map[string]int           // by limit and key
}

// NewQuota returns a quota by the clock now.
func NewQuota(l Limits, now func() time.Time) *Quota {
	return &Quota{Limits: l, now: now, rates: map[string]*rate.Limiter{}, open: map[string]int{},
		Refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "autosched_quota_refusals_total", Help: "Requests that were refused, by the limit they are beyond.",
		}, []string{"limit"})}
}

func (q *Quota) refuse(e *quotaError) error {
	q.Refusals.WithLabelValues(e.limit).Inc()
	return e
}

// take takes n of a number per second until they are given back. A second's number may be taken at
// once.
func (q *Quota) take(limit, key string, most, n int, of string) (giveBack func(), err error) {
	if most <= 0 {
		return func() {}, nil
	}
	q.mu.Lock()
	r := q.rates[limit+"/"+key]
	if r == nil {
		r = rate.NewLimiter(rate.Limit(most), most)
		q.rates[limit+"/"+key] = r
	}
	q.mu.Unlock()
	now := q.now()
	taken := r.ReserveN(now, n)
	if !taken.OK() {
		return nil, q.refuse(&quotaError{limit: limit, most: most, of: of})
	}
	giveBack = func() { taken.CancelAt(now) }
	if wait := taken.DelayFrom(now); wait > 0 {
		giveBack()
		return nil, q.refuse(&quotaError{limit: limit, most: most, of: of, retry: wait})
	}
	return giveBack, nil
}

// enter takes one of a number until leave is called.
func (q *Quota) enter(limit, key string, most int, of string) (leave func(), err error) {
	if most <= 0 {
		return func() {}, nil
	}
	at := limit + "/" + key
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open[at] >= most {
		return nil, q.refuse(&quotaError{limit: limit, most: most, of: of, retry: time.Second})
	}
	q.open[at]++
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.open[at]--; q.open[at] == 0 {
			delete(q.open, at)
		}
	}, nil
}

// Forget forgets a purged scheduler.
func (q *Quota) Forget(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.rates, "limit-events/"+id)
	delete(q.rates, "limit-samples/"+id)
	delete(q.rates, "limit-acknowledgements/"+id)
}

// Request counts a request of a caller.
func (q *Quota) Request(c access.Caller) error {
	_, err := q.take("limit-requests", c.Name, q.Requests, 1, "requests per second of one caller")
	return err
}

// events counts events of a registered scheduler. What one limit refuses counts for none.
func (q *Quota) TakeEvents(ctx context.Context, id string, n int) error {
	giveBack, err := q.take("limit-events", id, q.Events, n, "events per second of one scheduler")
	if err != nil {
		return err
	}
	_, err = q.take("limit-events-per-caller", access.FromContext(ctx).Name, q.EventsPerCaller, n,
		"events per second of one caller")
	if err != nil {
		giveBack()
	}
	return err
}

// TakeSamples counts samples of GPUs and training steps of a registered scheduler.
func (q *Quota) TakeSamples(id string, n int) error {
	_, err := q.take("limit-samples", id, q.Samples, n, "samples and training steps per second of one scheduler")
	return err
}

// Acknowledgement counts one of a registered scheduler.
func (q *Quota) Acknowledgement(id string) error {
	_, err := q.take("limit-acknowledgements", id, q.Acknowledgements, 1,
		"acknowledgements per second of one scheduler")
	return err
}

// Stream counts an open stream of events of a registered scheduler.
func (q *Quota) Stream(ctx context.Context, id string) (leave func(), err error) {
	return q.both("limit-streams", "event streams", id, access.FromContext(ctx).Name, q.Streams, q.StreamsPerCaller)
}

// Watch counts an open watch of a registered scheduler.
func (q *Quota) Watch(ctx context.Context, id string) (leave func(), err error) {
	return q.both("limit-watches", "watches", id, access.FromContext(ctx).Name, q.Watches, q.WatchesPerCaller)
}

// maxQuestions bounds the questions of a caller that wait for an answer; a scheduler takes twice as many.
const maxQuestions = 8

// Question counts a question of a caller until leave is called.
func (q *Quota) Question(c access.Caller) (leave func(), err error) {
	return q.enter("questions-per-caller", c.Name, maxQuestions, "questions of one caller that wait")
}

// The most open streams of callers without an identity, in all and of an address.
const (
	maxAnonymous   = 1000
	maxAnonymousOf = 100
)

// Anonymous counts an open stream of a caller that needs no identity.
func (q *Quota) Anonymous(ctx context.Context) (leave func(), err error) {
	host := ""
	if p, ok := peer.FromContext(ctx); ok {
		host, _, _ = net.SplitHostPort(p.Addr.String())
	}
	all, err := q.enter("anonymous-streams", "", maxAnonymous, "streams of callers without an identity")
	if err != nil {
		return nil, err
	}
	one, err := q.enter("anonymous-streams-of", host, maxAnonymousOf, "streams of one address without an identity")
	if err != nil {
		all()
		return nil, err
	}
	return func() { all(); one() }, nil
}

func (q *Quota) both(limit, what, id, caller string, most, ofCaller int) (leave func(), err error) {
	first, err := q.enter(limit, id, most, what+" of one scheduler")
	if err != nil {
		return nil, err
	}
	second, err := q.enter(limit+"-per-caller", caller, ofCaller, what+" of one caller")
	if err != nil {
		first()
		return nil, err
	}
	return func() { first(); second() }, nil
}

// Registered counts registered schedulers.
type Registered interface {
	// Registered returns the number of schedulers, in all and by a creator, and whether one has the id.
	Registered(creator, id string) (all, own int, exists bool)
}

// Register calls f if another scheduler may be registered by a caller.
func (q *Quota) Register(service Registered, reg *controller.Registration, f func() error) error {
	q.creating.Lock()
	defer q.creating.Unlock()
	all, own, exists := service.Registered(reg.Creator, reg.ID)
	const later = time.Minute // until one may be purged
	switch {
	case exists: // answered by the service
	case q.Schedulers > 0 && all >= q.Schedulers:
		return q.refuse(&quotaError{"limit-schedulers", q.Schedulers, "registered schedulers", later})
	case q.SchedulersPerCaller > 0 && own >= q.SchedulersPerCaller:
		return q.refuse(&quotaError{"limit-schedulers-per-caller", q.SchedulersPerCaller,
			"schedulers registered by one caller", later})
	}
	return f()
}
