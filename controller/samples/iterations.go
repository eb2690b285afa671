package samples

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/autosched/autosched/telemetry"
)

// iterationLog is the kind of the files of iterations. They stay as they were appended, and are kept as long as raw
// samples are; repeats are left out when they are read.
const iterationLog = "iterations-"

// AppendIterations stores times of training steps as Append stores samples. One is identified by its job, worker, step
// and end. It may change their order.
func (s *Store) AppendIterations(ctx context.Context, scheduler string, all []telemetry.Iteration) error {
	all = sortedIterations(all)
	frames := map[fileName][]byte{}
	for i := 0; i < len(all); {
		hour, k := hourOf(all[i].Time), i+1
		for k < len(all) && hourOf(all[k].Time).Equal(hour) {
			k++
		}
		frames[fileName{iterationLog, hour}] = frame(nil, encodeIterations(nil, all[i:k]))
		i = k
	}
	return s.append(ctx, scheduler, frames)
}

// Iterations calls f with the iterations of a span, since the Unix epoch, in order of time.
func (s *Store) Iterations(ctx context.Context, scheduler string, from, to time.Duration,
	f func(*telemetry.Iteration) error) error {
	hours, err := s.hours(scheduler, iterationLog)
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
		var all []telemetry.Iteration
		_, err := scan(s.path(scheduler, iterationLog, hour), func(payload []byte) error {
			return decodeIterations(payload, func(x telemetry.Iteration) { all = append(all, x) })
		})
		// The end of what is being appended is not acknowledged yet, and an old file may be dropped meanwhile.
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, x := range sortedIterations(all) {
			if x.Time < from || x.Time >= to {
				continue
			}
			if err := f(&x); err != nil {
				return err
			}
		}
	}
	return nil
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
