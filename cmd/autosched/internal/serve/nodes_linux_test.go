package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	apiclient "github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/service/nodetest"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/workload"
)

// startCluster starts nodes of this program, on an empty disk each.
func startCluster(t *testing.T, nodes, rate int, seed uint64) *nodetest.Cluster {
	t.Helper()
	return clusterOf{nodes: nodes, rate: rate, seed: seed}.start(t)
}

// clusterOf says which nodes a test starts.
type clusterOf struct {
	nodes, rate int
	seed        uint64
	program     func(node int) string // a test binary of this package, as a node starts; this one if nil
	cuts        bool                  // the power of the disks can be cut
}

// start starts nodes, in network namespaces, and connects a load to them.
func (o clusterOf) start(t *testing.T) *nodetest.Cluster {
	t.Helper()
	nodes := o.nodes
	if o.program == nil {
		o.program = func(int) string { return os.Args[0] }
	}
	dir := t.TempDir()
	network, err := nodetest.NewNet(nodes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	pki := filepath.Join(dir, "pki")
	args := []string{pki}
	if nodes > 1 {
		args = append(args, "--peers")
	}
	for i := range nodes {
		args = append(args, "--host", network.Host(i))
	}
	if err := clitest.RunClient(t.Context(), newCertsCmd(), "", io.Discard, args...); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(pki, name) }
	connect := func(server string) *grpc.ClientConn {
		f := cli.ConnectFlags{Server: server, CA: in("ca.pem"), Cert: in("admin.pem"), Key: in("admin.key")}
		conn, err := f.Dial()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	wrong := &nodetest.Violations{}
	c := &nodetest.Cluster{Net: network, Wrong: wrong, Random: rand.New(rand.NewPCG(o.seed, 36)),
		Engine: []int{enginePort}, Damaged: map[int]string{},
		Damage: func(p string) bool { return !strings.Contains(p, "lost+found") }}
	roots, err := apiclient.Endpoint{CA: in("ca.pem"), Cert: in("admin.pem"), Key: in("admin.key")}.TLS()
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: roots}, Timeout: time.Second}
	t.Cleanup(web.CloseIdleConnections)
	c.Leader = func() int { return leaderOf(web, c.Nodes) }
	c.Behind = func(some int) bool { return nodes > 1 && behind(web, c.Nodes, some) }
	var conns []*grpc.ClientConn
	var servers []string
	for i := range nodes {
		place, newDisk := filepath.Join(dir, fmt.Sprint("node", i)), nodetest.NewDisk
		if o.cuts {
			newDisk = nodetest.NewCutDisk
		}
		disk, err := newDisk(place, 2048)
		if err != nil {
			t.Fatal(err)
		}
		log := filepath.Join(dir, fmt.Sprintf("node%d.log", i))
		n := nodetest.NewNode(network, i, disk, log, func(n *nodetest.Node) *exec.Cmd {
			child := exec.Command(o.program(i))
			if nodes > 1 {
				file := filepath.Join(dir, fmt.Sprintf("node%d.yaml", i))
				if err := os.WriteFile(file, []byte(clusterFile(network, nodes, n, pki)), 0o600); err != nil {
					t.Error(err)
				}
				child.Env = append(child.Env, nodeCluster+"="+file)
			}
			child.Env = append(append(child.Env, os.Environ()...), nodeDir+"="+filepath.Join(n.Disk.Dir, "data"),
				nodeHost+"="+n.Host, nodePKI+"="+pki, nodeClock+"="+n.ClockFile())
			return child
		})
		t.Cleanup(func() {
			if n.Running() {
				_ = n.Signal(syscall.SIGCONT)
				if err := n.Stop(syscall.SIGKILL); err != nil {
					t.Error(err)
				}
			}
			if err := disk.Close(); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				text, _ := os.ReadFile(n.Log)
				t.Logf("node %d wrote:\n%s", i, text[max(0, len(text)-8000):])
			}
		})
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		c.Nodes = append(c.Nodes, n)
		servers = append(servers, network.Host(i)+":7443")
		conns = append(conns, connect(servers[i]))
	}
	c.Load = nodetest.NewLoad(conns, connect(strings.Join(servers, ",")), o.rate, wrong)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := c.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

const enginePort, peerPort = 6222, 7444

// clusterFile is the file of a node of several.
func clusterFile(network *nodetest.Net, nodes int, n *nodetest.Node, pki string) string {
	var routes []string
	for i := range nodes {
		if i != n.Index {
			routes = append(routes, fmt.Sprintf("%q", fmt.Sprint(network.Host(i), ":", enginePort)))
		}
	}
	return fmt.Sprintf(`node: node%d
dir: %s
replicas: %d
peer: %s:%d
embedded:
  cluster: %s:%d
  routes: [%s]
tls:
  cert: %s
  key: %s
  ca: %s
`, n.Index, filepath.Join(n.Disk.Dir, "data"), nodes, n.Host, peerPort, n.Host, enginePort, strings.Join(routes, ", "),
		filepath.Join(pki, "node.pem"), filepath.Join(pki, "node.key"), filepath.Join(pki, "node-ca.pem"))
}

// behind reports whether a node has yet to apply more than some changes that the log has, or does not know.
func behind(web *http.Client, nodes []*nodetest.Node, some int) bool {
	return slices.ContainsFunc(nodes, func(n *nodetest.Node) bool {
		_, text, _ := strings.Cut(ready(web, n), "\nlag: ")
		lag, err := strconv.Atoi(strings.TrimSpace(text))
		return err != nil || lag > some
	})
}

// ready is a node's answer to the question for its readiness, "" if there is none.
func ready(web *http.Client, n *nodetest.Node) string {
	answer, err := web.Get("https://" + n.Host + ":9443/readyz")
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return ""
	}
	return string(text)
}

// leaderOf asks the nodes which of them leads; -1 if none says that it does.
func leaderOf(web *http.Client, nodes []*nodetest.Node) int {
	for i, n := range nodes {
		if len(nodes) == 1 || strings.Contains(ready(web, n), "\nrole: leader\n") {
			return i
		}
	}
	return -1
}

// runRounds injects faults one after the other, and counts the events in the stores of all nodes in the end.
func runRounds(t *testing.T, c *nodetest.Cluster, faults []nodetest.Fault, leader func(i int) bool, out string) {
	t.Helper()
	for i, f := range faults {
		r, err := c.Round(t.Context(), f, leader(i))
		if err != nil {
			t.Fatal(err)
		}
		if r.Violations > 0 {
			t.Errorf("%s: %d violations: %s", r.Kind, r.Violations, strings.Join(r.Texts, "\n"))
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s", text)
		if out != "" {
			if err := r.Append(out); err != nil {
				t.Fatal(err)
			}
		}
		if t.Failed() {
			break
		}
	}
	for deadline := time.Now().Add(time.Minute); c.Behind(0); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a node is behind for a minute after the load has ended")
		}
	}
	for _, n := range c.Nodes {
		if err := n.Stop(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		data := filepath.Join(n.Disk.Dir, "data")
		if len(c.Nodes) > 1 {
			data = filepath.Join(data, "replica")
		}
		lost, double, err := c.Load.Events.Check(fmt.Sprintf("node %d", n.Index), storedIn(data))
		if where := c.Damaged[n.Index]; errors.Is(err, errDamaged) && where != "" && !t.Failed() {
			// Damage that was done must be found; the other nodes have every event.
			t.Logf("node %d: a bit of %s was changed, and is found: %v", n.Index, where, err)
			continue
		}
		if err != nil {
			t.Error(err)
		}
		t.Logf("node %d: of %d events acknowledged %d are lost, %d are double", n.Index, c.Load.Events.Acked(), lost,
			double)
	}
	if all, n := c.Wrong.Take(); n > 0 {
		t.Errorf("%d violations: %s", n, strings.Join(all, "\n"))
	}
}

// errDamaged is the error of a directory with a record that cannot be read.
var errDamaged = errors.New("damaged")

// storedIn reads the ids of the events in a directory that no service has open.
func storedIn(dir string) nodetest.Stored {
	return func(each func(id string) error) error {
		r, err := store.OpenReader(dir)
		if err != nil {
			return err
		}
		defer r.Close()
		damage, err := r.ReplayEvents("", func(_ string, e workload.Event) error { return each(e.ID) })
		if err == nil && len(damage) > 0 {
			err = fmt.Errorf("%s: %w: %v", dir, errDamaged, damage)
		}
		return err
	}
}

// TestOneNode: a service of one process loses nothing in the faults that it can survive, by the checks of TestNodes.
func TestOneNode(t *testing.T) {
	if testing.Short() {
		t.Skip("a round takes seconds")
	}
	nodetest.Require(t)
	kinds := []string{"kill", "disk slow"}
	if number("AUTOSCHED_NODES_ROUNDS", 0) > 0 {
		kinds = append(kinds, "pause", "unplugged", "clock, a day ahead", "clock, a day behind", "disk full")
	}
	c := startCluster(t, 1, number("AUTOSCHED_NODES_RATE", 1000), 1)
	runRounds(t, c, ofKinds(nodetest.Faults(3*time.Second, 3*time.Second), kinds...), func(int) bool { return true }, "")
}

// ofKinds chooses faults by kind.
func ofKinds(all []nodetest.Fault, kinds ...string) []nodetest.Fault {
	return slices.DeleteFunc(all, func(f nodetest.Fault) bool { return !slices.Contains(kinds, f.Kind) })
}

// TestNodes: three nodes lose no event and no change of a configuration that they acknowledged, store none twice, and
// answer as one service would, whatever happens to one of them. AUTOSCHED_NODES_ROUNDS is the number of rounds, of
// which AUTOSCHED_NODES_OUT, a file, has those of former runs.
func TestNodes(t *testing.T) {
	if os.Getenv("AUTOSCHED_NODES") != "1" {
		t.Skip("of make nodes")
	}
	nodetest.Require(t)
	rounds, out := number("AUTOSCHED_NODES_ROUNDS", 0), os.Getenv("AUTOSCHED_NODES_OUT")
	rate := number("AUTOSCHED_NODES_RATE", 1000)
	if rounds == 0 { // one round of each kind that is not like another
		c := startCluster(t, 3, rate, 1)
		kinds := ofKinds(nodetest.Faults(6*time.Second, 12*time.Second), "kill", "pause", "partition, both ways",
			"clock, a day ahead", "disk full", "disk slow", "file damaged")
		runRounds(t, c, kinds, func(i int) bool { return i != len(kinds)-1 }, out)
		return
	}
	done, err := nodetest.ReadRounds(out)
	if err != nil {
		t.Fatal(err)
	}
	kinds := nodetest.Faults(8*time.Second, 30*time.Second)
	for i := len(done); i < rounds && !t.Failed(); {
		life := kinds[i%len(kinds):] // of one cluster
		life = life[:min(len(life), rounds-i)]
		t.Run(fmt.Sprint("rounds ", i+1, " to ", i+len(life)), func(t *testing.T) {
			turn := i / len(kinds)
			c := startCluster(t, 3, rate, uint64(i))
			runRounds(t, c, life, func(int) bool { return turn%4 != 3 }, out)
		})
		i += len(life)
	}
}

// TestNodesCost reports the resources of idle nodes, and the events and the times of writes under more load than they
// take, of one process and of three nodes, one after the other.
func TestNodesCost(t *testing.T) {
	if os.Getenv("AUTOSCHED_NODES") != "1" || number("AUTOSCHED_NODES_ROUNDS", 0) == 0 {
		t.Skip("of make nodes with AUTOSCHED_NODES_ROUNDS")
	}
	nodetest.Require(t)
	const idle, busy = 20 * time.Second, 20 * time.Second
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			c := startCluster(t, nodes, number("AUTOSCHED_NODES_RATE", 5000), 1)
			var before []nodetest.Cost
			cost := func(n *nodetest.Node) nodetest.Cost {
				c, err := n.Cost()
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			time.Sleep(5 * time.Second) // the start is over
			for _, n := range c.Nodes {
				before = append(before, cost(n))
			}
			time.Sleep(idle)
			leader := c.Leader()
			for i, n := range c.Nodes {
				now := cost(n)
				t.Logf("idle, node %d, leads %v: %.1f %% of a core, %d MB, %.2f syncs/s", i, i == leader,
					100*(now.CPU-before[i].CPU).Seconds()/idle.Seconds(), now.Memory>>20,
					float64(now.Flushes-before[i].Flushes)/idle.Seconds())
			}
			stop, began := make(chan struct{}), c.Load.Now()
			time.AfterFunc(busy, func() { close(stop) })
			c.Load.Run(t.Context(), stop)
			took := c.Load.Now() - began
			o := c.Load.Outages(began)
			t.Logf("busy: %.0f events/s, writes of %v in the median and %v at the 99th percentile",
				float64(c.Load.Events.Acked())/took.Seconds(), o[0].P50, o[0].P99)
			runRounds(t, c, nil, nil, "")
		})
	}
}
