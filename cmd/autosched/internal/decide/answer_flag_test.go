package decide

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/native"
)

// TestNativeAnswers: the recommendation of tune, evaluate and compare is printed as each scheduler's own file, which
// says the same as their JSON does.
func TestNativeAnswers(t *testing.T) {
	testshared.Full(t)
	verdict := func(text []byte) (json.RawMessage, error) {
		var r struct {
			Verdict struct{ Configuration json.RawMessage }
		}
		err := json.Unmarshal(text, &r)
		return r.Verdict.Configuration, err
	}
	for _, s := range schedulers.All {
		t.Run(s.Name, func(t *testing.T) {
			sameAnswer(t, s, "tune --trace sample --at 2017-10-09T04:00:00Z --budget 3 --futures 1 --horizon 1h --scheduler "+s.Name,
				verdict)
		})
	}
	fifo, err := schedulers.Find("fifo")
	if err != nil {
		t.Fatal(err)
	}
	history := "--trace " + spiral(t, 12, false) + " --nodes 1 --scheduler fifo "
	t.Run("evaluate", func(t *testing.T) { sameAnswer(t, fifo, "evaluate "+history+"--set backfill=false", verdict) })
	t.Run("compare", func(t *testing.T) {
		sameAnswer(t, fifo, "compare "+history+"--row fifo --row other=fifo:backfill=true", verdict)
	})
	for args, want := range map[string]string{
		"tune --trace sample --at 0 --print yaml":          `--print: "yaml" is not one of text, native`,
		"evaluate --trace sample --print native --json":    "exclude each other",
		"compare --trace sample --print native --json":     "exclude each other",
		"tune --trace sample --at 0 --print native --json": "exclude each other",
	} {
		if code, _, errs := clitest.Run(strings.Fields(args)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s", args, code, errs)
		}
	}
}

func sameAnswer(t *testing.T, s *schedulers.Scheduler, args string,
	answer func(text []byte) (json.RawMessage, error)) {
	t.Helper()
	code, out, errs := clitest.Run(strings.Fields(args + " --json")...)
	if code != 0 {
		t.Fatalf("%s: %s", args, errs)
	}
	text, err := answer([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	want, err := s.Space.ParseJSON(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if code, out, errs = clitest.Run(strings.Fields(args + " --print native")...); code != 0 {
		t.Fatalf("%s: %s", args, errs)
	}
	values, err := s.Form().Parse([]byte(out))
	if err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if got, err := native.Config(s.Space, values); err != nil || !got.Equal(want) {
		t.Errorf("%s: %v, %s, want %s", args, err, got, want)
	}
}
