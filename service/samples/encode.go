package samples

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/telemetry"
)

// A payload is runs of samples, one of a GPU each, in columns: times as differences of differences, quantities as
// differences, so that values which hardly change compress well. Numbers are varints of encoding/binary.

var errPayload = errors.New("the payload is cut off or damaged")

// lost marks a sample of a GPU that did not answer, beside the bits of telemetry.Field.
const lost = telemetry.Field(1) << 31

// whole are the quantities that are whole numbers.
var whole = []struct {
	field telemetry.Field
	get   func(*telemetry.GPUSample) int64
	set   func(*telemetry.GPUSample, int64)
}{
	{telemetry.Throttle, func(s *telemetry.GPUSample) int64 { return int64(s.Throttle) },
		func(s *telemetry.GPUSample, v int64) { s.Throttle = uint64(v) }},
	{telemetry.Xid, func(s *telemetry.GPUSample) int64 { return int64(s.Xid) },
		func(s *telemetry.GPUSample, v int64) { s.Xid = int(v) }},
	{telemetry.Processes, func(s *telemetry.GPUSample) int64 { return int64(s.Processes) },
		func(s *telemetry.GPUSample, v int64) { s.Processes = int(v) }},
}

// encode appends the payload of samples that are in order of GPU and time.
func encode(dst []byte, all []telemetry.GPUSample) []byte {
	runs := 0
	for i := range all {
		if i == 0 || !same(&all[i-1], &all[i]) {
			runs++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(runs))
	for len(all) > 0 {
		n := 1
		for n < len(all) && same(&all[0], &all[n]) {
			n++
		}
		dst = encodeRun(dst, all[:n])
		all = all[n:]
	}
	return dst
}

func same(a, b *telemetry.GPUSample) bool { return a.GPU == b.GPU && a.UUID == b.UUID }

func encodeRun(dst []byte, run []telemetry.GPUSample) []byte {
	dst = appendGPU(dst, run[0].GPU)
	dst = appendText(dst, run[0].UUID)
	dst = binary.AppendUvarint(dst, uint64(len(run)))
	var at, step int64
	for i := range run {
		next := int64(run[i].Time) - at
		dst = binary.AppendVarint(dst, next-step)
		at, step = int64(run[i].Time), next
	}
	for i := 0; i < len(run); {
		mask, k := maskOf(&run[i]), i+1
		for k < len(run) && maskOf(&run[k]) == mask {
			k++
		}
		dst = binary.AppendUvarint(dst, uint64(mask))
		dst = binary.AppendUvarint(dst, uint64(k-i))
		i = k
	}
	for i := 0; i < len(run); {
		k := i + 1
		for k < len(run) && run[k].Job == run[i].Job {
			k++
		}
		dst = appendText(dst, run[i].Job)
		dst = binary.AppendUvarint(dst, uint64(k-i))
		i = k
	}
	for i := range telemetry.Quantities {
		dst = encodeFloats(dst, run, &telemetry.Quantities[i])
	}
	for _, c := range whole {
		before := int64(0)
		for i := range run {
			if run[i].Has(c.field) {
				dst = binary.AppendVarint(dst, c.get(&run[i])-before)
				before = c.get(&run[i])
			}
		}
	}
	return dst
}

func maskOf(s *telemetry.GPUSample) telemetry.Field {
	if s.Lost {
		return s.Known | lost
	}
	return s.Known
}

// The forms of a column with fractions.
const (
	thousandths = iota // differences of whole thousandths
	bits               // of the number, where these would lose something
)

func encodeFloats(dst []byte, run []telemetry.GPUSample, q *telemetry.Quantity) []byte {
	field, of := q.Field, q.At
	form, any := byte(thousandths), false
	for i := range run {
		if run[i].Has(field) {
			any = true
			if v := *of(&run[i]); !(math.Abs(v) < 1<<40) || math.Round(v*1000)/1000 != v || v == 0 && math.Signbit(v) {
				form = bits
			}
		}
	}
	if !any {
		return dst
	}
	dst = append(dst, form)
	before := int64(0)
	for i := range run {
		switch {
		case !run[i].Has(field):
		case form == bits:
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(*of(&run[i])))
		default:
			v := int64(math.Round(*of(&run[i]) * 1000))
			dst = binary.AppendVarint(dst, v-before)
			before = v
		}
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// reader reads a payload; after a fault it returns zeroes.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.fail()
		return nil
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *reader) text() string { return string(r.take(r.uvarint())) }

func (r *reader) fail() { r.rest, r.failed = nil, true }

// run reads the samples of a GPU.
func (r *reader) run(out []telemetry.GPUSample) ([]telemetry.GPUSample, error) {
	var first telemetry.GPUSample
	first.GPU = r.gpu()
	first.UUID = r.text()
	n := r.uvarint()
	if n == 0 || n > uint64(len(r.rest)) { // each has a byte of its time at least
		return nil, errPayload
	}
	var at, step int64
	for range n {
		step += r.varint()
		at += step
		first.Time = time.Duration(at)
		out = append(out, first)
	}
	for i := uint64(0); i < n && !r.failed; {
		mask, length := telemetry.Field(r.uvarint()), r.uvarint()
		if length == 0 || length > n-i {
			return nil, errPayload
		}
		for range length {
			out[i].Known, out[i].Lost = mask&^lost, mask&lost != 0
			i++
		}
	}
	for i := uint64(0); i < n && !r.failed; {
		job, length := r.text(), r.uvarint()
		if length == 0 || length > n-i {
			return nil, errPayload
		}
		for range length {
			out[i].Job = job
			i++
		}
	}
	for i := range telemetry.Quantities {
		r.floats(out, &telemetry.Quantities[i])
	}
	for _, c := range whole {
		before := int64(0)
		for i := range out {
			if out[i].Has(c.field) {
				before += r.varint()
				c.set(&out[i], before)
			}
		}
	}
	if r.failed {
		return nil, errPayload
	}
	return out, nil
}

func (r *reader) floats(out []telemetry.GPUSample, q *telemetry.Quantity) {
	field, of := q.Field, q.At
	if !slices.ContainsFunc(out, func(s telemetry.GPUSample) bool { return s.Has(field) }) {
		return
	}
	form := r.take(1)
	if len(form) == 0 || form[0] > bits {
		r.fail()
		return
	}
	before := int64(0)
	for i := range out {
		switch {
		case !out[i].Has(field):
		case form[0] == bits:
			if b := r.take(8); b != nil {
				*of(&out[i]) = math.Float64frombits(binary.LittleEndian.Uint64(b))
			}
		default:
			before += r.varint()
			*of(&out[i]) = float64(before) / 1000
		}
	}
}
