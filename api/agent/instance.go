package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
)

// Instance is an instance of the emulated scheduler and how often it did what.
type Instance struct {
	ID      string `json:"instance_id"`
	Applied int    `json:"applied"`
	Partial int    `json:"partially_applied"`
	Refused int    `json:"refused"`
	Lies    int    `json:"lies"`
	Hangs   int    `json:"hangs"`
	Crashes int    `json:"crashes"`
}

// instance is a running one.
type instance struct {
	agent *agent
	first bool

	mu      sync.Mutex // guards the following
	client  *client.Client
	crash   context.CancelFunc // of this life; nil while it is down
	called  *called            // nil for one that follows the configuration itself
	address string             // of called
	counted int                // events answered in former lives
	former  *pb.Configuration  // what it runs; nil at the start of a life
	chance  *chance
	Instance
}

// InstanceID is the id of an instance, from 0 on.
func InstanceID(n int) string {
	if n == 0 {
		return "emulated"
	}
	return fmt.Sprint("emulated-", n+1)
}

func (a *agent) newInstance(n int) *instance {
	i := &instance{agent: a, first: n == 0, chance: a.o.Faults.chance(uint64(n) + 1)}
	i.ID = InstanceID(n)
	if len(a.o.Addresses) > 0 {
		i.called, i.address = &called{i: i}, a.o.Addresses[n]
	}
	return i
}

// run is an instance's lives: it begins a new one after each crash.
func (i *instance) run(ctx context.Context) error {
	for {
		life, crash := context.WithCancel(ctx)
		err := i.live(ctx, life, crash)
		crashed := life.Err() != nil && ctx.Err() == nil
		crash()
		if !crashed {
			if err != nil && ctx.Err() == nil {
				err = fmt.Errorf("emulate: %w", err)
			}
			return err
		}
		i.agent.o.Notify(fmt.Errorf("%s crashed and starts again", i.ID))
		if err := i.pass(ctx, downTime); err != nil {
			return err
		}
	}
}

// live is one life, until it crashes or the context ends.
func (i *instance) live(ctx, life context.Context, crash context.CancelFunc) error {
	if i.called != nil {
		i.begin(nil, crash)
		defer i.end()
		return i.called.serve(ctx, life, i.address)
	}
	o := client.Options{Conn: i.agent.o.Conn, Scheduler: i.agent.o.ID, Instance: i.ID, Apply: i.apply,
		Now: i.agent.now, Notify: i.notify}
	if i.agent.o.File != nil {
		o.Apply = nil
	}
	if i.first {
		o.Snapshot, o.Paused = i.agent.snapshot, i.agent.paused
	}
	c, err := client.New(o)
	if err != nil {
		return err
	}
	i.begin(c, crash)
	defer i.end()
	return c.Run(life)
}

func (i *instance) begin(c *client.Client, crash context.CancelFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.client, i.crash, i.former = c, crash, nil
}

func (i *instance) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.client != nil {
		i.counted += answeredOf(i.client.Counts())
	}
	i.client, i.crash = nil, nil
}

// downTime is how long an instance is down after a crash, and hangTime how long one hangs, in emulated
// time.
const (
	downTime = 10 * time.Minute
	hangTime = 6 * time.Hour
)

// pass waits for emulated time.
func (i *instance) pass(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(time.Duration(float64(d) / i.agent.o.Speedup))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// notify ends the emulation where the service rejects an event: its own mistake.
func (i *instance) notify(err error) {
	i.agent.o.Notify(err)
	if rejected := (*client.RejectedError)(nil); errors.As(err, &rejected) {
		i.agent.mu.Lock()
		defer i.agent.mu.Unlock()
		i.agent.fault = fmt.Errorf("emulate: %w", err)
	}
}

// apply puts an offered configuration into force, or does what a fault makes of it. The first one of a
// life is applied as it is: there is none to keep.
func (i *instance) apply(ctx context.Context, offer *pb.Configuration) (map[string]*structpb.Value, error) {
	f, a := i.agent.o.Faults, i.agent
	i.mu.Lock()
	former := i.former
	draw := func(p float64, count *int, what string) bool {
		if former == nil || !i.chance.happens(p) {
			return false
		}
		*count++
		a.o.Notify(fmt.Errorf("%s %s revision %d", i.ID, what, offer.GetRevision()))
		return true
	}
	refuse := draw(f.Refuse, &i.Refused, "refuses")
	hang := !refuse && draw(f.Hang, &i.Hangs, "hangs at")
	lie := !refuse && draw(f.Lie, &i.Lies, "says that it runs, and does not,")
	crash := !refuse && draw(f.Crash, &i.Crashes, "crashes at")
	partial := !refuse && !lie && former != nil && i.chance.happens(f.Partial)
	lag := time.Duration(i.chance.float() * float64(f.Lag))
	i.mu.Unlock()
	if hang {
		lag += hangTime
	}
	if lag > 0 && former != nil {
		if err := i.pass(ctx, lag); err != nil {
			return nil, err
		}
	}
	if refuse {
		return nil, fmt.Errorf("an emulated fault: %w", client.ErrRefused)
	}
	c, err := a.read(offer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, client.ErrRefused)
	}
	var effective map[string]*structpb.Value
	if partial {
		if mixed := i.keepOne(former, offer); mixed != nil {
			if c, err = a.read(mixed); err != nil {
				return nil, err
			}
			effective = mixed.GetParameters()
			i.mu.Lock()
			i.Partial++
			i.mu.Unlock()
			a.o.Notify(fmt.Errorf("%s applies revision %d in part", i.ID, offer.GetRevision()))
		}
	}
	if i.first && !lie {
		if err := a.reconfigure(c); err != nil {
			return nil, err
		}
	}
	if crash {
		i.mu.Lock()
		i.crash()
		i.mu.Unlock()
		return nil, ctx.Err()
	}
	i.mu.Lock()
	i.Applied++
	i.former = offer
	i.mu.Unlock()
	if i.first {
		a.applied(offer, c)
	}
	return effective, nil
}

// keepOne is the offer with one parameter as it was, nil if no such configuration is one of the space.
func (i *instance) keepOne(former, offer *pb.Configuration) *pb.Configuration {
	for _, id := range slices.Sorted(maps.Keys(former.GetParameters())) {
		v := former.GetParameters()[id]
		if now, ok := offer.GetParameters()[id]; !ok || proto.Equal(now, v) {
			continue
		}
		mixed := proto.CloneOf(offer)
		mixed.Parameters[id] = v
		if _, err := i.agent.read(mixed); err == nil {
			return mixed
		}
	}
	return nil
}

// send sends events of the cluster; those of an instance that is down are lost with it, unless it is called.
func (i *instance) send(ctx context.Context, events []*pb.Event) error {
	i.mu.Lock()
	c := i.client
	i.mu.Unlock()
	switch {
	case len(events) == 0:
		return nil
	case i.called != nil:
		i.agent.feed.add(events)
		return nil
	case c == nil:
		return nil
	}
	return c.Send(ctx, events...)
}

// up reports whether the instance is not down after a crash.
func (i *instance) up() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.crash != nil
}

func (i *instance) waiting() int {
	if i.called != nil {
		_, n := i.agent.feed.counts()
		return n
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.client == nil {
		return 0
	}
	return i.client.Counts().Waiting
}

// answered is how many events the service has answered, or received of an instance that is called.
func (i *instance) answered() int {
	if i.called != nil {
		n, _ := i.agent.feed.counts()
		return n
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	n := i.counted
	if i.client != nil {
		n += answeredOf(i.client.Counts())
	}
	return n
}

func answeredOf(c client.Counts) int { return c.Stored + c.Duplicate + c.Late + c.Rejected }
