package samples

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/telemetry"
)

// The kinds of the files of iterations: logs, and hours that are over, without repeats. Both are kept as
// long as raw samples are.
const (
	iterationLog = "iterations-"
	iterationRaw = "steps-"
)

// ErrLimit is the error of AppendIterations for an hour that holds as many as an hour may.
var ErrLimit = errors.New("too many training steps")

// AppendIterations stores times of training steps as Append stores samples. One is identified by its job, worker, step
// and end. It may change their order.
func (s *Store) AppendIterations(ctx context.Context, scheduler string, all []telemetry.Iteration) error {
	all = sortedIterations(all)
	b := &batch{frames: map[fileName][]byte{}, iterations: map[time.Time]int{}}
	for i := 0; i < len(all); {
		hour, k := hourOf(all[i].Time), i+1
		for k < len(all) && hourOf(all[k].Time).Equal(hour) {
			k++
		}
		b.frames[fileName{iterationLog, hour}] = frame(nil, encodeIterations(nil, all[i:k]))
		b.iterations[hour] = k - i
		i = k
	}
	return s.append(ctx, scheduler, b)
}

// admit counts the iterations of a batch, repeats among them, or says that an hour may not hold them. What an hour
// holds already is read once.
func (l *log) admit(b *batch) error {
	for hour, n := range b.iterations {
		held, known := l.iterations[hour]
		if !known {
			for _, kind := range []string{iterationRaw, iterationLog} {
				_, err := scan(l.store.path(l.scheduler, kind, hour), func(payload []byte) error {
					r := reader{rest: payload}
					held += int(r.uvarint())
					return nil
				})
				if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
			l.iterations[hour] = held
		}
		if most := l.store.o.Iterations; held+n > most {
			return fmt.Errorf("%w: those that ended from %s on, for an hour, would be %d with those sent again, more "+
				"than %d: send fewer, such as every tenth", ErrLimit, hour.Format(time.RFC3339), held+n, most)
		}
	}
	for hour, n := range b.iterations {
		l.iterations[hour] += n
	}
	return nil
}

// compactIterations makes the file of an hour without repeats. A crash repeats it.
func (l *log) compactIterations(hour time.Time) error {
	s := l.store
	logPath := s.path(l.scheduler, iterationLog, hour)
	all, err := s.iterations(l.scheduler, hour, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	out, err := atomicfile.CreatePlain(s.path(l.scheduler, iterationRaw, hour))
	if err != nil {
		return err
	}
	defer out.Abort()
	for chunk := range slices.Chunk(all, 50_000) {
		if _, err := out.Write(frame(nil, encodeIterations(nil, chunk))); err != nil {
			return err
		}
	}
	delete(l.iterations, hour)
	return l.replace(logPath, out)
}

// Iterations calls f with the iterations of a span, since the Unix epoch, in order of time.
func (s *Store) Iterations(ctx context.Context, scheduler string, from, to time.Duration,
	f func(*telemetry.Iteration) error) error {
	hours, err := s.hoursOf(scheduler, iterationRaw, iterationLog)
	if err != nil {
		return err
	}
	l := s.reading(scheduler)
	for _, hour := range hours {
		if begin := time.Duration(hour.UnixNano()); begin+time.Hour <= from || begin >= to {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		l.compacting.RLock()
		all, err := s.iterations(scheduler, hour, from, to)
		l.compacting.RUnlock()
		// The end of a log is not acknowledged yet.
		if err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
		for i := range all {
			if err := f(&all[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// iterations are those of a span of an hour, in order; beside ErrDamaged, the ones before the damage.
func (s *Store) iterations(scheduler string, hour time.Time, from, to time.Duration) (all []telemetry.Iteration,
	damage error) {
	for _, kind := range []string{iterationRaw, iterationLog} {
		_, err := scan(s.path(scheduler, kind, hour), func(payload []byte) error {
			return decodeIterations(payload, func(x telemetry.Iteration) {
				if x.Time >= from && x.Time < to {
					all = append(all, x)
				}
			})
		})
		switch {
		case errors.Is(err, ErrDamaged):
			damage = err
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return sortedIterations(all), damage
}

func iterationOrder(a, b telemetry.Iteration) int {
	return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Worker, b.Worker),
		cmp.Compare(a.Step, b.Step))
}

// sortedIterations puts iterations in order and keeps the first of equal ones.
func sortedIterations(all []telemetry.Iteration) []telemetry.Iteration {
	slices.SortStableFunc(all, iterationOrder)
	return slices.CompactFunc(all, func(a, b telemetry.Iteration) bool { return iterationOrder(a, b) == 0 })
}

// encodeIterations appends the payload of iterations that are in order: numbers as differences from the one before.
func encodeIterations(dst []byte, all []telemetry.Iteration) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(all)))
	var was telemetry.Iteration
	for i := range all {
		x := &all[i]
		if i == 0 || x.Job != was.Job {
			dst = appendText(append(dst, 1), x.Job)
		} else {
			dst = append(dst, 0)
		}
		dst = binary.AppendVarint(dst, int64(x.Worker-was.Worker))
		dst = binary.AppendVarint(dst, int64(x.Step-was.Step))
		dst = binary.AppendVarint(dst, int64(x.Took-was.Took))
		dst = binary.AppendVarint(dst, int64(x.Time-was.Time))
		was = *x
	}
	return dst
}

// decodeIterations calls f with the iterations of a payload.
func decodeIterations(payload []byte, f func(telemetry.Iteration)) error {
	r := reader{rest: payload}
	var x telemetry.Iteration
	for range r.uvarint() {
		if named := r.take(1); len(named) == 1 && named[0] == 1 {
			x.Job = r.text()
		}
		x.Worker += int(r.varint())
		x.Step += int(r.varint())
		x.Took += time.Duration(r.varint())
		x.Time += time.Duration(r.varint())
		if r.failed {
			return errPayload
		}
		f(x)
	}
	if r.failed || len(r.rest) > 0 {
		return errPayload
	}
	return nil
}
