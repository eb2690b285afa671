package simulator

import "time"

// Round is the decision grid of the run, 0 for decisions at every event.
func (s *Sim) Round() time.Duration { return s.opts.Round }
