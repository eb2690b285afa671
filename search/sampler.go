package search

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/autosched/autosched/space"
)

// Sampler proposes configurations to measure.
type Sampler interface {
	// Suggest returns from 1 to n valid configurations to be measured together,
	// or none if it has nothing more to propose for n. How many it returns must
	// not depend on the machine. History holds every trial so far in step
	// order, the fixed portfolio included.
	Suggest(history []Trial, n int) []space.Config
}

// Learner is a sampler that must be told what became of each suggestion. After
// every Suggest exactly one of Observe and Discard is called.
type Learner interface {
	Sampler
	// Observe gets one trial for each configuration of the last suggestion, in
	// its order. Trials may be failed, or repeat what was measured before.
	Observe(trials []Trial)
	// Discard forgets the last suggestion; the next one must differ.
	Discard()
	// State returns what Setup.State needs to continue.
	State() json.RawMessage
}

// Setup is what a sampler starts from.
type Setup struct {
	Space *space.Space
	Start space.Config // a good configuration, usually the incumbent
	Seed  uint64
	State json.RawMessage // of an earlier Learner of the same space, or nothing
}

// Entry is one sampler in the table.
type Entry struct {
	Name        string
	Description string
	New         func(Setup) (Sampler, error)
}

// Samplers lists every sampler in name order.
var Samplers = []Entry{
	{"bluefin", "two-point bandit gradient from the incumbent, as SelfTune does", func(s Setup) (Sampler, error) { return NewBlueFinSampler(s, BlueFinOptions{}) }},
	{"random", "independent uniform points", func(s Setup) (Sampler, error) { return newRandom(s), nil }},
	{"sobol", "points spread evenly by a scrambled Sobol sequence", func(s Setup) (Sampler, error) { return newSobolSampler(s), nil }},
}

// DefaultSampler is used where none is named.
const DefaultSampler = "sobol"

// NewSampler makes a sampler by name; "" is DefaultSampler.
func NewSampler(name string, setup Setup) (Sampler, error) {
	if name == "" {
		name = DefaultSampler
	}
	var names []string
	for _, e := range Samplers {
		if e.Name == name {
			return e.New(setup)
		}
		names = append(names, e.Name)
	}
	return nil, fmt.Errorf("search: no sampler %q, want one of %s", name, strings.Join(names, ", "))
}

// random draws uniform points; the k-th suggestion depends on the seed and k.
type random struct {
	space *space.Space
	rng   *rand.Rand
	x     []float64
}

func newRandom(s Setup) *random {
	return &random{space: s.Space, rng: rand.New(rand.NewPCG(s.Seed, 0x72616e646f6d)), x: make([]float64, s.Space.Dims())}
}

func (r *random) Suggest(_ []Trial, n int) []space.Config {
	out := make([]space.Config, n)
	for i := range out {
		for d := range r.x {
			r.x[d] = r.rng.Float64()
		}
		out[i] = r.space.Decode(r.x)
	}
	return out
}
