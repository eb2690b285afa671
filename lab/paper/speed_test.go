package paper

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// fakeTiresias takes the arguments and writes the file of the Tiresias simulator: every job runs at once.
const fakeTiresias = `
import cplex.exceptions, csv, os, sys
args = dict(a.split("=", 1) for a in sys.argv[1:])
assert args["--schedule"] == "dlas-gpu" and open(args["--cluster_spec"]).read().split()[1].startswith("1,3,8,")
assert sys.maxint > 0
os.makedirs(args["--log_path"])
rows = list(csv.DictReader(open(args["--trace_file"])))
with open(args["--log_path"] + "/job.csv", "w") as f:
    f.write("job_id,JCT\n" + "".join("%s,%s\n" % (r["job_id"], r["duration"]) for r in rows))
print("demoted")
`

// fakeTitanSched has the modules of TitanSched that its policies need, and imports packages that are not installed:
// every job waits for a round.
var fakeTitanSched = map[string]string{
	"alg/__init__.py": `
from mip import *
import pymoo.model.problem

class Problem(pymoo.model.problem.Problem):
    pass

class YarnCSScheduler:
    def __init__(self, job_manager, scheduling_time_interval, check_time_interval, placement, **kwargs):
        assert kwargs["cluster_manager"] == placement == ("V100", 3)
        self.jobs, self.round = job_manager.job_list, scheduling_time_interval
        assert self.round == check_time_interval

    def run(self):
        for j in self.jobs:
            assert j.max_progress == j.target_duration == j.predict_remaining_time(j.target_num_gpus)
            j.completion_time = j.submission_time + self.round + j.target_duration

class TiresiasScheduler:
    pass

class ThemisScheduler:
    pass

def PlaceMentFactory(cluster_manager, name):
    assert name == "consolidate"
    return cluster_manager
`,
	"client/job/__init__.py": `
class PreemptJob:
    def __init__(self, df):
        self.name, self.submission_time, self.target_duration = df.name, df.submission_time, df.duration
        self.target_num_gpus, self.progress = df.num_gpus, 0
`,
	"client/job/base.py": `
class JobManager:
    def __init__(self):
        self.job_list = []

    def submit_job(self, job):
        self.job_list.append(job)

    def prepare_job_start_events(self):
        pass
`,
	"server/cluster.py": `
class Cluster:
    def __init__(self, **size):
        self.size = size

    def init_infra(self, gpu_kind, **size):
        assert size == self.size and size["num_gpu_p_node"] == 8
`,
	"server/meta.py": `
def MetaCluster(parts):
    return tuple((k, v.size["num_node_p_switch"]) for k, v in parts.items())[0]
`,
}

// TestRunPeer: the jobs reach another simulator, and its average JCT comes back; a program that fails is named.
func TestRunPeer(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	folder := t.TempDir()
	dir := filepath.Join(folder, "Tiresias", "simulator")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "run_sim.py"), []byte(fakeTiresias), 0o666); err != nil {
		t.Fatal(err)
	}
	w, err := workload.New("two", time.Time{}, []workload.Job{
		{ID: "a", GPUs: workload.GPUs(1), Duration: 10 * time.Second},
		{ID: "b", GPUs: workload.GPUs(8), Submit: time.Second, Duration: 20 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := runPeer(t.Context(), folder, "Tiresias", "dlas-gpu", w, 3)
	if err != nil || got.AvgJCT != 15 || got.Seconds <= 0 {
		t.Errorf("%+v, %v, want an average JCT of 15 s", got, err)
	}
	if _, err := runPeer(t.Context(), folder, "Tiresias", "fifo", w, 3); err == nil {
		t.Error("a program that fails has no error")
	}
	for name, text := range fakeTitanSched {
		path := filepath.Join(folder, "TitanSched", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := runPeer(t.Context(), folder, "TitanSched", "yarn-cs", w, 3); err != nil || got.AvgJCT != 75 {
		t.Errorf("%+v, %v, want an average JCT of 75 s", got, err)
	}
	if d := (&Data{Peers: folder}); !d.has("Tiresias") || d.has("Lucid") {
		t.Error("the peers at hand are not those in the folder")
	}
}

// TestUntil: the first trial within 1 % of the best counts.
func TestUntil(t *testing.T) {
	for _, c := range []struct {
		jcts  []float64
		n     int
		found bool
	}{{[]float64{12, 10.05, 10}, 2, true}, {[]float64{10}, 1, true}, {[]float64{12, 11}, 2, false}} {
		if n, found := until(c.jcts, 10); n != c.n || found != c.found {
			t.Errorf("%v: %d, %v, want %d, %v", c.jcts, n, found, c.n, c.found)
		}
	}
}
