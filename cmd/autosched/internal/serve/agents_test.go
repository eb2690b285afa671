package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// calledScheduler applies all that it is sent.
type calledScheduler struct {
	pb.UnimplementedSchedulerAgentServer
	mu  sync.Mutex
	now *pb.Configuration
}

func (s *calledScheduler) ApplyConfiguration(_ context.Context,
	req *pb.ApplyConfigurationRequest) (*pb.ApplyConfigurationResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = req.GetConfiguration()
	return &pb.ApplyConfigurationResponse{Acknowledgement: &pb.Acknowledgement{State: pb.Acknowledgement_APPLIED}}, nil
}

func (s *calledScheduler) DescribeParameters(context.Context,
	*pb.DescribeParametersRequest) (*pb.DescribeParametersResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &pb.DescribeParametersResponse{Parameters: s.now.GetParameters(), Revision: s.now.GetRevision()}, nil
}

// A daemon with roles calls the schedulers that its file names, and takes the values it reads back as their
// acknowledgement.
func TestServeCallsAgents(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	called := grpc.NewServer()
	pb.RegisterSchedulerAgentServer(called, &calledScheduler{})
	go func() { _ = called.Serve(l) }()
	defer called.Stop()
	dir := t.TempDir()
	pki, agents := filepath.Join(dir, "pki"), filepath.Join(dir, "agents.yaml")
	if code, _, errs := clitest.Run("admin", "certs", pki); code != 0 {
		t.Fatal(errs)
	}
	text := "agents:\n- {scheduler: prod, instance: a, address: '" + l.Addr().String() + "'}\n"
	if err := os.WriteFile(agents, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, address := clitest.ServeProcess(t, filepath.Join(dir, "data"), "127.0.0.1:0", "--agents", agents,
		"--tls-cert", filepath.Join(pki, "server.pem"), "--tls-key", filepath.Join(pki, "server.key"),
		"--client-ca", filepath.Join(pki, "ca.pem"), "--roles", filepath.Join(pki, "roles.yaml"))
	admin := func(args ...string) string {
		t.Helper()
		code, out, errs := clitest.Run(append(args, "--server", address, "--tls-ca", filepath.Join(pki, "ca.pem"),
			"--tls-cert", filepath.Join(pki, "admin.pem"), "--tls-key", filepath.Join(pki, "admin.key"))...)
		if code != 0 {
			t.Fatal(errs)
		}
		return out
	}
	admin("scheduler", "register", "--id", "prod", "--builtin", "tiresias", "--nodes", "2", "--gpus-per-node", "8")
	var out string
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if out = admin("scheduler", "get", "prod", "--json"); strings.Contains(out, `"IN_SYNC"`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the agent is not in sync: %s", out)
		}
	}
}

// A faulty file of agents is refused before anything starts.
func TestBadAgents(t *testing.T) {
	dir := t.TempDir()
	agents := filepath.Join(dir, "agents.yaml")
	if err := os.WriteFile(agents, []byte("agents:\n- scheduler: prod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{"", "--check-settings"} {
		args := append([]string{"serve", "--dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0",
			"--agents", agents}, strings.Fields(more)...)
		want := agents + ": line 2: agents[0].address: is missing"
		if code, _, errs := clitest.Run(args...); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s", more, code, errs)
		}
	}
}

// TestEmulateListen: a daemon calls two instances of an emulated scheduler, which loses events and crashes, and has
// its events to the last.
func TestEmulateListen(t *testing.T) {
	calls := []string{testshared.FreeAddress(t), testshared.FreeAddress(t)}
	agents := filepath.Join(t.TempDir(), "agents.yaml")
	if err := os.WriteFile(agents, fmt.Appendf(nil, "agents:\n- {scheduler: prod, instance: emulated, address: '%s', "+
		"interval: 100ms}\n- {scheduler: prod, instance: emulated-2, address: '%s', interval: 100ms}\n", calls[0],
		calls[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	_, address := clitest.ServeProcess(t, t.TempDir(), "127.0.0.1:0", "--agents", agents)
	if code, _, errs := clitest.Run("scheduler", "register", "--server", address, "--id", "prod", "--builtin", "tiresias",
		"--nodes", "14", "--gpus-per-node", "8", "--mode", "auto"); code != 0 {
		t.Fatal(errs)
	}
	code, out, errs := clitest.Run("scheduler", "emulate", "--listen", strings.Join(calls, ","), "--scheduler", "tiresias", "--trace",
		"sample", "--to", "2017-10-09T06:00:00Z", "--nodes", "14", "--gpus-per-node", "8", "--speedup", "1e5",
		"--faults", "crash=0.5,lose=0.01", "--json")
	var report struct {
		Sent      int        `json:"events_sent"`
		Instances []struct{} `json:"instances"`
	}
	if err := json.Unmarshal([]byte(out), &report); code != 0 || err != nil || report.Sent == 0 ||
		len(report.Instances) != 2 {
		t.Fatalf("exit %d, %v, %s%s", code, err, out, errs)
	}
	want := fmt.Sprintf(`"event_count": "%d"`, report.Sent)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, out, errs = clitest.Run("scheduler", "get", "prod", "--server", address, "--json")
		out = strings.ReplaceAll(out, "eventCount", "event_count")
		if strings.Contains(out, want) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s: %s%s", want, out, errs)
		}
	}
	for more, want := range map[string]string{
		"--listen 0.0.0.0:7500":                       "is not host:port of this machine",
		"--listen 127.0.0.1:0":                        "is not host:port of this machine",
		"--listen 127.0.0.1:75 --id prod":             "--listen and --id exclude each other",
		"--listen 127.0.0.1:75 --instances 2":         "1 address for 2 instances",
		"--listen 127.0.0.1:75 --config-file x.yaml":  "--listen and --config-file exclude each other",
		"--listen 127.0.0.1:75,127.0.0.1:75":          "is there twice",
		"--listen 127.0.0.1:75 --server 127.0.0.1:80": "--listen and --server exclude each other",
	} {
		code, _, errs := clitest.Run(append([]string{"scheduler", "emulate", "--trace", "sample"},
			strings.Fields(more)...)...)
		if code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s", more, code, errs)
		}
	}
}
