package slurm

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/adapter/slurm/slurmtest"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/space"
)

// TestSlurm is a minute of a real Slurm: a configuration in force, one over which slurmctld ends, rights, and events.
func TestSlurm(t *testing.T) {
	l := start(t)
	poller := &Poller{Commands: Commands{Conf: l.Conf()}, Dir: t.TempDir()}
	poller.Notify = func(err error) { t.Log(err) }
	if err := poller.Open(); err != nil {
		t.Fatal(err)
	}
	var events []*pb.Event
	look := func() {
		new, _, _, err := poller.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, new...)
	}
	look()
	job := slurmtest.Job{Seconds: 1, GPUs: 2, Minutes: 1, User: owner, Account: "vc1"}
	submit := func(more ...string) {
		j := job
		j.More = more
		if _, err := l.Submit(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	submit()
	submit("--array=1-4%2")
	submit("--hold")
	d := l.open()
	defer d.Close()
	values := space.Values{weightAge: space.Num(4000), interval: space.Num(2)}
	if _, err := d.Apply(t.Context(), l.configuration(values)); err != nil {
		t.Fatal(err)
	}
	l.inForce(weightAge, "4000")
	look()
	l.rights()
	_ = d.Close()
	look()
	l.until("all jobs have ended", func() error {
		look()
		out, err := l.Cluster.Run(t.Context(), "squeue", "-h", "-t", "PD,R,CG", "-o", "%A %r")
		if n := strings.Count(string(out), "\n"); err == nil && n != len(l.jobs)+1 { // and the held one
			err = fmt.Errorf("there are %d: %s", n, out)
		}
		return err
	})
	beyond := l.beyondLimit()
	look()
	for _, e := range events {
		if strings.Contains(e.GetJob().GetJobId(), "/"+beyond+"/") {
			t.Errorf("beyond a limit of its QOS, and sent: %v", e)
		}
	}
	l.liftLimit(beyond)
	time.Sleep(3 * time.Second) // slurmdbd's lag
	look()
	l.agrees(events)
	before, err := os.ReadFile(l.Include())
	if err != nil {
		t.Fatal(err)
	}
	l.write("PriorityWeightAge=1000\nSchedulerParameters=bf_interval=2,bf_continue\n")
	l.reconfigure()
	l.unchecked("PriorityWeightTRES=GRES/foo=3\n", true)
	l.write(string(before))
	l.untouched()
}

// beyondLimit submits a job that a limit of its QOS keeps from starting.
func (l *live) beyondLimit() string {
	l.Helper()
	l.limit("1")
	id, err := l.Submit(l.Context(), slurmtest.Job{Seconds: 1, GPUs: 2, Minutes: 1, User: owner, Account: "vc1",
		QOS: "low"})
	if err != nil {
		l.Fatal(err)
	}
	l.until("a limit keeps it", func() error {
		out, err := l.Cluster.Run(l.Context(), "squeue", "-h", "-j", id, "-o", "%r")
		if reason := strings.TrimSpace(string(out)); err == nil && reason != "MaxGRESPerAccount" {
			err = fmt.Errorf("it waits because of %s", reason)
		}
		return err
	})
	return id
}

// liftLimit lets the job run, and waits for its end.
func (l *live) liftLimit(id string) {
	l.Helper()
	l.limit("-1")
	l.until("it has ended", func() error {
		out, err := l.Cluster.Run(l.Context(), "squeue", "-h", "-j", id, "-t", "PD,R,CG", "-o", "%T")
		if err == nil && len(out) > 0 {
			err = fmt.Errorf("it is %s", out)
		}
		return err
	})
}

// limit limits the GPUs of an account with the QOS low.
func (l *live) limit(gpus string) {
	l.Helper()
	if _, err := l.Cluster.Run(l.Context(), "sacctmgr", "-i", "modify", "qos", "low", "set",
		"MaxTRESPerAccount=gres/gpu="+gpus); err != nil {
		l.Fatal(err)
	}
}

// agrees compares the events of jobs with accounting's records.
func (l *live) agrees(events []*pb.Event) {
	l.Helper()
	got := map[string]int{}
	for _, e := range events {
		if e.Job != nil {
			_, key, _ := strings.Cut(e.Job.JobId, "/")
			key, _, _ = strings.Cut(key, "/")
			got[fmt.Sprintf("%s %s %d", key, e.Kind, e.SchedulerTime.Seconds)]++
		}
	}
	out, err := Commands{Conf: l.Conf()}.Run(l.Context(), "sacct", "-X", "-a", "-D", "-P", "-S", "now-1hour",
		"--format=JobID,Eligible,Start,End,State")
	if err != nil {
		l.Fatal(err)
	}
	want := map[string]int{}
	records, err := slurmtext.Table(out)
	if err != nil {
		l.Fatal(err)
	}
	for _, f := range records {
		for kind, column := range map[string]string{"SUBMITTED": "eligible", "STARTED": "start", "FINISHED": "end"} {
			if at := instant(f[column]); !at.IsZero() && f["start"] != "" && !instant(f["start"]).IsZero() {
				want[fmt.Sprintf("%s %s %d", f["jobid"], kind, at.Unix())]++
			}
		}
	}
	if len(want) != 3*2+6*3 {
		l.Errorf("accounting has %d instants: %v", len(want), want)
	}
	for key := range want {
		if got[key] != 1 && !strings.Contains(key, "SUBMITTED") {
			l.Errorf("%s is reported %d times", key, got[key])
		}
	}
	for key, n := range got {
		if want[key] == 0 && !strings.Contains(key, "SUBMITTED") || n != 1 {
			l.Errorf("reported %d times and not recorded: %s", n, key)
		}
	}
}

// rights: a plain account reads, and may not reconfigure; an administrator of slurmdbd may.
func (l *live) rights() {
	l.Helper()
	const plain, admin = "man", "mail" // of every system
	for _, args := range [][]string{{"add", "user", plain, "account=vc1"}, {"add", "user", admin, "account=vc1",
		"adminlevel=Administrator"}} {
		if _, err := l.Cluster.Run(l.Context(), "sacctmgr", append([]string{"-i"}, args...)...); err != nil {
			l.Fatal(err)
		}
	}
	for _, c := range []struct {
		as, program string
		args        []string
		may         bool
	}{
		{plain, "sacct", []string{"-X", "-a", "-D", "-n"}, true},
		{plain, "squeue", []string{"-h"}, true},
		{plain, "sdiag", nil, true},
		{plain, "scontrol", []string{"show", "config"}, true},
		{plain, "scontrol", []string{"reconfigure"}, false},
		{admin, "scontrol", []string{"reconfigure"}, true},
	} {
		out, err := l.RunAs(l.Context(), c.as, c.program, c.args...)
		if (err == nil) != c.may {
			l.Errorf("%s %v as %s: %v, may be %v", c.program, c.args, c.as, err, c.may)
		}
		if c.program == "sacct" && strings.Count(string(out), "\n") < len(l.jobs) {
			l.Errorf("%s does not see the jobs of others: %s", c.as, out)
		}
	}
}
