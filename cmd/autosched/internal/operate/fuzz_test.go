package operate

import (
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli"
)

// FuzzReadScheduler: no file of a registration makes reading it panic.
func FuzzReadScheduler(f *testing.F) {
	f.Add("name: schedulers/s\nspec: {scheduler_type: tiresias, cluster: {nodes: 2, gpus_per_node: 8}}\n")
	f.Add(`{"spec":{"parameters":[{"parameter_id":"a","boolean_value_spec":{}}]}}`)
	f.Add("a: &a [1]\nb: [*a, *a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := cli.ReadScheduler(strings.NewReader(text), "-"); err == nil && s == nil {
			t.Fatal("neither a scheduler nor an error")
		}
	})
}
