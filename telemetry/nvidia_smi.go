package telemetry

import (
	"bytes"
	"encoding/xml"
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
func smiRow(fields [][]byte) bool { return len(fields) >= 2 && smiClock(fields[0]) }

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

// smiLog is the output of nvidia-smi -q -x, as far as it is read.
type smiLog struct {
	Timestamp string `xml:"timestamp"`
	Attached  int    `xml:"attached_gpus"`
	GPUs      []struct {
		ID       string `xml:"id,attr"`
		UUID     string `xml:"uuid"`
		Minor    string `xml:"minor_number"`
		Memory   smiMemory
		Util     string        `xml:"utilization>gpu_util"`
		Temp     string        `xml:"temperature>gpu_temp"`
		Power    []smiPower    `xml:"power_readings"`
		GPUPower []smiPower    `xml:"gpu_power_readings"` // since driver 530
		SMClock  string        `xml:"clocks>sm_clock"`
		AppClock string        `xml:"applications_clocks>graphics_clock"`
		Reasons  smiReasons    `xml:"clocks_event_reasons"`
		Throttle smiReasons    `xml:"clocks_throttle_reasons"` // before driver 535
		MIG      []smiInstance `xml:"mig_devices>mig_device"`
		Procs    *struct {
			Info []struct {
				Type string `xml:"type"`
			} `xml:"process_info"`
		} `xml:"processes"`
	} `xml:"gpu"`
}

type smiMemory struct {
	XMLName xml.Name `xml:"fb_memory_usage"`
	Total   string   `xml:"total"`
	Used    string   `xml:"used"`
}

type smiPower struct {
	Draw    string `xml:"power_draw"`
	Instant string `xml:"instant_power_draw"`
	Average string `xml:"average_power_draw"`
}

type smiInstance struct {
	ID     string `xml:"gpu_instance_id"`
	Memory smiMemory
}

// smiReasons are elements such as clocks_event_reason_sw_power_cap, Active or Not Active.
type smiReasons struct {
	All []struct {
		XMLName xml.Name
		Text    string `xml:",chardata"`
	} `xml:",any"`
}

var smiReasonBits = map[string]uint64{"gpu_idle": ThrottleIdle,
	"applications_clocks_setting": ThrottleApplicationClocks,
	"sw_power_cap":                ThrottleSoftwarePower, "hw_slowdown": ThrottleHardware, "sync_boost": 0x10,
	"sw_thermal_slowdown": ThrottleSoftwareThermal, "hw_thermal_slowdown": ThrottleHardwareThermal,
	"hw_power_brake_slowdown": ThrottlePowerBrake, "display_clocks_setting": 0x100}

func detectSMILog(head []byte) bool {
	head = bytes.TrimLeft(head, "\r\n \t")
	return bytes.HasPrefix(head, []byte("<?xml")) || bytes.HasPrefix(head, []byte("<!DOCTYPE nvidia_smi")) ||
		bytes.HasPrefix(head, []byte("<nvidia_smi_log"))
}

// maxLog bounds one output of nvidia-smi -q -x, in bytes.
const maxLog = 32 << 20

// readSMILog reads outputs of nvidia-smi -q -x one after the other. One that is cut short is rejected.
func readSMILog(in *input) error {
	if in.opts.Node == "" {
		return fmt.Errorf("%w: it does not say of which node it is: 'telemetry validate' and 'import' take --node",
			ErrFormat)
	}
	if in.opts.Zone == nil {
		in.opts.Zone = time.UTC
	}
	var log []byte
	begin, end := []byte("<nvidia_smi_log"), []byte("</nvidia_smi_log>")
	inside, found := false, false
	for {
		line, err := in.next()
		if err != nil {
			return err
		}
		if i := bytes.Index(line, begin); i >= 0 || line == nil {
			if inside {
				in.stats.Rows++
				in.reject("nvidia_smi_log", "is cut short", log)
			}
			if line == nil {
				break
			}
			log, line, inside, found = log[:0], line[i:], true, true
		}
		if !inside {
			continue
		}
		if log = append(append(log, line...), '\n'); len(log) > maxLog {
			return fmt.Errorf("line %d: %w: an output of more than %d bytes", in.line, ErrLimit, maxLog)
		}
		if bytes.Contains(line, end) {
			inside = false
			if err := in.smiLog(log); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("%w: it has no nvidia_smi_log", ErrFormat)
	}
	return nil
}

// smiLog reads one output.
func (in *input) smiLog(text []byte) error {
	var log smiLog
	if err := xml.Unmarshal(text, &log); err != nil {
		in.stats.Rows++
		in.reject("nvidia_smi_log", "is not the XML of nvidia-smi -q -x", text)
		return nil
	}
	var at GPUSample
	reason := in.smiTime(&at, "Mon Jan _2 15:04:05 2006", "is not a time such as Mon Jan  5 12:00:00 2026",
		[]byte(strings.TrimSpace(log.Timestamp)))
	if reason != "" {
		in.stats.Rows += max(1, len(log.GPUs))
		in.reject("timestamp", reason, []byte(log.Timestamp))
		return nil
	}
	for i := range log.GPUs {
		g := &log.GPUs[i]
		in.stats.Rows++
		s := GPUSample{GPU: GPU{in.opts.Node, i, -1}, Time: at.Time, UUID: in.text([]byte(strings.TrimSpace(g.UUID)))}
		if len(log.GPUs) < log.Attached { // some only, as with nvidia-smi -i
			if s.Index, reason = whole([]byte(strings.TrimSpace(g.Minor)), maxGPU); reason != "" {
				in.reject("minor_number", reason, []byte(g.Minor))
				continue
			}
		}
		lost := false
		set := func(s *GPUSample, name string, values ...string) {
			for _, v := range values {
				b := []byte(strings.TrimSpace(v))
				lost = lost || strings.Contains(v, "GPU is lost") || strings.Contains(v, "GPU requires reset")
				switch {
				case reason != "" || len(b) == 0:
				case strings.Contains(v, "is lost") || strings.Contains(v, "requires reset"):
					in.stats.Absent++
				default:
					if reason = in.smi(s, name, b); reason != "" {
						in.reject(name, reason, b)
					}
				}
			}
		}
		reason = ""
		set(&s, "memory.total", g.Memory.Total)
		set(&s, "memory.used", g.Memory.Used)
		set(&s, "utilization.gpu", g.Util)
		set(&s, "temperature.gpu", g.Temp)
		for _, p := range append(g.GPUPower, g.Power...) {
			set(&s, "power.draw", p.Draw, p.Instant, p.Average)
		}
		set(&s, "clocks.sm", g.SMClock)
		set(&s, "clocks.applications.graphics", g.AppClock)
		for _, r := range append(g.Reasons.All, g.Throttle.All...) {
			_, name, _ := strings.Cut(r.XMLName.Local, "_reason_")
			if state := strings.TrimSpace(r.Text); state == "Active" || state == "Not Active" {
				s.Known |= Throttle
				if state == "Active" {
					s.Throttle |= smiReasonBits[name]
				}
			}
		}
		if g.Procs != nil && len(g.Procs.Info) > 0 {
			s.Known |= Processes
			for _, p := range g.Procs.Info {
				if strings.Contains(p.Type, "C") {
					s.Processes++
				}
			}
		}
		if reason != "" {
			continue
		}
		s.Lost = lost && s.Known == 0
		if err := in.gpu(&s); err != nil {
			return err
		}
		for _, m := range g.MIG {
			x := GPUSample{GPU: s.GPU, Time: s.Time}
			if x.Instance, reason = whole([]byte(strings.TrimSpace(m.ID)), maxGPU); reason != "" {
				in.reject("gpu_instance_id", reason, []byte(m.ID))
				continue
			}
			set(&x, "memory.total", m.Memory.Total)
			set(&x, "memory.used", m.Memory.Used)
			if reason == "" && x.Known != 0 {
				if err := in.gpu(&x); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
