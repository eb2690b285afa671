// Package peers is the policies of other simulators unchanged, with
// their clocks, roundings and shortcuts, so that tests can compare results with
// theirs job by job. Only tests import it: the product's policies are in the
// packages of the policies' own names.
//
// Resuming, these policies have no memory.
package peers

import (
	"slices"

	"github.com/autosched/autosched/simulator"
)

// remove takes a job out of a list, which keeps its order.
func remove(list []simulator.ID, j simulator.ID) []simulator.ID {
	i := slices.Index(list, j)
	return slices.Delete(list, i, i+1)
}
