package cli_test

import (
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/replay"
)

// TestEvictionsOnce: a verdict names evictions once, in its text where there are more and after it where there are not.
func TestEvictionsOnce(t *testing.T) {
	for _, after := range []int{1, 3, 5} {
		e := &replay.EvictionsChange{Before: replay.Evictions{Number: 3}, After: replay.Evictions{Number: after}}
		v := replay.Verdict{Change: true, Text: "Change once: a=b.", Evictions: e, Changes: []replay.SettingChange{{}}}
		if after > 3 {
			v.Text = "Change once: a=b, which " + e.String() + "."
		}
		var out strings.Builder
		if err := cli.PrintVerdict(&out, &v); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "evicts jobs"); n != 1 {
			t.Errorf("%d evictions are named %d times: %s", after, n, &out)
		}
	}
}
