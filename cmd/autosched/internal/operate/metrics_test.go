package operate

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestMetrics: the result of a study is approved, the scheduler reports that it waits longer by it, and the last good
// values come back. An operator sees all of it.
func TestMetrics(t *testing.T) {
	dir := t.TempDir()
	address, stop := clitest.StartServe(t, filepath.Join(dir, "service"))
	call := func(line string) (string, error) {
		args := strings.Fields(line)
		var out bytes.Buffer
		err := clitest.RunClient(t.Context(), clitest.NewRoot(), "", &out, append(args, "--server", address)...)
		return out.String(), err
	}
	must := func(line string, want ...string) {
		t.Helper()
		out, err := call(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: %q is not in\n%s", line, w, out)
			}
		}
	}
	space := filepath.Join(dir, "space.yaml")
	text := "parameters: [{id: x, kind: float, min_value: 0, max_value: 1, default_value: 0.5}]\n"
	if err := os.WriteFile(space, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	must("scheduler register --id mine --objective wait --nodes 1 --gpus-per-node 8 --mode auto --space " + space)
	must("scheduler config ack mine --revision 1 --outcome applied")
	report := func(revision int64, from time.Time, value float64) {
		t.Helper()
		req := &pb.ReportMetricsRequest{Parent: "schedulers/mine"}
		for i := range 30 {
			req.Reports = append(req.Reports, &pb.MetricReport{ConfigurationRevision: revision,
				SchedulerTime: timestamppb.New(from.Add(time.Duration(i) * 5 * time.Minute)),
				Metrics:       map[string]float64{"wait": value + float64(i%4)}})
		}
		f := cli.ClientFlags{ConnectFlags: cli.ConnectFlags{Server: address}, Timeout: time.Minute}
		err := f.Call(t.Context(), false, func(ctx context.Context, c *cli.Client) error {
			stream, err := c.Metrics.ReportMetrics(ctx)
			if err != nil {
				return err
			}
			if err := stream.Send(req); err != nil {
				return err
			}
			got, err := stream.Recv()
			if err == nil && got.GetAcceptedCount() != 30 {
				err = fmt.Errorf("%v", got)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	noon := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	report(1, noon, 100)
	must("study create mine/first --sampler sobol --trial-budget 5")
	must("study trial add mine/first --set x=0.1 wait=90")
	must("study propose mine/first --trial 1")
	must("scheduler config approve mine")
	must("scheduler config ack mine --revision 2 --outcome applied")
	must("scheduler get mine", "revision 2 is watched once wait is reported in 24 intervals")
	report(2, noon.Add(3*time.Hour), 200)
	must("scheduler config get mine --revision 2", "reported", "wait 201.433", "revision 1: 101.433", "in 30 reports",
		"incident")
	must("scheduler config get mine", "revision 3", "worse by more than 5 %, with a confidence of 99.9 %")
	must("scheduler config parked mine", "2")
	must("scheduler metrics report mine --revision 3 --event-time 2026-01-05T20:00:00Z --instance a wait=7 jobs=3", "stored")
	must("scheduler metrics report mine --revision 3 --event-time 2026-01-05T20:00:00Z --instance a wait=8", "counts once")
	must("scheduler metrics report mine --revision 3 --event-time 2025-01-05T20:00:00Z wait=8", "not stored")
	stop()
	address, _ = clitest.StartServe(t, filepath.Join(dir, "service"))
	must("scheduler config get mine --revision 2", "reported", "wait 201.433", "in 30 reports")
	for line, want := range map[string]string{
		"scheduler metrics report mine --revision 9 wait=1":   "9 is not a revision",
		"scheduler metrics report mine --revision 3 wait":     "METRIC=VALUE",
		"scheduler metrics report mine --revision 3":          "at least one",
		"scheduler metrics report none --revision 3 wait=1":   "none",
		"scheduler metrics report mine --revision 3 wait=NaN": "is not a number",
	} {
		if _, err := call(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", line, err, want)
		}
	}
}
