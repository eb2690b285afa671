package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/space"
)

// moved is a configuration in the present space. It is an error if it is outside.
func (s *State) moved(c space.Config) (space.Config, error) {
	if s.Space == nil || c.Space() == s.Space {
		return c, nil
	}
	moved, err := s.Space.ParseJSON([]byte(c.Canonical()))
	if err != nil {
		return c, fmt.Errorf("values outside the registered space: %w", err)
	}
	return moved, nil
}

// inSpace reports whether the values of a revision are in the present space.
func (s *State) inSpace(c *Configuration) bool {
	_, err := s.moved(c.Config)
	return err == nil
}

// outside is the error of offering values that the present space does not have.
func (t *transition) outside(c *Configuration) error {
	_, err := t.moved(c.Config)
	return fmt.Errorf("%w: revision %d of scheduler %q has %w", ErrState, c.Revision, t.Scheduler, err)
}

// Respace changes the space that configurations are in. Proposals are withdrawn. If the values that
// instances should run are outside the new space, the nearest values in it follow under a new
// revision, or its defaults if these are parked. If only the values of a rollout under way are outside,
// the values of the other instances follow: values near to the trial were not tried.
type Respace struct {
	Space *space.Space
	// Number is that of the scheduler's revision that has the space.
	Number int64
	At     time.Time // the event time
}

func (e Respace) apply(t *transition) error {
	t.Space = e.Space
	t.supersede(Proposed)
	t.supersede(Parked)
	t.setDefaults(e)
	left := t.Offered()
	to := left
	if stable := t.Stable(); stable != nil && stable.State != Lost {
		to = stable
		if !t.inSpace(stable) {
			left = stable
		}
	}
	if left == nil || left.State == Lost || t.inSpace(left) {
		return nil
	}
	config, changes := e.Space.Project(to.Config)
	reason := fmt.Sprintf("revision %d is outside the space of scheduler revision %d: ", left.Revision, e.Number)
	if to == left {
		reason += describe(changes)
	} else {
		reason += fmt.Sprintf("its rollout ends with the values of revision %d", to.Revision)
	}
	if t.parked(config.Hash()) != nil {
		config = e.Space.Default()
		reason += "; the values nearest to it are parked: these are the defaults"
	}
	t.publish(Publish{At: e.At, Config: config, Origin: FromSpace, Reason: reason})
	return nil
}

// setDefaults finds the revision that has the defaults of a new space, or adds one that is not
// offered.
func (t *transition) setDefaults(e Respace) {
	def := e.Space.Default()
	t.unpark(def.Hash())
	for _, c := range slices.Backward(t.Configurations) {
		if c.State != Lost && c.Hash == def.Hash() {
			t.DefaultRevision = c.Revision
			return
		}
	}
	c := t.add(Publish{Config: def, Origin: FromDefault,
		Reason: fmt.Sprintf("the defaults of scheduler revision %d", e.Number)})
	c.State, t.DefaultRevision = Superseded, c.Revision
}

// defaults is the revision that has the registered defaults.
func (s *State) defaults() *Configuration { return s.Configuration(max(1, s.DefaultRevision)) }

// describe names the changes of a projection.
func describe(changes []space.Change) string {
	var parts []string
	for _, c := range changes[:min(len(changes), 8)] {
		parts = append(parts, fmt.Sprintf("%s %s becomes %s (%s)", c.Param, c.From, c.To, c.Rule))
	}
	if n := len(changes) - len(parts); n > 0 {
		parts = append(parts, fmt.Sprintf("%d more", n))
	}
	return strings.Join(parts, ", ")
}
