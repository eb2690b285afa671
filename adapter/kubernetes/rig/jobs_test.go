package rig

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestJobs(t *testing.T) {
	jobs, err := ReadJobs(strings.NewReader(
		"job,at_s,tenant,priority,pods,gpus,run_s\nj0,0.73,1,10,2,8,7.95\nj1,1.5,0,0,1,1,3\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Job{Name: "j0", At: 730 * time.Millisecond, Queue: "tenant-1", Priority: 10, Pods: 2, GPUs: 8,
		Run: 7950 * time.Millisecond}
	if len(jobs) != 2 || jobs[0] != want {
		t.Fatalf("jobs: %+v", jobs)
	}
	row := Row{Job: want, Submit: 731 * time.Millisecond,
		Stays: []Stay{{Start: time.Second, End: 2 * time.Second},
			{Start: 3 * time.Second, End: 10960 * time.Millisecond}}}
	var text bytes.Buffer
	if err := WriteRows(&text, []Row{row}); err != nil {
		t.Fatal(err)
	}
	const line = "\nj0,1,10,2,8,7.950,0.731,3.000,10.960,1,1.000-2.000 3.000-10.960\n"
	if !strings.HasSuffix(text.String(), line) {
		t.Errorf("rows:\n%s", &text)
	}
	back, err := ReadRows(&text)
	if err != nil {
		t.Fatal(err)
	}
	row.At = 0 // is not in a row
	if len(back) != 1 || !reflect.DeepEqual(back[0], row) {
		t.Errorf("read back: %+v", back)
	}
	if row.Wait() != 2279*time.Millisecond {
		t.Errorf("the job waited %v", row.Wait())
	}
	for _, bad := range []string{"h\nj0,0\n", "a,b,c,d,e,f,g\nj0,x,1,0,1,1,1\n"} {
		if _, err := ReadJobs(strings.NewReader(bad)); err == nil {
			t.Errorf("no error of %q", bad)
		}
	}
}

func TestJitter(t *testing.T) {
	var jobs []Job
	for i := range 50 {
		jobs = append(jobs, Job{Name: string(rune('A' + i)), At: time.Duration(i) * time.Second})
	}
	moved := Jitter(jobs, 2*time.Second, 1)
	if !slices.IsSortedFunc(moved, func(a, b Job) int { return cmp.Compare(a.At, b.At) }) {
		t.Error("jobs are not in the order of their submission")
	}
	if slices.Equal(moved, jobs) || slices.Equal(moved, Jitter(jobs, 2*time.Second, 2)) {
		t.Error("the seed moves nothing")
	}
	if !slices.Equal(moved, Jitter(jobs, 2*time.Second, 1)) {
		t.Error("a seed moves jobs twice in different ways")
	}
	for _, j := range moved {
		if was := jobs[j.Name[0]-'A'].At; (j.At - was).Abs() > 2*time.Second {
			t.Errorf("job %s: %v instead of %v", j.Name, j.At, was)
		}
	}
}

func TestClasses(t *testing.T) {
	row := func(queue string, gpus int, wait time.Duration, stays int) Row {
		r := Row{Job: Job{Queue: queue, Pods: 1, GPUs: gpus, Run: time.Second}}
		for range stays {
			r.Stays = append(r.Stays, Stay{End: wait + r.Run})
		}
		return r
	}
	got := Classes([]Row{row("b", 1, 2*time.Second, 1), row("a", 8, 6*time.Second, 3), row("a", 4, 4*time.Second, 1)})
	want := []Class{{"a", 2, 2, 5 * time.Second, 6 * time.Second, 6 * time.Second},
		{"all", 3, 2, 4 * time.Second, 6 * time.Second, 5 * time.Second},
		{"b", 1, 0, 2 * time.Second, 2 * time.Second, 3 * time.Second},
		{"below 8 GPUs", 2, 0, 3 * time.Second, 4 * time.Second, 4 * time.Second},
		{"from 8 GPUs", 1, 2, 6 * time.Second, 6 * time.Second, 7 * time.Second}}
	for i := range want {
		if i >= len(got) || (got[i].Wait-want[i].Wait).Abs() > time.Microsecond ||
			(got[i].JCT-want[i].JCT).Abs() > time.Microsecond || got[i].P95 != want[i].P95 ||
			got[i].Name != want[i].Name || got[i].Jobs != want[i].Jobs || got[i].Evicted != want[i].Evicted {
			t.Fatalf("classes %+v, want %+v", got, want)
		}
	}
}
