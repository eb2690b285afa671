package agent

import (
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/workload"
)

// Message is the message that an agent sends of an event whose times count from the zero of a workload, nil if it
// sends none.
func Message(e workload.Event, w *workload.Workload) *pb.Event {
	a := &agent{o: Options{Workload: w}, chance: (&Faults{}).chance(1), instances: []*instance{{}}}
	if a.collect(e); a.fault != nil {
		return nil
	}
	return a.batch[0]
}
