package telemetry

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// smiQuantities are the columns of nvidia-smi that are quantities, as its headers name them, without units.
var smiQuantities = map[string]Field{
	"utilization.gpu": Utilization, "memory.used": MemoryUsed, "memory.total": MemoryTotal, "power.draw": Power,
	"power.draw.average": Power, "power.draw.instant": Power, "temperature.gpu": Temperature,
	"clocks.current.sm": SMClock, "clocks.sm": SMClock, "clocks.applications.graphics": ApplicationClock,
	"clocks.applications.gr": ApplicationClock, "clocks_event_reasons.active": Throttle,
	"clocks_throttle_reasons.active": Throttle,
}

// smiIdentities are the columns that say which GPU it is, the preferred ones first, and smiNodes the node, which a
// site adds.
var (
	smiIdentities = []string{"index", "pci.bus_id", "gpu_bus_id", "uuid", "gpu_uuid", "serial", "gpu_serial"}
	smiNodes      = []string{"hostname", "host", "node"}
)

// smiUnits are the units of its values, unless nounits leaves them out. The others are without one.
var smiUnits = []string{"%", "MiB", "W", "MHz", "C"}

// smiPreferred are columns of which several may be of the same quantity: the first with a value is taken.
var smiPreferred = []string{"power.draw", "power.draw.instant", "power.draw.average", "clocks_event_reasons.active",
	"clocks_throttle_reasons.active"}

// smiSeparators are what separates fields: a comma, or where a spreadsheet saved them a semicolon or tab, with decimal
// commas perhaps.
var smiSeparators = []byte(",;\t")

// smiSeparator is that of the first header of a text.
func smiSeparator(head []byte) byte {
	for line := range bytes.Lines(head) {
		for _, sep := range smiSeparators {
			if fields := bytes.Split(line, []byte{sep}); len(fields) > 1 && (smiHeader(fields) || smiRow(fields)) {
				return sep
			}
		}
	}
	return smiSeparators[0]
}

// smiUnknown reports whether a value says that it was not measured: N/A, ERR! or a reason in brackets.
func smiUnknown(b []byte) bool {
	return len(b) == 0 || b[0] == '[' || bytes.HasPrefix(b, []byte("N/A")) || string(b) == "ERR!" ||
		string(b) == "Unknown Error" || string(b) == "Not Supported"
}

// smiLost are reasons for which the GPU does not answer at all.
var smiLost = [][]byte{[]byte("[GPU is lost]"), []byte("[GPU requires reset]")}

// smiName is a column's name without its unit.
func smiName(b []byte) string {
	name, _, _ := strings.Cut(trimmed(b), " [")
	return name
}

// smiHeader reports whether fields are a header of nvidia-smi.
func smiHeader(fields [][]byte) bool {
	known := 0
	for _, b := range fields {
		if name := smiName(b); name == "timestamp" || smiQuantities[name] != 0 || slices.Contains(smiIdentities, name) {
			known++
		}
	}
	return known >= min(2, len(fields))
}

// detectSMI recognises a header, perhaps after lines of errors, or a row whose header was left out.
func detectSMI(head []byte) bool {
	n := 0
	for line := range bytes.Lines(head) {
		line = bytes.TrimSpace(line)
		for _, sep := range smiSeparators {
			fields := bytes.Split(line, []byte{sep})
			if len(fields) > 1 && smiHeader(fields) || smiRow(fields) {
				return true
			}
		}
		if n++; n > 50 || bytes.ContainsAny(line, "{<=|") {
			return false
		}
		for i, b := range bytes.Split(line, []byte{','}) { // a header of another format, or its rows
			if i > 0 && len(b) > 0 && b[0] != ' ' {
				return false
			}
		}
	}
	return false
}

// notSMI names an output of nvidia-smi that is not read, empty if it is none.
func notSMI(head []byte) string {
	what := ""
	switch {
	case bytes.Contains(head, []byte("NVSMI LOG")):
		what = "nvidia-smi -q's text"
	case bytes.Contains(head, []byte("| NVIDIA-SMI ")):
		what = "nvidia-smi's table for people"
	case bytes.HasPrefix(bytes.TrimSpace(head), []byte("# gpu ")) || bytes.HasPrefix(bytes.TrimSpace(head), []byte("#Date ")):
		what = "nvidia-smi dmon's table"
	default:
		return ""
	}
	return what + ": record 'nvidia-smi --query-gpu=timestamp,index,uuid,utilization.gpu,memory.used,memory.total," +
		"power.draw --format=csv', or 'nvidia-smi -q -x'"
}

// smiRow reports whether fields are a row of nvidia-smi, whose header was left out.
func smiRow(fields [][]byte) bool {
	if len(fields) < 2 {
		return false
	}
	return smiClock(fields[0])
}

// hasName reports whether fields have the name of a column.
func hasName(fields [][]byte) bool {
	return slices.ContainsFunc(fields, func(b []byte) bool { return smiHeader([][]byte{b}) })
}

// smiClock reports whether a field is a time.
func smiClock(b []byte) bool {
	_, err := time.Parse(smiTime, trimmed(b))
	return err == nil
}

const smiTime = "2006/01/02 15:04:05"

// smiColumns are the columns of a header.
type smiColumns struct {
	names []string
	order []int  // in which the fields of a row are read
	by    string // the column that says which GPU it is
}

func (in *input) smiColumns(fields [][]byte) (*smiColumns, error) {
	c := &smiColumns{}
	var ignored []string
	for i, b := range fields {
		name := smiName(b)
		if slices.Contains(c.names, name) {
			return nil, fmt.Errorf("%w: line %d: the header names %s twice", ErrFormat, in.line, name)
		}
		c.names, c.order = append(c.names, name), append(c.order, i)
		if smiQuantities[name] == 0 && name != "timestamp" && !slices.Contains(smiIdentities, name) &&
			!slices.Contains(smiNodes, name) {
			ignored = append(ignored, name)
		}
	}
	in.stats.Ignored = ignored
	has := func(name string) bool { return slices.Contains(c.names, name) }
	if !has("timestamp") {
		return nil, fmt.Errorf("%w: line %d: the header lacks timestamp: add it to the query", ErrFormat, in.line)
	}
	if i := slices.IndexFunc(smiIdentities, has); i >= 0 {
		c.by = smiIdentities[i]
	} else {
		return nil, fmt.Errorf("%w: line %d: the header lacks index, which says which GPU it is: add it to the query",
			ErrFormat, in.line)
	}
	if in.opts.Node == "" && !slices.ContainsFunc(smiNodes, has) {
		return nil, fmt.Errorf("%w: it does not say of which node it is: 'telemetry validate' and 'import' take --node",
			ErrFormat)
	}
	slices.SortStableFunc(c.order, func(a, b int) int {
		return slices.Index(smiPreferred, c.names[a]) - slices.Index(smiPreferred, c.names[b])
	})
	return c, nil
}

// readSMI reads the output of nvidia-smi --query-gpu=... --format=csv on one node, or many outputs one after the other,
// with lines of errors between them. Its times have no zone. GPUs without an index are numbered in the order in which
// they come, which is nvidia-smi's.
func readSMI(in *input) error {
	if in.opts.Zone == nil {
		in.opts.Zone = time.UTC
	}
	head, err := in.source.Peek()
	if err != nil {
		return err
	}
	in.separator = smiSeparator(head)
	var c *smiColumns
	numbers := map[hostUUID]int{}
	next := map[string]int{}
	for {
		fields, err := in.row()
		if fields == nil || err != nil {
			if err == nil && c == nil {
				return fmt.Errorf("%w: there is no header", ErrFormat)
			}
			return err
		}
		if c == nil && !(len(fields) > 1 && smiHeader(fields)) && !smiRow(fields) && !hasName(fields) {
			in.stats.Rows-- // what nvidia-smi says in words
			in.stats.Messages++
			continue
		}
		if len(fields) > 1 && smiHeader(fields) || c == nil {
			if c == nil && smiRow(fields) {
				return fmt.Errorf("%w: line %d: this is nvidia-smi's output without its header: put the columns that "+
					"were asked for first, such as timestamp, index, utilization.gpu [%%], memory.used", ErrFormat,
					in.line)
			}
			in.stats.Rows--
			if c != nil {
				in.stats.Messages++
			}
			if c, err = in.smiColumns(fields); err != nil {
				return err
			}
			continue
		}
		if len(fields) != len(c.names) {
			if !slices.ContainsFunc(fields, smiClock) { // what nvidia-smi says in words
				in.stats.Rows--
				in.stats.Messages++
				continue
			}
			in.reject("line", "has another number of fields than the header", bytes.Join(fields, []byte{in.separator}))
			continue
		}
		s := GPUSample{GPU: GPU{Node: in.opts.Node, Index: -1, Instance: -1}}
		var field, reason string
		by, lost := "", false
		for _, i := range c.order {
			b := bytes.TrimSpace(fields[i])
			lost = lost || slices.ContainsFunc(smiLost, func(l []byte) bool { return bytes.HasPrefix(b, l) })
			if c.names[i] == c.by {
				by = string(b)
			}
			if reason = in.smi(&s, c.names[i], b); reason != "" {
				field = c.names[i]
				in.reject(field, reason, fields[i])
				break
			}
		}
		if reason != "" {
			continue
		}
		if s.Index < 0 {
			k := hostUUID{s.Node, by}
			i, ok := numbers[k]
			if !ok {
				if len(numbers) >= maxTargets {
					return fmt.Errorf("%w: more than %d GPUs", ErrLimit, maxTargets)
				}
				i = next[s.Node]
				numbers[k], next[s.Node] = i, i+1
				in.stats.Numbered++
			}
			s.Index = i
		}
		s.Lost = lost && s.Known == 0
		if err := in.gpu(&s); err != nil {
			return err
		}
	}
}

// smi reads a field of nvidia-smi.
func (in *input) smi(s *GPUSample, name string, b []byte) (reason string) {
	f := smiQuantities[name]
	switch {
	case f != 0 && s.Has(f):
	case name == "timestamp":
		return in.smiTime(s, smiTime, "is not a time such as 2026/01/05 12:00:00.123", b)
	case name == "index":
		s.Index, reason = whole(b, maxGPU)
		return reason
	case name == "uuid", name == "gpu_uuid":
		s.UUID = in.text(b)
	case slices.Contains(smiIdentities, name) && len(b) == 0:
		return isEmpty
	case slices.Contains(smiNodes, name):
		if s.Node = in.text(b); len(b) == 0 {
			return isEmpty
		}
	case f == 0:
	case smiUnknown(b):
		in.stats.Absent++
	case f == Throttle:
		n, err := strconv.ParseUint(string(b), 0, 64)
		if err != nil {
			return "is not a set of bits such as 0x0000000000000004"
		}
		s.Throttle = n
		s.Known |= Throttle
	default:
		if value, unit, found := bytes.Cut(b, []byte{' '}); found && slices.Contains(smiUnits, string(unit)) {
			b = value
		}
		if in.separator != ',' {
			b = bytes.Replace(b, []byte{','}, []byte{'.'}, 1)
		}
		v, reason := number(b)
		if reason == "" {
			reason = quantityOf(f).set(s, v)
		}
		return reason
	}
	return ""
}

// smiTime reads a time on the zone's clock.
func (in *input) smiTime(s *GPUSample, layout, wrong string, b []byte) string {
	t, err := time.ParseInLocation(layout, string(b), in.opts.Zone)
	if s.Time = time.Duration(t.UnixNano()); err != nil {
		return wrong
	}
	if t.Unix() < 0 || t.Unix() > int64(maxTime/time.Second) {
		return outOfRange
	}
	return ""
}
