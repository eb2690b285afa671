package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// Files are the recorded streams of a scan, each in about the order of time.
type Files struct {
	Telemetry  []string // files of telemetry of any kind
	Queue      []string // files of which samples of queues count
	Iterations []string // files of which iterations count
	// Options say how these files are read.
	Options    telemetry.Options
	Events     []workload.Event
	Messages   []patterns.Message
	Guardrails []patterns.Guardrail
	// Joiner gives samples of GPUs the names that jobs have for their nodes, and counts how they are joined.
	// It may be nil.
	Joiner *telemetry.Joiner
}

// dated is a record with the time that orders it among the records of other streams.
type dated struct {
	at     time.Duration
	record patterns.Record
}

// errEnough ends the reading of a file.
var errEnough = errors.New("enough")

// peeked is the number of records of a file that Peek reads.
const peeked = 20_000

// Peek returns the sampling period that the beginnings of the files of telemetry show, 0 if they show none, and the
// time of the earliest record in them since the Unix epoch, negative without one.
func (f *Files) Peek(ctx context.Context) (period, first time.Duration, err error) {
	first = -1
	var gaps Gaps
	for _, path := range slices.Concat(f.Telemetry, f.Queue, f.Iterations) {
		n := 0
		at := func(t time.Duration) error {
			if t > 0 && (first < 0 || t < first) {
				first = t
			}
			if n++; n > peeked {
				return errEnough
			}
			return nil
		}
		gaps.last = nil
		_, err := telemetry.ReadFile(ctx, path, f.Options, telemetry.Visit{
			GPU: func(g *telemetry.GPUSample) error {
				gaps.Add(g)
				return at(g.Time)
			},
			Queue:     func(q *telemetry.QueueSample) error { return at(q.Time) },
			Iteration: func(i *telemetry.Iteration) error { return at(i.Time) },
		})
		if err != nil && !errors.Is(err, errEnough) {
			return 0, 0, err
		}
	}
	return gaps.Period(), first, nil
}

// Counts are the records of files.
type Counts struct {
	Samples  int      // records of telemetry
	Rejected []string // a note for each file with rejected rows
}

// Send puts all records into a feed, which it does not close. zero is that of the scan.
func (f *Files) Send(ctx context.Context, to *Feed, zero time.Time) (c Counts, err error) {
	base := time.Duration(0)
	if !zero.IsZero() {
		base = time.Duration(zero.UnixNano())
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	sources := []iter.Seq2[dated, error]{
		slice(f.Events, func(e *workload.Event) dated { return dated{e.Time, patterns.Record{Event: e}} })}
	for _, list := range []struct {
		paths []string
		keep  func(*telemetry.Visit)
	}{
		{f.Telemetry, func(*telemetry.Visit) {}},
		{f.Queue, func(v *telemetry.Visit) { v.GPU, v.Iteration = nil, nil }},
		{f.Iterations, func(v *telemetry.Visit) { v.GPU, v.Queue = nil, nil }},
	} {
		for _, path := range list.paths {
			sources = append(sources, c.samples(ctx, path, base, f, list.keep))
		}
	}
	sources = append(sources,
		slice(f.Messages, func(m *patterns.Message) dated { return dated{m.Time - base, patterns.Record{Message: m}} }),
		slice(f.Guardrails, func(g *patterns.Guardrail) dated {
			return dated{g.Time - base, patterns.Record{Guardrail: g}}
		}))
	return c, merge(sources, to.Put)
}

// slice returns the records of a list.
func slice[T any](list []T, of func(*T) dated) iter.Seq2[dated, error] {
	return func(yield func(dated, error) bool) {
		for i := range list {
			if !yield(of(&list[i]), nil) {
				return
			}
		}
	}
}

// samples returns the records of a file of telemetry.
func (c *Counts) samples(ctx context.Context, path string, base time.Duration, f *Files,
	keep func(*telemetry.Visit)) iter.Seq2[dated, error] {
	return func(yield func(dated, error) bool) {
		one := func(at time.Duration, r patterns.Record) error {
			c.Samples++
			if !yield(dated{at - base, r}, nil) {
				return errEnough
			}
			return nil
		}
		// An iteration without a time has that of the row before; before the first of a file, it comes last.
		before := time.Duration(math.MaxInt64)
		visit := visitor(func(at time.Duration, r patterns.Record) error {
			if r.Iteration == nil || at != 0 {
				before = at
			}
			return one(before, r)
		})
		if each := visit.GPU; f.Joiner != nil {
			visit.GPU = func(s *telemetry.GPUSample) error {
				f.Joiner.Join(s)
				return each(s)
			}
		}
		keep(&visit)
		stats, err := telemetry.ReadFile(ctx, path, f.Options, visit)
		if stats != nil && stats.Rejected > 0 {
			c.Rejected = append(c.Rejected, fmt.Sprintf("%d of %d rows of %s rejected, first %s; see 'autosched telemetry "+
				"validate'", stats.Rejected, stats.Rows, path, stats.First[0]))
		}
		if err == nil {
			err = stats.Nothing()
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(dated{}, err)
		}
	}
}

// visitor passes on copies of telemetry's records, with their times since the Unix epoch.
func visitor(each func(at time.Duration, r patterns.Record) error) telemetry.Visit {
	return telemetry.Visit{
		GPU:       func(g *telemetry.GPUSample) error { return each(g.Time, patterns.Record{GPU: new(*g)}) },
		Queue:     func(q *telemetry.QueueSample) error { return each(q.Time, patterns.Record{Queue: new(*q)}) },
		Iteration: func(i *telemetry.Iteration) error { return each(i.Time, patterns.Record{Iteration: new(*i)}) },
	}
}

// merge sends the records of sources, each in order of time, in the order of all.
func merge(sources []iter.Seq2[dated, error], send func(patterns.Record) error) error {
	type head struct {
		dated
		next func() (dated, error, bool)
	}
	var heads []*head
	for _, source := range sources {
		next, stop := iter.Pull2(source)
		defer stop()
		h := &head{next: next}
		x, err, ok := next()
		if err != nil {
			return err
		}
		if ok {
			h.dated = x
			heads = append(heads, h)
		}
	}
	for len(heads) > 0 {
		first := slices.MinFunc(heads, func(a, b *head) int { return cmp.Compare(a.at, b.at) })
		if err := send(first.record); err != nil {
			return err
		}
		x, err, ok := first.next()
		if err != nil {
			return err
		}
		if first.dated = x; !ok {
			heads = slices.DeleteFunc(heads, func(h *head) bool { return h == first })
		}
	}
	return nil
}
