package synth

import (
	"encoding/json"
	"testing"

	"github.com/autosched/autosched/workload"
)

// FuzzRecipe: no recipe makes its check panic.
func FuzzRecipe(f *testing.F) {
	f.Add([]byte(`{"days":2,"parts":[{"profile":"philly","scale":1}],"shift_h":3,"shift_from_day":1}`))
	f.Fuzz(func(_ *testing.T, text []byte) {
		var r Recipe
		if json.Unmarshal(text, &r) == nil {
			_ = r.check(workload.Uniform(4, 8))
		}
	})
}
