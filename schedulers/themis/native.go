package themis

import (
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/space"
)

// Native is the options of the Themis in TitanSched, as Themis's authors published none: those of its command
// line, and the fraction of class ThemisScheduler, which is the share of the jobs that are offered GPUs. Its command
// line takes whole seconds.
var Native = native.Options{
	Comment: "Themis: options of github.com/gaow0007/TitanSched, " +
		"options.py (0043681) and alg/scheduler/themis.py (5d7023c)",
	List: []native.Option{
		{Name: "schedule", Fixed: space.Text("themis")},
		{Name: "lease_term_interval", Param: "lease_term"},
		{Name: "fraction", Param: "fraction", As: native.Complement()},
		{Name: "lease_priority", Param: "lease_priority", Comment: "Not in the release:"},
		{Name: "consolidation_threshold", Param: "consolidation_threshold"},
	},
}
