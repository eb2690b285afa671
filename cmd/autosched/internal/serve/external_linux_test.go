package serve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/testshared"
)

// natsFile names the configuration file of a process that is a server of NATS.
const natsFile = "AUTOSCHED_NATS_TEST_FILE"

// serveNATS is the server until the process is killed.
func serveNATS(file string) {
	o, err := server.ProcessConfigFile(file)
	if err == nil {
		o.NoSigs = true
		var s *server.Server
		if s, err = server.NewServer(o); err == nil {
			s.ConfigureLogger()
			s.Start()
			s.WaitForShutdown()
			return
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// child starts this program as another process, which the test ends.
func child(t *testing.T, name string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), env...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may be dead
		_ = c.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s wrote:\n%s", name, text[max(0, len(text)-3000):])
		}
		_ = log.Close()
	})
	return c
}

// TestExternalServers: nodes over servers of NATS that run by themselves take writes, and go on after the leader was
// killed; until then a read that may be old is answered from another node's copy.
func TestExternalServers(t *testing.T) {
	dir := t.TempDir()
	var clients, routes, urls, nodes []string
	for range 3 {
		clients = append(clients, testshared.FreeAddress(t))
		routes = append(routes, "nats://"+testshared.FreeAddress(t))
	}
	for i := range clients {
		urls = append(urls, "nats://"+clients[i])
		file := filepath.Join(dir, fmt.Sprintf("nats%d.conf", i))
		if err := os.WriteFile(file, fmt.Appendf(nil, `server_name: s%d
listen: %q
max_payload: 8MB
jetstream { store_dir: %q, sync_interval: always }
cluster { name: test, listen: %q, routes: ["%s"] }
accounts {
  SYS { users: [{user: system, password: secret}] }
  APP { jetstream: enabled, users: [{user: app, password: secret}] }
}
system_account: SYS
no_auth_user: app
`, i, clients[i], filepath.Join(dir, fmt.Sprint("nats", i)), strings.TrimPrefix(routes[i], "nats://"),
			strings.Join(routes, `", "`)), 0o600); err != nil {
			t.Fatal(err)
		}
		child(t, fmt.Sprint("server ", i), []string{natsFile + "=" + file})
	}
	all := map[string]*exec.Cmd{}
	conns, pages := map[string]*grpc.ClientConn{}, map[string]string{}
	for i := range 3 {
		file := filepath.Join(dir, fmt.Sprintf("node%d.yaml", i))
		if err := os.WriteFile(file, fmt.Appendf(nil, `node: node%d
dir: %s
peer: %s
replicas: 3
external: {urls: ["%s"], system: %q}
`, i, filepath.Join(dir, fmt.Sprint("node", i)), testshared.FreeAddress(t), strings.Join(urls, `", "`),
			"nats://system:secret@"+clients[i]), 0o600); err != nil {
			t.Fatal(err)
		}
		address, operations := testshared.FreeAddress(t), testshared.FreeAddress(t)
		pages[fmt.Sprint("node", i)] = operations
		nodes = append(nodes, address)
		all[fmt.Sprint("node", i)] = startNode(t, file, address, operations)
		conn, err := client.Endpoint{Address: address, MaxStaleness: time.Hour}.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns[fmt.Sprint("node", i)] = conn
	}
	conn, err := client.Endpoint{Address: strings.Join(nodes, ",")}.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	tuning, config := pb.NewTuningServiceClient(conn), pb.NewConfigurationServiceClient(conn)
	eventually := func(what string, f func(ctx context.Context) error) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			err := f(ctx)
			cancel()
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	eventually("register", func(ctx context.Context) error {
		_, err := tuning.CreateScheduler(ctx, &pb.CreateSchedulerRequest{SchedulerId: "prod", RequestId: "one",
			Scheduler: &pb.Scheduler{Spec: &pb.SchedulerSpec{SchedulerType: "tiresias",
				Cluster: &pb.Cluster{Nodes: 2, GpusPerNode: 8}}}})
		return err
	})
	pin := func(value float64) (revision int64) {
		t.Helper()
		eventually("pin", func(ctx context.Context) error {
			c, err := config.PinConfiguration(ctx, &pb.PinConfigurationRequest{Parent: "schedulers/prod",
				Reason: "test", RequestId: fmt.Sprint("pin", value),
				Parameters: map[string]*structpb.Value{"starve_limit": structpb.NewNumberValue(value)}})
			revision = c.GetRevision()
			return err
		})
		return revision
	}
	written := pin(500)
	var leader string
	eventually("node0 knows the leader", func(context.Context) error {
		if leader = leaderNow(pages["node0"]); all[leader] == nil {
			return fmt.Errorf("%q leads", leader)
		}
		return nil
	})
	// old is the revision that a node's copy has, and how old it may be.
	old := func(ctx context.Context, node string) (revision int64, age time.Duration, err error) {
		var header metadata.MD
		got, err := pb.NewConfigurationServiceClient(conns[node]).GetCurrentConfiguration(ctx,
			&pb.GetCurrentConfigurationRequest{Name: "schedulers/prod"}, grpc.Header(&header))
		if err != nil {
			return 0, 0, err
		}
		if v := header.Get("autosched-staleness"); len(v) == 1 {
			age, err = time.ParseDuration(v[0])
		}
		return got.GetConfiguration().GetRevision(), age, err
	}
	for node := range all {
		eventually("a read of the copy of "+node, func(ctx context.Context) error {
			revision, age, err := old(ctx, node)
			if err == nil && (revision != written || age == 0 && node != leader) {
				err = fmt.Errorf("revision %d of age %v, want %d", revision, age, written)
			}
			return err
		})
	}
	if err := all[leader].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for node := range all {
		if node == leader {
			continue
		}
		if revision, age, err := old(t.Context(), node); err != nil || revision != written || age == 0 {
			t.Errorf("without a leader, %s: revision %d of age %v, want %d; %v", node, revision, age, written, err)
		}
	}
	if next := pin(600); next <= written {
		t.Errorf("after the kill: revision %d after %d", next, written)
	}
	for node := range all {
		if node == leader {
			continue
		}
		eventually("the new leader as "+node+" knows it", func(context.Context) error {
			if now := leaderNow(pages[node]); now == leader || all[now] == nil {
				return fmt.Errorf("it says %q; %s was killed", now, leader)
			}
			return nil
		})
	}
}

// startNode starts a node with a cluster file.
func startNode(t *testing.T, file, address, operations string) *exec.Cmd {
	t.Helper()
	return child(t, file, []string{"AUTOSCHED_TEST_MAIN=1"}, "serve", "--cluster", file, "--listen", address,
		"--operations", operations)
}

// leaderNow is the node that leads as a node says, "" if none does.
func leaderNow(node string) string {
	answer, err := http.Get("http://" + node + "/readyz")
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	_, rest, _ := strings.Cut(string(text), "\nleader: ")
	name, _, _ := strings.Cut(rest, "\n")
	return name
}
