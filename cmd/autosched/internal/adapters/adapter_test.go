package adapters

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	apiclient "github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/space"
)

// adapted is an emulated scheduler as a process that takes its configuration from a file, and its adapter as
// another.
type adapted struct {
	t       *testing.T
	kind    string // the built-in scheduler
	id      string
	dir     string
	file    string
	address string
	tuning  pb.TuningServiceClient
	config  pb.ConfigurationServiceClient
	adapter *exec.Cmd
	log     clitest.LockedBuffer
}

// reloadScript has the emulated scheduler read its file, and fails if it refuses it.
const reloadScript = `
rm -f "$1.running"
kill -HUP "$(cat "$1.pid")" || exit 2
until [ -e "$1.running" ]; do sleep 0.02; done
! grep '^# refused' "$1.running" >&2
`

func (a *adapted) write(name, text string) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// emulate starts the scheduler. It goes on for as long as the test.
func (a *adapted) emulate() {
	a.t.Helper()
	cmd := clitest.Process(a.t, "scheduler", "emulate", "--server", a.address, "--id", a.id, "--scheduler", a.kind, "--trace", "sample", "--to",
		"2017-10-09T12:00:00Z", "--nodes", "14", "--gpus-per-node", "8", "--speedup", "1", "--interval", "168h",
		"--config-file", a.file)
	var errs clitest.LockedBuffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	a.write(filepath.Base(a.file)+".pid", fmt.Sprint(cmd.Process.Pid))
	a.until("running scheduler", func() bool { _, err := os.Stat(a.file + ".running"); return err == nil },
		func() string { return errs.String() })
}

// adapt starts the adapter.
func (a *adapted) adapt() {
	a.t.Helper()
	a.adapter = clitest.Process(a.t, "scheduler", "adapter", "file", "--settings", filepath.Join(a.dir, "adapter.yaml"))
	a.adapter.Stderr = &a.log
	if err := a.adapter.Start(); err != nil {
		a.t.Fatal(err)
	}
	cmd := a.adapter
	a.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// until waits for something.
func (a *adapted) until(what string, ok func() bool, why func() string) {
	a.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	a.t.Fatalf("%s: no %s:\n%s", a.id, what, why())
}

// runs waits until the scheduler should run a value of the parameter, and does as the service knows it.
func (a *adapted) runs(parameter string, value float64) {
	a.t.Helper()
	var c *pb.Configuration
	a.until(fmt.Sprintf("%s of %g in force", parameter, value), func() bool {
		got, err := a.config.GetCurrentConfiguration(a.t.Context(),
			&pb.GetCurrentConfigurationRequest{Name: "schedulers/" + a.id})
		c = got.GetConfiguration()
		return err == nil && c.GetState() == pb.Configuration_ROLLED_OUT &&
			c.GetParameters()[parameter].GetNumberValue() == value
	}, func() string { return protojson.Format(c) + a.log.String() })
}

// refused waits until a revision is refused.
func (a *adapted) refused() (c *pb.Configuration) {
	a.t.Helper()
	var list *pb.ListConfigurationsResponse
	a.until("revision that is refused", func() bool {
		var err error
		list, err = a.config.ListConfigurations(a.t.Context(),
			&pb.ListConfigurationsRequest{Parent: "schedulers/" + a.id})
		at := slices.IndexFunc(list.GetConfigurations(), func(c *pb.Configuration) bool {
			return c.GetState() == pb.Configuration_REJECTED
		})
		if err == nil && at >= 0 {
			c = list.Configurations[at]
		}
		return c != nil
	}, func() string { return protojson.Format(list) + a.log.String() })
	return c
}

// has wants a line in the scheduler's file, and the scheduler to run the values of the file.
func (a *adapted) has(line string) {
	a.t.Helper()
	text, err := os.ReadFile(a.file)
	runs, _ := os.ReadFile(a.file + ".running")
	if err != nil || !strings.Contains(string(text), "\n"+line+"\n") || !bytes.Equal(text, runs) {
		a.t.Fatalf("%v, want %s in\n%s, and run:\n%s", err, line, text, runs)
	}
}

// narrow makes a value the least of a parameter, and twice that its default; 0 ends that.
func (a *adapted) narrow(parameter string, least float64) {
	a.t.Helper()
	s, err := schedulers.Find(a.kind)
	if err != nil {
		a.t.Fatal(err)
	}
	p, _ := s.Space.Param(parameter)
	spec := &pb.ParameterSpec{ParameterId: parameter, DefaultValue: structpb.NewNumberValue(2 * least)}
	if p.Kind == space.KindInt {
		spec.ParameterValueSpec = &pb.ParameterSpec_IntegerValueSpec{IntegerValueSpec: &pb.IntegerValueSpec{
			MinValue: int64(least), MaxValue: int64(p.Max)}}
	} else {
		spec.ParameterValueSpec = &pb.ParameterSpec_DurationValueSpec{DurationValueSpec: &pb.DurationValueSpec{
			MinValue: least, MaxValue: p.Max}}
		spec.ScaleType = pb.ParameterSpec_LOG
	}
	parameters := []*pb.ParameterSpec{spec}
	if least == 0 {
		parameters = nil
	}
	if _, err := a.tuning.UpdateScheduler(a.t.Context(), &pb.UpdateSchedulerRequest{
		Scheduler:  &pb.Scheduler{Name: "schedulers/" + a.id, Spec: &pb.SchedulerSpec{Parameters: parameters}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"spec.parameters"}}}); err != nil {
		a.t.Fatal(err)
	}
}

// TestAdapters runs Tiresias, Themis and Lucid, each configured by its own file, by an adapter that watches and by one
// that the service calls: the adapter applies the offered configurations, is killed and goes on, refuses a
// configuration that the scheduler's check refuses, rolls back, and reports an administrator's changes.
func TestAdapters(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	kinds := []string{"tiresias", "themis", "lucid"}
	agents, calls := "agents:\n", map[string]string{}
	for _, kind := range kinds {
		calls[kind] = testshared.FreeAddress(t)
		agents += fmt.Sprintf("- {scheduler: %s-push, address: '%s', interval: 1s}\n", kind, calls[kind])
	}
	named := filepath.Join(t.TempDir(), "agents.yaml")
	if err := os.WriteFile(named, []byte(agents), 0o600); err != nil {
		t.Fatal(err)
	}
	_, address := clitest.ServeProcess(t, t.TempDir(), "127.0.0.1:0", "--agents", named)
	conn, err := (&cli.ConnectFlags{Server: address}).Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i, x := range []struct {
		parameter, option    string
		words                string
		first, second, third float64 // the third is refused
		unset                float64
	}{
		{"starve_limit", "starve_limit", "schedule: dlas-gpu\nnum_queue: 3", 600, 1200, 3600, 0},
		{"lease_term", "lease_term_interval", "fraction: 0.8", 1800, 3600, 7200, 1200},
		{"profiler_nodes", "profiler-scale", "colocate: 1", 3, 4, 5, 2},
	} {
		adapt := func(t *testing.T, id, how string) {
			dir := t.TempDir()
			a := &adapted{t: t, kind: kinds[i], id: id, dir: dir, file: filepath.Join(dir, "options.yaml"),
				address: address, tuning: pb.NewTuningServiceClient(conn),
				config: pb.NewConfigurationServiceClient(conn)}
			a.emulate()
			reload := a.write("reload.sh", reloadScript)
			check := a.write("check.sh", fmt.Sprintf("! grep '%s: %g' \"$1\" >&2", x.option, x.third))
			a.write("adapter.yaml", fmt.Sprintf("%sfile: %s\npoll-interval: 50ms\nread-back: [cat, %s.running]\n"+
				"reload: [sh, %s, '{file}']\ncheck: [sh, %s, '{file}']\n", how, a.file, a.file, reload, check))
			line := func(v float64) string { return fmt.Sprintf("%s: %g", x.option, v) }
			a.adapt()
			a.runs(x.parameter, x.unset)
			a.has(line(x.unset))

			a.narrow(x.parameter, x.first)
			a.runs(x.parameter, x.first)
			a.has(line(x.first))
			a.has(x.words)

			if err := a.adapter.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = a.adapter.Wait()
			a.narrow(x.parameter, x.second)
			a.adapt()
			a.runs(x.parameter, x.second)
			a.has(line(x.second))

			a.narrow(x.parameter, x.third)
			c := a.refused()
			if why := c.GetAcknowledgement().GetError(); !strings.Contains(why, "check: sh: exit status 1") {
				t.Errorf("refused because %s", why)
			}
			a.runs(x.parameter, 2*x.third)
			a.has(line(2 * x.third))

			a.narrow(x.parameter, 0)
			if _, err := a.config.RollbackConfiguration(t.Context(),
				&pb.RollbackConfigurationRequest{Parent: "schedulers/" + id, Revision: 1}); err != nil {
				t.Fatal(err)
			}
			a.runs(x.parameter, x.unset)
			a.has(line(x.unset))

			// An administrator changes the file by hand.
			text, err := os.ReadFile(a.file)
			if err != nil {
				t.Fatal(err)
			}
			a.write(filepath.Base(a.file), strings.Replace(string(text), line(x.unset), line(x.first), 1))
			if out, err := exec.Command("sh", reload, a.file).CombinedOutput(); err != nil {
				t.Fatalf("%v, %s", err, out)
			}
			a.until("report of the change", func() bool {
				got, err := a.config.GetCurrentConfiguration(t.Context(),
					&pb.GetCurrentConfigurationRequest{Name: "schedulers/" + a.id})
				ack := got.GetConfiguration().GetAcknowledgement()
				return err == nil && (ack.GetState() == pb.Acknowledgement_PARTIALLY_APPLIED &&
					ack.GetEffectiveParameters()[x.parameter].GetNumberValue() == x.first ||
					ack.GetState() == pb.Acknowledgement_FAILED && strings.Contains(ack.GetError(), "by someone else"))
			}, a.log.String)
			a.has(line(x.first))
		}
		t.Run(kinds[i]+" watch", func(t *testing.T) {
			adapt(t, kinds[i], fmt.Sprintf("server: %s\nid: %s\n", address, kinds[i]))
		})
		t.Run(kinds[i]+" push", func(t *testing.T) {
			adapt(t, kinds[i]+"-push", fmt.Sprintf("listen: %s\nform: %s\n", calls[kinds[i]], kinds[i]))
		})
	}
}

// TestEmulateFiles: each instance of an emulated scheduler reads a file of its own and reports the values in force.
func TestEmulateFiles(t *testing.T) {
	_, address := clitest.ServeProcess(t, t.TempDir(), "127.0.0.1:0")
	file := filepath.Join(t.TempDir(), "options.yaml")
	if err := os.WriteFile(file+".2", []byte("schedule: dlas-gpu\nnum_queue: 2\nqueue_limit: [7200]\n"+
		"order: running_first\nstarve_limit: 0\npack_limit: 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := clitest.Run("scheduler", "emulate", "--server", address, "--config-file", file, "--instances", "2", "--faults",
		"lose=0.5", "--scheduler", "tiresias", "--trace", "sample", "--to", "2017-10-09T06:00:00Z", "--nodes", "14",
		"--gpus-per-node", "8", "--speedup", "1e5", "--json")
	var report struct {
		Lost      int `json:"events_lost"`
		Instances []struct{ Applied int }
	}
	if err := json.Unmarshal([]byte(out), &report); code != 0 || err != nil || report.Lost == 0 ||
		len(report.Instances) != 2 || report.Instances[1].Applied != 1 {
		t.Fatalf("exit %d, %v, %s%s", code, err, out, errs)
	}
	for path, want := range map[string]string{file: "num_queue: 3", file + ".2": "num_queue: 2"} {
		if runs, err := os.ReadFile(path + ".running"); err != nil || !strings.Contains(string(runs), want) {
			t.Errorf("%v, %s", err, runs)
		}
	}
}

// TestAdapterListens: an adapter that is called takes calls by TLS of operators and admins, and
// does not start unencrypted, or open to every caller, beyond this machine.
func TestAdapterListens(t *testing.T) {
	dir := t.TempDir()
	pki, options, calls := filepath.Join(dir, "pki"), filepath.Join(dir, "options.yaml"), testshared.FreeAddress(t)
	if code, _, errs := clitest.Run("admin", "certs", pki); code != 0 {
		t.Fatal(errs)
	}
	of := func(name string) string { return filepath.Join(pki, name) }
	adapter := []string{"scheduler", "adapter", "file", "--form", "tiresias", "--file", options}
	pair := []string{"--tls-cert", of("server.pem"), "--tls-key", of("server.key")}
	for more, want := range map[string]string{
		"--listen 0.0.0.0:0":                              "connections would not be encrypted",
		"--listen 0.0.0.0:0 --allow-plaintext":            "every caller could change everything",
		"--listen 0.0.0.0:0 " + strings.Join(pair, " "):   "every caller could change everything",
		"--listen here":                                   "--listen: address here: missing port",
		"--listen 127.0.0.1:0 --tls-cert server.pem":      "--tls-cert and --tls-key: one is missing",
		"--listen 127.0.0.1:0 --client-ca ca.pem":         "--client-ca: needs --tls-cert",
		"--listen 127.0.0.1:0 --tls-ca ca.pem":            "do not go with --listen",
		"--id prod --roles roles.yaml":                    "need --listen",
		"--listen 127.0.0.1:0 --tls-cert no --tls-key no": "",
	} {
		args := slices.Concat(adapter, []string{"--check-settings"}, strings.Fields(more))
		code, _, errs := clitest.Run(args...)
		if wanted := min(2, 1+len(want)); code != wanted || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s", more, code, errs)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		var out clitest.LockedBuffer
		ended <- cli.Run(ctx, clitest.NewRoot(), slices.Concat(adapter, pair,
			[]string{"--listen", calls, "--client-ca", of("ca.pem"),
				"--roles", of("roles.yaml")}), &out, &out)
	}()
	defer func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("the adapter ended with %d", code)
		}
	}()
	for _, c := range []struct {
		endpoint apiclient.Endpoint
		want     codes.Code
	}{
		{apiclient.Endpoint{CA: of("ca.pem"), Cert: of("operator.pem"), Key: of("operator.key")},
			codes.FailedPrecondition}, // nothing is in force
		{apiclient.Endpoint{CA: of("ca.pem"), Cert: of("viewer.pem"), Key: of("viewer.key")}, codes.PermissionDenied},
		{apiclient.Endpoint{CA: of("ca.pem"), TokenFile: of("viewer.token")}, codes.PermissionDenied},
		{apiclient.Endpoint{CA: of("ca.pem")}, codes.Unauthenticated},
		{apiclient.Endpoint{}, codes.Unavailable},
	} {
		c.endpoint.Address = calls
		conn, err := c.endpoint.Dial()
		if err != nil {
			t.Fatal(err)
		}
		wait := grpc.WaitForReady(c.want != codes.Unavailable)
		if _, err := pb.NewSchedulerAgentClient(conn).DescribeParameters(t.Context(), &pb.DescribeParametersRequest{},
			wait); status.Code(err) != c.want {
			t.Errorf("%+v: %v", c.endpoint, err)
		}
		stream, err := pb.NewSchedulerAgentClient(conn).StreamEvents(t.Context(), &pb.StreamEventsRequest{}, wait)
		if err == nil {
			_, err = stream.Recv()
		}
		if want := c.want; status.Code(err) != want && !(want == codes.FailedPrecondition &&
			status.Code(err) == codes.Unimplemented) {
			t.Errorf("%+v: events: %v", c.endpoint, err)
		}
		_ = conn.Close()
	}
	agents := filepath.Join(dir, "agents.yaml")
	if err := os.WriteFile(agents, fmt.Appendf(nil, "agents:\n- {scheduler: prod, address: '%s', tls-ca: %s, "+
		"tls-cert: %s, tls-key: %s}\n", calls, of("ca.pem"), of("operator.pem"), of("operator.key")),
		0o600); err != nil {
		t.Fatal(err)
	}
	_, address := clitest.ServeProcess(t, filepath.Join(dir, "data"), "127.0.0.1:0", "--agents", agents)
	if code, _, errs := clitest.Run("scheduler", "register", "--server", address, "--id", "prod", "--builtin", "tiresias",
		"--nodes", "2", "--gpus-per-node", "8"); code != 0 {
		t.Fatal(errs)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, out, errs := clitest.Run("scheduler", "get", "prod", "--server", address, "--json")
		if strings.Contains(out, `"IN_SYNC"`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not in sync: %s%s", out, errs)
		}
	}
	if text, err := os.ReadFile(options); err != nil || !strings.Contains(string(text), "schedule: dlas-gpu") {
		t.Errorf("%v, %s", err, text)
	}
}
