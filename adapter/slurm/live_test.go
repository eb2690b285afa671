package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/adapter"
	"github.com/autosched/autosched/adapter/file"
	"github.com/autosched/autosched/adapter/slurm/slurmtest"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/space"
)

// live is a real Slurm under the adapter.
type live struct {
	*testing.T
	*slurmtest.Cluster
	o        Options
	revision int64
	jobs     []string // running since before the test
}

const (
	interval  = conf.SchedulerParameters + ".bf_interval"
	depth     = conf.SchedulerParameters + ".bf_max_job_test"
	weightAge = "PriorityWeightAge"
	owner     = "games" // of every system
	gpuWeight = conf.WeightTRES + ".gpu"
)

// start brings up a cluster with a short backfill interval, and jobs that run for longer than the tests.
func start(t *testing.T, tuned ...string) *live {
	t.Helper()
	return startWith(t, slurmtest.Options{}, tuned...)
}

// startWith is start with further options.
func startWith(t *testing.T, o slurmtest.Options, tuned ...string) *live {
	t.Helper()
	slurmtest.Require(t)
	if !slurmtest.Full() && t.Name() != "TestSlurm" {
		t.Skip("of make slurm")
	}
	if o.Nodes = 16; !slurmtest.Full() {
		o.Nodes = 4
	}
	o.Include = "PriorityWeightAge=1000\nSchedulerParameters=bf_interval=2,bf_continue\n"
	o.Accounts = []slurmtest.Account{{Name: "vc1", Users: []string{owner}}}
	o.QOS = map[string]int{"high": 100, "low": 10}
	c, err := slurmtest.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	l := &live{T: t, Cluster: c}
	if len(tuned) == 0 {
		tuned = []string{weightAge, interval}
	}
	l.o = Options{Conf: c.Conf(), Include: c.Include(), Log: c.Log(), Tuned: tuned,
		ReconfigureTimeout: time.Minute}
	for range 3 {
		id, err := c.Submit(t.Context(),
			slurmtest.Job{Seconds: 3000, GPUs: 8, Minutes: 60, User: owner, Account: "vc1"})
		if err != nil {
			t.Fatal(err)
		}
		l.jobs = append(l.jobs, id)
	}
	l.until("the jobs run", func() error {
		if got := l.running(); len(got) != len(l.jobs) {
			return fmt.Errorf("%d run", len(got))
		}
		return nil
	})
	return l
}

// running is the ids of the running jobs, which were never started again.
func (l *live) running() []string {
	out, err := l.Cluster.Run(l.Context(), "squeue", "-h", "-t", "R", "-o", "%A")
	if err != nil {
		return nil
	}
	return strings.Fields(string(out))
}

// untouched fails unless the jobs still run, and were started once.
func (l *live) untouched() {
	l.Helper()
	l.until("the jobs are seen", func() error {
		got := l.running()
		for _, id := range l.jobs {
			if !slices.Contains(got, id) {
				return fmt.Errorf("job %s does not run: %v", id, got)
			}
		}
		return nil
	})
	out, err := l.Cluster.Run(l.Context(), "sacct", "-X", "-n", "-D", "-P", "-j", strings.Join(l.jobs, ","),
		"--format=JobID,State")
	if err != nil || strings.Count(string(out), "\n") != len(l.jobs) {
		l.Fatalf("the jobs were started again: %s %v", out, err)
	}
}

func (l *live) until(what string, condition func() error) {
	l.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			l.Fatalf("waiting until %s: %v", what, err)
		}
	}
}

// open opens the driver.
func (l *live) open() *file.Driver {
	l.Helper()
	d, err := Open(l.Context(), l.o)
	if err != nil {
		l.Fatal(err)
	}
	return d
}

// configuration returns the next revision.
func (l *live) configuration(values space.Values) *pb.Configuration {
	parameters, err := adapter.ToProto(values)
	if err != nil {
		l.Fatal(err)
	}
	l.revision++
	return &pb.Configuration{Name: fmt.Sprint("schedulers/slurm/configurations/", l.revision), Revision: l.revision,
		Parameters: parameters, ContentHash: fmt.Sprint("hash", l.revision), Epoch: &pb.Epoch{Id: "e", Counter: 1}}
}

// inForce fails unless slurmctld says that a key has a value.
func (l *live) inForce(key, want string) {
	l.Helper()
	config, err := Commands{Conf: l.Conf()}.config(l.Context())
	if err != nil || config.Get(key) != want {
		l.Fatalf("%s is not %q: %v %v", key, want, config, err)
	}
}

// works fails unless Slurm's programs read the file in place and slurmctld starts with it.
func (l *live) works() {
	l.Helper()
	if up, err := (Commands{Conf: l.Conf()}).up(l.Context()); !up {
		l.Fatal(err)
	}
}

// TestSlurmApplies puts every tunable setting in force and reads it back.
func TestSlurmApplies(t *testing.T) {
	l := start(t, conf.Tunable()...)
	d := l.open()
	defer d.Close()
	for round, share := range []float64{.3, 1} {
		values := space.Values{}
		for _, id := range conf.Tunable() {
			s, _ := conf.Find(id)
			if s.ID != id {
				continue // a sign
			}
			v := space.Num(float64(int(s.Min + share*min(s.Max-s.Min, 1000))))
			switch s.Kind {
			case conf.Span:
				v = space.Num(s.Min + 60*share*100)
			case conf.YesNo, conf.Flag:
				v = space.Bool(round == 0)
			case conf.Weight:
				v = space.Num(500 * share)
				values[s.ID+conf.Negative] = space.Bool(round == 0)
			}
			values[s.ID] = v
		}
		// slurmctld takes limits of users and of associations one at a time, and both within the depth.
		values[conf.SchedulerParameters+".bf_max_job_assoc"] = space.Num(0)
		values[depth] = space.Num(2000)
		values[interval] = space.Num(2)
		values[halfLife] = space.Num(float64(4+2*round) * 86400)
		got, err := d.Apply(t.Context(), l.configuration(values))
		if err != nil {
			t.Fatal(err)
		}
		read, err := adapter.FromProto(got)
		if err != nil {
			t.Fatal(err)
		}
		for id, v := range values {
			if !read[id].Equal(v) {
				t.Errorf("%s is %v, want %v", id, read[id], v)
			}
		}
	}
	l.inForce(conf.WeightTRES, "GRES/gpu=500")
	l.untouched()
}

// TestSlurmRefuses: none of the bad files of any kind stays in force, with the adapter's own checks and without.
func TestSlurmRefuses(t *testing.T) {
	l := start(t)
	for _, c := range []struct {
		name, text, want string
		down             bool // slurmctld ends over it where nothing checks it
	}{
		{"misspelt option", "SchedulerParameters=bf_intervall=5\n", "bf_intervall", false},
		{"out of range", "SchedulerParameters=bf_interval=0\n", "not from 1", false},
		{"no number", "SchedulerParameters=bf_interval=soon\n", "whole number", false},
		{"removed option", "SchedulerParameters=max_job_bf=5\n", "max_job_bf", true},
		{"unknown TRES", "PriorityWeightTRES=GRES/foo=3\n", "PriorityWeightTRES", true},
		{"odd TRES", "PriorityWeightTRES=hello\n", "PriorityWeightTRES", true},
		{"unknown key", "PriorityWeightNoise=3\n", "PriorityWeightNoise", false},
		{"blank in a list", "SchedulerParameters=bf_interval=5, bf_continue\n", "blank", false},
		{"empty value", "SchedulerParameters=\n", "Key=value", false},
		{"negative weight", "PriorityWeightAge=-5\n", "not from 0", false},
		{"fraction", "PriorityWeightAge=.5\n", "whole number", false},
		{"bad time", "PriorityMaxAge=soon\n", "PriorityMaxAge", false},
		{"foreign key", "PreemptMode=REQUEUE\n", "PreemptMode", false},
		{"needs a restart", "PriorityWeightAge=7\nSelectTypeParameters=CR_Core\n", "SelectTypeParameters", false},
		{"missing include", "include none.conf\n", "include", false},
		{"two lines of a key", "PriorityWeightAge=1\nPriorityWeightAge=2\n", "twice", false},
		{"a line cut off", "PriorityWeightAge", "cut off", false},
		{"a flag with a value", "SchedulerParameters=bf_continue=no\n", "bf_continue", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &live{T: t, Cluster: l.Cluster, o: l.o, jobs: l.jobs}
			target, err := newTarget(l.o.Filled())
			if err != nil {
				t.Fatal(err)
			}
			target.Form.Site = map[string][]string{conf.SchedulerParameters: {"bf_continue"}}
			config, err := target.config(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := target.examine(t.Context(), config, []byte(c.text)); !errors.Is(err, client.ErrRefused) ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("the check says %v, want a refusal with %q", err, c.want)
			}
			l.unchecked(c.text, c.down)
		})
	}
	l.untouched()
}

// asIs is a form whose file is a text, whatever the values.
type asIs struct {
	*conf.Form
	text string
}

func (f *asIs) Render(space.Values) ([]byte, error) { return []byte(f.text), nil }

// Parse is that of a file that is not checked.
func (f *asIs) Parse([]byte) (space.Values, error) { return space.Values{weightAge: space.Num(1)}, nil }

// unchecked applies a file without any check, and expects that the one before is in force again.
func (l *live) unchecked(text string, down bool) {
	target, err := newTarget(l.o.Filled())
	if err != nil {
		l.Fatal(err)
	}
	target.unchecked = true
	target.Dir = l.TempDir()
	before, err := os.ReadFile(l.Include())
	if err != nil {
		l.Fatal(err)
	}
	d, err := file.Open(file.Options{Path: l.Include(), Dir: l.TempDir(), Form: &asIs{target.Form, text},
		Target: target, TakeOver: true})
	if err != nil {
		l.Fatal(err)
	}
	defer d.Close()
	// As systemd does.
	ctx, stop := context.WithCancel(l.Context())
	restarts := l.Supervise(ctx)
	defer func() { stop(); <-restarts }()
	c := l.configuration(space.Values{weightAge: space.Num(1)})
	_, err = d.Apply(l.Context(), c)
	silent := err == nil // slurmctld neither refuses it nor logs it
	if !silent && !errors.Is(err, client.ErrRefused) {
		l.Errorf("%v, want a refusal", err)
	}
	l.Logf("unchecked: %v", err)
	if down {
		_, err := d.Apply(l.Context(), c)
		if !errors.Is(err, client.ErrRefused) || !strings.Contains(err.Error(), "before") {
			l.Errorf("tried again: %v", err)
		}
	}
	if silent {
		if err := os.WriteFile(l.Include(), before, 0o644); err != nil {
			l.Fatal(err)
		}
		if _, err := l.Cluster.Run(l.Context(), "scontrol", "reconfigure"); err != nil {
			l.Fatal(err)
		}
	}
	after, err := os.ReadFile(l.Include())
	if err != nil || string(after) != string(before) {
		l.Errorf("the file is %q (%v), want %q", after, err, before)
	}
	l.works()
	l.inForce("PriorityWeightAge", "1000")
	l.inForce(conf.SchedulerParameters, "bf_interval=2,bf_continue")
	l.untouched()
}
