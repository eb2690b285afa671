package waste

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli/clitest"
)

// sendEvent has the service store an event of the scheduler prod.
func sendEvent(t *testing.T, address string, kind pb.Event_Kind, at time.Time, job *pb.JobDetails,
	places ...*pb.NodePlacement) {
	t.Helper()
	clitest.SendEventID(t, address, kind.String(), kind, at, job, places...)
}

// TestFindingsInTheService: a job that never uses its GPUs is found, people judge the finding, it is the same one
// after a restart, closes when the job ends, and a webhook receives the findings that are not snoozed.
func TestFindingsInTheService(t *testing.T) {
	dir := t.TempDir()
	posts := make(chan string, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var n struct {
			Event, Scheduler, Rule string
			Entity                 struct{ Kind, Name string }
		}
		if err := json.Unmarshal(body, &n); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		posts <- strings.Join([]string{n.Event, n.Scheduler, n.Rule, n.Entity.Kind, n.Entity.Name}, " ")
	}))
	defer hook.Close()
	address, stop := clitest.StartServe(t, dir, "--findings-webhook", hook.URL)
	must := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		root := clitest.NewRoot()
		if err := clitest.RunClient(t.Context(), root, "", &out, append(args, "--server", address)...); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return out.String()
	}
	must("scheduler", "register", "--builtin", "fifo", "--nodes", "2", "--gpus-per-node", "8", "--id", "prod")
	began := time.Date(2025, 3, 3, 9, 0, 0, 0, time.UTC)
	send := func(kind pb.Event_Kind, at time.Duration, job *pb.JobDetails) {
		t.Helper()
		sendEvent(t, address, kind, began.Add(at), job)
	}
	files := 0
	sample := func(job string, from, to time.Duration, busy int) {
		t.Helper()
		var text strings.Builder
		text.WriteString("time,node,gpu,utilization_percent,job\n")
		for at := from; at < to; at += 30 * time.Second {
			fmt.Fprintf(&text, "%s,n1,0,%d,%s\n", began.Add(at).Format(time.RFC3339), busy, job)
		}
		files++
		path := filepath.Join(dir, fmt.Sprintf("gpus-%d.csv", files))
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		must("telemetry", "import", "prod", path)
	}
	listed := func(want string) string {
		t.Helper()
		out := ""
		for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
			out = must("scheduler", "findings", "list", "prod", "--rule", "idle_allocation")
			if regexp.MustCompile(want).MatchString(out) {
				return out
			}
		}
		t.Fatalf("want %s:\n%s", want, out)
		return ""
	}
	send(pb.Event_SUBMITTED, 0, &pb.JobDetails{JobId: "7", Tenant: "vision", MilliGpus: 1000})
	send(pb.Event_STARTED, time.Minute, &pb.JobDetails{JobId: "7"})
	sample("7", time.Minute, 3*time.Hour, 0)
	out := listed(`(?m)^[0-9a-f]{16} .*idle_allocation +job/7 +open `)
	id := "prod/" + regexp.MustCompile(`(?m)^[0-9a-f]{16}`).FindString(out)
	if out := must("scheduler", "findings", "show", id); !strings.Contains(out, "evidence") ||
		!strings.Contains(out, "vision") {
		t.Errorf("%s", out)
	}
	if out := must("scheduler", "findings", "false-positive", id, "--reason",
		"by design"); !strings.Contains(out, "by design") {
		t.Errorf("%s", out)
	}
	out = must("scheduler", "findings", "ack", id, "--reason", "asked", "--json")
	if !strings.HasPrefix(strings.ReplaceAll(out, " ", ""), "{\n\"schema\":\"autosched.finding/v1\"") {
		t.Errorf("%s", out)
	}
	stop()
	address, stop = clitest.StartServe(t, dir, "--findings-webhook", hook.URL)
	listed(`(?m)^` + id[5:] + ` .* open, acknowledged `)
	sample("7", 3*time.Hour, 3*time.Hour+10*time.Minute, 0)
	if out := listed(`idle_allocation +1 +1 .* 1 +0 +1.00`); strings.Count(out, "job/7") != 1 {
		t.Errorf("%s", out)
	}
	out = must("scheduler", "findings", "list", "prod", "--state", "closed", "--entity", "job/7")
	if !strings.Contains(out, "no findings") {
		t.Errorf("%s", out)
	}
	must("scheduler", "findings", "snooze", id, "--until", time.Now().Add(time.Hour).Format(time.RFC3339))
	listed(`open, snoozed, acknowledged`)
	out = must("admin", "audit", "list", "prod", "--json")
	for _, want := range []string{`"verb": *"MarkFalsePositive"[^}]*"reason": *"by design"`,
		`"verb": *"AcknowledgeFinding"[^}]*"reason": *"asked"`, `"verb": *"SnoozeFinding"`,
		`"findings/` + id[5:] + `.false_positive"`, `"findings/` + id[5:] + `.acknowledged"`,
		`"findings/` + id[5:] + `.snoozed"`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("the audit log lacks %s: %s", want, out)
		}
	}
	err := clitest.RunClient(t.Context(), newFindingsCmd(), "", io.Discard,
		"ack", id, "--reason", strings.Repeat("x", 129), "--server", address)
	if err == nil || !strings.Contains(err.Error(), "reason: is longer than 128 bytes") {
		t.Errorf("a reason of 129 bytes: %v", err)
	}
	stop()
	address, _ = clitest.StartServe(t, dir)
	send(pb.Event_FINISHED, 4*time.Hour, &pb.JobDetails{JobId: "7", EndStatus: pb.JobDetails_COMPLETED})
	sample("", 4*time.Hour, 4*time.Hour+20*time.Minute, 0)
	if out := listed(`(?m)^` + id[5:] + ` .* closed, acknowledged `); strings.Count(out, "job/7") != 1 {
		t.Errorf("%s", out)
	}
	select {
	case got := <-posts:
		if got != "opened prod idle_allocation job 7" {
			t.Errorf("posted %q", got)
		}
	case <-time.After(2 * time.Minute):
		t.Error("nothing is posted")
	}
	if len(posts) > 0 {
		t.Errorf("posted %q, too", <-posts)
	}
	for _, args := range []string{"list prod --state x", "list prod --limit 0", "list prod --entity 7", "show 7",
		"snooze " + id + " --until tomorrow", "false-positive " + id, "show prod/0000000000000000", "show prod/x",
		"snooze " + id + " --until 2001-01-01T00:00:00Z", "list none"} {
		if err := clitest.RunClient(t.Context(), newFindingsCmd(), "", io.Discard, append(strings.Fields(args), "--server",
			address)...); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
}

// TestFindingsRules: a service applies the rules of a file, counts costs by a price of its own, or that
// of the power model, and --check-settings reads the file.
func TestFindingsRules(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rules := file("rules.yaml", `version: 1
rules:
  - id: failed
    title: A user's job failed
    group_by: [user]
    set:
      window: 1h
      match: [{event: job.ended, status: [failed]}]
    quiet: 24h
    waste: runs
    action: notify_owner
    words: A job of {entity} failed.
`)
	power := file("power.yaml", "constants:\n  gpu_hour_price: {low: 2, middle: 3, high: 4, unit: $, source: a site}\n")
	energy := file("energy.yaml", "power: "+power+"\n")
	for _, c := range []struct {
		flags []string
		cost  string
	}{
		{[]string{"--findings-price", "2"}, "4.00"},
		{[]string{"--energy-file", energy}, "6.00"},
		{[]string{"--energy-file", energy, "--findings-price", "0.5"}, "1.00"},
		{nil, "-"},
	} {
		dir := t.TempDir()
		address, stop := clitest.StartServe(t, dir, append(c.flags, "--findings-rules", rules)...)
		must := func(args ...string) string {
			t.Helper()
			var out bytes.Buffer
			if err := clitest.RunClient(t.Context(), clitest.NewRoot(), "", &out,
				append(args, "--server", address)...); err != nil {
				t.Fatalf("%v: %v", args, err)
			}
			return out.String()
		}
		must("scheduler", "register", "--builtin", "fifo", "--nodes", "2", "--gpus-per-node", "8", "--id", "prod")
		began := time.Date(2025, 3, 3, 9, 0, 0, 0, time.UTC)
		job := &pb.JobDetails{JobId: "7", User: "ann", MilliGpus: 2000, EndStatus: pb.JobDetails_FAILED}
		sendEvent(t, address, pb.Event_SUBMITTED, began, job)
		sendEvent(t, address, pb.Event_STARTED, began, job)
		sendEvent(t, address, pb.Event_FINISHED, began.Add(time.Hour), job)
		clitest.SendEventID(t, address, "later", pb.Event_SUBMITTED, began.Add(2*time.Hour),
			&pb.JobDetails{JobId: "8", MilliGpus: 1000})
		want := regexp.MustCompile(`failed +user/ann +\S+ +2\.0 +` + c.cost + ` `)
		out := ""
		for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
			if out = must("scheduler", "findings", "list", "prod"); want.MatchString(out) {
				break
			}
		}
		if !strings.Contains(out, "\nRULE    OPENED  OPEN  GPU-HOURS OF OPEN  COST OF OPEN ") {
			t.Errorf("%v: %s", c.flags, out)
		}
		if !want.MatchString(out) || !regexp.MustCompile(`(?m)^failed +1 +1 +2.0 +`+c.cost+` `).MatchString(out) {
			t.Errorf("%v: %s", c.flags, out)
		}
		id := "prod/" + regexp.MustCompile(`(?m)^[0-9a-f]{16}`).FindString(out)
		if shown := must("scheduler", "findings", "show", id); strings.Contains(shown,
			"cost") != (c.cost != "-") {
			t.Errorf("%v: %s", c.flags, shown)
		}
		stop()
	}
	bad := file("bad.yaml", "version: 1\nrules:\n  - id: failed\n    colour: red\n")
	for args, want := range map[string]string{
		"--findings-rules " + bad:           "--findings-rules: " + bad + ": yaml: unmarshal errors:\n  line 4: field colour",
		"--findings-rules " + dir + "/none": "--findings-rules: ",
		"--findings-price -1":               "--findings-price: -1 is not from 0 to 1e9",
	} {
		line := "serve --check-settings --dir " + dir + " " + args
		code, out, errs := clitest.Run(strings.Fields(line)...)
		if code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s%s", args, code, out, errs)
		}
	}
}

// TestStragglerInTheService: the times of training steps that are imported show a slow worker, also where the service
// was restarted between two parts of them.
func TestStragglerInTheService(t *testing.T) {
	dir := t.TempDir()
	address, stop := clitest.StartServe(t, dir)
	must := clitest.ClientOf(t, &address)
	must("scheduler", "register", "--builtin", "fifo", "--nodes", "2", "--gpus-per-node", "8", "--id", "prod")
	began := time.Date(2025, 3, 3, 9, 0, 0, 0, time.UTC)
	job := &pb.JobDetails{JobId: "7", Tenant: "vision", MilliGpus: 4000}
	sendEvent(t, address, pb.Event_SUBMITTED, began, job)
	sendEvent(t, address, pb.Event_STARTED, began, job)
	steps := func(from, to int) string {
		t.Helper()
		text := "job,worker,step,seconds,time\n"
		for k := from; k < to; k++ {
			for w := range 4 {
				took := 1.
				if w == 2 && k < 6 { // no part alone shows it
					took = 1.5
				}
				at := began.Add(time.Duration(k) * 20 * time.Second).Format(time.RFC3339)
				text += fmt.Sprintf("7,%d,%d,%g,%s\n", w, k, took, at)
			}
		}
		path := filepath.Join(dir, "steps.csv")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for range 2 { // the second time changes nothing
		if out := must("telemetry", "import", "prod", steps(0, 4)); !strings.Contains(out, "16 iterations stored") {
			t.Errorf("%s", out)
		}
	}
	stop()
	address, _ = clitest.StartServe(t, dir)
	if out := must("scheduler", "findings", "list", "prod"); !strings.Contains(out, "no findings") {
		t.Errorf("%s", out)
	}
	must("telemetry", "import", "prod", steps(4, 20))
	out := ""
	want := regexp.MustCompile(`straggler +worker/7/2 +open `)
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if out = must("scheduler", "findings", "list", "prod"); want.MatchString(out) {
			break
		}
	}
	if !want.MatchString(out) || strings.Count(out, " open ") != 1 {
		t.Errorf("%s", out)
	}
	path := filepath.Join(dir, "steps.csv")
	if err := os.WriteFile(path, []byte("job,worker,step,seconds,time\n7,0,99,1,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := clitest.RunClient(t.Context(), clitest.NewRoot(), "", io.Discard, "telemetry", "import", "prod", path, "--server",
		address)
	if err == nil || !strings.Contains(err.Error(), `step 99 of worker 0 of job "7": end_time: is required`) {
		t.Errorf("a step without a time: %v", err)
	}
}

// TestJobsOfGPUsInTheService: samples that name no job are joined to jobs whose GPUs events number, and a job with a
// label that a rule names is left out.
func TestJobsOfGPUsInTheService(t *testing.T) {
	dir := t.TempDir()
	address, stop := clitest.StartServe(t, dir)
	must := clitest.ClientOf(t, &address)
	must("scheduler", "register", "--builtin", "fifo", "--nodes", "1", "--gpus-per-node", "8", "--id", "prod")
	began := time.Date(2025, 3, 3, 9, 0, 0, 0, time.UTC)
	for id, x := range map[string]struct {
		gpus   []int32
		labels []string
	}{"7": {[]int32{2, 0}, nil}, "8": {[]int32{1}, []string{"debug", "idle-ok"}}} {
		job := &pb.JobDetails{JobId: id, Tenant: "vision", MilliGpus: 1000 * int64(len(x.gpus)), RuleLabels: x.labels}
		clitest.SendEventID(t, address, id+"s", pb.Event_SUBMITTED, began, job)
		clitest.SendEventID(t, address, id+"b", pb.Event_STARTED, began, job,
			&pb.NodePlacement{NodeId: "n1", Gpus: int32(len(x.gpus)), GpuIndexes: x.gpus})
	}
	stop() // the store has them
	address, _ = clitest.StartServe(t, dir)
	text := "time,node,gpu,utilization_percent\n"
	for at := time.Minute; at < 3*time.Hour; at += 30 * time.Second {
		for g := range 8 {
			text += fmt.Sprintf("%s,n1,%d,0\n", began.Add(at).Format(time.RFC3339), g)
		}
	}
	path := filepath.Join(dir, "gpus.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	must("telemetry", "import", "prod", path)
	out := ""
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if out = must("scheduler", "findings", "list", "prod"); strings.Contains(out, "job/7") {
			break
		}
	}
	if !regexp.MustCompile(`idle_allocation +job/7 +open `).MatchString(out) || strings.Contains(out, "job/8") {
		t.Errorf("%s", out)
	}
}

// TestOutOfMemoryInTheService: the end of a job for lack of memory is stored, and confirms after a restart that the
// memory was nearly full; an end that says only that it failed does not.
func TestOutOfMemoryInTheService(t *testing.T) {
	for end, want := range map[pb.JobDetails_EndStatus]string{
		pb.JobDetails_OUT_OF_MEMORY: `(?s)confidence +0\.95.*job\.ended out_of_memory`,
		pb.JobDetails_FAILED:        `confidence +0\.[0-8]`,
	} {
		dir := t.TempDir()
		address, stop := clitest.StartServe(t, dir)
		must := clitest.ClientOf(t, &address)
		must("scheduler", "register", "--builtin", "fifo", "--nodes", "1", "--gpus-per-node", "1", "--id", "prod")
		began := time.Date(2025, 3, 3, 9, 0, 0, 0, time.UTC)
		sample := func(from, to time.Duration, used int) {
			t.Helper()
			text := "time,node,gpu,memory_used_mib,memory_total_mib\n"
			for at := from; at < to; at += 15 * time.Second {
				text += fmt.Sprintf("%s,n1,0,%d,100\n", began.Add(at).Format(time.RFC3339), used)
			}
			path := filepath.Join(dir, "gpus.csv")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			must("telemetry", "import", "prod", path)
		}
		job := &pb.JobDetails{JobId: "7", Tenant: "vision", MilliGpus: 1000}
		sendEvent(t, address, pb.Event_SUBMITTED, began, job)
		sendEvent(t, address, pb.Event_STARTED, began, job, &pb.NodePlacement{NodeId: "n1", Gpus: 1})
		sample(0, 20*time.Minute, 95)
		sendEvent(t, address, pb.Event_FINISHED, began.Add(20*time.Minute), &pb.JobDetails{JobId: "7", EndStatus: end})
		stop()
		address, _ = clitest.StartServe(t, dir)
		sample(20*time.Minute, 40*time.Minute, 0)
		out, closed := "", regexp.MustCompile(`(?m)^([0-9a-f]{16}) .*memory_pressure +gpu/n1:0 +closed `)
		for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
			if out = must("scheduler", "findings", "list", "prod"); closed.MatchString(out) {
				break
			}
		}
		found := closed.FindStringSubmatch(out)
		if found == nil {
			t.Fatalf("%v: %s", end, out)
		}
		if out := must("scheduler", "findings", "show",
			"prod/"+found[1]); !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%v: %s", end, out)
		}
	}
}
