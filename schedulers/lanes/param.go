package lanes

import "github.com/autosched/autosched/space"

// BackfillParam is the parameter of the schedulers that are a Line.
func BackfillParam() space.Param {
	return space.Param{ID: "backfill", Module: "scheduling", Kind: space.KindBool, Default: space.Bool(false),
		Description: "look past a job that finds no place instead of letting it block those behind it"}
}
