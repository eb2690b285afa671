package serve

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/api/rest"
	"github.com/autosched/autosched/internal/testshared"
)

// curl runs it with arguments and returns the HTTP code and the body.
func curl(t *testing.T, args ...string) (code, body string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "curl", append([]string{"--silent", "--show-error", "--max-time", "120",
		"--write-out", "\n%{http_code}"}, args...)...)
	out, err := cmd.Output()
	at := strings.LastIndex(string(out), "\n")
	if at < 0 {
		t.Fatalf("curl %q: %v", args, err)
	}
	return string(out)[at+1:], string(out)[:at]
}

// TestRESTByCurl runs the curl lines of docs/reference/rest.md, and calls every path of the OpenAPI document.
func TestRESTByCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil && os.Getenv("CI") == "" {
		t.Skip("there is no curl")
	}
	s := startObserved(t)
	page, err := os.ReadFile(filepath.Join(testshared.Root(t), "docs", "reference", "rest.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^    (curl .*127\.0\.0\.1:9443.*)$`).FindAllStringSubmatch(string(page), -1)
	if len(lines) < 8 {
		t.Errorf("only %d lines of the page call the service", len(lines))
	}
	for _, line := range lines {
		text := strings.ReplaceAll(line[1], "127.0.0.1:9443", s.operations)
		want := "\n200"
		text += ` --silent --write-out '\n%{http_code}'`
		if strings.Contains(text, "event-stream") {
			text, want = strings.Replace(text, "--max-time 2", "", 1)+" | sed '/^event: heartbeat/q'", "event: heartbeat\n"
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", text).Output()
		if err != nil || !strings.HasSuffix(string(out), want) {
			t.Errorf("%s: %v\n%s", line[1], err, out)
		}
	}

	base := "http://" + s.operations
	post := func(path, body string) string {
		t.Helper()
		media := "application/json"
		if strings.Contains(path, ":ingest") {
			media = "application/x-ndjson"
		}
		code, text := curl(t, "-H", "Content-Type: "+media, "-d", body, base+"/v1"+path)
		if code != "200" {
			t.Fatalf("%s: %s %s", path, code, text)
		}
		return text
	}
	post("/schedulers?schedulerId=small", `{"spec":{"schedulerType":"tiresias","cluster":{"nodes":1,"gpusPerNode":8},
		"rollout":{"updateInterval":"600s","futures":1,"trialBudget":3,"allowedLateness":"-1s"}}}`)
	var events []string
	for i := range 40 {
		events = append(events, fmt.Sprintf(`{"eventId":"e%d","kind":"SUBMITTED","schedulerTime":"2026-01-31T00:%02d:00Z",`+
			`"job":{"jobId":"j%d","milliGpus":"8000"}}`, i, i, i))
	}
	post("/events:ingest", `{"parent":"schedulers/small","events":[`+strings.Join(events, ",")+`]}`)
	var operation struct{ Name string }
	if err := json.Unmarshal([]byte(post("/schedulers/small/rounds:trigger", "{}")), &operation); err != nil {
		t.Fatal(err)
	}
	if text := post("/"+operation.Name+":wait", `{"timeout":"60s"}`); !strings.Contains(text, `"done":true`) {
		t.Fatal(text)
	}
	post("/schedulers/small/workloads:generate", `{"workloadId":"w"}`)
	post("/schedulers/own/studies?studyId=first", `{"spec":{"trialBudget":3,"seed":"1"}}`)
	post("/schedulers/own/studies/first/trials:suggest", `{"clientId":"c"}`)

	// Resources that the service does not have yet.
	lacks := map[string]string{"FindingService_GetFinding": "404"}
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			RequestBody any    `json:"requestBody"`
		}
	}
	if err := json.Unmarshal(rest.OpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	expand := strings.NewReplacer("{configuration}", "1", "{round}", "1", "{study}", "first", "{trial}", "1",
		"{workload}", "w", "{job}", "j1", "{finding}", "0123456789abcdef",
		"{operation}", strings.TrimPrefix(operation.Name, "operations/"))
	// What reads comes first, what deletes last.
	for _, verb := range []string{"get", "post", "patch", "delete"} {
		paths := slices.Sorted(maps.Keys(document.Paths))
		if verb == "delete" {
			slices.Reverse(paths)
		}
		for _, path := range paths {
			op, ok := document.Paths[path][verb]
			if !ok {
				continue
			}
			scheduler := "small"
			switch {
			case strings.Contains(path, "/studies"):
				scheduler = "own"
			case strings.HasSuffix(path, ":getRevision"):
				scheduler = "small@1"
			}
			to := expand.Replace(strings.ReplaceAll(path, "{scheduler}", scheduler))
			args := []string{"-X", strings.ToUpper(verb), base + to}
			if strings.HasSuffix(path, ":watch") {
				out, err := exec.CommandContext(t.Context(), "sh", "-c", fmt.Sprintf(
					"curl -N --silent '%s%s?heartbeatInterval=1s' | sed '/heartbeat/q'", base, to)).Output()
				if err != nil || !strings.Contains(string(out), `{"result":{"heartbeat":{}`) {
					t.Errorf("%s: %v %s", to, err, out)
				}
				continue
			}
			if op.RequestBody != nil {
				args = append(args, "-H", "Content-Type: application/json", "-d", "{}")
			}
			code, text := curl(t, args...)
			t.Logf("%s %s: %s", strings.ToUpper(verb), to, code)
			_, method, _ := strings.Cut(op.OperationID, "_")
			method = strings.TrimSuffix(method, "_2")
			reached := code == "200" || strings.Contains(text, fmt.Sprintf(`"method":%q`, method))
			switch {
			case !reached:
				t.Errorf("%s %s does not reach %s: %s %.300s", verb, to, method, code, text)
			case verb == "get" && code != "200" && code != lacks[op.OperationID]:
				t.Errorf("%s %s: %s %.300s", verb, to, code, text)
			case strings.HasPrefix(code, "5"):
				t.Errorf("%s %s fails: %s %.300s", verb, to, code, text)
			}
		}
	}
}
