package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// TestEndToEnd runs the service and an emulated scheduler as processes: the
// scheduler registers, streams its events, and a tuned configuration comes back,
// is applied and acknowledged.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serve := clitest.Process(t, "serve", "--dir", dir, "--listen", "127.0.0.1:0")
	log, err := serve.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { serve.Process.Kill() })
	address := make(chan string, 1)
	stopped := make(chan string, 1)
	go func() {
		var all strings.Builder
		find := regexp.MustCompile(`address=(\S+)`)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			all.WriteString(lines.Text() + "\n")
			if m := find.FindStringSubmatch(lines.Text()); m != nil && strings.Contains(lines.Text(), "serving") {
				select {
				case address <- m[1]:
				default:
				}
			}
		}
		stopped <- all.String()
	}()
	var server string
	select {
	case server = <-address:
	case all := <-stopped:
		t.Fatalf("serve ended:\n%s", all)
	}

	// Half a day of the sample, a few hours a second, with rounds every six hours, of which one adopts. A slow machine
	// needs longer for it.
	id := ""
	var report struct {
		Jobs    int `json:"jobs"`
		Events  int `json:"events_sent"`
		Applied []struct {
			Revision      int64           `json:"revision"`
			Configuration json.RawMessage `json:"configuration"`
		} `json:"applied"`
	}
	for _, speedup := range []string{"30000", "3000", "300"} {
		id = "at-" + speedup
		emulate := clitest.Process(t, "scheduler", "emulate", "--server", server, "--id", id, "--trace", "sample", "--to",
			"2017-10-09T13:00:00Z", "--nodes", "14", "--gpus-per-node", "8", "--speedup", speedup, "--interval", "6h",
			"--budget", "12", "--adoption", "paper", "--json")
		var out, errs bytes.Buffer
		emulate.Stdout, emulate.Stderr = &out, &errs
		if err := emulate.Run(); err != nil {
			t.Fatalf("emulate: %v\n%s", err, errs.String())
		}
		if err := json.Unmarshal(out.Bytes(), &report); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		if report.Jobs == 0 || report.Events < 3*report.Jobs {
			t.Errorf("%d jobs with %d events acknowledged", report.Jobs, report.Events)
		}
		if len(report.Applied) > 1 {
			break
		}
		t.Logf("no tuned configuration was applied: %s", out.String())
	}
	if len(report.Applied) < 2 || report.Applied[0].Revision != 1 {
		t.Fatalf("applied: %+v", report.Applied)
	}

	// A round may have offered another one since.
	get := clitest.Process(t, "scheduler", "config", "get", id, "--revision",
		fmt.Sprint(report.Applied[len(report.Applied)-1].Revision), "--server", server, "--json")
	current, err := get.Output()
	if err != nil {
		t.Fatalf("config get: %v", err)
	}
	var c struct {
		Origin          string `json:"origin"`
		Acknowledgement struct {
			State string `json:"state"`
		} `json:"acknowledgement"`
	}
	if err := json.Unmarshal(current, &c); err != nil {
		t.Fatalf("%v\n%s", err, current)
	}
	if c.Origin != "TUNED" || c.Acknowledgement.State != "APPLIED" {
		t.Errorf("the last configuration is %s", current)
	}

	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	all := <-stopped
	if err := serve.Wait(); err != nil {
		t.Errorf("serve: %v\n%s", err, all)
	}
	if !strings.Contains(all, "round decided") {
		t.Errorf("no round was decided:\n%s", all)
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "events-*.db")); len(found) == 0 {
		t.Error("no events were kept")
	}
}

func TestMisuse(t *testing.T) {
	testshared.Full(t)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", 0, ""}, // help
		{"nonsense", 2, `"nonsense"`},
		{"simulate", 2, "--trace"},
		{"simulate --trace sample --nodes 0", 2, "nodes"},
		{"simulate --trace sample --scheduler magic", 2, "tiresias"},
		{"simulate --trace sample --frobnicate", 2, "frobnicate"},
		{"simulate --trace sample --set queues=9", 2, "queues"},
		{"simulate --trace sample --set colour=red", 2, "colour"},
		{"simulate --trace sample --preset magic", 2, "ladder-7200x6"},
		{"simulate --trace sample --from tomorrow", 2, "--from"},
		{"simulate --trace sample --from 10 --to 5", 2, "--to"},
		{"simulate --trace sample --placement heap", 2, "--placement"},
		{"simulate --trace sample extra", 2, "extra"},
		{"simulate --trace no/such/file.csv", 1, "no/such/file.csv"},
		{"simulate --trace sample --nodes 1 --gpus-per-node 4", 1, "asks for"},
		{"evaluate --trace sample --methods magic", 2, "magic"},
		{"evaluate --trace sample --budget 0", 2, "--budget"},
		{"evaluate --trace sample --objective joy", 2, "joy"},
		{"tune --trace sample --at noon", 2, "--at"},
		{"tune --trace sample --at 2017-10-10T12:00:00Z --sampler magic", 2, "--sampler"},
		{"scheduler emulate --trace sample --speedup 0", 2, "--speedup"},
		{"scheduler emulate --trace sample --speedup -1", 2, "--speedup"},
		{"scheduler emulate --trace sample --speedup NaN", 2, "--speedup"},
		{"scheduler emulate --trace sample --speedup Inf", 2, "--speedup"},
		{"scheduler emulate --trace sample --speedup 1e9", 2, "at most 1000000"},
		{"scheduler emulate --trace sample --nodes 1 --gpus-per-node 4 --server 127.0.0.1:1", 1, "asks for"},
	} {
		code, _, errs := clitest.Run(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("autosched %s: exit %d, %q; want exit %d and %q", c.args, code, errs, c.code, c.want)
		}
	}
}

func TestEveryCommandTeaches(t *testing.T) {
	testshared.Full(t)
	var visit func(path ...string)
	visit = func(path ...string) {
		cmd, _, err := clitest.NewRoot().Find(path)
		if err != nil {
			t.Fatal(err)
		}
		name := cmd.CommandPath()
		if cmd.Short == "" || !cmd.HasSubCommands() && (len(cmd.Long) < 80 || cmd.Example == "") {
			t.Errorf("%s: wants Short, Long and Example", name)
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				visit(append(path[:len(path):len(path)], sub.Name())...)
			}
		}
	}
	visit()
}
