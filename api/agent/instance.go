package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/space"
)

// Instance is an instance of the emulated scheduler with its counts.
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
	file    *configured        // nil for one without a file
	counted int                // events answered in former lives
	former  space.Config       // the values it reports; zero at the start of a life
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
	if a.o.File != nil {
		i.file = i.configuredBy(a.o.File, n)
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
	if i.file != nil {
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
	if i.file == nil {
		return c.Run(life)
	}
	if err := i.file.begin(life); err != nil {
		return err
	}
	following, stop := context.WithCancel(life)
	var beside sync.WaitGroup
	beside.Go(func() { i.file.follow(following) })
	defer beside.Wait()
	defer stop()
	return c.Run(life)
}

func (i *instance) begin(c *client.Client, crash context.CancelFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.client, i.crash, i.former = c, crash, space.Config{}
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

// apply puts an offered configuration into force, or has a fault.
func (i *instance) apply(ctx context.Context, offer *pb.Configuration) (map[string]*structpb.Value, error) {
	c, err := i.agent.read(offer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, client.ErrRefused)
	}
	said, err := i.put(ctx, fmt.Sprint("revision ", offer.GetRevision()), c, offer)
	if err != nil || said.Equal(c) {
		return nil, err
	}
	var effective structpb.Struct
	if err := effective.UnmarshalJSON([]byte(said.Canonical())); err != nil {
		return nil, err
	}
	return effective.Fields, nil
}

// put puts a configuration into force, or has a fault, and returns the values that the instance reports.
// The first one of a life is put as it is: there is none to keep. The offer is nil for one of a file.
func (i *instance) put(ctx context.Context, what string, c space.Config, offer *pb.Configuration) (
	space.Config, error) {
	f, a := i.agent.o.Faults, i.agent
	i.mu.Lock()
	former := i.former
	draw := func(p float64, count *int, does string) bool {
		if former.IsZero() || !i.chance.happens(p) {
			return false
		}
		*count++
		a.o.Notify(fmt.Errorf("%s %s %s", i.ID, does, what))
		return true
	}
	refuse := draw(f.Refuse, &i.Refused, "refuses")
	hang := !refuse && draw(f.Hang, &i.Hangs, "hangs at")
	lie := !refuse && draw(f.Lie, &i.Lies, "says that it runs, and does not,")
	crash := !refuse && draw(f.Crash, &i.Crashes, "crashes at")
	partial := !refuse && !lie && !former.IsZero() && i.chance.happens(f.Partial)
	lag := time.Duration(i.chance.float() * float64(f.Lag))
	i.mu.Unlock()
	if hang {
		lag += hangTime
	}
	if lag > 0 && !former.IsZero() {
		if err := i.pass(ctx, lag); err != nil {
			return c, err
		}
	}
	if refuse {
		return c, fmt.Errorf("an emulated fault: %w", client.ErrRefused)
	}
	if partial {
		if mixed := keepOne(former, c); !mixed.Equal(c) {
			c = mixed
			i.mu.Lock()
			i.Partial++
			i.mu.Unlock()
			a.o.Notify(fmt.Errorf("%s applies %s in part", i.ID, what))
		}
	}
	if i.first && !lie {
		if err := a.reconfigure(c); err != nil {
			return c, err
		}
	}
	if crash {
		i.mu.Lock()
		i.crash()
		i.mu.Unlock()
		return c, ctx.Err()
	}
	i.mu.Lock()
	i.Applied++
	i.former = c
	i.mu.Unlock()
	if i.first {
		a.applied(offer, c)
	}
	return c, nil
}

// keepOne is a configuration with one parameter as it was, or as it is if no such configuration is one of the space.
func keepOne(former, c space.Config) space.Config {
	for _, id := range slices.Sorted(slices.Values(former.IDs())) {
		if v := c.Get(id); v.IsZero() || v.Equal(former.Get(id)) {
			continue
		}
		mixed := c.With(id, former.Get(id))
		if _, err := c.Space().ParseJSON([]byte(mixed.Canonical())); err == nil {
			return mixed
		}
	}
	return c
}

// send sends events of the cluster; the events of an instance that is down are lost with it, unless it is called.
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

// Faults are the faults of an emulated scheduler, with the probability of each for a
// configuration. The first configuration of an instance is applied as it should be.
type Faults struct {
	Refuse  float64 // refuses it
	Partial float64 // keeps the former value of one parameter, and says so
	Lie     float64 // says that it runs it, and goes on as before
	Hang    float64 // does nothing for six hours of emulated time
	Crash   float64 // ends after it applied it and before it says so, and starts ten minutes later
	Lose    float64 // of an event: it is never sent; a snapshot follows within an hour
	// Lag is the longest emulated time before a configuration is applied.
	Lag  time.Duration
	Seed uint64
}

// Check finds probabilities and times that make no sense.
func (f *Faults) Check() error {
	for name, p := range map[string]float64{"refuse": f.Refuse, "partial": f.Partial, "lie": f.Lie, "hang": f.Hang,
		"crash": f.Crash, "lose": f.Lose} {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("%s: %v is not from 0 to 1", name, p)
		}
	}
	if f.Lag < 0 {
		return fmt.Errorf("lag: %v is negative", f.Lag)
	}
	return nil
}

// chance draws faults. Instances have one each, so that they do not depend on each other.
type chance struct{ r *rand.Rand }

func (f *Faults) chance(of uint64) *chance { return &chance{rand.New(rand.NewPCG(f.Seed, of))} }

// happens draws with a probability.
func (c *chance) happens(p float64) bool { return p > 0 && c.r.Float64() < p }

// float is from 0 to 1.
func (c *chance) float() float64 { return c.r.Float64() }
