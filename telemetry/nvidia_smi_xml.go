package telemetry

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"time"
)

// smiLog is what nvidia-smi -q -x prints, as far as it is read.
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
