package samples

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
		b.frames[fileName{iterationLog, hour}] = frame(nil, encodeIterations(nil, all[i:k]), nil)
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
				_, _, err := scanFile(l.store.path(l.scheduler, kind, hour), func(_ int64, body []byte) error {
					if payload, err := payloadOf(nil, body); err == nil {
						r := reader{rest: payload}
						held += int(r.uvarint())
					}
					return nil
				})
				if err != nil {
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
	end := int64(0)
	err := s.o.Room(func() error {
		all, ends, err := s.iterations(l.scheduler, hour, 0, math.MaxInt64)
		if err != nil {
			return err
		}
		end = ends
		return atomicfile.Write(s.path(l.scheduler, iterationRaw, hour), func(out io.Writer) error {
			for chunk := range slices.Chunk(all, 50_000) {
				if _, err := out.Write(frame(nil, encodeIterations(nil, chunk), nil)); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	return l.cut(fileName{iterationLog, hour}, end)
}

// Iterations calls f with the iterations of a span, since the Unix epoch, in order of time. Damaged frames are left
// out.
func (s *Store) Iterations(ctx context.Context, scheduler string, from, to time.Duration,
	f func(*telemetry.Iteration) error) error {
	hours, err := s.hoursOf(scheduler, iterationRaw, iterationLog)
	if err != nil {
		return err
	}
	for _, hour := range hours {
		if begin := time.Duration(hour.UnixNano()); begin+time.Hour <= from || begin >= to {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		all, _, err := s.iterations(scheduler, hour, from, to)
		if err != nil {
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

// iterations are those of a span of an hour, in order, and the end of its log. The log is read first: it is removed
// after the other file has its iterations.
func (s *Store) iterations(scheduler string, hour time.Time, from, to time.Duration) (all []telemetry.Iteration,
	end int64, err error) {
	var payload []byte
	for _, kind := range []string{iterationLog, iterationRaw} {
		path := s.path(scheduler, kind, hour)
		got, size, err := scanFile(path, func(_ int64, body []byte) (err error) {
			if payload, err = payloadOf(payload, body); err == nil {
				err = decodeIterations(payload, func(x telemetry.Iteration) {
					if x.Time >= from && x.Time < to {
						all = append(all, x)
					}
				})
			}
			if err != nil {
				s.noteDamage(path, int64(len(body)))
			}
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
		if kind == iterationLog {
			end = got.end
		} else {
			got.damaged += size - got.end
		}
		s.noteDamage(path, got.damaged)
	}
	return sortedIterations(all), end, nil
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
