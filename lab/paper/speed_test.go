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
	if d := (&Data{Peers: folder}); !d.has("Tiresias") || d.has("Lucid") {
		t.Error("the peers at hand are not those in the folder")
	}
}
