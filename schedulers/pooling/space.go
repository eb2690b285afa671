package pooling

import "github.com/autosched/autosched/space"

// Space is pooling's parameters.
func Space() []space.Param {
	return []space.Param{
		{ID: "grace", Module: "scheduling", Kind: space.KindDuration, Min: 30, Max: 86400, Log: true, Unit: "s",
			Special: []space.Special{{Value: 0, Name: "at_once", Weight: 0.2}}, Default: space.Num(300),
			Description: "time for which a job that its tenant's quota has room for waits before borrowers are " +
				"stopped for it"},
		{ID: "lend", Module: "admission", Kind: space.KindFloat, Min: 0, Max: 1, Default: space.Num(1),
			Description: "fraction of a quota's idle GPUs that others may borrow"},
		{ID: "guarantee", Module: "admission", Kind: space.KindFloat, Min: 0, Max: 1, Default: space.Num(0),
			Description: "fraction of a quota that is never lent, so that its tenant finds it free"},
		{ID: "weights", Module: "scheduling", Kind: space.KindCategorical,
			Categories: []string{"declared", "quota", "equal"}, Default: space.Text("declared"),
			Description: "by what borrowed GPUs are divided between tenants: the virtual clusters' weights " +
				"(their quotas where none is declared), the quotas, or evenly"},
		{ID: "backfill", Module: "scheduling", Kind: space.KindBool, Default: space.Bool(true),
			Description: "look past a tenant's job that may not start or finds no place, instead of letting it " +
				"block those of the same tenant behind it"},
	}
}
