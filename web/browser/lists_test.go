package browser

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// sendEvents sends events of a scheduler, a line of JSON each.
func sendEvents(t *testing.T, s *service, id string, events ...string) {
	t.Helper()
	body := fmt.Sprintf(`{"parent":"schedulers/%s","events":[%s]}`, id, strings.Join(events, ","))
	resp, err := http.Post(s.pages+"/v1/events:ingest", "application/x-ndjson", strings.NewReader(body))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
}

// TestJobsPages: timeline, jobs, a job and tenants without an event, with jobs of hostile names, and of a cluster.
func TestJobsPages(t *testing.T) {
	s := serve(t, t.TempDir(), "127.0.0.1:0", "127.0.0.1:0")
	s.call(t, "scheduler", "register", "--builtin", "fifo", "--id", "new", "--nodes", "2", "--gpus-per-node", "4")
	p := open(t, s)
	p.visit(s.pages + "/schedulers/new/timeline")
	p.check("registered-timeline", "(?s)GPUs held.*has no events yet", "400")
	p.visit(s.pages + "/schedulers/new/jobs")
	p.check("registered-jobs", "No job is known that fits")
	p.visit(s.pages + "/schedulers/new/tenants")
	p.check("registered-tenants", "No job was there")

	evil := `</script><img src=/x onerror=alert(1)>` + strings.Repeat("w", 80)
	at := `"schedulerTime":"2026-01-31T0%d:00:00Z"`
	sendEvents(t, s, "new",
		fmt.Sprintf(`{"eventId":"1","kind":"SUBMITTED",`+at+`,`+
			`"job":{"jobId":%q,"tenant":%q,"user":%q,"milliGpus":"8000"}}`, 1, evil, evil, evil),
		fmt.Sprintf(`{"eventId":"2","kind":"STARTED",`+at+`,`+
			`"job":{"jobId":%q},"placement":[{"nodeId":%q,"gpus":8}]}`, 2, evil, evil),
		fmt.Sprintf(`{"eventId":"3","kind":"SUBMITTED",`+at+`,`+
			`"job":{"jobId":"ns/waits","tenant":"b","milliGpus":"1000"}}`, 3),
		fmt.Sprintf(`{"eventId":"4","kind":"HEARTBEAT",`+at+`}`, 4))
	for _, page := range []struct{ name, path, ready string }{
		{"hostile-timeline", "/timeline", "2 jobs from 2026"},
		{"hostile-nodes", "/timeline?rows=nodes", "2 jobs from 2026"},
		{"hostile-jobs", "/jobs", "ns/waits"},
		{"hostile-job", "/jobs?job=ns~2Fwaits", "(?s)It waits, for.*Fewer GPUs were free than it asks for"},
		{"hostile-tenants", "/tenants", "(?s)Shares.*GPU-hours"},
	} {
		p.visit(s.pages + "/schedulers/new" + page.path)
		p.check(page.name, page.ready)
		if js[int](p, `document.querySelectorAll("img").length`) > 0 {
			t.Errorf("%s: a name became an element", page.path)
		}
	}
	p.click("b")
	p.sees("ns/waits")
	if got := js[string](p, "location.search"); got != "?tenant=b" {
		t.Errorf("the jobs of a tenant are at %s", got)
	}
}

// TestTimelinePage: a cluster's timeline is read and looked into by keys, the place is in the URL, and no part of the
// page grows with the jobs.
func TestTimelinePage(t *testing.T) {
	s := serve(t, t.TempDir(), "127.0.0.1:0", "127.0.0.1:0")
	emulated(t, s, "demo")
	p := open(t, s)
	longest := p.longestTask(func() {
		p.visit(s.pages + "/schedulers/demo/timeline?rows=nodes")
		p.sees("(?s)Load of the next 12 hours.*Table of GPUs by node")
	})
	t.Logf("the longest task has %.0f ms of thread CPU time, at most 200", longest)
	if longest > 200 {
		t.Errorf("a task of %.0f ms", longest)
	}
	p.check("timeline", "(?s)Load of the next 12 hours.*Table of GPUs by node")
	cells := js[int](p, `Number(document.querySelector("figure.timeline").dataset.cells)`)
	if cells == 0 || cells > 40*96 {
		t.Errorf("%d cells", cells)
	}
	p.do(chromedp.Focus("figure.timeline canvas"), chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent(kb.ArrowDown))
	p.sees(`from 20\d\d-.*: [\d.]+ GPUs held`)
	p.do(chromedp.KeyEvent(kb.Enter))
	eventually(t, "a closer look", func() bool { return js[bool](p, `location.search.includes("from=")`) })
	p.sees("The latest day")
	p.click("28 d")
	p.sees("(?s)Marks.*Table|Table of GPUs by node")
	// The keys read the mark of the first configuration, too.
	p.visit(s.pages + "/schedulers/demo/timeline?from=2017-10-09T00:00:00Z&to=2017-10-09T06:00:00Z")
	p.sees("(?s)a configuration takes effect, with its revision.*Table of GPUs by tenant")
	p.do(chromedp.Focus("figure.timeline canvas"), chromedp.KeyEvent(kb.Home))
	eventually(t, "the mark", func() bool {
		p.do(chromedp.KeyEvent(kb.ArrowRight))
		return strings.Contains(p.text(), "; revision 1 takes effect")
	})
	p.visit(s.pages + "/schedulers/demo/jobs?state=RUNNING")
	p.check("jobs", "The latest submitted first")
	js[bool](p, `document.querySelector("tbody a").click(), true`)
	p.check("job", "(?s)It (runs|ended).*Why it waited.*When it ran")
	// A finding leads to the jobs that pay for it, and to the timeline of its time.
	p.visit(s.pages + "/findings?scheduler=demo&state=all")
	p.check("findings", `(?s)By rule.*Pay for it: job \S`)
	p.click(p.sees(`Pay for it: job ([^,\s]+)`)[1])
	p.sees("(?s)It (waits|runs|ended).*Why it waited")
	p.do(chromedp.NavigateBack())
	p.sees(`Pay for it: job`)
	p.click(p.sees(`(?s)Pay for it: job .*?(20\d\d-\d\d-\d\d \d\d:\d\d:\d\d)`)[1])
	p.sees(`(?s)a finding is open.*Marks.*\w: (job|queue|partition|cluster) \S`)
	p.visit(s.pages + "/schedulers/demo/tenants?days=28")
	p.check("tenants", "(?s)Shares.*Chart of shares.*[1-9][0-9.]*\\x{a0}%")
}

// TestSimulatedCause: a job's page says which limit keeps it waiting by the simulated scheduler, and says that it is
// simulated.
func TestSimulatedCause(t *testing.T) {
	s := serve(t, t.TempDir(), "127.0.0.1:0", "127.0.0.1:0")
	cluster := filepath.Join(t.TempDir(), "cluster.json")
	if err := os.WriteFile(cluster, []byte(`{"groups": [{"nodes": 2, "gpus_per_node": 8}], "site": {"qos": [{"name": "q"}],
		"limits": [{"qos": "q", "each": "user", "resource": "gpus", "own": 8}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.call(t, "scheduler", "register", "--builtin", "slurm", "--id", "site", "--cluster", cluster)
	job := `{"jobId":%q,"user":"u","milliGpus":"8000","request":{"qos":"q","timeLimit":"3600s"}}`
	sendEvents(t, s, "site",
		`{"eventId":"1","kind":"SUBMITTED","schedulerTime":"2026-01-31T00:00:00Z","job":`+fmt.Sprintf(job, "runs")+`}`,
		`{"eventId":"2","kind":"STARTED","schedulerTime":"2026-01-31T00:00:00Z","job":{"jobId":"runs"},`+
			`"placement":[{"nodeId":"n1","gpus":8}]}`,
		`{"eventId":"3","kind":"SUBMITTED","schedulerTime":"2026-01-31T00:02:00Z","job":`+fmt.Sprintf(job, "asked")+`}`,
		`{"eventId":"4","kind":"HEARTBEAT","schedulerTime":"2026-01-31T00:30:00Z"}`)
	p := open(t, s)
	p.visit(s.pages + "/schedulers/site/jobs?job=asked")
	p.check("job-limit", "(?s)It waits, for 28.min.*the scheduler was simulated at [1-9].*"+
		"A limit of its user, account or QOS: each user of QOS q: 8 of 8 GPUs are in use.*simulated.*28.min")
}
