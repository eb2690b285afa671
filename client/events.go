package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

const (
	maxBatch  = 2000    // events of a request
	maxBytes  = 1 << 20 // bytes of a request of more than one event
	maxFlight = 32      // requests that are not answered yet
)

// RejectedError is an event that the service does not take: the scheduler sends
// nonsense. The other events of the request are stored.
type RejectedError struct{ *pb.RejectedEvent }

func (e *RejectedError) Error() string {
	return fmt.Sprintf("the service rejects event %s: %s: %s", e.EventId, e.Field, e.Description)
}

// Counts are the events, or the reports, of a client so far. Stored, Duplicate, Late and Rejected are the
// answers of the service; their sum and Waiting and Dropped are all that were sent.
type Counts struct {
	Stored    int // for the first time
	Duplicate int // stored before: the answer was lost
	Late      int // too old to count
	Rejected  int
	Dropped   int // by Offer, or Report
	Waiting   int // not answered yet
}

// queue has the events, or the reports, that the service has not stored yet, in order.
type queue[T proto.Message] struct {
	mu      sync.Mutex
	room    int // most that wait
	waiting []T
	counts  Counts
	more    chan struct{} // wakes the sender
	fewer   chan struct{} // closed and replaced when some are answered
}

func newQueue[T proto.Message](room int) queue[T] {
	return queue[T]{room: room, more: make(chan struct{}, 1), fewer: make(chan struct{})}
}

func (q *queue[T]) wake() {
	select {
	case q.more <- struct{}{}:
	default:
	}
}

// flush waits until the service has answered all.
func (q *queue[T]) flush(ctx context.Context) error {
	for {
		q.mu.Lock()
		n, fewer := len(q.waiting), q.fewer
		q.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-fewer:
		}
	}
}

// outcome returns the counts so far.
func (q *queue[T]) outcome() Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := q.counts
	out.Waiting = len(q.waiting)
	return out
}

// next returns at most a number after the ones that were sent, as far as a request has room.
func (q *queue[T]) next(sent, most int) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	next, bytes := q.waiting[sent:], 0
	for i, m := range next {
		if bytes += proto.Size(m); i == most || i > 0 && bytes > maxBytes {
			next = next[:i]
			break
		}
	}
	return next[:len(next):len(next)]
}

// answered forgets the first ones, which the service has answered. The caller holds the lock.
func (q *queue[T]) answered(n, rejected int, a interface {
	GetAcceptedCount() int32
	GetDuplicateCount() int32
	GetLateCount() int32
}) {
	clear(q.waiting[:n])
	q.waiting = q.waiting[n:]
	q.counts.Stored += int(a.GetAcceptedCount())
	q.counts.Duplicate += int(a.GetDuplicateCount())
	q.counts.Late += int(a.GetLateCount())
	q.counts.Rejected += rejected
	close(q.fewer)
	q.fewer = make(chan struct{})
}

// events are the events of a client.
type events struct {
	queue[*pb.Event]
	gap   bool      // a snapshot is needed
	epoch *pb.Epoch // of the store that has the events before; nil before the first answer
}

// Send takes events over and waits for room in the buffer. Run sends them until they are
// stored. An event that is sent again with the same id and content is counted once.
func (c *Client) Send(ctx context.Context, events ...*pb.Event) error {
	for len(events) > 0 {
		c.mu.Lock()
		n := min(len(events), max(0, c.room-len(c.waiting)))
		c.waiting = append(c.waiting, events[:n]...)
		fewer := c.fewer
		c.mu.Unlock()
		c.wake()
		if events = events[n:]; len(events) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-fewer:
		}
	}
	return nil
}

// Offer takes events over if there is room for all, and drops them otherwise: for
// schedulers that must not wait. Options.Snapshot makes up for dropped events.
func (c *Client) Offer(events ...*pb.Event) bool {
	c.mu.Lock()
	fits := len(events) <= c.room-len(c.waiting)
	if fits {
		c.waiting = append(c.waiting, events...)
	} else {
		c.gap = true
		c.counts.Dropped += len(events)
	}
	c.mu.Unlock()
	c.wake()
	return fits
}

// Resync has Options.Snapshot sent: the scheduler lost events of its own.
func (c *Client) Resync() {
	c.mu.Lock()
	c.gap = true
	c.mu.Unlock()
	c.wake()
}

// Flush waits until the service has answered every event.
func (c *Client) Flush(ctx context.Context) error { return c.flush(ctx) }

// Counts returns the outcome of the events so far.
func (c *Client) Counts() Counts { return c.outcome() }

// sendEvents streams events until the context ends or the service refuses them for good.
func (c *Client) sendEvents(ctx context.Context) error {
	retry := retrying{random: c.o.Random}
	most := maxBatch
	for {
		if err := c.awaitEvents(ctx); err != nil {
			return err
		}
		err := c.stream(ctx, most, &retry)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case tooLarge(err) && most > 1:
			most /= 2
		case c.enter(epochOf(err)):
			c.o.Notify(err)
		case !Transient(err) && Reason(err) != reasonEpoch:
			return fmt.Errorf("events of %s: %w", c.name, err)
		case !c.pause(ctx, &retry, err):
			return ctx.Err()
		}
	}
}

// enter sends events to the store in a later epoch from now on, and a snapshot, for it may have lost events. It reports
// false if that is no later one: then the store is an older copy, which gets none.
func (c *Client) enter(now *pb.Epoch) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.GetCounter() <= c.epoch.GetCounter() {
		return false
	}
	c.epoch, c.gap = now, true
	c.wake()
	return true
}

// awaitEvents returns once there is something to send.
func (c *Client) awaitEvents(ctx context.Context) error {
	beat := c.beat()
	defer beat.Stop()
	for {
		if len(c.batch(0, 1)) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.more:
		case <-beat.C:
			c.heartbeat()
		}
	}
}

// stream sends the waiting events over one stream until it fails. most is the number of events
// of a request.
func (c *Client) stream(ctx context.Context, most int, retry *retrying) error {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	stream, err := c.tuning.IngestEvents(ctx)
	if err != nil {
		return err
	}
	answers := make(chan *pb.IngestEventsResponse, maxFlight)
	var failure error // set before answers is closed
	go func() {
		defer close(answers)
		for {
			m, err := stream.Recv()
			if err != nil {
				failure = err
				return
			}
			answers <- m // has room: there are no more requests
		}
	}()
	defer func() {
		cut()
		for range answers { // the receiver has ended
		}
	}()
	beat := c.beat()
	defer beat.Stop()
	var flight []int // events of each request that is not answered
	sent := 0        // their sum
	for sequence := int64(0); ; {
		for len(flight) < maxFlight {
			batch := c.batch(sent, most)
			if len(batch) == 0 {
				break
			}
			c.mu.Lock()
			req := &pb.IngestEventsRequest{Parent: c.name, Sequence: sequence + 1, Events: batch, Epoch: c.epoch}
			c.mu.Unlock()
			if stream.Send(req) != nil {
				break // the answers end with the reason
			}
			sequence++
			flight, sent = append(flight, len(batch)), sent+len(batch)
		}
		select {
		case a, ok := <-answers:
			if !ok {
				return failure
			}
			if len(flight) == 0 || a.GetSequence() != sequence-int64(len(flight))+1 {
				return fmt.Errorf("the service answers request %d, which is not the next one", a.GetSequence())
			}
			c.answered(flight[0], a)
			flight, sent = flight[1:], sent-flight[0]
			retry.reset()
		case <-c.more:
		case <-beat.C:
			c.heartbeat()
		}
		if c.o.Heartbeat > 0 {
			beat.Reset(c.o.Heartbeat)
		}
	}
}

// batch returns the next events after the ones on their way. The events of Snapshot
// come last.
func (c *Client) batch(sent, most int) []*pb.Event {
	c.mu.Lock()
	take := c.gap && c.o.Snapshot != nil
	c.gap = false
	c.mu.Unlock()
	if take {
		e := c.o.Snapshot()
		if e.GetEventId() == "" {
			e.EventId = c.id("snapshot", e.GetSchedulerTime().AsTime())
		}
		c.mu.Lock()
		c.waiting = append(c.waiting, e)
		c.mu.Unlock()
	}
	return c.next(sent, most)
}

// answered forgets the first events, which the service has answered.
func (c *Client) answered(n int, a *pb.IngestEventsResponse) {
	c.mu.Lock()
	c.queue.answered(n, len(a.GetRejectedEvents()), a)
	if c.epoch == nil {
		c.epoch = a.GetEpoch()
	}
	c.mu.Unlock()
	for _, r := range a.GetRejectedEvents() {
		c.o.Notify(&RejectedError{r})
	}
}

// beat ticks once nothing was sent for Options.Heartbeat; never if that is 0.
func (c *Client) beat() *time.Timer {
	t := time.NewTimer(c.o.Heartbeat)
	if c.o.Heartbeat == 0 {
		t.Stop()
	}
	return t
}

// heartbeat sends one unless events are waiting, which have the time themselves.
func (c *Client) heartbeat() {
	if c.Counts().Waiting > 0 {
		return
	}
	now := c.o.Now()
	c.Offer(&pb.Event{EventId: c.id("heartbeat", now), Kind: pb.Event_HEARTBEAT, SchedulerTime: timestamppb.New(now)})
}

// id is that of an event of the client's own at an instant. It is of this client alone: another one of the
// instance, after a restart at the same instant, may have another snapshot.
func (c *Client) id(kind string, at time.Time) string {
	return fmt.Sprintf("%s/%.64s/%d/%08x/%d", kind, c.o.Instance, at.UnixNano(), c.token, c.made.Add(1))
}
