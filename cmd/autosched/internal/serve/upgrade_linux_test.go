package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/service/nodetest"
	"github.com/autosched/autosched/service/store"
)

const toRoot = "../../../.."

// formerVersion builds the test binary of this package at the commit of service/nodetest/testdata/previous. Variables
// by which a test binary starts as a node must stay as they are there.
func formerVersion(t *testing.T) (program string) {
	t.Helper()
	text, err := os.ReadFile(toRoot + "/service/nodetest/testdata/previous")
	if err != nil {
		t.Fatal(err)
	}
	commit := strings.TrimSpace(string(text))
	if out, err := exec.Command("git", "cat-file", "-e", commit+"^{commit}").CombinedOutput(); err != nil {
		t.Skipf("the history of the repository is not at hand, so the previous version %s is not built: %v %s", commit,
			err, out)
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	script := `mkdir "$2" && git -C "$3" archive "$1" | tar -x -C "$2"`
	if out, err := exec.Command("sh", "-c", script, "sh", commit, source, toRoot).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program = filepath.Join(dir, "former")
	build := exec.Command("go", "test", "-c", "-o", program, "./cmd/autosched/internal/serve")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// mutated builds the test binary of this package with pieces of files replaced.
func mutated(t *testing.T, files map[string][]string) (program string) {
	t.Helper()
	dir, replace := t.TempDir(), map[string]string{}
	for name, pieces := range files {
		file, err := filepath.Abs(filepath.Join(toRoot, name))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(pieces); i += 2 {
			if n := strings.Count(string(text), pieces[i]); n != 1 {
				t.Fatalf("%s has this text %d times: %s", name, n, pieces[i])
			}
		}
		replace[file] = filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
		changed := strings.NewReplacer(pieces...).Replace(string(text))
		if err := os.WriteFile(replace[file], []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay"), overlay, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "mutated")
	out, err := exec.Command("go", "test", "-c", "-overlay", filepath.Join(dir, "overlay"), "-o", program,
		".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// versions are the programs of nodes.
type versions struct{ of []string }

// to is a restart of a node with a program.
func (v *versions) to(kind, program string, next func(c *nodetest.Cluster) int) nodetest.Fault {
	return nodetest.Restart(kind, next, func(n *nodetest.Node) error {
		v.of[n.Index] = program
		return nil
	})
}

// follower returns a node that does not lead and has not a program; the leader if no other is left.
func (v *versions) follower(program string) func(c *nodetest.Cluster) int {
	return func(c *nodetest.Cluster) int {
		leader := c.Leader()
		for i, one := range v.of {
			if one != program && i != leader {
				return i
			}
		}
		return max(0, leader)
	}
}

// TestRollingUpgrade: nodes of the previous version and of this one lose nothing of each other, while one after the
// other is upgraded, the leader last, one goes back, and comes again; so does a service of one process.
func TestRollingUpgrade(t *testing.T) {
	if os.Getenv("AUTOSCHED_NODES") != "1" {
		t.Skip("of make nodes")
	}
	nodetest.Require(t)
	former, now := formerVersion(t), os.Args[0]
	for name, nodes := range map[string]int{"one process": 1, "three nodes": 3} {
		t.Run(name, func(t *testing.T) {
			v := &versions{}
			for range nodes {
				v.of = append(v.of, former)
			}
			c := clusterOf{nodes: nodes, rate: 1000, seed: 1,
				program: func(i int) string { return v.of[i] }}.start(t)
			var steps []nodetest.Fault
			for range nodes {
				steps = append(steps, v.to("upgrade", now, v.follower(now)))
			}
			steps = append(steps, v.to("back", former, v.follower(former)), v.to("upgrade", now, v.follower(now)))
			runRounds(t, c, steps, func(int) bool { return true }, "")
		})
	}
}

// TestUpgradeToNewEntries: an upgrade to a version whose entries this one cannot read loses nothing. A node of this
// version that meets such an entry, as another one took the lease in between or the node went back, ends and says so,
// and has everything once it is upgraded.
func TestUpgradeToNewEntries(t *testing.T) {
	if os.Getenv("AUTOSCHED_NODES") != "1" {
		t.Skip("of make nodes")
	}
	nodetest.Require(t)
	reader := uint64(1) // the first version that this program does not know
	for store.Readable(reader) == nil {
		reader++
	}
	next, now := mutated(t, map[string][]string{
		"service/store/layout.go": {fmt.Sprintf("readerVersion = %d //", reader-1),
			fmt.Sprintf("readerVersion = %d //", reader)},
		"service/jet/store.go": {"g.entry.Reader = max(g.entry.Reader, c.op.Reader())",
			fmt.Sprint("g.entry.Reader = ", reader)},
	}), os.Args[0]
	v := &versions{of: []string{now, now, now}}
	var c *nodetest.Cluster
	complains := func(n *nodetest.Node) bool {
		text, err := os.ReadFile(n.Log)
		return err == nil && strings.Contains(string(text), "written by a newer version")
	}
	back := -1 // the node that goes back
	c = clusterOf{nodes: 3, rate: 1000, seed: 1, program: func(i int) string {
		if c != nil && i != back && complains(c.Nodes[i]) { // it ended, and is upgraded
			v.of[i] = next
		}
		return v.of[i]
	}}.start(t)
	var steps []nodetest.Fault
	for range 3 {
		steps = append(steps, v.to("upgrade", next, v.follower(next)))
	}
	steps = append(steps, nodetest.Restart("back", v.follower(now), func(n *nodetest.Node) error {
		v.of[n.Index], back = now, n.Index
		if err := n.Start(); err != nil {
			return err
		}
		for deadline := time.Now().Add(time.Minute); n.Running(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				return errors.New("a node goes on that cannot read the entries of the others")
			}
		}
		if !complains(n) {
			return errors.New("a node that cannot read entries does not say why it ends")
		}
		v.of[n.Index], back = next, -1
		return nil
	}))
	runRounds(t, c, steps, func(int) bool { return true }, "")
}
