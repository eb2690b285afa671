// Package workloads keeps workloads of schedulers: lists of jobs that were generated from events, or that callers
// sent, on which configurations are measured. A workload does not change.
package workloads

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// The bounds of kept workloads.
const (
	MaxWorkloads = 50        // of a scheduler
	MaxJobs      = 200_000   // of a workload
	MaxBytes     = 64 << 20  // of the text of a workload
	MaxTotal     = 512 << 20 // bytes of the texts of a scheduler's workloads
	maxAtOnce    = 8         // that are being made
)

// Errors of a Keeper, besides errors of the controller and the store.
var (
	ErrLimit   = errors.New("beyond what is kept of workloads")
	ErrJobs    = errors.New("the jobs cannot be kept")
	ErrDamaged = errors.New("the text of the workload is not what was stored")
	ErrClosed  = errors.New("the keeper of workloads is closed")
)

// Origin says where the jobs of a workload come from.
type Origin string

// The origins.
const (
	Generated  Origin = "generated"  // a future
	Uploaded   Origin = "uploaded"   // a caller
	Historical Origin = "historical" // jobs of the scheduler that ended
)

// Record describes a workload, without its jobs.
type Record struct {
	ID      string            `json:"id"`
	UID     string            `json:"uid"`
	Display string            `json:"display_name,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Origin  Origin            `json:"origin"`
	Created time.Time         `json:"created"`
	// SHA256 is that of the text, hexadecimal, and Size its bytes.
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	Stored int64  `json:"stored"` // bytes of the text as it is stored
	Stats  Stats  `json:"statistics"`
	// Future is which one it is if it was generated; nil of others.
	Future *controller.Future `json:"future,omitempty"`
	// Rejected are rows of an upload with a fault, LeftOut its jobs that cannot be replayed.
	Rejected int `json:"rejected,omitempty"`
	LeftOut  int `json:"left_out,omitempty"`
}

// Change adds a workload, or deletes it, whole or not at all.
type Change struct {
	Scheduler string
	// SchedulerUID is the scheduler's.
	SchedulerUID string
	Record       Record
	Delete       bool
	Text         []byte // the jobs as trace.WriteCSV writes them, compressed by gzip; of one that is added
	Audit        *audit.Record
	Request      *controller.Request // that of the caller with an id
}

// Saved is a workload as a store has it.
type Saved struct {
	Scheduler string
	Record    Record
}

// Store keeps workloads.
type Store interface {
	// ChangeWorkloads makes a change durable. After a crash a workload that was not added, or was deleted, may have
	// left its text behind, which KeepWorkloads removes.
	ChangeWorkloads(c Change) error
	// LoadWorkloads returns readable workloads, and the rest as damage.
	LoadWorkloads() (saved []Saved, damage []controller.Damage, err error)
	// WorkloadText returns the text of a workload of the scheduler with a uid.
	WorkloadText(scheduler, uid string) ([]byte, error)
	// KeepWorkloads removes the texts of a scheduler's workloads except the ones with the uids.
	KeepWorkloads(scheduler string, uids map[string]bool) error
}

// Options of a Keeper.
type Options struct {
	Store      Store               // required
	Schedulers *controller.Service // required
	Log        *slog.Logger        // nothing is logged if nil
	Now        func() time.Time    // time.Now if nil
	NewID      func() string       // makes unique ids; crypto/rand.Text if nil
}

// Keeper keeps workloads. It is safe for concurrent use.
type Keeper struct {
	o      Options
	making chan struct{} // has an element for each workload that is being made

	changing sync.Mutex // one change at a time; taken before mu
	mu       sync.RWMutex
	all      map[string]map[string]*Record // by scheduler and id
	closed   bool
}

// New loads the workloads of the store, and removes texts that crashes left behind.
func New(o Options) (*Keeper, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = rand.Text
	}
	k := &Keeper{o: o, making: make(chan struct{}, maxAtOnce), all: map[string]map[string]*Record{}}
	saved, damage, err := o.Store.LoadWorkloads()
	if err != nil {
		return nil, fmt.Errorf("workloads: %w", err)
	}
	for _, d := range damage {
		o.Log.Error("records of workloads are damaged and count for nothing", "file", d.File, "err", d.Err)
	}
	uids := map[string]map[string]bool{}
	for _, one := range saved {
		k.put(one.Scheduler, &one.Record)
		if uids[one.Scheduler] == nil {
			uids[one.Scheduler] = map[string]bool{}
		}
		uids[one.Scheduler][one.Record.UID] = true
	}
	if len(damage) == 0 { // texts of damaged records stay
		for _, id := range o.Schedulers.Schedulers("", math.MaxInt) {
			c, _, err := o.Schedulers.Scheduler(id)
			if err == nil {
				err = o.Store.KeepWorkloads(c.UID, uids[id])
			}
			if err != nil {
				o.Log.Error("texts of workloads cannot be read", "scheduler", id, "err", err)
			}
		}
	}
	return k, nil
}

// Close ends it. Calls under way are answered.
func (k *Keeper) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
}

func (k *Keeper) put(scheduler string, r *Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all[scheduler] == nil {
		k.all[scheduler] = map[string]*Record{}
	}
	k.all[scheduler][r.ID] = r
}

// Forget drops the workloads of a purged scheduler.
func (k *Keeper) Forget(scheduler string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, scheduler)
}

// scheduler returns a scheduler that is not deleted.
func (k *Keeper) scheduler(id string) (*controller.Scheduler, error) {
	k.mu.RLock()
	closed := k.closed
	k.mu.RUnlock()
	if closed {
		return nil, ErrClosed
	}
	c, _, err := k.o.Schedulers.Scheduler(id)
	if err == nil && !c.Deleted.IsZero() {
		err = fmt.Errorf("scheduler %q %w", id, controller.ErrDeleted)
	}
	return &c, err
}

// Get returns a workload of a scheduler.
func (k *Keeper) Get(scheduler, id string) (Record, error) {
	if _, err := k.scheduler(scheduler); err != nil {
		return Record{}, err
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	r := k.all[scheduler][id]
	if r == nil {
		return Record{},
			fmt.Errorf("workload %q of scheduler %q: %w: 'autosched scheduler workload list' shows those that are kept",
				id, scheduler, controller.ErrNotFound)
	}
	return *r, nil
}

// List returns up to n workloads of a scheduler after an id, in order of id.
func (k *Keeper) List(scheduler, after string, n int) ([]Record, error) {
	if _, err := k.scheduler(scheduler); err != nil {
		return nil, err
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	var out []Record
	for _, id := range slices.Sorted(maps.Keys(k.all[scheduler])) {
		if id > after && len(out) < n {
			out = append(out, *k.all[scheduler][id])
		}
	}
	return out, nil
}

// Make calls f, which makes a workload, unless many are being made.
func (k *Keeper) Make(f func() error) error {
	select {
	case k.making <- struct{}{}:
		defer func() { <-k.making }()
		return f()
	default:
		return fmt.Errorf("%d workloads are being made: %w", maxAtOnce, controller.ErrBusy)
	}
}

// Free refuses an id of a scheduler's workloads that is in use, and one more workload than is kept. Add does so, too.
func (k *Keeper) Free(scheduler, id string) error {
	if _, err := k.scheduler(scheduler); err != nil {
		return err
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	of := k.all[scheduler]
	switch {
	case of[id] != nil:
		return fmt.Errorf("workload %q of scheduler %q: %w", id, scheduler, controller.ErrExists)
	case len(of) >= MaxWorkloads:
		return fmt.Errorf("%w: scheduler %q has %d workloads; delete some", ErrLimit, scheduler, len(of))
	}
	return nil
}

// Add stores jobs as a workload of a scheduler, with the nodes of the cluster that they belong to, if they are known.
// It sets the fields of the record that follow from the jobs. In a dry run nothing is stored.
func (k *Keeper) Add(ctx context.Context, call controller.Call, scheduler string, r Record, w *workload.Workload,
	nodes []workload.NodeGroup) (Record, error) {
	c, err := k.scheduler(scheduler)
	if err != nil {
		return r, err
	}
	switch {
	case w.Len() == 0:
		return r, fmt.Errorf("%w: there are none", ErrJobs)
	case w.Len() > MaxJobs:
		return r, fmt.Errorf("%w: workload %q has %d jobs, at most %d are kept", ErrLimit, r.ID, w.Len(), MaxJobs)
	}
	if first, last := w.Span(); w.Clock(first).Year() < 1 || w.Clock(last).Year() > 9999 {
		return r, fmt.Errorf("%w: submissions from %v to %v are not all within the years 1 to 9999", ErrJobs,
			w.Clock(first), w.Clock(last))
	}
	text, err := r.encode(w, nodes)
	if err != nil {
		return r, err
	}
	r.UID, r.Created, r.Stats = k.o.NewID(), k.o.Now().UTC(), newStats(w, &c.Cluster)
	k.changing.Lock()
	defer k.changing.Unlock()
	if err := k.Free(scheduler, r.ID); err != nil {
		return r, err
	}
	total := r.Size
	k.mu.RLock()
	for _, other := range k.all[scheduler] {
		total += other.Size
	}
	k.mu.RUnlock()
	if total > MaxTotal {
		return r, fmt.Errorf("%w: the workloads of scheduler %q would have %d bytes, at most %d are kept; delete some",
			ErrLimit, scheduler, total, MaxTotal)
	}
	if call.DryRun {
		return r, nil
	}
	if err := k.change(call, c, Change{Record: r, Text: text}); err != nil {
		return r, err
	}
	k.put(scheduler, &r)
	k.o.Log.InfoContext(ctx, "workload stored", "scheduler", scheduler, "workload", r.ID, "origin", r.Origin, "jobs",
		r.Stats.Jobs)
	return r, nil
}

// Delete removes a workload, if check returns nil.
func (k *Keeper) Delete(ctx context.Context, call controller.Call, scheduler, id string,
	check func(*Record) error) error {
	c, err := k.scheduler(scheduler)
	if err != nil {
		return err
	}
	k.changing.Lock()
	defer k.changing.Unlock()
	r, err := k.Get(scheduler, id)
	if err == nil {
		err = check(&r)
	}
	if err != nil || call.DryRun {
		return err
	}
	if err := k.change(call, c, Change{Record: r, Delete: true}); err != nil {
		return err
	}
	k.mu.Lock()
	delete(k.all[scheduler], id)
	k.mu.Unlock()
	k.o.Log.InfoContext(ctx, "workload deleted", "scheduler", scheduler, "workload", id)
	return nil
}

// change makes a change durable, with its record in the audit log and the request of the caller.
func (k *Keeper) change(call controller.Call, of *controller.Scheduler, c Change) error {
	field := audit.Field{Name: "workloads/" + c.Record.ID + ".sha256"}
	if text := fmt.Sprintf("%q", c.Record.SHA256); c.Delete {
		field.Before = text
	} else {
		field.After = text
	}
	request := k.o.Schedulers.RequestRecord(call, of.ID)
	c.Scheduler, c.SchedulerUID, c.Request = of.ID, of.UID, request.Request()
	c.Audit = &audit.Record{Time: k.o.Now().UTC(), Origin: call.By(), Resource: "schedulers/" + of.ID,
		Fields: []audit.Field{field}}
	if err := k.o.Store.ChangeWorkloads(c); err != nil {
		return err
	}
	request.MarkStored()
	return nil
}

// Text returns the jobs of a workload of a scheduler as trace.WriteCSV writes them, compressed by gzip.
func (k *Keeper) Text(scheduler, id string) (Record, []byte, error) {
	r, err := k.Get(scheduler, id)
	if err != nil {
		return r, nil, err
	}
	c, err := k.scheduler(scheduler)
	if err != nil {
		return r, nil, err
	}
	text, err := k.o.Store.WorkloadText(c.UID, r.UID)
	if err == nil && int64(len(text)) != r.Stored {
		err = fmt.Errorf("workload %q of scheduler %q: %w: it has %d bytes, stored were %d; delete it and make it again", id,
			scheduler, ErrDamaged, len(text), r.Stored)
	}
	return r, text, err
}

// Jobs returns a workload of a scheduler with its jobs.
func (k *Keeper) Jobs(ctx context.Context, scheduler, id string) (Record, *workload.Workload, error) {
	r, text, err := k.Text(scheduler, id)
	if err != nil {
		return r, nil, err
	}
	w, _, err := trace.Read(ctx, bytes.NewReader(text), id, trace.Options{Format: "autosched", Strict: true,
		MaxRatio: maxRatio})
	return r, w, err
}

// maxRatio is of gzip at most 1032.
const maxRatio = 2000

// Open returns the text of a compressed one.
func Open(text []byte) (io.Reader, error) { return gzip.NewReader(bytes.NewReader(text)) }

// encode writes the text of a workload, and notes its digest and size.
func (r *Record) encode(w *workload.Workload, nodes []workload.NodeGroup) ([]byte, error) {
	var out bytes.Buffer
	sum := sha256.New()
	zip := gzip.NewWriter(&out)
	count := new(counter)
	if err := trace.WriteCSV(io.MultiWriter(zip, sum, count), w, nodes...); err != nil {
		if errors.Is(err, ErrLimit) {
			return nil, fmt.Errorf("%w: workload %q has more than %d bytes as text", ErrLimit, r.ID, MaxBytes)
		}
		return nil, fmt.Errorf("%w: %s", ErrJobs, strings.TrimPrefix(err.Error(), "trace: "))
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	r.SHA256, r.Size, r.Stored = hex.EncodeToString(sum.Sum(nil)), int64(*count), int64(out.Len())
	return out.Bytes(), nil
}

// counter counts bytes up to MaxBytes.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	if *c += counter(len(p)); *c > MaxBytes {
		return 0, ErrLimit
	}
	return len(p), nil
}
