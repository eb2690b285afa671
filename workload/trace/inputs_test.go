package trace

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload"
)

// jobLines are a workload's jobs in order of submission: id, milli-GPUs, seconds and status, and with waits the wait.
func jobLines(t *testing.T, path string, o Options, waits bool) (lines []string, r *Report) {
	t.Helper()
	w, r, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if r.Rows+r.Expanded != r.Jobs+r.Rejected+r.LeftOut+r.Merged {
		t.Errorf("%s: rows do not add up: %+v", path, r)
	}
	for _, j := range w.Jobs() {
		line := fmt.Sprintf("%s %d %g %s", j.ID, j.GPUs, j.Duration.Seconds(), j.Status)
		if waits {
			line += fmt.Sprintf(" %g", j.Wait.Seconds())
		}
		lines = append(lines, line)
	}
	return lines, r
}

// TestInputs reads the histories of shared/inputs, by their numbers there, with the values that their README has. The
// run time of 07 is that of its columns Elapsed, and End less Start.
func TestInputs(t *testing.T) {
	restarts, adds := Options{RequeueRestarts: true}, Options{}
	for _, c := range []struct {
		files string
		opts  Options
		waits bool
		want  string // jobs
		other string // rejected and left out
	}{
		{files: "01.psv", want: "1001 1000 3600 completed, 1002 3000 3600 completed, 1003 4000 3600 completed, " +
			"1004 8000 3600 completed, 1005 2000 3600 completed"},
		{files: "02.psv", want: "2001 2000 3600 completed, 2002 4000 3600 completed, 2003 1000 3600 completed, " +
			"2004 1000 3600 completed, 2005 1000 3600 completed"},
		{files: "04.log", want: "4001 4000 176400 completed, 4003 1000 300 failed"},
		{files: "05a.psv", want: "5001 2000 3600 completed, 5002 8000 3600 completed", other: "1 it asks for no GPU"},
		{files: "05b.psv", want: "5001 2000 3600 completed, 5002 8000 3600 completed", other: "1 it asks for no GPU"},
		{files: "07.csv", want: "7001 2000 183845 completed, 7002 8000 1800 cancelled"},
		{files: "08.json", want: "8001 4000 3600 completed"},
		{files: "10a.psv", want: "9100 143 3600 completed, 9101 143 3600 completed, 9102 143 3600 completed, " +
			"9103 143 3600 completed, 9104 143 3600 completed, 9105 143 3600 completed, 9106 143 3600 completed"},
		{files: "10b.psv", want: "9001 429 3600 completed, 9002 429 3600 completed"},
		{files: "16.csv", waits: true, want: "1 4000 93600 completed 600, 2 8000 14400 timed_out 300",
			opts: Options{Columns: mustColumns(t, "id=job_id,submit=submit_time,start=start_time,end=end_time,"+
				"duration=wallclock_used,gpus=gpus_req,wait=queue_wait,status=state,memory=mem_req")},
			other: "1 it asks for no GPU"},
		{files: "22.cluster_job_log 22.cluster_machine_list", want: "application_1 8000 7200 completed, " +
			"application_3 1000 600 failed, application_7 2000 2400 completed",
			other: "1 rejected, 2 it never ran, 1 it has not ended"},
		{files: "25.psv", want: "4200 2000 14400 completed"},
		{files: "26.csv", want: "1 1000 86400 , 2 16000 41060 , 3 32000 3600 ", opts: Options{Columns: mustColumns(t,
			"submit=submit_time,duration=duration,gpus=gpu_request*worker_num,id=job_name")}},
		{files: "28a.csv", want: "3001 2000 3600 completed, 3002 1000 600 failed", other: "1 it never ran"},
		{files: "28b.csv", want: "3001 2000 3600 completed, 3002 1000 600 failed", other: "1 it never ran"},
		{files: "29a.psv 29b.psv", want: "4001 8000 172800 completed, 4002 8000 3600 completed"},
		{files: "29b.psv 29a.psv", want: "4001 8000 172800 completed, 4002 8000 3600 completed"},
		{files: "29b.psv 29a.psv", opts: adds, want: "4001 8000 172800 completed, 4002 8000 3600 completed"},
		{files: "29c.psv 29d.psv", opts: adds, want: "1001 1000 3600 completed, 1002 3000 3600 completed, " +
			"1003 4000 3600 completed, 1004 8000 3600 completed, 1005 2000 3600 completed"},
		{files: "31.psv", opts: restarts, want: "3100 1000 600 completed, 3101 1000 600 completed, 3110 6000 600 completed, " +
			"3122 2000 300 failed, 3123 2000 300 out_of_memory", other: "1 rejected, 3 it is a step of a job " +
			"(sacct -X lists none), 3 it never ran"},
		{files: "32.psv", waits: true, want: "4302 2000 3600 completed 1200, 4301 2000 3600 completed 2400",
			opts: Options{Zone: mustZone(t, "Europe/Berlin")}},
	} {
		t.Run(c.files, func(t *testing.T) {
			var paths []string
			for _, f := range strings.Fields(c.files) {
				paths = append(paths, testshared.Path(t, "inputs", f))
			}
			lines, r := jobLines(t, strings.Join(paths, ","), c.opts, c.waits)
			if got := strings.Join(lines, ", "); got != c.want {
				t.Errorf("jobs %s\nwant %s", got, c.want)
			}
			if got := r.others(); got != c.other {
				t.Errorf("%s; want %s", got, c.other)
			}
			if r.Machines != nil {
				want := []workload.NodeGroup{{Nodes: 1, GPUsPerNode: 8, GPUModel: "24GB"},
					{Nodes: 1, GPUsPerNode: 8, GPUModel: "12GB"}}
				if !reflect.DeepEqual(r.Machines, want) || !strings.Contains(strings.Join(r.Notes, ";"),
					`a job held 8 GPUs of machine "m51", more than the list of machines has of it`) {
					t.Errorf("%v, %q", r.Machines, r.Notes)
				}
			}
		})
	}
}

// TestHeld: the GPU-hours by status and the most GPUs at once are those of the rows, and a check has the same.
func TestHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.psv")
	text := psv + "1|u|COMPLETED|" + at8 + "|01:00:00|gres/gpu=2|1|x\n" +
		"2|u|FAILED|2026-03-02T08:00:00|2026-03-02T08:40:00|2026-03-02T09:40:00|01:00:00|gres/gpu:1g.5gb=7|1|x\n" +
		"3|u|RUNNING|2026-03-02T08:00:00|2026-03-02T09:10:00|Unknown|00:30:00|gres/gpu=2|1|x\n" +
		"4|u|PENDING|2026-03-02T08:00:00|Unknown|Unknown|00:00:00||1|x\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := Held{GPUHours: 4, Kinds: []HeldKind{{"completed", 2}, {"failed", 1}, {"running", 1}}, Running: .25, Peak: 3,
		At: time.Date(2026, 3, 2, 8, 40, 0, 0, time.UTC)}
	_, read, err := Open(t.Context(), path, Options{})
	if err != nil || !reflect.DeepEqual(read.Held, want) {
		t.Errorf("%+v, %v; want %+v", read.Held, err, want)
	}
	checked, err := Check(t.Context(), path, nil, Options{})
	if err != nil || !reflect.DeepEqual(checked, read) {
		t.Errorf("a check has %+v, %v", checked, err)
	}
}

func mustColumns(t *testing.T, text string) Columns {
	t.Helper()
	cs, err := ParseColumns(text)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

func mustZone(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := ParseZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// others says how many rows were rejected or left out.
func (r *Report) others() string {
	var out []string
	if r.Rejected > 0 {
		out = append(out, fmt.Sprint(r.Rejected, " rejected"))
	}
	for _, x := range r.LeftOutReasons {
		out = append(out, fmt.Sprint(x.Jobs, " ", x.Reason))
	}
	return strings.Join(out, ", ")
}

// TestOwnInputs reads inputs of the kinds of shared/inputs, three of each kind, made for this test.
func TestOwnInputs(t *testing.T) {
	kinds := map[int]int{}
	for _, c := range ownInputs {
		kinds[c.kind]++
		t.Run(fmt.Sprint(c.kind, " ", c.name), func(t *testing.T) {
			dir, paths := t.TempDir(), []string(nil)
			for i, text := range c.files {
				name, rest, ok := strings.Cut(text, "\t")
				if !ok || !strings.Contains(name, ".") {
					name, rest = fmt.Sprint("f", i), text
				}
				text = rest
				paths = append(paths, filepath.Join(dir, name))
				if err := os.WriteFile(paths[i], []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			opts := c.opts
			if c.columns != "" {
				opts.Columns = mustColumns(t, c.columns)
			}
			if c.err != "" {
				if _, _, err := Open(t.Context(), strings.Join(paths, ","), opts); err == nil ||
					!strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v; want %s", err, c.err)
				}
				return
			}
			lines, r := jobLines(t, strings.Join(paths, ","), opts, false)
			if got := strings.Join(lines, ", "); got != c.want {
				t.Errorf("jobs %s\nwant %s", got, c.want)
			}
			if got := r.others(); got != c.other {
				t.Errorf("%s; want %s", got, c.other)
			}
			absent, isAbsent := strings.CutPrefix(c.note, "~")
			if got := strings.Join(r.Notes, "; "); strings.Contains(got, absent) == isAbsent {
				t.Errorf("notes %q; want %q", got, c.note)
			}
		})
	}
	for _, kind := range []int{1, 2, 5, 6, 7, 8, 9, 12, 13} {
		if kinds[kind] < 3 {
			t.Errorf("kind %d has %d inputs, want 3", kind, kinds[kind])
		}
	}
}
