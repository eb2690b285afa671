package rollout

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Waves are the steps in which the result of a round reaches the instances of a scheduler. The
// zero Waves is one step. Values that come back reach all instances at once.
type Waves struct {
	// Canary is a wave of one instance, Share one of a share of them; 0 for none.
	Canary bool    `json:"canary,omitempty"`
	Share  float64 `json:"share,omitempty"`
	// Soak is the event time between the last acknowledgement of a wave and the next wave; 0
	// for DefaultSoak, negative for none.
	Soak time.Duration `json:"soak,omitempty"`
}

// DefaultSoak has a round's worth of events.
const DefaultSoak = time.Hour

// Soaks is how long a wave does.
func (w *Waves) Soaks() time.Duration {
	if w.Soak == 0 {
		return DefaultSoak
	}
	return max(0, w.Soak)
}

// sizes are the instances that the waves reach up to each but the last one, of n.
func (w *Waves) sizes(n int) []int {
	var out []int
	if w.Canary && n > 1 {
		out = append(out, 1)
	}
	if share := int(math.Ceil(w.Share * float64(n))); w.Share > 0 && share < n && (len(out) == 0 || share > 1) {
		out = append(out, share)
	}
	return out
}

// Wave is a rollout that has not reached all instances yet.
type Wave struct {
	// Stable is the revision of the instances that it has not reached.
	Stable int64 `json:"stable"`
	// Number is the number of waves that have begun, Instances the ones that they reached. Ones that were
	// forgotten stay, so that they do not go back.
	Number    int      `json:"number"`
	Instances []string `json:"instances"`
	// Applied is the event time from which on all of Instances run the revision on offer; zero
	// before.
	Applied time.Time `json:"applied,omitzero"`
}

// Desired is the configuration that an instance should run, nil if there is none.
func (s *State) Desired(instance string) *Configuration {
	if s.Wave != nil && !slices.Contains(s.Wave.Instances, instance) {
		return s.Stable()
	}
	return s.Offered()
}

// Stable is the configuration of the instances that a rollout under way has not reached, nil if
// none is under way.
func (s *State) Stable() *Configuration {
	if s.Wave == nil {
		return nil
	}
	return s.Configuration(s.Wave.Stable)
}

// Waiting is the condition that a rollout waits for, "" if none is under way.
func (s *State) Waiting() string {
	if s.Wave == nil {
		return ""
	}
	text := fmt.Sprintf("revision %d is offered to %d of %d instances", s.OfferedRevision, s.reached(),
		len(s.Instances))
	if id, waits := s.unapplied(); waits {
		return fmt.Sprintf("%s; the next wave begins after instance %q applied it", text, id)
	}
	return fmt.Sprintf("%s; the next wave begins at %s", text, stamp(s.Wave.Applied.Add(s.Waves.Soaks())))
}

// underWay is the error of calls that wait for the end of a rollout, nil if none is under way.
func (s *State) underWay() error {
	if s.Wave == nil {
		return nil
	}
	return fmt.Errorf("%w: a rollout of scheduler %q is under way: %s", ErrState, s.Scheduler, s.Waiting())
}

// reached counts the known instances that the waves so far reached.
func (s *State) reached() (n int) {
	for _, i := range s.Instances {
		if slices.Contains(s.Wave.Instances, i.ID) {
			n++
		}
	}
	return n
}

// unapplied is an instance of the waves so far that does not run the offer. Ones that
// were forgotten are not waited for.
func (s *State) unapplied() (id string, found bool) {
	for k := range s.Instances {
		i := &s.Instances[k]
		if slices.Contains(s.Wave.Instances, i.ID) {
			if condition, _ := s.Condition(i, time.Time{}, 0); condition != InSync {
				return i.ID, true
			}
		}
	}
	return "", false
}

// roll offers a revision to the instances of the first wave.
func (t *transition) roll(c *Configuration, at time.Time) {
	stable := t.OfferedRevision
	t.offer(c, at)
	if len(t.Waves.sizes(len(t.Instances))) > 0 && stable > 0 {
		t.Wave = &Wave{Stable: stable}
		t.nextWave()
	}
}

// nextWave sends the offer to the instances of the next wave. The last one reaches all,
// including future ones.
func (t *transition) nextWave() {
	if t.Wave.Number >= len(t.Waves.sizes(len(t.Instances))) {
		t.Wave = nil
		t.edit(t.OfferedRevision).Offered = t.at // to the instances that it reaches now
		return
	}
	w := *t.Wave
	w.Number++
	t.Wave = &w
	t.fillWave()
}

// fillWave adds instances to a wave that reaches too few, from earlier waves or without one.
func (t *transition) fillWave() {
	sizes, w := t.Waves.sizes(len(t.Instances)), *t.Wave
	if w.Number > len(sizes) {
		return
	}
	w.Instances = slices.Clone(w.Instances)
	missing := sizes[w.Number-1] - t.reached()
	for _, i := range t.Instances {
		if missing > 0 && !slices.Contains(w.Instances, i.ID) {
			w.Instances = append(w.Instances, i.ID)
			missing--
		}
	}
	if len(w.Instances) > len(t.Wave.Instances) {
		w.Applied = time.Time{}
		t.Wave = &w
		t.edit(t.OfferedRevision).Offered = t.at
	}
}

// soaking notes since when a wave soaks.
func (t *transition) soaking(since time.Time) {
	if w := *t.Wave; !w.Applied.Equal(since) {
		w.Applied = since
		t.Wave = &w
	}
}

// Tick is the event time. The next wave begins once every instance of the waves so far runs the values
// on offer, and has for the soak time, but not during a Freeze. Other instances take the place of forgotten ones.
type Tick struct{ At time.Time }

func (e Tick) apply(t *transition) error {
	if t.Wave == nil || t.Frozen(e.At) != nil {
		return nil
	}
	t.fillWave()
	if _, waits := t.unapplied(); waits {
		t.soaking(time.Time{})
		return nil
	}
	if since := t.Wave.Applied; since.IsZero() || e.At.Before(since) { // or the event clock was set back
		t.soaking(e.At)
	}
	if !e.At.Before(t.Wave.Applied.Add(t.Waves.Soaks())) {
		t.nextWave()
	}
	return nil
}
