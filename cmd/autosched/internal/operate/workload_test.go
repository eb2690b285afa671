package operate

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// TestWorkload: a future and jobs that ended are generated, a trace is uploaded; the service keeps them over a restart,
// simulates values on them, and gives them back as traces that simulate reads.
func TestWorkload(t *testing.T) {
	testshared.Full(t)
	dir := t.TempDir()
	address, stop := clitest.StartServe(t, dir)
	called := func(stdin string, args ...string) (string, error) {
		t.Helper()
		var out bytes.Buffer
		root := clitest.NewRoot()
		err := clitest.RunClient(t.Context(), root, stdin, &out, append(args, "--server", address)...)
		return out.String(), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := called("", args...)
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return out
	}
	must("scheduler", "register", "--builtin", "tiresias", "--nodes", "2", "--gpus-per-node", "8", "--id", "prod")
	began := time.Date(2025, 3, 3, 9, 0, 0, 0, time.UTC)
	send := func(kind pb.Event_Kind, at time.Duration, job *pb.JobDetails) {
		t.Helper()
		clitest.SendEventID(t, address, kind.String()+job.GetJobId(), kind, began.Add(at), job)
	}
	for i, id := range []string{"1", "2", "3"} {
		at := time.Duration(i) * 10 * time.Minute
		send(pb.Event_SUBMITTED, at, &pb.JobDetails{JobId: id, MilliGpus: 4000})
		send(pb.Event_STARTED, at, &pb.JobDetails{JobId: id})
	}
	send(pb.Event_FINISHED, 30*time.Minute, &pb.JobDetails{JobId: "1", EndStatus: pb.JobDetails_COMPLETED})
	out := must("scheduler", "workload", "generate", "prod/tonight", "--label", "team=a", "--reason", "a try")
	if !regexp.MustCompile(`origin +generated, future 0 from 2025-03-03T09:30:00Z on, .* 2 active jobs`).MatchString(out) {
		t.Errorf("%s", out)
	}
	if out := must("scheduler", "workload", "generate", "prod/past", "--ended"); !regexp.MustCompile(
		`(?s)origin +historical.*jobs +1, 4 GPUs, 2 GPU-hours`).MatchString(out) {
		t.Errorf("%s", out)
	}
	file := filepath.Join(dir, "jobs.csv")
	text := "job_id,submit_time,duration_s,gpus\na,2025-03-03T09:00:00Z,3600,8\nb,2025-03-03T09:10:00Z,x,1\n" +
		"c,2025-03-03T09:20:00Z,60,8\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := must("scheduler", "workload", "upload", "prod/july", file); !strings.Contains(out, file+":3: duration_s: ") ||
		!strings.Contains(out, "uploaded, 1 row rejected") {
		t.Errorf("%s", out)
	}
	if _, err := called(text, "scheduler", "workload", "upload", "prod/strict", "-",
		"--strict"); err == nil ||
		!strings.Contains(err.Error(), "duration_s") {
		t.Errorf("strict: %v", err)
	}
	csv := must("scheduler", "workload", "download", "prod/tonight")
	stop()
	address, _ = clitest.StartServe(t, dir)
	if out := must("scheduler", "workload", "list", "prod", "--order-by",
		"create_time"); !regexp.MustCompile(
		`(?s)prod/tonight +generated.*prod/past +historical.*prod/july +uploaded +2 `).MatchString(out) {
		t.Errorf("%s", out)
	}
	if again := must("scheduler", "workload", "download", "prod/tonight"); again != csv {
		t.Errorf("after a restart:\n%s\nbefore:\n%s", again, csv)
	}
	again := must("scheduler", "workload", "generate", "prod/again")
	if !strings.Contains(csv, "job_id") || must("scheduler", "workload", "download", "prod/again") != csv {
		t.Errorf("the same future of the same events has other jobs:\n%s", again)
	}
	path := filepath.Join(dir, "tonight.csv.gz")
	must("scheduler", "workload", "download", "prod/tonight", "--out", path)
	var result struct {
		Jobs int `json:"jobs"`
	}
	code, report, errs := clitest.Run("simulate", "--trace", path, "--scheduler", "tiresias", "--json")
	if err := json.Unmarshal([]byte(report), &result); code != 0 || err != nil || result.Jobs < 2 {
		t.Errorf("exit %d: %s %s", code, report, errs)
	}
	out = must("scheduler", "what-if", "prod", "--set", "queues=2", "--workload", "july", "--workload", "prod/tonight")
	if !strings.Contains(out, "on prod/july, prod/tonight") || !strings.Contains(out, "ratio ") {
		t.Errorf("%s", out)
	}
	if _, err := called("", "scheduler", "what-if", "prod", "--set", "queues=2", "--workload", "none"); err == nil ||
		!strings.Contains(err.Error(), `workload "none"`) {
		t.Errorf("%v", err)
	}
	must("scheduler", "workload", "delete", "prod/july")
	out = must("scheduler", "workload", "list", "prod", "--filter", "origin = UPLOADED")
	if !strings.Contains(out, "no workloads") {
		t.Errorf("%s", out)
	}
	if out := must("admin", "audit", "list", "prod"); !strings.Contains(out, "DeleteWorkload") ||
		!strings.Contains(out, "a try") {
		t.Errorf("%s", out)
	}
}
