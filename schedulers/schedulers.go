// Package schedulers is the table of schedulers whose configurations can be
// tuned: for each, its parameter space, the policy that simulates it, and the
// configurations known to be good. One folder per scheduler; adding one is a
// folder, a line in All and a golden file.
package schedulers

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/schedulers/astraea"
	"github.com/autosched/autosched/schedulers/chronus"
	"github.com/autosched/autosched/schedulers/fifo"
	"github.com/autosched/autosched/schedulers/gandiva"
	"github.com/autosched/autosched/schedulers/gavel"
	"github.com/autosched/autosched/schedulers/kueue"
	"github.com/autosched/autosched/schedulers/lucid"
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/schedulers/optimus"
	"github.com/autosched/autosched/schedulers/pollux"
	"github.com/autosched/autosched/schedulers/pooling"
	"github.com/autosched/autosched/schedulers/sjf"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/schedulers/srtf"
	"github.com/autosched/autosched/schedulers/themis"
	"github.com/autosched/autosched/schedulers/tiresias"
	"github.com/autosched/autosched/schedulers/volcano"
	volcanoconf "github.com/autosched/autosched/schedulers/volcano/conf"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Scheduler is an entry of the table.
type Scheduler struct {
	Name  string
	Title string // one line for people
	Paper string // where it is described, empty for folklore
	// Space is the parameters with their dependencies.
	Space *space.Space
	// New makes a policy. The configuration must be of Space.
	New func(space.Config) simulator.Policy
	// Presets are good configurations to try before any search; the first is the
	// one recommended, unless that is the default.
	Presets           []Preset
	RecommendsDefault bool
	// Clairvoyant schedulers know true durations: baselines, not for deployment.
	Clairvoyant bool
	// Native is the scheduler's configuration file. Nil means one with the names of the parameters.
	Native native.Form
	// SiteParam returns the widest range of a parameter that a site may add to Space; nil if none may.
	SiteParam func(id string) (space.Param, bool)
	// SiteAlone says that a site has the parameters alone that it names, as others may have no effect there.
	SiteAlone bool
	// Inert returns the numeric parameters without effect, by whether some jobs have
	// deadlines and whether run times are estimated (simulator.Options.Estimate). Nil
	// means none.
	Inert func(deadlines, estimates bool) []string
	// Members makes simulations that differ in the unknowns of a recorded run of the scheduler, such as when its
	// cycles came. Delays that are many times the scale do not depend on it. Nil means that nothing is unknown.
	Members func(space.Config) (members []simulator.Member, scale time.Duration)
}

// Preset is a named configuration.
type Preset struct {
	Name   string
	Config space.Config
}

// Recommended is the configuration to run without knowledge of the workload. It is chosen by the worst window: no
// preset that is worse than the default in some weeks is recommended.
func (s *Scheduler) Recommended() Preset {
	if s.RecommendsDefault || len(s.Presets) == 0 {
		return Preset{Name: "default", Config: s.Space.Default()}
	}
	return s.Presets[0]
}

// WithSpace returns the scheduler with other parameters and rules. Its presets get the nearest values.
func (s *Scheduler) WithSpace(params []space.Param, rules []space.Rule) (*Scheduler, error) {
	of, err := space.New(params, rules)
	if err != nil {
		return nil, err
	}
	out := *s
	out.Space, out.Presets = of, nil
	for _, p := range s.Presets {
		config, _ := of.Project(p.Config.Values())
		out.Presets = append(out.Presets, Preset{Name: p.Name, Config: config})
	}
	return &out, nil
}

// All schedulers in order of name.
var All = []*Scheduler{
	{Name: "astraea", Title: "long-term fairness of GPU-time between tenants and jobs",
		Paper: "Ye et al., Astraea, TPDS 2021",
		Space: astraeaSpace, New: astraea.New, Presets: astraeaPresets},
	{Name: "chronus", Title: "deadlines first, best effort with the rest, by leases",
		Paper: "Gao et al., Chronus, SoCC 2021",
		Space: chronusSpace, New: chronus.New, Presets: chronusPresets, Inert: chronus.Inert,
		Native: &chronus.Native},
	{Name: "fifo", Title: "first in, first out", Space: must(space.New(fifo.Space(), nil)), New: fifo.New},
	{Name: "gandiva", Title: "time slices and packing", Paper: "Xiao et al., Gandiva, OSDI 2018",
		Space: gandivaSpace, New: gandiva.New, Presets: gandivaPresets},
	{Name: "gavel", Title: "rounds for the jobs furthest behind: max-min or finish-time fairness",
		Paper: "Narayanan et al., Gavel, OSDI 2020",
		Space: gavelSpace, New: gavel.New, Presets: gavelPresets, RecommendsDefault: true, Native: &gavel.Native},
	{Name: "kueue", Title: "Kubernetes batch quotas: queues that borrow in cohorts, with preemption",
		Space: kueueSpace, New: kueue.New, Presets: kueuePresets, RecommendsDefault: true, Members: kueue.Members,
		SiteParam: kueue.SiteParam, SiteAlone: true},
	{Name: "lucid", Title: "profile briefly, then shortest estimated job first, light jobs sharing GPUs",
		Paper: "Hu et al., Lucid, ASPLOS 2023",
		Space: lucidSpace, New: lucid.New, Presets: lucidPresets, Native: &lucid.Native},
	{Name: "optimus", Title: "elastic: GPUs to the jobs they help most", Paper: "Peng et al., Optimus, EuroSys 2018",
		Space: optimusSpace, New: optimus.New, Presets: optimusPresets},
	{Name: "pollux", Title: "elastic: GPUs by goodput, with a fairness exponent",
		Paper: "Qiao et al., Pollux, OSDI 2021",
		Space: polluxSpace, New: pollux.New, Presets: polluxPresets},
	{Name: "pooling", Title: "idle quotas lent to other tenants and reclaimed",
		Paper: "after Zhao et al., HiveD, OSDI 2020",
		Space: poolingSpace, New: pooling.New, Presets: poolingPresets},
	{Name: "sjf", Title: "shortest job first, by true durations",
		Space: must(space.New(sjf.Space(), nil)), New: sjf.New, Clairvoyant: true},
	{Name: "slurm", Title: "Slurm's multifactor priorities with backfill by time limits",
		Paper: "Yoo et al., SLURM, JSSPP 2003", Space: slurmSpace, New: slurm.New, Presets: slurmPresets,
		Native: &conf.Form{}, Members: slurm.Members, SiteParam: slurm.SiteParam},
	{Name: "srtf", Title: "shortest remaining time first, preemptive, by true durations",
		Space: must(space.New(srtf.Space(), nil)), New: srtf.New, Clairvoyant: true},
	{Name: "themis", Title: "finish-time fairness by leases", Paper: "Mahajan et al., Themis, NSDI 2020",
		Space: themisSpace, New: themis.New, Presets: themisPresets, RecommendsDefault: true, Native: &themis.Native},
	{Name: "tiresias", Title: "least attained service in discrete queues", Paper: "Gu et al., Tiresias, NSDI 2019",
		Space: tiresiasSpace, New: tiresias.New, Presets: tiresiasPresets(),
		Native: &tiresias.Native},
	{Name: "volcano", Title: "Volcano's sessions: queues by their shares, gangs on nodes by weights",
		Space: volcanoSpace, New: volcano.New, Presets: volcanoPresets, Members: volcano.Members,
		SiteParam: volcano.SiteParam, Native: &volcanoconf.Form{}},
}

var tiresiasSpace = must(space.New(tiresias.Space(), tiresias.Rules()))

func tiresiasPresets() []Preset {
	var out []Preset
	for _, l := range tiresias.Ladders {
		out = append(out, Preset{l.Name, mustConfig(tiresiasSpace, l.Name, l.Values())})
	}
	return out
}

// Form returns the scheduler's configuration file.
func (s *Scheduler) Form() native.Form {
	if s.Native != nil {
		return s.Native
	}
	return &native.Options{Comment: s.Name + ": the parameters by their ids"}
}

// FormOf returns the configuration file of schedulers of a type. Those that are not built in have one with the names of
// their parameters.
func FormOf(schedulerType string) native.Form {
	if s, err := Find(schedulerType); err == nil {
		return s.Form()
	}
	return &native.Options{Comment: "the parameters by their ids"}
}

// Find returns the scheduler of a name, which may have suffixes (SleepSuffix). The error lists the known names.
func Find(name string) (*Scheduler, error) {
	if strings.Contains(name, "+") && variants()[name] != nil {
		return variants()[name], nil
	}
	if i := slices.Index(Names(), name); i >= 0 {
		return All[i], nil
	}
	return nil, fmt.Errorf("scheduler %q: not known; there are %s", name, strings.Join(Names(), ", "))
}

// Names of all schedulers.
func Names() []string {
	var names []string
	for _, s := range All {
		names = append(names, s.Name)
	}
	return names
}

// The table is wrong at build time or never, so a mistake in it is a panic.

func must(s *space.Space, err error) *space.Space {
	if err != nil {
		panic("schedulers: " + err.Error())
	}
	return s
}

func mustConfig(s *space.Space, name string, values map[string]space.Value) space.Config {
	c, changes := s.Project(space.Values(values))
	if len(changes) > 0 {
		panic(fmt.Sprintf("schedulers: preset %s does not fit its space: %+v", name, changes))
	}
	return c
}
