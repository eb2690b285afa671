package telemetry

import (
	"math"
	"strconv"
	"strings"
	"time"
)

func textColumn[T any](name string, required bool, at func(*T) *string) column[T] {
	return column[T]{name, required, func(in *input, v *T, b []byte) string {
		*at(v) = in.text(b)
		return ""
	}, func(dst []byte, v *T) ([]byte, bool) {
		return appendText(dst, *at(v)), !strings.ContainsAny(*at(v), "\r\n") && !(required && *at(v) == "")
	}}
}

func timeColumn[T any](name string, required bool, at func(*T) *time.Duration) column[T] {
	return column[T]{name, required, func(in *input, v *T, b []byte) (reason string) {
		*at(v), reason = in.instant(b)
		return reason
	}, func(dst []byte, v *T) ([]byte, bool) {
		if !required && *at(v) == 0 {
			return dst, true
		}
		return appendSeconds(dst, *at(v)), *at(v) >= 0 && *at(v) <= maxTime
	}}
}

func countColumn[T any](name string, most int, at func(*T) *int) column[T] {
	return column[T]{name, true, func(_ *input, v *T, b []byte) (reason string) {
		*at(v), reason = whole(b, most)
		return reason
	}, func(dst []byte, v *T) ([]byte, bool) {
		return strconv.AppendInt(dst, int64(*at(v)), 10), *at(v) >= 0 && *at(v) <= most
	}}
}

// gpuColumns are the columns of GPU samples.
var gpuColumns = func() []column[GPUSample] {
	cols := []column[GPUSample]{
		timeColumn("time", true, func(s *GPUSample) *time.Duration { return &s.Time }),
		textColumn("node", true, func(s *GPUSample) *string { return &s.Node }),
		countColumn("gpu", maxGPU, func(s *GPUSample) *int { return &s.Index }),
		{"instance", false, func(_ *input, s *GPUSample, b []byte) string {
			n, reason := whole(b, maxGPU)
			s.Instance = n + 1 // readGPUs takes it off, so that an empty field is no instance
			return reason
		}, func(dst []byte, s *GPUSample) ([]byte, bool) {
			if s.Instance == -1 {
				return dst, true
			}
			return strconv.AppendInt(dst, int64(s.Instance), 10), s.Instance >= 0 && s.Instance <= maxGPU
		}},
		textColumn("uuid", false, func(s *GPUSample) *string { return &s.UUID }),
	}
	for i := range Quantities {
		q := &Quantities[i]
		cols = append(cols, column[GPUSample]{q.Name, false, func(_ *input, s *GPUSample, b []byte) string {
			n, reason := number(b)
			if reason == "" {
				reason = q.set(s, n)
			}
			return reason
		}, func(dst []byte, s *GPUSample) ([]byte, bool) {
			if !s.Has(q.Field) {
				return dst, true
			}
			n := *q.At(s)
			return strconv.AppendFloat(dst, n, 'g', -1, 64), n >= q.Least && n <= q.Most
		}})
	}
	counts := func(name string, f Field, most int, at func(*GPUSample) *int) column[GPUSample] {
		return column[GPUSample]{name, false, func(_ *input, s *GPUSample, b []byte) (reason string) {
			*at(s), reason = whole(b, most)
			s.Known |= f
			return reason
		}, func(dst []byte, s *GPUSample) ([]byte, bool) {
			if !s.Has(f) {
				return dst, true
			}
			return strconv.AppendInt(dst, int64(*at(s)), 10), *at(s) >= 0 && *at(s) <= most
		}}
	}
	return append(cols,
		column[GPUSample]{"throttle", false, func(_ *input, s *GPUSample, b []byte) string {
			n, err := strconv.ParseUint(string(b), 0, 64)
			if err != nil {
				return "is not a set of bits such as 0x4"
			}
			s.Throttle = n
			s.Known |= Throttle
			return ""
		}, func(dst []byte, s *GPUSample) ([]byte, bool) {
			if !s.Has(Throttle) {
				return dst, true
			}
			return strconv.AppendUint(append(dst, "0x"...), s.Throttle, 16), true
		}},
		counts("xid", Xid, maxXid, func(s *GPUSample) *int { return &s.Xid }),
		counts("processes", Processes, maxProcesses, func(s *GPUSample) *int { return &s.Processes }),
		textColumn("job", false, func(s *GPUSample) *string { return &s.Job }),
		column[GPUSample]{"lost", false, func(_ *input, s *GPUSample, b []byte) string {
			if s.Lost = string(b) == "1"; !s.Lost && string(b) != "0" {
				return "is neither 1, for a GPU that did not answer, nor 0 or empty"
			}
			return ""
		}, func(dst []byte, s *GPUSample) ([]byte, bool) {
			if s.Lost {
				dst = append(dst, '1')
			}
			return dst, !s.Lost || s.Known&^Xid == 0
		}})
}()

func readGPUs(in *input) error {
	return readTable(in, gpuColumns, func(s *GPUSample) error {
		s.Instance--
		if s.Lost && s.Known&^Xid != 0 {
			in.reject("lost", "a GPU that did not answer has quantities", []byte(s.Known.String()))
			return nil
		}
		return in.gpu(s)
	})
}

// podColumns are the columns of Alibaba's inference pods, each of which has a GPU.
var podColumns = []column[GPUSample]{
	timeColumn("unix", true, func(s *GPUSample) *time.Duration { return &s.Time }),
	textColumn("pod", true, func(s *GPUSample) *string { return &s.Node }),
	quantityColumn("gpu_util", Utilization),
	quantityColumn("gpu_memory_used_mib", MemoryUsed),
}

// quantityColumn is a column of another name with a quantity in its own unit. That an
// absent column of the format is one of another format makes all of them required.
func quantityColumn(name string, f Field) column[GPUSample] {
	q := quantityOf(f)
	return column[GPUSample]{name: name, read: func(_ *input, s *GPUSample, b []byte) string {
		n, reason := number(b)
		if reason == "" {
			reason = q.set(s, n)
		}
		return reason
	}}
}

func readPods(in *input) error {
	return readTable(in, podColumns, func(s *GPUSample) error {
		if s.Known == 0 { // nothing was sampled
			return nil
		}
		s.Instance, s.Job = -1, s.Node
		return in.gpu(s)
	})
}

// maxCount bounds jobs and GPUs of a cluster, and steps of a job.
const maxCount = math.MaxInt32

var queueColumns = []column[QueueSample]{
	timeColumn("time", true, func(s *QueueSample) *time.Duration { return &s.Time }),
	textColumn("queue", false, func(s *QueueSample) *string { return &s.Queue }),
	countColumn("pending", maxCount, func(s *QueueSample) *int { return &s.Pending }),
	countColumn("pending_gpus", maxCount, func(s *QueueSample) *int { return &s.PendingGPUs }),
	countColumn("free_gpus", maxCount, func(s *QueueSample) *int { return &s.FreeGPUs }),
	countColumn("total_gpus", maxCount, func(s *QueueSample) *int { return &s.TotalGPUs }),
}

func readQueues(in *input) error {
	return readTable(in, queueColumns, func(s *QueueSample) error {
		if s.FreeGPUs > s.TotalGPUs {
			in.reject("free_gpus", "is more than total_gpus", strconv.AppendInt(nil, int64(s.FreeGPUs), 10))
			return nil
		}
		in.stats.Samples++
		return in.visit.Queue(s)
	})
}

var iterationColumns = []column[Iteration]{
	textColumn("job", true, func(i *Iteration) *string { return &i.Job }),
	countColumn("worker", maxCount, func(i *Iteration) *int { return &i.Worker }),
	countColumn("step", maxCount, func(i *Iteration) *int { return &i.Step }),
	timeColumn("seconds", true, func(i *Iteration) *time.Duration { return &i.Took }),
	timeColumn("time", false, func(i *Iteration) *time.Duration { return &i.Time }),
}

func readIterations(in *input) error {
	return readTable(in, iterationColumns, func(i *Iteration) error {
		in.stats.Samples++
		return in.visit.Iteration(i)
	})
}

// minibatchColumns are the columns of PAI's iteration times.
var minibatchColumns = []column[Iteration]{
	textColumn("job", true, func(i *Iteration) *string { return &i.Job }),
	countColumn("worker", maxCount, func(i *Iteration) *int { return &i.Worker }),
	countColumn("iteration", maxCount, func(i *Iteration) *int { return &i.Step }),
	{"batch_time", true, func(_ *input, i *Iteration, b []byte) string {
		ms, reason := number(b)
		if reason == "" && !(ms >= 0 && ms <= 1e9) {
			reason = outOfRange
		}
		i.Took = time.Duration(math.Round(ms * 1e6))
		return reason
	}, nil},
}

func readMinibatches(in *input) error {
	return readTable(in, minibatchColumns, func(i *Iteration) error {
		in.stats.Samples++
		return in.visit.Iteration(i)
	})
}
