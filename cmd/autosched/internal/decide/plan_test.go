package decide

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// TestPlan: the page on capacity has the output of the command.
func TestPlan(t *testing.T) {
	testshared.Full(t)
	args := []string{"plan", "--trace", "sample", "--scheduler", "tiresias", "--subject-to", "p95_queue<=6h"}
	code, out, errs := clitest.Run(args...)
	if code != 0 {
		t.Fatal(errs)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "compare.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for line := range strings.SplitSeq(out, "\n") {
		if strings.Contains(line, " .. ") && !strings.Contains(line, "(synthetic)") {
			shown++
			if !strings.Contains(string(page), "    "+strings.TrimRight(line, " ")+"\n") {
				t.Errorf("docs/compare.md does not have:\n%s", line)
			}
		}
	}
	if shown != 5 {
		t.Errorf("%d lines with intervals in\n%s", shown, out)
	}
	code, out, errs = clitest.Run(append(args, "--json")...)
	var r planReport
	if code != 0 || json.Unmarshal([]byte(out), &r) != nil || r.Answer == nil || r.Answer.Nodes < r.Answer.Low ||
		r.Answer.Nodes > r.Answer.High || len(r.Cases) != 4 || len(r.Assumptions) == 0 {
		t.Errorf("exit %d, %s\n%s", code, errs, out)
	}
}

func TestPlanMisuse(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--subject-to p95_queue<1h", "--subject-to"},
		{"--subject-to joy<=1", "joy"},
		{"--subject-to tenant_p95_queue<=1.1*incumbent", "--subject-to: tenant_p95_queue<=1.1*incumbent is of tenants"},
		{"--move-quota a:b", "--move-quota"},
		{"--move-quota a:b:none --vc a=1 --quota strict", "is not a number of GPUs"},
		{"--move-quota a:a:1 --vc a=1 --quota strict", "names one tenant twice"},
		{"--move-quota a:b:1", "--move-quota needs quotas"},
		{"--node-group A100", "--node-group"},
	} {
		code, _, errs := clitest.Run(append([]string{"plan", "--trace", "sample"}, strings.Fields(c.args)...)...)
		if code != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("plan %s: exit %d, %s; want %s", c.args, code, errs, c.want)
		}
	}
}
