package operate

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/registration"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/schedulers"
)

// TestRegisterCurrent: revision 1, the registered defaults, is the configuration that flags name.
func TestRegisterCurrent(t *testing.T) {
	for _, s := range schedulers.All {
		for _, p := range s.Presets {
			spec := &pb.SchedulerSpec{SchedulerType: s.Name, Parameters: convert.Parameters(p.Config),
				Cluster: &pb.Cluster{Nodes: 4, GpusPerNode: 8}}
			sp, err := registration.Check(cli.Builtins(),
				&pb.CreateSchedulerRequest{SchedulerId: "x", Scheduler: &pb.Scheduler{Spec: spec}})
			if err != nil {
				t.Errorf("%s, %s: %v", s.Name, p.Name, err)
			} else if got := sp.Default().String(); got != p.Config.String() {
				t.Errorf("%s, %s: %s, want %s", s.Name, p.Name, got, p.Config)
			}
		}
	}
	cmd := newSchedulerCmd()
	cmd.SetArgs([]string{"register", "../../../../examples/tiresias.yaml", "--set", "queues=4"})
	cmd.SetOut(new(bytes.Buffer))
	cmd.SetErr(new(bytes.Buffer))
	if err := cmd.Execute(); err == nil {
		t.Error("a file with parameters and --set were taken together")
	}
}

// TestRegisterExternal: a file with parameters and rules registers a scheduler that is not simulated.
func TestRegisterExternal(t *testing.T) {
	address, _ := clitest.StartServe(t, t.TempDir())
	file := filepath.Join(t.TempDir(), "space.yaml")
	text := `parameters:
  - {id: low, kind: float, min_value: 0, max_value: 1, default_value: 0.25}
  - {id: high, kind: float, min_value: 0, max_value: 1, default_value: 0.75}
  - {id: order, kind: categorical, categories: [fifo, las], default_value: las}
rules:
  - {id: between, ordering: {params: [low, high]}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	call := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := clitest.RunClient(t.Context(), newSchedulerCmd(), "", &out, append(args, "--server", address)...)
		return out.String(), err
	}
	cluster := []string{"register", "--space", file, "--id", "mine", "--nodes", "4", "--gpus-per-node", "8"}
	if _, err := call(cluster...); err == nil || !strings.Contains(err.Error(), "--objective") {
		t.Errorf("without an objective: %v", err)
	}
	out, err := call(append(cluster, "--objective", "p95_wait", "--set", "low=0.5")...)
	if err == nil || !strings.Contains(err.Error(), "change their default_value") {
		t.Errorf("with --set: %v\n%s", err, out)
	}
	out, err = call(append(cluster, "--objective", "p95_wait")...)
	for _, want := range []string{`mine \(external`, "p95_wait, which studies measure", "revision 1",
		"order +las"} {
		if err != nil || !regexp.MustCompile(want).MatchString(out) {
			t.Fatalf("%v\n%s, want %q", err, out, want)
		}
	}
	if strings.Contains(out, "ratio") {
		t.Errorf("it speaks of rounds:\n%s", out)
	}
	copied, err := call("get", "mine", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	err = clitest.RunClient(t.Context(), newSchedulerCmd(), copied, &printed, "register", "-", "--id", "copy", "--server",
		address)
	if err != nil || !strings.Contains(printed.String(), "copy (external") {
		t.Errorf("registered again: %v\n%s", err, printed.String())
	}
}

// TestRegisterCluster: the description of a cluster is registered whole.
func TestRegisterCluster(t *testing.T) {
	address, _ := clitest.StartServe(t, t.TempDir())
	file := filepath.Join(t.TempDir(), "cluster.json")
	call := func(text string) (string, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err := clitest.RunClient(t.Context(), newSchedulerCmd(), "", &out, "register", "--builtin", "slurm", "--id", "prod",
			"--cluster",
			file, "--json", "--server", address)
		return out.String(), err
	}
	if _, err := call(`{"nodez": 1}`); err == nil || !strings.Contains(err.Error(), "nodez") {
		t.Errorf("an unknown field: %v", err)
	}
	out, err := call(`{"groups": [{"nodes": 2, "gpus_per_node": 8, "partition": "a"}, {"nodes": 1, "gpus_per_node": 4}],
		"site": {"accounts": [{"name": "vc1", "shares": 3}]}}`)
	if err != nil || !strings.Contains(out, `"vc1"`) {
		t.Errorf("%v: %s", err, out)
	}
}
