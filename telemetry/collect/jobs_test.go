package collect

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/autosched/autosched/telemetry"
)

const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"

func TestJobOfGroup(t *testing.T) {
	under := strings.ReplaceAll(uid, "-", "_")
	for group, want := range map[string]string{
		"0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n":                                         "4711",
		"9:memory:/slurm/uid_1000/job_4711/step_batch\n8:cpuset:/\n":                                              "4711",
		"8:cpuset:/\n7:devices:/slurm_n1/uid_1000/job_12_3/step_extern\n":                                         "12_3",
		"0::/kubepods/burstable/pod" + uid + "/0123\n":                                                            uid,
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under + ".slice/cri-1.scope\n":     uid,
		"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + under + ".slice/cri-containerd-1.scope": "",
		"0::/kubepods/besteffort/podnot-a-uid/x\n":                                                                "",
		"0::/user.slice/user-1000.slice/session-3.scope\n":                                                        "",
		"0::/home/job_x/step_0\n": "",
		"0::/pod" + uid + "\n":    "",
		"":                        "",
	} {
		if got := jobOfGroup([]byte(group)); got != want {
			t.Errorf("%s: %q, want %q", group, got, want)
		}
	}
}

func TestJobs(t *testing.T) {
	proc := fstest.MapFS{}
	for pid, job := range map[string]string{"11": "1", "12": "1", "13": "2"} {
		proc[pid+"/cgroup"] = &fstest.MapFile{Data: []byte("0::/slurm/job_" + job + "/step_0\n")}
	}
	proc["14/cgroup"] = &fstest.MapFile{Data: []byte("0::/system.slice/dcgm.service\n")}
	path := filepath.Join(t.TempDir(), "map")
	write := func(text string, age time.Duration) {
		t.Helper()
		at := time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	write("# pid job\n20 a\n21,b\n13 1\n", time.Hour)
	var n notes
	j, err := NewJobs(proc, path, n.add)
	if err != nil {
		t.Fatal(err)
	}
	check := func(want string, pids ...int) {
		t.Helper()
		if got := j.Of(pids); got != want {
			t.Errorf("%v: %q, want %q", pids, got, want)
		}
	}
	check("1", 11, 12, 14, 99) // processes of no job do not count
	check("1", 11, 13)         // the map comes first
	check("a", 20)
	check("", 20, 21)
	check("", 14)
	check("")
	write("20 c\n", time.Minute)
	check("c", 20)
	check("", 11, 13)
	write("twenty c\n", 0)
	check("c", 20)
	check("c", 20)
	if len(n.all) != 1 || !strings.Contains(n.all[0], `line 1: "twenty c" is not PID JOB`) {
		t.Errorf("%q", n.all)
	}
	if _, err := NewJobs(proc, path+"x", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, bad := range []string{"1", "0 a", "-1 a", "1 a b", "1,", ",", "1 0\r0"} {
		if all, err := readMap(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: %v", bad, all)
		}
	}
}

func FuzzJobOfGroup(f *testing.F) {
	f.Add([]byte("0::/kubepods/pod" + uid + "/x\n9:memory:/slurm/job_1/step_0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if job := jobOfGroup(data); strings.ContainsAny(job, "/\r\n ") || !bytes.Contains(bytes.ReplaceAll(data, []byte("_"),
			[]byte("-")), []byte(strings.ReplaceAll(job, "_", "-"))) {
			t.Errorf("%q of %q", job, data)
		}
	})
}

func FuzzReadMap(f *testing.F) {
	f.Add([]byte("20 a\n21,b\n# c\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := readMap(bytes.NewReader(data))
		for pid, job := range all {
			if err == nil && (pid <= 0 || job == "" || strings.ContainsAny(job, " \t\r\n")) {
				t.Errorf("%d: %q", pid, job)
			}
		}
	})
}

// A file is continued with one header; a failed write is an error, and no more.
func TestCSV(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gpus.csv")
	sample := []telemetry.GPUSample{{GPU: telemetry.GPU{Node: "n", Instance: -1}, Time: at, Known: telemetry.Power,
		Power: 5}}
	for range 2 {
		c, err := OpenCSV(path)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := c.Send(t.Context(), sample); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stats, err := telemetry.Read(t.Context(), f, path, telemetry.Options{},
		func(*telemetry.GPUSample) error { return nil })
	if err != nil || stats.Samples != 4 || stats.Rejected > 0 {
		t.Errorf("%+v, %v", stats, err)
	}
	full, err := OpenCSV("/dev/full")
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	if err := full.Send(t.Context(), sample); err == nil || full.begun {
		t.Error("a full device took samples")
	}
	if _, err := OpenCSV(filepath.Join(path, "x")); err == nil {
		t.Error("a file below a file was opened")
	}
	if err := os.WriteFile(path, []byte("time,node,gpu,power_w\n1,n,0,5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCSV(path); err == nil || !strings.Contains(err.Error(), "has other columns than time,node,gpu") {
		t.Errorf("a file of other columns: %v", err)
	}
}
