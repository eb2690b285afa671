package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	pb "github.com/autosched/autosched/api/autosched/v1"
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

// A daemon with roles calls the schedulers that its file names, and takes what it reads back for
// their acknowledgement.
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
	if code, _, errs := command("certs", pki); code != 0 {
		t.Fatal(errs)
	}
	text := "agents:\n- {scheduler: prod, instance: a, address: '" + l.Addr().String() + "'}\n"
	if err := os.WriteFile(agents, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, address := serveProcess(t, filepath.Join(dir, "data"), "127.0.0.1:0", "--agents", agents,
		"--tls-cert", filepath.Join(pki, "server.pem"), "--tls-key", filepath.Join(pki, "server.key"),
		"--client-ca", filepath.Join(pki, "ca.pem"), "--roles", filepath.Join(pki, "roles.yaml"))
	admin := func(args ...string) string {
		t.Helper()
		code, out, errs := command(append(args, "--server", address, "--tls-ca", filepath.Join(pki, "ca.pem"),
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

// What is wrong with a file of agents is found before anything starts.
func TestBadAgents(t *testing.T) {
	dir := t.TempDir()
	agents := filepath.Join(dir, "agents.yaml")
	if err := os.WriteFile(agents, []byte("agents:\n- scheduler: prod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{"", "--check-config"} {
		args := append([]string{"serve", "--dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0",
			"--agents", agents}, strings.Fields(more)...)
		want := agents + ": line 2: agents[0].address: is missing"
		if code, _, errs := command(args...); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s", more, code, errs)
		}
	}
}
