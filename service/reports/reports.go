// Package reports keeps the metrics that schedulers report of themselves: as they came for some days of event time,
// and as means by revision and interval, which say whether a revision does worse than the one before it.
package reports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
)

// The bounds of the reports of a scheduler.
const (
	// Retention is how long reports are kept, in event time before the latest.
	Retention = 7 * 24 * time.Hour
	// MaxReports are kept, the latest ones.
	MaxReports = 50_000
	// MaxMetrics are kept at a time.
	MaxMetrics = 32
	// Interval is the event time in which reports of a revision count as one value, their mean.
	Interval = 5 * time.Minute
	// lookback is how many intervals of the last good revision count.
	lookback = 288
)

// ErrClosed is the error of a closed keeper.
var ErrClosed = errors.New("the keeper of reports is closed")

// Key identifies a report of a scheduler.
type Key struct {
	Time     time.Time `json:"-"` // of the scheduler
	Instance string    `json:"-"`
}

// Report is a measurement of an instance up to an event time.
type Report struct {
	Key
	Revision int64              `json:"revision"` // in force
	Metrics  map[string]float64 `json:"metrics"`
}

// Keep bounds the reports in a store.
type Keep struct {
	From   time.Time // reports before it
	Stored int       // how many there are
	Most   int       // that may be left
}

// Store keeps reports. They are on disk once AppendReports returns.
type Store interface {
	AppendReports(uid string, all []Report, keep Keep) (fresh []bool, dropped []Key, err error)
	Reports(uid string, after Key, visit func(*Report) bool) (damage, err error)
}

// Options of a Keeper.
type Options struct {
	Store      Store               // required
	Schedulers *controller.Service // required
	Log        *slog.Logger        // nothing is logged if nil
}

// Keeper keeps reports. It is safe for concurrent use.
type Keeper struct {
	o Options

	mu     sync.Mutex
	all    map[string]*history // by scheduler
	closed bool
}

// history is the memory of a scheduler: all else follows from it.
type history struct {
	mu     sync.Mutex // guards all below; held while the store writes
	read   bool
	stored int
	latest time.Time
	series map[seriesKey]*series
}

type seriesKey struct {
	metric   string
	revision int64
}

// series are the means of a metric under a revision.
type series struct{ bins []bin } // in order

// bin is the mean of an interval.
type bin struct {
	index int64 // intervals since 1970
	sum   float64
	count int
}

// New returns a keeper. Reports of a scheduler are read when they are needed.
func New(o Options) *Keeper {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Keeper{o: o, all: map[string]*history{}}
}

// Close ends it. Calls under way are answered.
func (k *Keeper) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
}

// Forget drops the reports of a purged scheduler.
func (k *Keeper) Forget(scheduler string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.all, scheduler)
}

// lock returns the history of a scheduler, read from the store, with its mutex held, and its uid.
func (k *Keeper) lock(scheduler string) (*history, string, error) {
	c, _, err := k.o.Schedulers.Scheduler(scheduler)
	if err != nil {
		return nil, "", err
	}
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return nil, "", ErrClosed
	}
	h := k.all[scheduler]
	if h == nil {
		h = &history{series: map[seriesKey]*series{}}
		k.all[scheduler] = h
	}
	k.mu.Unlock()
	h.mu.Lock()
	if h.read {
		return h, c.UID, nil
	}
	h.stored, h.series = 0, map[seriesKey]*series{}
	damage, err := k.o.Store.Reports(c.UID, Key{}, func(r *Report) bool {
		h.add(r)
		return true
	})
	if err != nil {
		h.mu.Unlock()
		return nil, "", err
	}
	if damage != nil {
		k.o.Log.Error("reports of metrics are damaged and count for nothing", "scheduler", scheduler, "err", damage)
	}
	h.read = true
	return h, c.UID, nil
}

func indexOf(t time.Time) int64 { return t.UnixNano() / int64(Interval) }

// add notes a report that is stored.
func (h *history) add(r *Report) {
	h.stored++
	if r.Time.After(h.latest) {
		h.latest = r.Time
	}
	for metric, v := range r.Metrics {
		key := seriesKey{metric, r.Revision}
		s := h.series[key]
		if s == nil {
			s = &series{}
			h.series[key] = s
		}
		s.add(indexOf(r.Time), v)
	}
}

func (s *series) add(index int64, v float64) {
	i, found := slices.BinarySearchFunc(s.bins, index, func(b bin, index int64) int { return int(b.index - index) })
	if !found {
		s.bins = slices.Insert(s.bins, i, bin{index: index})
	}
	s.bins[i].sum += v
	s.bins[i].count++
}

// means returns the means of the intervals before one, in order.
func (s *series) means(before int64) []float64 {
	if s == nil {
		return nil
	}
	var out []float64
	for _, b := range s.bins {
		if b.index < before {
			out = append(out, b.sum/float64(b.count))
		}
	}
	return out
}

// drop forgets the intervals before one.
func (h *history) drop(before int64) {
	for key, s := range h.series {
		if s.bins = slices.DeleteFunc(s.bins, func(b bin) bool { return b.index < before }); len(s.bins) == 0 {
			delete(h.series, key)
		}
	}
}

// metrics returns the names of the metrics from an interval on.
func (h *history) metrics(from int64) map[string]bool {
	names := map[string]bool{}
	for key, s := range h.series {
		if s.bins[len(s.bins)-1].index >= from {
			names[key.metric] = true
		}
	}
	return names
}

// Outcome is the result of a report.
type Outcome int

// The outcomes.
const (
	Stored Outcome = iota
	Duplicate
	Late    // before the kept intervals
	TooMany // it has a metric beyond MaxMetrics
)

// Append stores reports of a scheduler: once it returns no error, Stored and Duplicate ones are on disk. They
// must have been checked. Then they count for a revision on trial.
func (k *Keeper) Append(ctx context.Context, call controller.Call, scheduler string, all []Report) ([]Outcome, error) {
	c, _, err := k.o.Schedulers.Scheduler(scheduler)
	if err == nil && !c.Deleted.IsZero() {
		err = fmt.Errorf("scheduler %q %w", scheduler, controller.ErrDeleted)
	}
	if err != nil {
		return nil, err
	}
	h, uid, err := k.lock(scheduler)
	if err != nil {
		return nil, err
	}
	out, err := k.append(h, uid, all)
	latest := h.latest
	h.mu.Unlock()
	if err != nil || latest.IsZero() {
		return out, err
	}
	// The reports are stored: that nothing follows from them now is no error of the caller's, and is tried again.
	err = errors.Join(k.o.Schedulers.Reported(ctx, call, scheduler, latest), k.look(scheduler))
	if err != nil {
		k.o.Log.ErrorContext(ctx, "look at reported metrics failed", "scheduler", scheduler, "err", err)
	}
	return out, nil
}

// append is Append with the history held.
func (k *Keeper) append(h *history, uid string, all []Report) ([]Outcome, error) {
	out := make([]Outcome, len(all))
	latest := h.latest
	for i := range all {
		if all[i].Time.After(latest) {
			latest = all[i].Time
		}
	}
	from := latest.Add(-Retention).Truncate(Interval)
	names := h.metrics(indexOf(from))
	var good []Report
	var at []int
	for i := range all {
		if all[i].Time.Before(from) {
			out[i] = Late
			continue
		}
		fresh := 0
		for name := range all[i].Metrics {
			if !names[name] {
				fresh++
			}
		}
		if len(names)+fresh > MaxMetrics {
			out[i] = TooMany
			continue
		}
		for name := range all[i].Metrics {
			names[name] = true
		}
		good, at = append(good, all[i]), append(at, i)
	}
	if len(good) == 0 {
		return out, nil
	}
	fresh, dropped, err := k.o.Store.AppendReports(uid, good, Keep{From: from, Stored: h.stored, Most: MaxReports})
	if err != nil {
		h.read = false // the store may differ
		return nil, err
	}
	for i := range good {
		if fresh[i] {
			h.add(&good[i])
		} else {
			out[at[i]] = Duplicate
		}
	}
	if h.stored -= len(dropped); len(dropped) > 0 {
		h.drop(indexOf(dropped[len(dropped)-1].Time) + 1)
	}
	return out, nil
}

// List calls visit with the stored reports of a scheduler after a key, in order of event time and instance, until it
// returns false.
func (k *Keeper) List(scheduler string, after Key, visit func(*Report) bool) error {
	c, _, err := k.o.Schedulers.Scheduler(scheduler)
	if err != nil {
		return err
	}
	_, err = k.o.Store.Reports(c.UID, after, visit) // damage is logged when the history is read
	return err
}

// Summary summarises the reports of a metric under a revision.
type Summary struct {
	Metric   string
	Revision int64
	round.Estimate
	Reports int // that the mean is of
	// Latest is the mean of the latest interval.
	Latest float64
	// From and To are the begin of the first interval and the end of the last.
	From, To time.Time
}

func instant(index int64) time.Time { return time.Unix(0, index*int64(Interval)).UTC() }

// Summaries returns the summaries of a scheduler, by metric and revision.
func (k *Keeper) Summaries(scheduler string) ([]Summary, error) {
	h, _, err := k.lock(scheduler)
	if err != nil {
		return nil, err
	}
	defer h.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(h.series), func(a, b seriesKey) int {
		return cmp.Or(cmp.Compare(a.metric, b.metric), cmp.Compare(a.revision, b.revision))
	})
	var out []Summary
	for _, key := range keys {
		bins := h.series[key].bins
		last := bins[len(bins)-1]
		s := Summary{Metric: key.metric, Revision: key.revision, From: instant(bins[0].index),
			To: instant(last.index + 1), Latest: last.sum / float64(last.count),
			Estimate: round.EstimateMean(h.series[key].means(last.index + 1))}
		for _, b := range bins {
			s.Reports += b.count
		}
		out = append(out, s)
	}
	return out, nil
}

// Change compares a metric under a revision with the last one before it that has reports of it.
type Change struct {
	Summary
	Before *Summary // nil if there is none
}

// Changes compares the reports under a revision with the ones before, by metric.
func (k *Keeper) Changes(scheduler string, revision int64) ([]Change, error) {
	all, err := k.Summaries(scheduler)
	return changes(all, revision), err
}

func changes(all []Summary, revision int64) (out []Change) {
	for i, s := range all { // by metric and revision
		if s.Revision != revision {
			continue
		}
		c := Change{Summary: s}
		if i > 0 && all[i-1].Metric == s.Metric {
			c.Before = &all[i-1]
		}
		out = append(out, c)
	}
	return out
}

// look compares the reports of a revision on trial with the one before, at intervals that are over.
func (k *Keeper) look(scheduler string) error {
	h, _, err := k.lock(scheduler)
	if err != nil {
		return err
	}
	before := indexOf(h.latest)
	h.mu.Unlock()
	return k.o.Schedulers.LookAtReports(scheduler, func(t controller.ReportTrial) (round.Verdict, int, string) {
		h.mu.Lock()
		after := h.series[seriesKey{t.Metric, t.Revision}].means(before)
		good := h.series[seriesKey{t.Metric, t.Good}].means(before)
		h.mu.Unlock()
		if next := round.NextReportLook(t.Intervals); len(after) < next {
			return round.Verdict{}, t.Intervals, ""
		}
		good = good[max(0, len(good)-lookback):]
		v := round.JudgeReported(t.Metric, t.Maximize, good, after)
		ended := ""
		if round.NextReportLook(len(after)) == 0 && v.Judgement != round.Worse {
			ended = "Not watched any more: " + v.Reason
		}
		return v, len(after), ended
	})
}
