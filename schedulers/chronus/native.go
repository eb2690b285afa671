package chronus

import (
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/space"
)

// Native is the options of the simulator that Chronus's authors published. Its command line takes whole seconds.
var Native = native.Options{
	Comment: "Chronus: options of github.com/S-Lab-System-Group/ChronusArtifact, code/options.py (ba6240a)",
	List: []native.Option{
		{Name: "schedule", Fixed: space.Text("time-aware-with-lease")},
		{Name: "lease_term_interval", Param: "lease_term"},
		{Name: "slo_gpus", Param: "slo_gpus", Comment: "Not in the release:"},
		{Name: "slo_share", Param: "slo_share"},
		{Name: "slo_factor", Param: "slo_factor"},
	},
}
