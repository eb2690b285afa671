// Package energy computes the energy, cost and carbon of a cluster's jobs from when they
// held which GPUs, and of its idle nodes. Power is modelled from constants with their
// sources (Assumptions), or integrated where it was measured.
package energy

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// Band is a value with the ends of its uncertainty.
type Band struct {
	Low    float64 `json:"low" yaml:"low"`
	Middle float64 `json:"middle" yaml:"middle"`
	High   float64 `json:"high" yaml:"high"`
}

// bands are the places of a Band.
const bands = 3

func (b *Band) at(k int) *float64 { return [bands]*float64{&b.Low, &b.Middle, &b.High}[k] }

// Constant is a number of the model with its unit and source.
type Constant struct {
	Band   `yaml:",inline"`
	Unit   string `json:"unit,omitempty" yaml:"unit"`
	Source string `json:"source" yaml:"source"`
}

// GPU is the power of a GPU model in W, without and with full utilisation.
type GPU struct {
	Idle   float64 `json:"idle" yaml:"idle"`
	Max    float64 `json:"max" yaml:"max"`
	Source string  `json:"source" yaml:"source"`
}

// Assumptions are the constants of the model.
type Assumptions struct {
	Version int `json:"version" yaml:"version"`
	// GPU is the model of node groups that name none.
	GPU       string              `json:"gpu" yaml:"gpu"`
	Constants map[string]Constant `json:"constants" yaml:"constants"`
	GPUs      map[string]GPU      `json:"gpus" yaml:"gpus"`
}

//go:embed assumptions.yaml
var embedded []byte

// Default are the constants that are built in.
func Default() *Assumptions {
	a := &Assumptions{}
	if err := yaml.Unmarshal(embedded, a); err != nil {
		panic("energy: built-in constants: " + err.Error())
	}
	return a
}

// Read reads constants from YAML in the form of the built-in ones; omitted ones keep their
// built-in values. A new value needs a source.
func Read(r io.Reader, name string) (*Assumptions, error) {
	text, err := io.ReadAll(io.LimitReader(r, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	a := Default()
	var own Assumptions
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	switch err := d.Decode(&own); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: is empty: give constants, such as gpu: v100", name)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if own.Version != 0 && own.Version != a.Version {
		return nil, fmt.Errorf("%s: version: %d is not %d", name, own.Version, a.Version)
	}
	if own.GPU != "" {
		a.GPU = own.GPU
	}
	for _, key := range slices.Sorted(maps.Keys(own.Constants)) {
		c, known := own.Constants[key], a.Constants[key]
		if known.Source == "" {
			return nil, fmt.Errorf("%s: constants: %s is not known; there are %s", name, key,
				strings.Join(slices.Sorted(maps.Keys(a.Constants)), ", "))
		}
		if c.Unit == "" {
			c.Unit = known.Unit
		}
		a.Constants[key] = c
	}
	maps.Copy(a.GPUs, own.GPUs)
	if err := a.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

const largest = 1e12 // of a constant, so that no sum overflows

func (a *Assumptions) check() error {
	for _, key := range slices.Sorted(maps.Keys(a.Constants)) {
		c := a.Constants[key]
		least := 0.0
		switch key {
		case "price":
			least = -largest
		case "pue":
			least = 1
		case "lifetime":
			least = .01
		case "wake_time":
			least = .001
		}
		switch {
		case !(c.Low <= c.Middle && c.Middle <= c.High):
			return fmt.Errorf("constants: %s: low %g, middle %g, high %g are not in order", key, c.Low, c.Middle,
				c.High)
		case c.Low < least || c.High > largest:
			return fmt.Errorf("constants: %s: %g to %g is not from %g to %g", key, c.Low, c.High, least, largest)
		case key == "wake_time" && c.High > 86400:
			return fmt.Errorf("constants: wake_time: %g s is more than a day", c.High)
		case key == "utilization" && c.High > 1:
			return fmt.Errorf("constants: utilization: %g is above 1", c.High)
		case c.Source == "":
			return fmt.Errorf("constants: %s: source: is missing: say where the value is from", key)
		}
	}
	if a.Constants["cpu_max"].Low < a.Constants["cpu_idle"].High {
		return errors.New("constants: cpu_max: is below cpu_idle")
	}
	for _, key := range slices.Sorted(maps.Keys(a.GPUs)) {
		g := a.GPUs[key]
		switch {
		case key == "" || key != strings.ToLower(key):
			return fmt.Errorf("gpus: %q: want a name in lower case", key)
		case !(g.Idle >= 0 && g.Idle <= g.Max && g.Max <= 1e6):
			return fmt.Errorf("gpus: %s: idle %g W and max %g W: want 0 <= idle <= max <= 1e6", key, g.Idle, g.Max)
		case g.Source == "":
			return fmt.Errorf("gpus: %s: source: is missing: say where the values are from", key)
		}
	}
	if _, err := a.model(""); err != nil {
		return fmt.Errorf("gpu: %w", err)
	}
	return nil
}

// model finds the power of a GPU model, "" for the default: the longest name that its own
// contains, in any case.
func (a *Assumptions) model(name string) (GPU, error) {
	if name == "" {
		name = a.GPU
	}
	found := ""
	for key := range a.GPUs {
		if strings.Contains(strings.ToLower(name), key) && len(key) > len(found) {
			found = key
		}
	}
	if found == "" {
		return GPU{}, fmt.Errorf("the power of GPU model %q is not known: give its idle and max W under gpus; there "+
			"are %s", name, strings.Join(slices.Sorted(maps.Keys(a.GPUs)), ", "))
	}
	return a.GPUs[found], nil
}

// WakeTime is how long a node takes to wake, at the middle.
func (a *Assumptions) WakeTime() time.Duration {
	return time.Duration(a.constant("wake_time", 1) * float64(time.Second))
}

// GPUHourPrice is the middle of gpu_hour_price, 0 if none is assumed.
func (a *Assumptions) GPUHourPrice() float64 { return a.constant("gpu_hour_price", 1) }

func (a *Assumptions) constant(name string, k int) float64 {
	b := a.Constants[name].Band
	return *b.at(k)
}

// GPUWatts returns the power of a GPU model by what a sample shows, at the middle of the constants: its idle power,
// that of a context where a process has one, and from there to its limit by the share in use, which is SM activity
// where it was measured. It is false where the share is not known.
func (a *Assumptions) GPUWatts(model string) (func(*telemetry.GPUSample) (watts float64, ok bool), error) {
	gpu, err := a.model(model)
	if err != nil {
		return nil, err
	}
	held := math.Min(gpu.Max, gpu.Idle+a.constant("context", 1))
	return func(s *telemetry.GPUSample) (float64, bool) {
		busy, ok := s.Busy()
		if ok && busy == 0 && s.Has(telemetry.Processes) && s.Processes == 0 {
			return gpu.Idle, true
		}
		return held + (gpu.Max-held)*busy, ok
	}, nil
}

// Row is a constant as reports print it.
type Row struct {
	Name string `json:"name"`
	Constant
}

// Rows are the constants that a report on a cluster depends on, in order of name.
func (a *Assumptions) Rows(c workload.Cluster) []Row {
	var rows []Row
	for _, key := range slices.Sorted(maps.Keys(a.Constants)) {
		rows = append(rows, Row{key, a.Constants[key]})
	}
	seen := map[string]bool{}
	for i := range c.Groups {
		name := c.Groups[i].GPUModel
		if name == "" {
			name = a.GPU
		}
		g, err := a.model(name)
		if err != nil || seen[name] {
			continue
		}
		seen[name] = true
		rows = append(rows,
			Row{name + " idle", Constant{Band{g.Idle, g.Idle, g.Idle}, "W", g.Source}},
			Row{name + " max", Constant{Band{g.Max, g.Max, g.Max}, "W", g.Source}})
	}
	return rows
}

// watts is the power that a GPU of a node group stands for, by band, before PUE: with its
// share of the node while it is free, and above that while a job holds it alone, or half
// of it. gpu is the part of the GPU itself in base and alone. asleep is the share of a sleeping node, waking the
// additional share while it wakes.
type watts struct{ base, alone, half, gpu, asleep, waking [bands]float64 }

// wattsOf is the power of the GPUs of a group. A CPU is as busy as the node's GPUs are on average.
func (a *Assumptions) wattsOf(g *workload.NodeGroup) (watts, error) {
	var w watts
	gpu, err := a.model(g.GPUModel)
	if err != nil {
		return w, err
	}
	n := float64(max(1, g.GPUsPerNode))
	for k := range bands {
		c := func(name string) float64 { return a.constant(name, k) }
		factor, u := c("power_factor"), c("utilization")
		w.base[k] = factor * (gpu.Idle + (c("cpus")*c("cpu_idle")+c("memory")+c("nic")+c("nvme"))/n)
		held := math.Min(gpu.Max, gpu.Idle+c("context"))
		w.gpu[k] = factor * (held + (gpu.Max-held)*u)
		active := func(u float64) float64 {
			return factor * (held - gpu.Idle + (gpu.Max-held)*u + c("cpus")*(c("cpu_max")-c("cpu_idle"))*u/n)
		}
		w.asleep[k], w.waking[k] = factor*c("asleep"), factor*c("waking")
		w.alone[k], w.half[k] = active(u), active(math.Min(1, 2*u))/2
	}
	return w, nil
}
