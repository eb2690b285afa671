package lucid

import (
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/space"
)

// Native is the options of the simulator that Lucid's authors published: its command line's, and the GPU
// memory of its policy. Its command line takes whole seconds.
var Native = native.Options{
	Comment: "Lucid: options of github.com/S-Lab-System-Group/Lucid, " +
		"simulation/simulator.py (653c85b) and policy/lucid.py (9b9ba89)",
	List: []native.Option{
		{Name: "scheduler", Fixed: space.Text("lucid")},
		{Name: "profiler-auto", Fixed: space.Int(0)},
		{Name: "profiler-scale", Param: "profiler_nodes"},
		{Name: "profiler-time", Param: "profiler_time"},
		{Name: "profiler-factor", Param: "profiler_factor"},
		{Name: "colocate", Param: "share_limit", As: native.Switch(Off)},
		{Name: "GPU_MEMORY_LIMITATION", Param: "memory_limit"},
		{Name: "priority", Param: "priority", Comment: "Not in the release, or numbers in its code:"},
		{Name: "share_limit", Param: "share_limit", As: native.Unless(Off)},
		{Name: "share_when", Param: "share_when"},
		{Name: "share_factor", Param: "share_factor"},
		{Name: "share_load", Param: "share_load"},
	},
}
