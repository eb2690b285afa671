package agent

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Faults are the faults of an emulated scheduler, with the probability of each for a
// configuration. The first configuration of an instance is applied as it should be.
type Faults struct {
	Refuse  float64 // refuses it
	Partial float64 // keeps the former value of one parameter, and says so
	Lie     float64 // says that it runs it, and goes on as before
	Hang    float64 // does nothing for six hours of emulated time
	Crash   float64 // ends after it applied it and before it says so, and starts ten minutes later
	Lose    float64 // of an event: it is never sent; a snapshot follows within an hour
	// Lag is the longest emulated time before a configuration is applied.
	Lag  time.Duration
	Seed uint64
}

// Check finds probabilities and times that make no sense.
func (f *Faults) Check() error {
	for name, p := range map[string]float64{"refuse": f.Refuse, "partial": f.Partial, "lie": f.Lie, "hang": f.Hang,
		"crash": f.Crash, "lose": f.Lose} {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("%s: %v is not from 0 to 1", name, p)
		}
	}
	if f.Lag < 0 {
		return fmt.Errorf("lag: %v is negative", f.Lag)
	}
	return nil
}

// chance draws faults. Instances have one each, so that they do not depend on each other.
type chance struct{ r *rand.Rand }

func (f *Faults) chance(of uint64) *chance { return &chance{rand.New(rand.NewPCG(f.Seed, of))} }

// happens draws with a probability.
func (c *chance) happens(p float64) bool { return p > 0 && c.r.Float64() < p }

// float is from 0 to 1.
func (c *chance) float() float64 { return c.r.Float64() }
