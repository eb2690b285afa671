package round

// Turn runs one simulation, which it may make wait while others have the processors. Decisions must not depend on
// it. Nil runs each at once.
type Turn func(simulate func() error) error

// Run runs a simulation in its turn.
func (t Turn) Run(simulate func() error) error {
	if t == nil {
		return simulate()
	}
	return t(simulate)
}
