package simulator

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// ModelSpec is performance models as tables with their sources: the contents of a models
// file. A section that is nil is as in DefaultModelSpec.
type ModelSpec struct {
	Restart *RestartSpec `json:"restart,omitempty"`
	Classes *ClassSpec   `json:"classes,omitempty"`
	Pairs   *PairSpec    `json:"pairs,omitempty"`
	Scaling *ScalingSpec `json:"scaling,omitempty"`
}

// RestartSpec is Models.Restart: a job pays the cost of the last step with no more GPUs
// than its own.
type RestartSpec struct {
	Source string        `json:"source"`
	Steps  []RestartStep `json:"steps"`
	// Proportional lets the cost grow with the GPUs beyond the last step.
	Proportional bool `json:"proportional_beyond"`
	// State is the cost on one GPU of jobs whose memory is known, in place of the first step's.
	State *RestartState `json:"by_state,omitempty"`
}

// RestartState is the cost of a restart by the size of a job's state: Seconds and PerGB of each GB that is written
// before the stop and read after it, on each GPU.
type RestartState struct {
	Seconds float64 `json:"seconds"`
	PerGB   float64 `json:"seconds_per_gb"`
	// Share is the state's of the memory that a job asks for, and Most the GPU's memory in GB, which bounds it; 0 does
	// not.
	Share float64 `json:"share_of_memory"`
	Most  float64 `json:"most_gb,omitempty"`
}

// RestartStep is the cost from a number of GPUs on.
type RestartStep struct {
	GPUs    int     `json:"gpus"`
	Seconds float64 `json:"seconds"`
}

// ClassSpec is Models.Classes.
type ClassSpec struct {
	Source string `json:"source"`
	// Interconnect is the cluster's, a name in ModelClass.On; empty is none of
	// them.
	Interconnect string       `json:"interconnect,omitempty"`
	List         []ModelClass `json:"list"`
}

// ModelClass is a Class.
type ModelClass struct {
	Name     string  `json:"name"`
	Skew     float64 `json:"skew"`
	Slowdown float64 `json:"spread_slowdown"`
	// On is the slowdown by interconnect, where it is another.
	On     map[string]float64 `json:"spread_slowdown_on,omitempty"`
	Util   float64            `json:"utilization"`
	Weight int                `json:"weight"`
	// Scaling names the class's curve; empty chooses the last one if the slowdown is
	// at least 1.5, which communication-heavy models have, otherwise the first.
	Scaling string `json:"scaling,omitempty"`
}

// PairSpec is Models.Loads and, if Speeds is not empty, Models.Pair: the share
// of its speed alone that a row's load has beside a column's, 0 if they do not
// fit. Without, speeds follow utilisation.
type PairSpec struct {
	Source string      `json:"source"`
	Loads  []ModelLoad `json:"loads"`
	Speeds [][]float64 `json:"speeds,omitempty"`
	// Rule is the speeds of pairs without Speeds, by their loads' SM.
	Rule *PairRule `json:"rule,omitempty"`
}

// ModelLoad is a Load.
type ModelLoad struct {
	Name   string  `json:"name"`
	Util   float64 `json:"utilization"`
	Mem    float64 `json:"memory_mb"`
	Score  int     `json:"share_score"`
	Weight int     `json:"weight"`
	// SM is the share of the SMs that it uses alone, for a rule of pairs.
	SM float64 `json:"sm,omitempty"`
}

func (l *ModelLoad) load() Load { return Load{l.Name, l.Util, l.Mem, l.Score, l.Weight} }

// ScalingSpec is the curves of Models.Speed.
type ScalingSpec struct {
	Source string         `json:"source"`
	Curves []ScalingCurve `json:"curves"`
}

// ScalingCurve is throughput relative to one GPU, straight between the numbers
// of GPUs that are given and beyond the last.
type ScalingCurve struct {
	Name  string    `json:"name"`
	GPUs  []float64 `json:"gpus"`
	Speed []float64 `json:"speed"`
}

// v100 is the default models. Restarts cost by GPU count as TitanSched charges them; skews are from the tensor sizes in
// the Tiresias simulator; slowdowns are rounded from the Pollux and Sia placement measurements (low-skew convolutional
// networks 1.1, communication-heavy ones 2.0). Weights give three in ten jobs to the communication-heavy classes; no
// public trace has the true share. Loads and the speeds of pairs are as Gavel measured them on V100s (MIT license:
// gavel_LICENSE), without utilisation and memory; scores are by scoreLoads, and all weigh the same when drawn.
//
// Throughput is the mean over models of the median over batch sizes, with the batch growing along and as few nodes as
// the GPUs need, from the measurements published with AdaptDL for Pollux (Apache License 2.0): cifar10 (ResNet-18),
// imagenet (ResNet-50) and deepspeech2 scale well, bert, yolov3 and ncf badly. Between 4 and 16 GPUs the line is
// straight: the dip that was measured there is the boundary between that cluster's nodes of four, which is for
// placement to model.
//
//go:embed v100.json
var v100 []byte

// DefaultModelSpec returns the default models, all sections of them.
func DefaultModelSpec() *ModelSpec {
	spec := &ModelSpec{}
	if err := json.Unmarshal(v100, spec); err != nil {
		panic("simulator: v100.json: " + err.Error())
	}
	return spec
}

// Complete is the spec with the default for each section that is missing.
func (f *ModelSpec) Complete() *ModelSpec {
	out, d := *f, DefaultModelSpec()
	if out.Restart == nil {
		out.Restart = d.Restart
	}
	if out.Classes == nil {
		out.Classes = d.Classes
	}
	if out.Pairs == nil {
		out.Pairs = d.Pairs
	}
	if out.Scaling == nil {
		out.Scaling = d.Scaling
	}
	return &out
}

// MaxClasses bounds the classes, and the loads, of a models file.
const MaxClasses = 256

const maxModels = 16 << 20 // bytes of a models file

// ReadModels reads a models file. Unknown fields are refused, and an error names
// the field that is wrong.
func ReadModels(r io.Reader) (*ModelSpec, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxModels+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxModels {
		return nil, fmt.Errorf("models: larger than %d MiB", maxModels>>20)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	f := &ModelSpec{}
	document := struct {
		Schema string `json:"schema"` // of 'autosched forecast models show'
		*ModelSpec
	}{ModelSpec: f}
	if err := d.Decode(&document); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, fmt.Errorf("models: %s: a %s is not what belongs here", wrong.Field, wrong.Value)
		}
		return nil, fmt.Errorf("models: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("models: there is more after the end of the object")
	}
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if f.Pairs != nil && len(f.Pairs.Speeds) == 0 {
		f.Pairs.Speeds = nil
	}
	if f.Classes != nil {
		for i := range f.Classes.List {
			if c := &f.Classes.List[i]; len(c.On) == 0 {
				c.On = nil
			}
		}
	}
	return f, nil
}

// Write writes a models file. Reading it gives the same spec.
func (f *ModelSpec) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(f)
}

// Validate names the first field that no simulation can use.
func (f *ModelSpec) Validate() error {
	c := f.Complete()
	classes := func() error { return c.Classes.validate(c.Scaling) }
	for _, section := range []func() error{c.Restart.validate, c.Scaling.validate, classes, c.Pairs.validate} {
		if err := section(); err != nil {
			return fmt.Errorf("models: %w", err)
		}
	}
	return nil
}

// within refuses numbers out of a range; NaN is in none.
func within(field string, v, low, high float64) error {
	if !(v >= low && v <= high) {
		return fmt.Errorf("%s: %g is not from %g to %g", field, v, low, high)
	}
	return nil
}

func (r *RestartSpec) validate() error {
	if len(r.Steps) == 0 || r.Steps[0].GPUs != 1 {
		return errors.New("restart.steps: must begin with gpus 1")
	}
	for i, s := range r.Steps {
		at := fmt.Sprintf("restart.steps[%d]", i)
		if i > 0 && s.GPUs <= r.Steps[i-1].GPUs {
			return fmt.Errorf("%s.gpus: %d is not above %d", at, s.GPUs, r.Steps[i-1].GPUs)
		}
		if err := within(at+".gpus", float64(s.GPUs), 1, 1e6); err != nil {
			return err
		}
		if err := within(at+".seconds", s.Seconds, 0, 1e6); err != nil {
			return err
		}
	}
	if s := r.State; s != nil {
		return errors.Join(within("restart.by_state.seconds", s.Seconds, 0, 1e6),
			within("restart.by_state.seconds_per_gb", s.PerGB, 0, 1e6),
			within("restart.by_state.share_of_memory", s.Share, 0, 1),
			within("restart.by_state.most_gb", s.Most, 0, 1e4))
	}
	return nil
}

func (s *ScalingSpec) validate() error {
	if len(s.Curves) == 0 {
		return errors.New("scaling.curves: is empty")
	}
	for i, c := range s.Curves {
		at := fmt.Sprintf("scaling.curves[%d]", i)
		switch {
		case c.Name == "":
			return fmt.Errorf("%s.name: is empty", at)
		case slices.ContainsFunc(s.Curves[:i], func(o ScalingCurve) bool { return o.Name == c.Name }):
			return fmt.Errorf("%s.name: %q is there twice", at, c.Name)
		case len(c.GPUs) == 0 || c.GPUs[0] != 1:
			return fmt.Errorf("%s.gpus: must begin with 1", at)
		case len(c.Speed) != len(c.GPUs):
			return fmt.Errorf("%s.speed: has %d values and gpus %d", at, len(c.Speed), len(c.GPUs))
		case c.Speed[0] != 1:
			return fmt.Errorf("%s.speed[0]: %g is not 1, the speed on one GPU", at, c.Speed[0])
		}
		for k := 1; k < len(c.GPUs); k++ {
			if !(c.GPUs[k] > c.GPUs[k-1]) || c.GPUs[k] > 1e6 {
				return fmt.Errorf("%s.gpus[%d]: %g is not above %g, or above a million", at, k, c.GPUs[k], c.GPUs[k-1])
			}
			if !(c.Speed[k] >= c.Speed[k-1]) || c.Speed[k] > 1e6 {
				return fmt.Errorf("%s.speed[%d]: %g is below %g, or above a million", at, k, c.Speed[k], c.Speed[k-1])
			}
		}
	}
	return nil
}

func (c *ClassSpec) validate(curves *ScalingSpec) error {
	if err := count("classes.list", len(c.List)); err != nil {
		return err
	}
	weight := 0
	for i, m := range c.List {
		at := fmt.Sprintf("classes.list[%d]", i)
		err := errors.Join(within(at+".skew", m.Skew, 0, 1), within(at+".spread_slowdown", m.Slowdown, 1, 1000),
			within(at+".utilization", m.Util, 0, 1), within(at+".weight", float64(m.Weight), 0, 1e6))
		for _, name := range slices.Sorted(maps.Keys(m.On)) {
			if name == "" {
				return fmt.Errorf("%s.spread_slowdown_on: an interconnect has no name", at)
			}
			err = errors.Join(err, within(at+".spread_slowdown_on."+name, m.On[name], 1, 1000))
		}
		switch {
		case err != nil:
			return err
		case m.Name == "":
			return fmt.Errorf("%s.name: is empty", at)
		case slices.ContainsFunc(c.List[:i], func(o ModelClass) bool { return o.Name == m.Name }):
			return fmt.Errorf("%s.name: %q is there twice", at, m.Name)
		case m.Scaling != "" && curves.find(m.Scaling) < 0:
			return fmt.Errorf("%s.scaling: there is no curve %q", at, m.Scaling)
		}
		weight += m.Weight
	}
	if weight == 0 {
		return errors.New("classes.list: all weights are 0")
	}
	if names := c.Interconnects(); c.Interconnect != "" && !slices.Contains(names, c.Interconnect) {
		return fmt.Errorf("classes.interconnect: no class has a slowdown on %q; there are %s", c.Interconnect,
			cmp.Or(strings.Join(names, ", "), "none"))
	}
	return nil
}

// Interconnects returns the interconnects on which some class has a slowdown, in order.
func (c *ClassSpec) Interconnects() []string {
	all := map[string]bool{}
	for i := range c.List {
		for name := range c.List[i].On {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// SlowdownOn is the class's on an interconnect.
func (m *ModelClass) SlowdownOn(interconnect string) float64 {
	if v, ok := m.On[interconnect]; ok {
		return v
	}
	return m.Slowdown
}

func (p *PairSpec) validate() error {
	if err := count("pairs.loads", len(p.Loads)); err != nil {
		return err
	}
	weight := 0
	for i, l := range p.Loads {
		at := fmt.Sprintf("pairs.loads[%d]", i)
		err := errors.Join(within(at+".utilization", l.Util, 0, 1), within(at+".memory_mb", l.Mem, 0, 1e9),
			within(at+".sm", l.SM, 0, 1), within(at+".share_score", float64(l.Score), 0, 2), within(at+".weight",
				float64(l.Weight), 0, 1e6))
		switch {
		case err != nil:
			return err
		case l.Name == "":
			return fmt.Errorf("%s.name: is empty", at)
		case slices.ContainsFunc(p.Loads[:i], func(o ModelLoad) bool { return o.Name == l.Name }):
			return fmt.Errorf("%s.name: %q is there twice", at, l.Name)
		}
		weight += l.Weight
	}
	if weight == 0 {
		return errors.New("pairs.loads: all weights are 0")
	}
	if r := p.Rule; r != nil {
		err := errors.Join(within("pairs.rule.base", r.Base, 0, 2), within("pairs.rule.own_sm", r.Own, -2, 2),
			within("pairs.rule.both_sm", r.Both, -2, 2))
		if err != nil {
			return err
		}
	}
	if len(p.Speeds) == 0 {
		return nil
	}
	if len(p.Speeds) != len(p.Loads) {
		return fmt.Errorf("pairs.speeds: has %d rows for %d loads", len(p.Speeds), len(p.Loads))
	}
	for i, row := range p.Speeds {
		if len(row) != len(p.Loads) {
			return fmt.Errorf("pairs.speeds[%d]: has %d values for %d loads", i, len(row), len(p.Loads))
		}
		for k, v := range row {
			at := fmt.Sprintf("pairs.speeds[%d][%d]", i, k)
			if err := within(at, v, 0, 1); err != nil {
				return err
			}
			if v > 0 && (v < .001 || p.Speeds[k][i] <= 0) {
				return fmt.Errorf("%s: %g, but the pair does not fit the other way round, or it is below 0.001", at, v)
			}
		}
	}
	return nil
}

func count(field string, n int) error {
	if n == 0 || n > MaxClasses {
		return fmt.Errorf("%s: has %d entries, want 1 to %d", field, n, MaxClasses)
	}
	return nil
}

// Cost returns the duration of a restart on a number of GPUs, of a job with bytes of memory per GPU, 0 if that is not
// known.
func (r *RestartSpec) Cost(gpus int, memory int64) time.Duration {
	cost := r.byWidth(gpus)
	if s := r.State; s != nil && memory > 0 {
		state := s.Share * float64(memory) / 1e9
		if s.Most > 0 {
			state = min(state, s.Most)
		}
		one := time.Duration(math.Round((s.Seconds + s.PerGB*state) * 1e9))
		cost = max(0, cost-r.byWidth(1)) + one
	}
	return cost
}

// byWidth is the cost in Steps.
func (r *RestartSpec) byWidth(gpus int) time.Duration {
	i := len(r.Steps) - 1
	for i > 0 && r.Steps[i].GPUs > gpus {
		i--
	}
	s := &r.Steps[i]
	d := time.Duration(math.Round(s.Seconds * 1e9))
	if r.Proportional && i == len(r.Steps)-1 && gpus > s.GPUs {
		return time.Duration(math.Round(float64(d) * float64(gpus) / float64(s.GPUs)))
	}
	return d
}

func (s *ScalingSpec) find(name string) int {
	return slices.IndexFunc(s.Curves, func(c ScalingCurve) bool { return c.Name == name })
}

// At is the throughput on a number of GPUs.
func (c *ScalingCurve) At(gpus int) float64 {
	k := float64(gpus)
	if len(c.GPUs) == 1 || k <= c.GPUs[0] {
		return c.Speed[0]
	}
	i := 1
	for i < len(c.GPUs)-1 && k > c.GPUs[i] {
		i++
	}
	slope := (c.Speed[i] - c.Speed[i-1]) / (c.GPUs[i] - c.GPUs[i-1])
	return c.Speed[i-1] + (k-c.GPUs[i-1])*slope
}

// CurveOf is the curve of a class.
func (f *ModelSpec) CurveOf(c *ModelClass) *ScalingCurve {
	curves := f.Scaling.Curves
	switch {
	case c.Scaling != "":
		return &curves[f.Scaling.find(c.Scaling)]
	case c.Slowdown >= communicationHeavy:
		return &curves[len(curves)-1]
	}
	return &curves[0]
}

// Models are the models of a valid spec.
func (f *ModelSpec) Models() *Models {
	c := f.Complete()
	m := &Models{Restart: c.Restart.Cost}
	var curves []*ScalingCurve
	for i := range c.Classes.List {
		x := &c.Classes.List[i]
		m.Classes = append(m.Classes, Class{x.Name, x.Skew, x.SlowdownOn(c.Classes.Interconnect), x.Util, x.Weight})
		curves = append(curves, c.CurveOf(x))
	}
	m.Speed = func(class, gpus int) float64 { return curves[class].At(gpus) }
	for i := range c.Pairs.Loads {
		m.Loads = append(m.Loads, c.Pairs.Loads[i].load())
	}
	if speeds := c.Pairs.Speeds; len(speeds) > 0 {
		m.Pair = func(a, b int) (float64, float64) { return speeds[a][b], speeds[b][a] }
	} else if r := c.Pairs.Rule; r != nil {
		m.Pair = func(a, b int) (float64, float64) {
			x, y := c.Pairs.Loads[a].SM, c.Pairs.Loads[b].SM
			return r.Speed(x, y), r.Speed(y, x)
		}
	}
	return m
}
