package browser

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// began is the event time of the first job of the tests that send many.
var began = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// sendJobs sends the events of jobs that start when they are submitted, in requests of 1000 jobs.
func sendJobs(t *testing.T, s *service, id string, jobs int, job func(i int) (tenant, node string, at,
	ran time.Duration)) {
	t.Helper()
	var body bytes.Buffer
	send := func() {
		resp, err := http.Post(s.pages+"/v1/events:ingest", "application/x-ndjson", &body)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // read whole
		if err != nil || resp.StatusCode != http.StatusOK || bytes.Contains(text, []byte("rejectedEvents")) {
			t.Fatalf("%s: %.500s %v", resp.Status, text, err)
		}
		body.Reset()
	}
	for i := range jobs {
		if i%200 == 0 {
			fmt.Fprintf(&body, `{"parent":"schedulers/%s","events":[`, id)
		}
		tenant, node, at, ran := job(i)
		stamp := func(d time.Duration) string { return began.Add(d).Format(time.RFC3339Nano) }
		fmt.Fprintf(&body, `{"eventId":"s%d","kind":"SUBMITTED","schedulerTime":%q,"job":{"jobId":"j%[1]d","tenant":%[3]q,`+
			`"milliGpus":"2000"}},{"eventId":"r%[1]d","kind":"STARTED","schedulerTime":%[2]q,"job":{"jobId":"j%[1]d"},`+
			`"placement":[{"nodeId":%[4]q,"gpus":2}]},{"eventId":"f%[1]d","kind":"FINISHED","schedulerTime":%[5]q,`+
			`"job":{"jobId":"j%[1]d","endStatus":"COMPLETED"}}`, i, stamp(at), tenant, node, stamp(at+ran))
		if i%200 == 199 || i == jobs-1 {
			body.WriteString("]}\n")
		} else {
			body.WriteString(",")
		}
		if i%1000 == 999 || i == jobs-1 {
			send()
		}
	}
}

// TestQualityPages: forecasts and energy without an event and without a power model, and of jobs of ten days, with a
// tenant of a hostile name.
func TestQualityPages(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir, "127.0.0.1:0", "127.0.0.1:0")
	s.call(t, "scheduler", "register", "--builtin", "fifo", "--id", "demo", "--nodes", "4", "--gpus-per-node", "8",
		"--interval", "24h")
	s.call(t, "scheduler", "pause", "demo", "--reason", "the test")
	p := open(t, s)
	p.visit(s.pages + "/schedulers/demo/forecast")
	p.check("registered-forecast", "(?s)Nothing is graded yet.*no events yet.*No revision of a round was in force")
	p.visit(s.pages + "/schedulers/demo/energy")
	p.check("registered-energy", "(?s)The energy is not known.*no power model.*--energy-file")
	s.stop()
	s = serve(t, dir, "127.0.0.1:0", "127.0.0.1:0", "--energy-file", "../../examples/energy/service.yaml")
	p = open(t, s)
	tenants := []string{"a", "b", `<img src=/x onerror=alert(1)>`}
	at := time.Duration(0)
	sendJobs(t, s, "demo", 900, func(i int) (string, string, time.Duration, time.Duration) {
		at += time.Duration((1.3 + math.Cos(at.Hours()/24*2*math.Pi)) * float64(4+i*7919%17) * float64(time.Minute))
		return tenants[i%3], fmt.Sprint("n", i%4), at, time.Duration(10+i*104729%120) * time.Minute
	})
	p.visit(s.pages + "/schedulers/demo/forecast")
	p.check("forecast", "(?s)came within the band of 80 %.*all hours of the 7 days that can be graded.*Jobs by hour.*came.*Run times.*Median error.*"+
		"Earlier promises")
	p.do(chromedp.Focus(".chart svg[role=img]"), chromedp.KeyEvent(kb.End))
	p.sees(`forecast [\d.]+ \([\d.]+ to [\d.]+\); came \d+`)
	p.visit(s.pages + "/schedulers/demo/forecast?days=1")
	p.sees("of 24 hours came")
	if strings.Contains(p.text(), "that can be graded") {
		t.Errorf("a whole day is said to be cut:\n%s", p.text())
	}
	p.visit(s.pages + "/schedulers/demo/energy")
	p.check("energy", "(?s)kWh, of which idle nodes have.*Modelled GPU-hours.*100.%.*Power by hour.*Tenants.*b.*Jobs.*"+
		"Constants")
	if js[int](p, `document.querySelectorAll("img").length`) > 0 {
		t.Error("a name became an element")
	}
	p.visit(s.pages + "/schedulers/demo")
	p.check("fresh", "(?s)Data freshness.*Samples of GPUs.*none")
	p.visit(s.pages + "/doctor")
	p.check("doctor-full", "(?s)Chart of checks by state.*is well")
}

// TestManyJobs: no task of the timeline's page is long, however many jobs the service has: a million where
// AUTOSCHED_LONG is set.
func TestManyJobs(t *testing.T) {
	jobs := 20_000
	if os.Getenv("AUTOSCHED_LONG") != "" {
		jobs = 1_000_000
	}
	s := serve(t, t.TempDir(), "127.0.0.1:0", "127.0.0.1:0")
	s.call(t, "scheduler", "register", "--builtin", "fifo", "--id", "demo", "--nodes", "200", "--gpus-per-node", "8",
		"--interval", "168h")
	s.call(t, "scheduler", "pause", "demo", "--reason", "the test")
	const month = 28 * 24 * time.Hour
	sendJobs(t, s, "demo", jobs, func(i int) (string, string, time.Duration, time.Duration) {
		return fmt.Sprint("tenant-", i*31%97), fmt.Sprint("node-", i*17%200),
			month / time.Duration(jobs) * time.Duration(i), time.Duration(1+i*7919%20) * time.Minute
	})
	window := fmt.Sprintf("from=%s&to=%s", began.Format(time.RFC3339), began.Add(month).Format(time.RFC3339))
	for _, rows := range []string{"nodes", "tenants"} {
		p := open(t, s)
		longest := p.longestTask(func() {
			p.visit(s.pages + "/schedulers/demo/timeline?rows=" + rows + "&" + window)
			p.sees("(?s)Table of GPUs by .*\\d jobs from 2026-01-05")
			p.do(chromedp.Focus("figure.timeline canvas"), chromedp.KeyEvent(kb.ArrowLeft),
				chromedp.KeyEvent(kb.ArrowDown))
			p.sees(`from 2026-.*: [\d.]+ GPUs held`)
		})
		t.Logf("%d jobs by %s: the longest task has %.0f ms of thread CPU time, at most 200", jobs, rows, longest)
		if longest > 200 {
			t.Errorf("a task of %.0f ms", longest)
		}
	}
	p := open(t, s)
	longest := p.longestTask(func() {
		p.visit(s.pages + "/schedulers/demo/jobs")
		p.sees("The latest submitted first, 200 of more")
	})
	t.Logf("the list of %d jobs: %.0f ms", jobs, longest)
	if longest > 200 {
		t.Errorf("a task of %.0f ms", longest)
	}
}
