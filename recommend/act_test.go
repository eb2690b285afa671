package recommend

import (
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/workload"
)

// TestActOnShares: a job of a share of a GPU that is ended keeps its share, and its waste is that of the share.
func TestActOnShares(t *testing.T) {
	j := job("a", "t", 0, 10*time.Hour, 1)
	j.GPUs, j.Used, j.Useful = 250, .25, time.Hour
	j.Cancel(3 * time.Hour)
	want := Change{Duration: 3 * time.Hour, GPUs: 250, Used: .25, Useful: time.Hour}
	if *j.Acted != want {
		t.Errorf("%+v, want %+v", *j.Acted, want)
	}
}

// TestAct: a job of four GPUs, submitted at 0, that starts after an hour and runs for ten; findings act on it as they
// say, whether they are right or not.
func TestAct(t *testing.T) {
	const h = time.Hour
	zero := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	at := func(rule string, opened, closed time.Duration) *patterns.Finding {
		return &patterns.Finding{Rule: rule, Job: "a", Began: zero.Add(opened - h), Opened: zero.Add(opened),
			Closed: zero.Add(closed)}
	}
	hoards := func(opened time.Duration, freed float64) *patterns.Finding {
		f := at("hoarding", opened, 11*h)
		f.WastedGPUHours = freed * f.Closed.Sub(f.Began).Hours()
		return f
	}
	short := at("hoarding", 2*h, 2*h+h/2)
	short.WastedGPUHours = 2 * 1.5
	slow := at("straggler", 3*h, 7*h)
	slow.WastedGPUHours = 2 * 5 // half of the GPUs, for five hours
	clock := at("throttle", 3*h, 7*h)
	clock.Evidence = []patterns.Evidence{{What: "share throttled", Value: .9}, {What: "mean clock", Value: .6}}
	key := at("crash_loop", h/2, 2*h)
	key.Job, key.Entity.Name = "", "ada/train.sh"
	late := *key
	late.Opened = zero.Add(90 * time.Minute)
	other := *key
	other.Entity.Name = "ada/test.sh"
	for _, x := range []struct {
		name   string
		used   float64
		useful time.Duration
		found  []*patterns.Finding
		want   *Change
	}{
		{"none", 4, 10 * h, nil, nil},
		{"idle after four hours", 4, 4 * h, []*patterns.Finding{at("idle_allocation", 6*h, 11*h)},
			&Change{Duration: 6 * h, GPUs: workload.GPUs(4), Used: 4, Useful: 4 * h}},
		{"it worked again", 4, 10 * h, []*patterns.Finding{at("idle_allocation", 6*h, 6*h+h/2)}, nil},
		{"a mistake loses work", 4, 10 * h, []*patterns.Finding{at("never_ending", 6*h, 9*h)},
			&Change{Duration: 6 * h, GPUs: workload.GPUs(4), Used: 4, Useful: 6 * h}},
		{"half unused, found after an hour", 2, 10 * h, []*patterns.Finding{hoards(2*h, 2)},
			&Change{Duration: 12 * h, GPUs: workload.GPUs(2), Used: 2. * 10 / 12, Useful: 12 * h}},
		{"none unused: it takes twice as long from then on", 4, 10 * h, []*patterns.Finding{hoards(2*h, 2)},
			&Change{Duration: 20 * h, GPUs: workload.GPUs(2), Used: 2, Useful: 20 * h}},
		{"idle when it is resized", 2, 1 * h, []*patterns.Finding{hoards(2*h, 2)},
			&Change{Duration: 12 * h, GPUs: workload.GPUs(2), Used: 1, Useful: 2 * h}},
		{"idle outranks", 4, 4 * h, []*patterns.Finding{at("idle_allocation", 6*h, 11*h), hoards(5*h, 3)},
			&Change{Duration: 6 * h, GPUs: workload.GPUs(4), Used: 4, Useful: 4 * h}},
		{"it used more within an hour", 4, 10 * h, []*patterns.Finding{short}, nil},
		{"a slow worker that the others wait for", 3, 10 * h, []*patterns.Finding{slow, clock},
			&Change{Duration: 8 * h, GPUs: workload.GPUs(4), Used: 3.75, Useful: 8 * h}},
		{"a clock at .6", 3.36, 10 * h, []*patterns.Finding{clock},
			&Change{Duration: 504 * time.Minute, GPUs: workload.GPUs(4), Used: 4, Useful: 504 * time.Minute}},
		{"nothing would be kept", 4, 10 * h, []*patterns.Finding{hoards(2*h, 4)}, nil},
		{"its key is held before it starts", 4, 10 * h, []*patterns.Finding{key}, &Change{Drop: true}},
		{"and after", 4, 10 * h, []*patterns.Finding{&late}, nil},
		{"another key", 4, 10 * h, []*patterns.Finding{&other}, nil},
	} {
		j := job("a", "t", 0, 10*h, 4)
		j.User, j.Key, j.Used, j.Useful = "ada", "train.sh", x.used, x.useful
		jobs := []Job{j}
		n := Act(jobs, zero, x.found, func(j *Job, at time.Duration) (time.Duration, bool) {
			return min(max(0, at-j.Submit-h), j.Duration), true
		})
		got := jobs[0].Acted
		if (got == nil) != (x.want == nil) || (n > 0) != (got != nil) {
			t.Errorf("%s: %+v, want %+v; %d findings were acted on", x.name, got, x.want, n)
			continue
		}
		if got == nil {
			continue
		}
		testshared.Near(t, x.name+": GPUs used", got.Used, x.want.Used, 1e-9)
		if got.Used = x.want.Used; *got != *x.want {
			t.Errorf("%s: %+v, want %+v", x.name, got, x.want)
		}
	}
}
