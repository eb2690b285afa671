package traces

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestClusterIsGivenOrInferred: no command that replays a history assumes a number of
// nodes in silence.
func TestClusterIsGivenOrInferred(t *testing.T) {
	data := filepath.Join("..", "..", "..", "..", "workload", "trace", "testdata")
	started := filepath.Join(t.TempDir(), "started.csv")
	if err := os.WriteFile(started, []byte("job_id,submit_time,duration_s,gpus,wait_s\n"+
		"a,2026-01-05T00:00:00Z,7200,16,60\nb,2026-01-05T00:10:00Z,3600,4,0\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	pods := filepath.Join(data, "pai2023_pods.csv")
	drawn := filepath.Join(t.TempDir(), "drawn.csv.gz")
	if code, _, errs := clitest.Run("trace", "synth", "--days", "1", "--job-count", "20", "--nodes", "5",
		"--gpus-per-node", "4",
		"--out", drawn); code != 0 {
		t.Fatal(errs)
	}
	cut, pai := filepath.Join(t.TempDir(), "cut.csv"), filepath.Join(t.TempDir(), "pai.csv")
	if code, _, errs := clitest.Run("trace", "window", drawn, "--out", cut); code != 0 {
		t.Fatal(errs)
	}
	if code, _, errs := clitest.Run("trace", "import", pods+","+filepath.Join(data, "pai2023_nodes.csv"), "--out",
		pai); code != 0 {
		t.Fatal(errs)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"simulate --trace sample", 0, "note: cluster: 20 nodes x 8 GPUs, as the trace states; --nodes"},
		{"simulate --trace sample --nodes 30 --scheduler fifo", 0, ""},
		{"simulate --trace " + started, 0, "note: cluster: at least 3 nodes x 8 GPUs, because 20 GPUs were in use at " +
			"2026-01-05T00:10:00Z, by the recorded starts of 2 jobs; 8 GPUs per node are assumed; --nodes"},
		{"simulate --gpus-per-node 4 --trace " + started, 0, "note: cluster: at least 5 nodes x 4 GPUs"},
		{"simulate --nodes 3 --trace " + started, 0, "note: cluster: 3 nodes x 8 GPUs; 8 GPUs per node are assumed"},
		{"simulate --trace " + pods + "," + filepath.Join(data, "pai2023_nodes.csv"), 0, "from the list of machines"},
		{"simulate --trace " + drawn, 0, "5 nodes x 4 GPUs, as the trace states"},
		{"simulate --trace " + cut, 0, "5 nodes x 4 GPUs, as the trace states"},
		{"simulate --trace " + pai, 0, "as the trace states"},
		{"simulate --vc a=25 --quota strict --trace " + started, 2, "--vc: the quotas add up to 25 GPUs and the cluster " +
			"has 24"},
		{"simulate --trace " + filepath.Join(data, "philly.csv"), 2, "--nodes is missing: the history does not show " +
			"its cluster"},
		{"tune --at 0 --trace " + filepath.Join(data, "philly.csv"), 2, "--nodes is missing"},
		{"evaluate --trace " + filepath.Join(data, "philly.csv"), 2, "--nodes is missing"},
	} {
		code, _, errs := clitest.Run(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(errs, c.want) || c.want == "" && strings.Contains(errs, "cluster") {
			t.Errorf("autosched %s: exit %d, %s\nwant %d, %s", c.args, code, errs, c.code, c.want)
		}
	}
}
