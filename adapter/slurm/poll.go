package slurm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/atomicfile"
)

// Poller sends Slurm's accounting as events. It changes nothing in Slurm, and needs no more rights than to
// see all jobs.
type Poller struct {
	Commands
	// Dir is where it keeps how far it is. Required.
	Dir string
	// Interval is the time between polls; 30 s if 0.
	Interval time.Duration
	// History is how far back the first poll reaches; a week if 0.
	History time.Duration
	// KeepProgress: requeued jobs go on where they were, as they write checkpoints.
	KeepProgress bool
	// Notify is called with errors, after which the poller tries again.
	Notify func(error)

	skew         atomic.Int64 // nanoseconds that slurmctld's clock is ahead of this machine's
	mu           sync.Mutex
	seen         time.Time // slurmctld's time of the last poll
	state        cursor
	whole, added int             // bytes of the file of the state, and what polls appended
	faults       map[string]bool // texts of the last poll that cannot be read
	polled       chan struct{}   // closed after the first poll
	once         sync.Once
}

// cursor is the poller's persisted state.
type cursor struct {
	// Since is up to when everything has been stored by the service; zero before the first poll.
	Since time.Time `json:"since,omitzero"`
	tracker
}

const (
	// overlap is how late a row may be changed.
	overlap = 10 * time.Minute
	// lag is how far slurmdbd is behind slurmctld.
	lag = 5 * time.Second
)

// Open reads how far a former poller was.
func (p *Poller) Open() error {
	p.polled = make(chan struct{})
	if p.Interval == 0 {
		p.Interval = 30 * time.Second
	}
	if p.History == 0 {
		p.History = 7 * 24 * time.Hour
	}
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return err
	}
	text, err := os.ReadFile(p.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for d := json.NewDecoder(bytes.NewReader(text)); err == nil; {
		err = d.Decode(&p.state) // the state of a moment, then what each poll changed
	}
	maps.DeleteFunc(p.state.Jobs, func(_ string, j *job) bool { return j == nil })
	if !errors.Is(err, io.EOF) && (!errors.Is(err, io.ErrUnexpectedEOF) || p.state.Cluster == "") { // cut off in a poll
		return fmt.Errorf("%s: %w: remove it, and the events of the last days are sent again", p.path(), err)
	}
	return nil
}

func (p *Poller) path() string { return filepath.Join(p.Dir, "events.json") }

// Run polls until the context ends. Whatever is away, Slurm or the service, it waits for and goes on where it was.
func (p *Poller) Run(ctx context.Context, c *client.Client) {
	last := ""
	for {
		err := p.poll(ctx, c)
		if ctx.Err() != nil {
			return
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != last && p.Notify != nil {
			if err == nil {
				err = errors.New("accounting answers again")
			}
			p.Notify(err)
		}
		last = text
		select {
		case <-ctx.Done():
			return
		case <-time.After(p.Interval):
		}
	}
}

// poll looks once, and returns when the service has stored the new events.
func (p *Poller) poll(ctx context.Context, c *client.Client) error {
	events, resync, next, err := p.look(ctx)
	if err != nil {
		return err
	}
	p.once.Do(func() { close(p.polled) })
	if resync {
		c.Resync()
	}
	if err := c.Send(ctx, events...); err != nil {
		return err
	}
	if err := c.Flush(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Since = next
	p.state.forget(next.Add(-2 * overlap))
	return p.save()
}

// save appends the jobs that changed, until the additions are longer than the rest. After a failure, a start or a
// change of nodes the file is written anew.
func (p *Poller) save() error {
	state := p.state
	whole := state.changed == nil || p.added >= p.whole
	if !whole {
		state.Nodes, state.Jobs = nil, make(map[string]*job, len(state.changed))
		for key := range state.changed {
			state.Jobs[key] = p.state.Jobs[key] // nil where it is gone
		}
	}
	p.state.changed = nil
	text, err := json.Marshal(&state)
	if err != nil {
		return err
	}
	if text = append(text, '\n'); whole {
		p.whole, p.added = len(text), 0
		err = atomicfile.WritePrivate(p.path(), func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
	} else {
		p.added += len(text)
		var f *os.File
		if f, err = os.OpenFile(p.path(), os.O_APPEND|os.O_WRONLY, 0); err == nil {
			_, err = f.Write(text)
			err = errors.Join(err, f.Sync(), f.Close())
		}
	}
	if err == nil {
		p.state.changed = map[string]bool{}
	}
	return err
}

// look returns the events that are new, and up to when a later look need not go back.
func (p *Poller) look(ctx context.Context) (events []*pb.Event, resync bool, next time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// slurmctld may be away: accounting goes on without it.
	sdiag, away := p.diagnostics(ctx)
	now := sdiag.now
	if now.IsZero() {
		now = p.Now().UTC().Truncate(time.Second)
	} else {
		p.skew.Store(int64(now.Sub(time.Now().Truncate(time.Second))))
	}
	if p.state.Cluster == "" {
		config, err := p.config(ctx)
		if err != nil {
			return nil, false, next, err
		}
		p.state.Cluster = config.Get("ClusterName")
	}
	p.state.KeepProgress = p.KeepProgress
	since, first := p.state.Since.Add(-overlap), p.state.Since.IsZero()
	if first {
		since = now.Add(-p.History)
		// The first event sets the time of the service: jobs may have been submitted long before.
		events = append(events, p.heartbeat(since))
	}
	var reasons map[string]string
	var nodes []node
	if away == nil {
		reasons, away = p.reasons(ctx)
	}
	if away == nil {
		var shards int
		if nodes, shards, away = p.nodes(ctx); away == nil {
			p.state.ShardsPerGPU = shards
		}
	}
	outages, err := p.outages(ctx, p.state.Cluster, since)
	if err != nil {
		return nil, false, next, err
	}
	rows, faults, err := p.accounting(ctx, p.state.Cluster, since, p.state.ShardsPerGPU)
	if err != nil {
		return nil, false, next, err
	}
	p.report(faults)
	// The nodes come first: events of jobs refer to them.
	if away == nil {
		at := now
		if first {
			at = since
		}
		changes := p.state.applyNodes(nodes, outages, at)
		if events = append(events, changes...); len(changes) > 0 {
			p.state.changed = nil
		}
	}
	p.state.drained = away == nil && sdiag.queue == 0
	jobs, resync := p.state.apply(rows, reasons, now)
	events = append(events, jobs...)
	next = p.state.Since
	if p.state.drained {
		next = now.Add(-lag)
		events = append(events, p.heartbeat(next))
	}
	p.seen = now
	if away != nil && p.Notify != nil && ctx.Err() == nil {
		p.Notify(fmt.Errorf("slurmctld: %w: its accounting is read on", away))
	}
	return events, resync, next, nil
}

// report notifies of rows that cannot be read, of the same ones once.
func (p *Poller) report(faults []error) {
	if p.faults == nil {
		p.faults = map[string]bool{}
	}
	seen := p.faults
	p.faults = map[string]bool{} // of this poll
	for _, err := range faults {
		if p.faults[err.Error()] = true; !seen[err.Error()] && p.Notify != nil {
			p.Notify(err)
		}
	}
}

// Now is slurmctld's time, as far as it is known.
func (p *Poller) Now() time.Time { return time.Now().Add(time.Duration(p.skew.Load())) }

// heartbeat reports that all events up to an instant have been sent.
func (p *Poller) heartbeat(at time.Time) *pb.Event {
	return &pb.Event{EventId: fmt.Sprintf("%s/polled/%d", p.state.Cluster, at.Unix()), Kind: pb.Event_HEARTBEAT,
		SchedulerTime: timestamppb.New(at)}
}

// Snapshot returns the jobs and nodes of the last poll; it waits for the first one.
func (p *Poller) Snapshot(ctx context.Context) *pb.Event {
	select {
	case <-p.polled:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.snapshot(p.seen)
}
