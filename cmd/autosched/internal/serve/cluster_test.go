package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// TestServeCluster: a node on a cluster of its own answers with what was acknowledged before it was stopped, and with
// the same epoch.
func TestServeCluster(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "cluster.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "node: a\ndir: %s\npeer: %s\nembedded: {}\n",
		filepath.Join(dir, "data"), testshared.FreeAddress(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	address := testshared.FreeAddress(t)
	conn, err := client.Endpoint{Address: address}.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	tuning, config := pb.NewTuningServiceClient(conn), pb.NewConfigurationServiceClient(conn)
	var epoch string
	for life := range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		cmd, o := serveCommand()
		if err := cmd.ParseFlags([]string{"--cluster", file, "--listen", address}); err != nil {
			t.Fatal(err)
		}
		if err := o.check(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- o.run(ctx, slog.New(slog.NewTextHandler(t.Output(), nil))) }()
		var list *pb.ListSchedulersResponse
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if list, err = tuning.ListSchedulers(t.Context(), &pb.ListSchedulersRequest{}); err == nil {
				break
			}
			select {
			case err := <-ended:
				t.Fatalf("life %d ended: %v", life, err)
			default:
			}
			if time.Now().After(deadline) {
				t.Fatalf("life %d does not answer: %v", life, err)
			}
		}
		if len(list.GetSchedulers()) != life {
			t.Errorf("life %d has %d schedulers", life, len(list.GetSchedulers()))
		}
		if life == 0 {
			if _, err := tuning.CreateScheduler(t.Context(), &pb.CreateSchedulerRequest{SchedulerId: "prod",
				Scheduler: &pb.Scheduler{Spec: &pb.SchedulerSpec{SchedulerType: "tiresias",
					Cluster: &pb.Cluster{Nodes: 2, GpusPerNode: 8}}}}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := config.GetCurrentConfiguration(t.Context(),
			&pb.GetCurrentConfigurationRequest{Name: "schedulers/prod"})
		if err != nil {
			t.Fatal(err)
		}
		if id := got.GetConfiguration().GetEpoch().GetId(); life == 0 {
			epoch = id
		} else if id != epoch || id == "" {
			t.Errorf("the epoch is %q, was %q", id, epoch)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("life %d: %v", life, err)
		}
	}
}

// TestClusterFlags: what a node cannot do is refused before anything is written.
func TestClusterFlags(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("node: a\nplace: here\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	unset := filepath.Join(dir, "unset.yaml")
	if err := os.WriteFile(unset, []byte("node: ${AUTOSCHED_UNSET}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"--cluster " + unset, "${AUTOSCHED_UNSET}: not set in the environment"},
		{"--cluster " + filepath.Join(dir, "none"), "no such file"},
		{"--cluster " + bad, "field place not found"},
		{"--cluster " + bad + " --new-epoch", "--start-anew and --new-epoch are of a service of one process"},
	} {
		cmd, o := serveCommand()
		if err := cmd.ParseFlags(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		if err := o.check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
}

// TestCertsOfNodes: nodes identify each other in both directions by an authority that is not that of callers.
func TestCertsOfNodes(t *testing.T) {
	pki := t.TempDir()
	err := clitest.RunClient(t.Context(), newCertsCmd(), "", io.Discard, pki, "--peers", "--host", "a.example")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(pki, "node.pem"), filepath.Join(pki, "node.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		authority string
		use       x509.ExtKeyUsage
		good      bool
	}{
		{"node-ca.pem", x509.ExtKeyUsageServerAuth, true}, {"node-ca.pem", x509.ExtKeyUsageClientAuth, true},
		{"ca.pem", x509.ExtKeyUsageServerAuth, false}, {"ca.pem", x509.ExtKeyUsageClientAuth, false},
	} {
		text, err := os.ReadFile(filepath.Join(pki, c.authority))
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(text)
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "a.example",
			KeyUsages: []x509.ExtKeyUsage{c.use}})
		if (err == nil) != c.good {
			t.Errorf("%s, usage %v: %v", c.authority, c.use, err)
		}
	}
}
