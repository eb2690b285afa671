// Package findings watches the schedulers of the service for patterns: it feeds the events and samples of each to a
// patterns.Scanner and keeps the findings, with the judgements of operators, in a file for each scheduler. Records are
// taken in without waiting: records for which there is no room are counted and left out.
package findings

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// Errors, which come wrapped.
var (
	ErrNotFound = errors.New("there is no such finding")
	ErrState    = errors.New("the finding does not allow it")
	ErrClosed   = errors.New("the findings are closed")
)

// Bounds of the records of a scheduler.
const (
	maxClosed = 1000   // the newest
	maxOpen   = 5000   // further ones are counted as not kept
	maxQueue  = 200000 // records that wait
)

// Mark is the judgement of an operator about a finding.
type Mark struct {
	By     string    `json:"by,omitempty"` // empty where callers are not identified
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"` // of a snooze
}

// Marks are the judgements about a finding.
type Marks struct {
	Acknowledged  *Mark `json:"acknowledged,omitempty"`
	Snoozed       *Mark `json:"snoozed,omitempty"`
	FalsePositive *Mark `json:"false_positive,omitempty"`
}

// Finding is a kept patterns.Finding: its name, the instant until which its numbers reach, and its marks. Closed is
// zero while it is open. WastedGPUHours reach until Updated, and Cost is theirs at the price of that time, 0 without
// one. Affected and Words are of the opening.
type Finding struct {
	ID string `json:"id"`
	patterns.Finding
	Updated time.Time `json:"updated"`
	// Lost says that it was closed because the scan after a restart did not find it again.
	Lost bool `json:"lost,omitempty"`

	Marks

	carried float64 // wasted GPU-hours that the scan since the restart does not count
}

// Silent reports whether the finding is left out of notices and of the metric of open ones at an instant.
func (f *Finding) Silent(now time.Time) bool {
	return f.FalsePositive != nil || f.Snoozed != nil && now.Before(f.Snoozed.Until)
}

// clone copies a finding. Marks are replaced, never changed.
func (f *Finding) clone() *Finding {
	c := *f
	c.Finding = *f.Finding.Clone()
	return &c
}

// Rule counts the findings of a rule, dropped ones included.
type Rule struct {
	Rule  string `json:"rule"`
	Total int    `json:"total"`
	// Acknowledged were said to be true, FalsePositives to be wrong.
	Acknowledged   int `json:"acknowledged"`
	FalsePositives int `json:"false_positives"`
	// Open are the open ones, Wasted the GPU-hours that they wasted and Cost the price of these, without false
	// positives.
	Open   int     `json:"-"`
	Wasted float64 `json:"-"`
	Cost   float64 `json:"-"`
	Loud   int     `json:"-"` // open, and not silent
}

// Precision is the share of true findings among judged ones, if any was judged.
func (r *Rule) Precision() (share float64, known bool) {
	n := r.Acknowledged + r.FalsePositives
	return float64(r.Acknowledged) / float64(max(n, 1)), n > 0
}

// Scheduler describes a scheduler to a scan.
type Scheduler struct {
	Zero    time.Time // of its events' times; the zero time before the first
	Cluster workload.Cluster
	// Version changes with the stored events or the hardware.
	Version string
}

// Source reads the records of the service.
type Source interface {
	Schedulers() []string
	Scheduler(id string) (Scheduler, error)
	// Events calls f with the events of a scheduler, in about the order of time since its Zero.
	Events(ctx context.Context, id string, f func(workload.Event) error) error
	// Sampled is the end of the last hour that has samples or iterations, since the Unix epoch; 0 for none.
	Sampled(id string) (time.Duration, error)
	Samples(ctx context.Context, id string, from, to time.Duration, f func(*telemetry.GPUSample) error) error
	Iterations(ctx context.Context, id string, from, to time.Duration, f func(*telemetry.Iteration) error) error
}

// Notice is that a finding opened or closed.
type Notice struct {
	Event     string `json:"event"` // opened or closed
	Scheduler string `json:"scheduler"`
	Finding
}

// Options of a Keeper. Dir is required.
type Options struct {
	Dir    string
	Rules  *patterns.RuleSet // the built-in ones if nil
	Price  func() float64    // of a GPU-hour, 0 if it is not known; nil: never known
	Notify func(*Notice)     // receives findings that are not silent, in order; must not block
	// Room calls a function that writes, unless the disk is full; nil calls it always.
	Room  func(write func() error) error
	Log   *slog.Logger                 // nothing is logged if nil
	Now   func() time.Time             // for marks; time.Now if nil
	write func(string, *content) error // of tests
}

// Keeper keeps the findings of all schedulers. It is safe for concurrent use.
type Keeper struct {
	o       Options
	source  Source
	ctx     context.Context
	stop    context.CancelFunc
	wg      sync.WaitGroup
	reading sync.Mutex // one scan of stored records at a time

	mu      sync.Mutex
	closed  bool
	watches map[string]*watch
}

// Open opens a directory, which is made once something is found. Run examines records.
func Open(o Options) *Keeper {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rules == nil {
		o.Rules = patterns.Builtin()
	}
	if o.Price == nil {
		o.Price = func() float64 { return 0 }
	}
	if o.Room == nil {
		o.Room = func(write func() error) error { return write() }
	}
	if o.write == nil {
		o.write = func(path string, c *content) error {
			return o.Room(func() error { return write(path, c) })
		}
	}
	k := &Keeper{o: o, watches: map[string]*watch{}}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

// Run examines stored records, and records that come in meanwhile, until the context ends.
func (k *Keeper) Run(ctx context.Context, s Source) error {
	k.mu.Lock()
	k.source = s
	k.mu.Unlock()
	for _, id := range s.Schedulers() {
		if w := k.watch(id); w != nil {
			w.wakeUp()
		}
	}
	<-ctx.Done()
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.stop()
	k.wg.Wait()
	return nil
}

// watch returns that of a scheduler, and starts it. It is nil unless the keeper runs.
func (k *Keeper) watch(id string) *watch {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.source == nil {
		return nil
	}
	if w := k.watches[id]; w != nil {
		return w
	}
	w := &watch{keeper: k, id: id, list: list{open: map[key]*Finding{}, rules: map[string]*Rule{}},
		wake: make(chan struct{}, 1), counts: map[string]int64{}}
	w.ctx, w.stop = context.WithCancel(k.ctx)
	w.ended = make(chan struct{})
	if err := w.load(k.path(id)); err != nil {
		k.o.Log.Error("findings of a scheduler cannot be read, and the file is set aside", "scheduler", id, "err", err)
		aside := k.path(id) + ".damaged"
		linked := aside + ".new"
		_ = os.Remove(linked)
		err := os.Link(k.path(id), linked)
		if err == nil {
			err = os.Rename(linked, aside)
		}
		if err == nil { // else the file is the only copy
			err = w.save()
		}
		if err != nil {
			k.o.Log.Error("the findings are not set aside", "scheduler", id, "err", err)
		}
	}
	k.watches[id] = w
	k.wg.Go(w.run)
	return w
}

func (k *Keeper) path(id string) string { return filepath.Join(k.o.Dir, id+".json") }

// Events takes in events of a scheduler that are stored. Their times are since its Zero.
func (k *Keeper) Events(id string, events []workload.Event) {
	if w := k.watch(id); w != nil {
		w.enqueue(waiting{events: slices.Clone(events)})
	}
}

// Samples takes in samples of a scheduler that are stored, and keeps the slice.
func (k *Keeper) Samples(id string, samples []telemetry.GPUSample) {
	if w := k.watch(id); w != nil {
		w.enqueue(waiting{samples: samples})
	}
}

// Iterations takes in training steps of a scheduler's jobs that are stored, and keeps the slice.
func (k *Keeper) Iterations(id string, iterations []telemetry.Iteration) {
	if w := k.watch(id); w != nil && len(iterations) > 0 {
		w.enqueue(waiting{iterations: iterations})
	}
}

// Guardrail takes in a measurement of a scheduler's configuration since it was applied. Of a revision there is one
// an hour: others that follow it sooner are left out.
func (k *Keeper) Guardrail(id string, g patterns.Guardrail) {
	w := k.watch(id)
	if w == nil {
		return
	}
	w.in.Lock()
	after := g.Applied
	if w.hourly.Revision == g.Revision {
		after = max(after, w.hourly.Time)
	}
	due := g.Time-after >= time.Hour
	if due {
		w.hourly = g
	}
	w.in.Unlock()
	if due {
		w.enqueue(waiting{guardrails: []patterns.Guardrail{g}})
	}
}

// Forget drops the findings of a scheduler that is gone.
func (k *Keeper) Forget(id string) error {
	k.mu.Lock()
	w := k.watches[id]
	delete(k.watches, id)
	k.mu.Unlock()
	if w != nil {
		w.stop()
		<-w.ended
	}
	if err := os.Remove(k.path(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Query says which findings to list.
type Query struct {
	Open, Closed       bool   // only these; all if neither or both
	Rule, Entity, Kind string // only these, all if empty
	AfterOpened        time.Time
	AfterID            string // findings after one, in the order of List
	Limit              int
}

// List returns findings, the latest opened first, and counts of the findings of each rule.
func (k *Keeper) List(id string, q Query) (out []*Finding, rules []Rule, more bool) {
	w := k.watch(id)
	if w == nil {
		return nil, nil, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Clone(w.closed)
	for _, f := range w.open {
		all = append(all, f)
	}
	slices.SortFunc(all, order)
	after := &Finding{ID: q.AfterID, Finding: patterns.Finding{Opened: q.AfterOpened}}
	for _, f := range all {
		switch {
		case q.Open != q.Closed && f.Open != q.Open, q.Rule != "" && f.Rule != q.Rule,
			q.Entity != "" && f.Entity.Name != q.Entity, q.Kind != "" && f.Entity.Kind != q.Kind,
			q.AfterID != "" && order(f, after) <= 0:
			continue
		}
		if len(out) == q.Limit {
			more = true
			break
		}
		out = append(out, f.clone())
	}
	return out, w.summaries(k.o.Now()), more
}

// order is the latest opened first.
func order(a, b *Finding) int { return cmp.Or(b.Opened.Compare(a.Opened), cmp.Compare(a.ID, b.ID)) }

// Get returns a finding.
func (k *Keeper) Get(scheduler, id string) (*Finding, error) {
	w := k.watch(scheduler)
	if w == nil {
		return nil, ErrClosed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f, err := w.find(id)
	if err != nil {
		return nil, err
	}
	return f.clone(), nil
}

// Acknowledge says that a finding is true and seen to.
func (k *Keeper) Acknowledge(scheduler, id, by, reason string) (*Finding, error) {
	return k.mark(scheduler, id, func(f *Finding, r *Rule) error {
		if f.Acknowledged == nil {
			r.Acknowledged++
		}
		if f.FalsePositive != nil {
			r.FalsePositives--
		}
		f.Acknowledged, f.FalsePositive = &Mark{By: by, At: k.now(), Reason: reason}, nil
		return nil
	})
}

// Snooze makes an open finding silent until an instant, and findings of its rule and entity that open before.
func (k *Keeper) Snooze(scheduler, id, by, reason string, until time.Time) (*Finding, error) {
	return k.mark(scheduler, id, func(f *Finding, _ *Rule) error {
		if !f.Open {
			return fmt.Errorf("%w: %s is closed: only open ones are snoozed", ErrState, id)
		}
		f.Snoozed = &Mark{By: by, At: k.now(), Reason: reason, Until: until.UTC()}
		return nil
	})
}

// MarkFalsePositive says that a finding is wrong, and why.
func (k *Keeper) MarkFalsePositive(scheduler, id, by, reason string) (*Finding, error) {
	return k.mark(scheduler, id, func(f *Finding, r *Rule) error {
		if f.FalsePositive == nil {
			r.FalsePositives++
		}
		if f.Acknowledged != nil {
			r.Acknowledged--
		}
		f.Acknowledged, f.FalsePositive = nil, &Mark{By: by, At: k.now(), Reason: reason}
		return nil
	})
}

func (k *Keeper) now() time.Time { return k.o.Now().UTC() }

// mark changes a finding and stores it. If it cannot be stored, nothing is changed.
func (k *Keeper) mark(scheduler, id string, change func(*Finding, *Rule) error) (*Finding, error) {
	w := k.watch(scheduler)
	if w == nil {
		return nil, ErrClosed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f, err := w.find(id)
	if err != nil {
		return nil, err
	}
	rule := w.rule(f.Rule)
	wasFinding, wasRule := *f, *rule
	if err := change(f, rule); err != nil {
		return nil, err
	}
	if err := w.save(); err != nil {
		*f, *rule = wasFinding, wasRule
		return nil, err
	}
	return f.clone(), nil
}

// idOf names a finding by its content, so that the same one has the same name after a restart.
func idOf(f *Finding) string {
	h := sha256.New()
	for _, text := range []string{f.Rule, f.Entity.Kind, f.Entity.Name} {
		h.Write(binary.AppendUvarint(nil, uint64(len(text))))
		h.Write([]byte(text))
	}
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(f.Opened.UnixNano())))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// write replaces a file.
func write(path string, c *content) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	if err := atomicfile.Write(path, c.encode); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}
