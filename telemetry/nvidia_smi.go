package telemetry

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/lines"
)

// smiQuantities are the columns of nvidia-smi that are quantities, as its headers name them, without units.
var smiQuantities = map[string]Field{
	"utilization.gpu": Utilization, "memory.used": MemoryUsed, "memory.total": MemoryTotal, "power.draw": Power,
	"power.draw.average": Power, "power.draw.instant": Power, "temperature.gpu": Temperature,
	"clocks.current.sm": SMClock, "clocks.applications.graphics": ApplicationClock,
}

// smiUnits are the units of its values, unless nounits leaves them out. The others are without one.
var smiUnits = []string{"%", "MiB", "W", "MHz"}

// smiReasons are the names of the column of clock event reasons, the second that of older drivers.
var smiReasons = []string{"clocks_event_reasons.active", "clocks_throttle_reasons.active"}

// smiPreferred are columns of which several may be of the same quantity: the first with a value is taken.
var smiPreferred = append([]string{"power.draw", "power.draw.instant", "power.draw.average"}, smiReasons...)

// smiUnknown is the beginning of values that were not measured.
var smiUnknown = []string{"N/A", "[N/A]", "[Not Supported]", "[Unknown Error]", "[GPU is lost]", "[Insufficient"}

func detectSMI(head []byte) bool {
	names := strings.Split(string(lines.Header(head)), ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return slices.Contains(names, "timestamp") && slices.Contains(names, "index")
}

// readSMI reads the output of nvidia-smi --query-gpu=... --format=csv on one node. Its times have no zone.
func readSMI(in *input) error {
	names, err := in.header()
	if err != nil {
		return err
	}
	for i, name := range names {
		names[i], _, _ = strings.Cut(name, " [")
		if slices.Contains(names[:i], names[i]) {
			return fmt.Errorf("%w: line %d: the header names %s twice", ErrFormat, in.line, names[i])
		}
		if name := names[i]; smiQuantities[name] == 0 && !slices.Contains(smiReasons, name) &&
			!slices.Contains([]string{"timestamp", "index", "uuid"}, name) {
			in.stats.Ignored = append(in.stats.Ignored, name)
		}
	}
	for _, name := range []string{"timestamp", "index"} {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%w: line %d: the header lacks %s", ErrFormat, in.line, name)
		}
	}
	if in.opts.Node == "" {
		return fmt.Errorf("%w: it does not say of which node it is: 'telemetry validate' and 'import' take --node",
			ErrFormat)
	}
	if in.opts.Zone == nil {
		in.opts.Zone = time.UTC
	}
	order := make([]int, len(names)) // in which the fields of a row are read
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return slices.Index(smiPreferred, names[a]) - slices.Index(smiPreferred, names[b])
	})
	for {
		fields, err := in.row()
		if fields == nil || err != nil {
			return err
		}
		if len(fields) != len(names) {
			in.reject("line", "has another number of fields than the header", bytes.Join(fields, []byte{','}))
			continue
		}
		s := GPUSample{GPU: GPU{Node: in.opts.Node, Instance: -1}}
		field, reason := "", ""
		for _, i := range order {
			b := fields[i]
			fields[i] = bytes.TrimSpace(b)
			if reason = in.smi(&s, names[i], fields[i]); reason != "" {
				field = names[i]
				in.reject(field, reason, b)
				break
			}
		}
		if reason != "" {
			continue
		}
		if err := in.gpu(&s); err != nil {
			return err
		}
	}
}

// smi reads a field of nvidia-smi.
func (in *input) smi(s *GPUSample, name string, b []byte) (reason string) {
	q := quantityOf(smiQuantities[name])
	unknown := slices.ContainsFunc(smiUnknown, func(u string) bool { return strings.HasPrefix(string(b), u) })
	switch {
	case q != nil && s.Has(q.Field), slices.Contains(smiReasons, name) && s.Has(Throttle):
		return ""
	case name == "timestamp":
		t, err := time.ParseInLocation("2006/01/02 15:04:05", string(b), in.opts.Zone)
		if s.Time = time.Duration(t.UnixNano()); err != nil {
			return "is not a time such as 2026/01/05 12:00:00.123"
		}
		if t.Unix() < 0 || t.Unix() > int64(maxTime/time.Second) {
			return outOfRange
		}
	case name == "index":
		s.Index, reason = whole(b, maxGPU)
	case name == "uuid":
		s.UUID = in.text(b)
	case unknown && (q != nil || slices.Contains(smiReasons, name)):
		in.stats.Absent++
	case slices.Contains(smiReasons, name):
		n, err := strconv.ParseUint(string(b), 0, 64)
		if err != nil {
			return "is not a set of bits such as 0x0000000000000004"
		}
		s.Throttle = n
		s.Known |= Throttle
	case q != nil:
		if value, unit, found := bytes.Cut(b, []byte{' '}); found && slices.Contains(smiUnits, string(unit)) {
			b = value
		}
		v, reason := number(b)
		if reason == "" {
			reason = q.set(s, v)
		}
		return reason
	}
	return reason
}
