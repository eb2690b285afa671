package operate

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestJobs: the commands of jobs, load, tenants and timeline on a running service, in lines of 80 columns.
func TestJobs(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	address, _ := clitest.StartServe(t, t.TempDir())
	call := func(cmd *cobra.Command, args ...string) (string, error) {
		var out bytes.Buffer
		err := clitest.RunClient(t.Context(), cmd, "", &out, append(args, "--server", address, "--timeout", "1m")...)
		return out.String(), err
	}
	if _, err := call(newSchedulerCmd(), "register", "--builtin", "fifo", "--nodes", "2", "--gpus-per-node", "8",
		"--id", "s"); err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	event := func(kind pb.Event_Kind, job string, minute, gpus int, nodes ...string) *pb.Event {
		e := &pb.Event{EventId: kind.String() + job, Kind: kind,
			SchedulerTime: timestamppb.New(begin.Add(time.Duration(minute) * time.Minute)),
			Job:           &pb.JobDetails{JobId: job, Tenant: "vision", User: "ada", MilliGpus: int64(gpus) * 1000}}
		for _, n := range nodes {
			e.Placement = append(e.Placement, &pb.NodePlacement{NodeId: n, Gpus: int32(gpus / len(nodes))})
		}
		return e
	}
	f := cli.ClientFlags{ConnectFlags: cli.ConnectFlags{Server: address}, Timeout: time.Minute}
	if err := f.Call(t.Context(), true, func(ctx context.Context, c *cli.Client) error {
		stream, err := c.Tuning.IngestEvents(ctx)
		if err != nil {
			return err
		}
		if err := stream.Send(&pb.IngestEventsRequest{Parent: "schedulers/s", Sequence: 1, Events: []*pb.Event{
			event(pb.Event_SUBMITTED, "done", 0, 8), event(pb.Event_STARTED, "done", 10, 8, "n1"),
			event(pb.Event_FINISHED, "done", 60, 8), event(pb.Event_SUBMITTED, "ns/runs", 20, 12),
			event(pb.Event_STARTED, "ns/runs", 70, 12, "n1", "n2"), event(pb.Event_SUBMITTED, "waits", 80, 16),
			event(pb.Event_SUBMITTED, "late", 100, 1)}}); err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	svg, html := filepath.Join(dir, "load.svg"), filepath.Join(dir, "timeline.html")
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"load", "s"}, []string{"12 of 16 in use, 17 waited for", "1 run, 2 wait"}},
		{[]string{"job", "explain", "s", "waits"}, []string{"fewer GPUs are free than it asks for", "100.0 %", "predicted ",
			"starts ", "ends ", "futures simulated from 2026-01-05T13:40:00Z"}},
		{[]string{"job", "list", "s", "--limit", "2"}, []string{"late ", "waits ", "... more (--limit)", "waiting"}},
		{[]string{"job", "list", "s", "--filter", "state = RUNNING"}, []string{"ns/runs", " to "}},
		{[]string{"job", "get", "s", "ns/runs"}, []string{"job        ns/runs (running)", "n1 n2", "predicted  runs "}},
		{[]string{"job", "get", "schedulers/s/jobs/ns~2Fruns", "--json"}, []string{`"schema": "autosched.job/v1"`,
			`"predictedRun"`}},
		{[]string{"load", "s", "--forecast", "--plot", svg}, []string{"simulated: the middle of ", "2026-01-05T13:40:00Z"}},
		{[]string{"load", "s", "--forecast", "--json"}, []string{`"schema": "autosched.forecast-load/v1"`}},
		{[]string{"tenants", "s"}, []string{"vision", "12 ", "30 min"}},
		{[]string{"timeline", "s", "--from", "2026-01-05T12:00:00Z", "--parts", "10", "--plot", html},
			[]string{"vision", ".▆▆▆▆▆.███", "parts of 10 min"}},
		{[]string{"timeline", "s", "--by-node", "--json"}, []string{`"schema": "autosched.timeline/v1"`, `"n1"`}},
	} {
		out, err := call(newSchedulerCmd(), c.args...)
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(out, want) {
				t.Errorf("%s lacks %q:\n%s", c.args, want, out)
			}
		}
		if strings.HasPrefix(out, "{") {
			continue
		}
		for line := range strings.Lines(out) {
			if utf8.RuneCountInString(line) > 81 {
				t.Errorf("%s has more than 80 columns:\n%s", c.args, line)
			}
		}
	}
	for _, path := range []string{svg, html} {
		if text, err := os.ReadFile(path); err != nil || !bytes.Contains(text, []byte("<svg")) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, args := range [][]string{{"load", "s", "--plot", svg}, {"job", "get", "s"}, {"job", "list", "s", "--limit", "0"},
		{"job", "get", "s", "none"}, {"timeline", "s", "--plot", "a.txt"}, {"timeline", "s", "--parts", "0"},
		{"timeline", "s", "--limit", "0"}} {
		if out, err := call(newSchedulerCmd(), args...); err == nil {
			t.Errorf("%s is no error:\n%s", args, out)
		}
	}
}

// TestMarks: the marks of a timeline are in order of time.
func TestMarks(t *testing.T) {
	var out bytes.Buffer
	mark := func(hour int, words string) *pb.Timeline_Mark {
		at := time.Date(2026, 1, 5, hour, 0, 0, 0, time.UTC)
		return &pb.Timeline_Mark{StartTime: timestamppb.New(at), Words: words}
	}
	if err := printTimeline(&out, &pb.Timeline{Configurations: []*pb.Timeline_Mark{mark(4, "Revision 2")},
		Findings: []*pb.Timeline_Mark{mark(5, "last"), mark(3, "first")}}); err != nil {
		t.Fatal(err)
	}
	_, marks, _ := strings.Cut(out.String(), "first")
	if text := out.String(); !strings.Contains(marks, "Revision 2") || !strings.HasSuffix(text, "last\n") {
		t.Error(text)
	}
}

// TestStops: a job that stopped says how much it lost, where that is known.
func TestStops(t *testing.T) {
	j := &pb.Job{PreemptionCount: 1}
	for _, c := range []struct {
		lost *durationpb.Duration
		says string
	}{{nil, "stopped    1 time\n"}, {durationpb.New(time.Hour), "stopped    1 time, progress of 1 h lost\n"}} {
		var out bytes.Buffer
		j.LostDuration = c.lost
		if err := printJobFacts(&out, j); err != nil || !strings.Contains(out.String(), c.says) {
			t.Errorf("lacks %q: %v\n%s", c.says, err, out.String())
		}
	}
}

// TestOverQuota: tenants that hold more than their quota are marked.
func TestOverQuota(t *testing.T) {
	var out bytes.Buffer
	if err := printTenants(&out, &pb.ListTenantsResponse{Tenants: []*pb.Tenant{
		{Tenant: "a", QuotaGpus: 8, BusyGpus: 12}, {Tenant: "b", QuotaGpus: 8, BusyGpus: 4}}}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Count(text, "8 over") != 1 || !strings.Contains(text, "over quota: 1 tenant") {
		t.Error(text)
	}
}

// TestQualityPage: the page of graded forecasts says how many hours came within their band, and draws band, forecast
// and what came; nothing is drawn where nothing is graded.
func TestQualityPage(t *testing.T) {
	at := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	band := &pb.ForecastQuality_Band{Low: 2, Middle: 4, High: 9}
	q := &pb.ForecastQuality{StartTime: timestamppb.New(at), EndTime: timestamppb.New(at.Add(2 * time.Hour)),
		Jobs:     &pb.ForecastQuality_Score{HourCount: 2, Coverage: .5},
		GpuHours: &pb.ForecastQuality_Score{HourCount: 2, Coverage: 1},
		Hours: []*pb.ForecastQuality_Hour{{StartTime: timestamppb.New(at), Jobs: band, CameJobs: 3, GpuHours: band},
			{StartTime: timestamppb.New(at.Add(time.Hour)), Jobs: band, CameJobs: 12, GpuHours: band}}}
	p, err := qualityPage("prod", q)
	if err != nil {
		t.Fatal(err)
	}
	want := "50.0 % of 2 hours came within the band of 80 % of the jobs that were forecast an hour ahead."
	if p.Lead != want {
		t.Errorf("%q, want %q", p.Lead, want)
	}
	var out strings.Builder
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{">Jobs of each hour<", ">jobs</text>", ">GPU-hours</text>", ">band of 80 %</text>",
		">hours since 2026-01-05T00:00:00Z</text>"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the page has no %q", part)
		}
	}
	if _, err := qualityPage("prod", &pb.ForecastQuality{NoGradeReason: "no hour has passed"}); err == nil {
		t.Error("ungraded forecasts are drawn")
	}
}
