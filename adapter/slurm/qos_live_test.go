package slurm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/autosched/autosched/adapter"
	"github.com/autosched/autosched/space"
)

const (
	qosHigh = "QOS.high.Priority"
	qosLow  = "QOS.low.Priority"
)

// TestSlurmQOS sets priorities of QOS with the file, and takes them back with it: after a refusal by slurmdbd, after
// kills at any step, and by hand. An admin's settings stay.
func TestSlurmQOS(t *testing.T) {
	l := start(t, weightAge, interval, qosHigh, qosLow)
	if _, err := Open(t.Context(), l.o); err == nil || !strings.Contains(err.Error(), "--allow-qos") {
		t.Fatalf("not opened by the operator: %v", err)
	}
	l.o.AllowQOS = OwnQOS
	values := func(age, high, low int) space.Values {
		return space.Values{weightAge: space.Int(age), interval: space.Num(2), qosHigh: space.Int(high),
			qosLow: space.Int(low)}
	}
	priorities := func(want string) {
		t.Helper()
		now, err := Commands{Conf: l.Conf()}.qos(t.Context())
		if got := fmt.Sprint(now["high"], now["low"]); err != nil || got != want {
			t.Fatalf("priorities are %s (%v), want %s", got, err, want)
		}
		// slurmctld hears of them from slurmdbd.
		l.until("slurmctld has them", func() error {
			out, err := l.Cluster.Run(t.Context(), "scontrol", "show", "assoc_mgr", "flags=qos")
			high, low, _ := strings.Cut(want, " ")
			for name, v := range map[string]string{"high": high, "low": low} {
				_, rest, _ := strings.Cut(string(out), "QOS="+name+"(")
				rest, _, _ = strings.Cut(rest, "QOS=")
				if err == nil && !strings.Contains(rest, "Priority="+v+"\n") {
					err = fmt.Errorf("%s is not %s: %s", name, v, rest)
				}
			}
			return err
		})
	}
	apply := func(v space.Values) {
		t.Helper()
		d := l.open()
		defer d.Close()
		got, err := d.Apply(t.Context(), l.configuration(v))
		if err != nil {
			t.Fatal(err)
		}
		read, err := adapter.FromProto(got)
		if err != nil || !read[qosHigh].Equal(v[qosHigh]) || !read[qosLow].Equal(v[qosLow]) {
			t.Fatalf("in force is %v (%v)", read, err)
		}
	}
	apply(values(2000, 200, 10))
	priorities("200 10")
	l.inForce(weightAge, "2000")
	orig, err := os.ReadFile(l.Include() + ".orig")
	if err != nil || !strings.HasPrefix(string(orig), "#QOS.high.Priority=100\n#QOS.low.Priority=10\n") {
		t.Fatalf("the original does not say what was: %s %v", orig, err)
	}

	t.Run("an admin's change", func(t *testing.T) {
		admin := func(v string) {
			if _, err := l.Cluster.Run(t.Context(), "sacctmgr", "-i", "modify", "qos", "high", "set",
				"Priority="+v); err != nil {
				t.Fatal(err)
			}
		}
		admin("77")
		d := l.open()
		defer d.Close()
		if _, err := d.Apply(t.Context(), l.configuration(values(3000, 300, 20))); !errors.Is(err, errSetByOthers) ||
			!strings.Contains(err.Error(), "QOS high has priority 77, and had [200]") {
			t.Errorf("%v, want the admin's change told", err)
		}
		priorities("77 10")
		l.inForce(weightAge, "2000")
		admin("200")
		if _, err := d.Apply(t.Context(), l.configuration(values(3000, 300, 20))); err != nil {
			t.Error(err)
		}
		priorities("300 20")
	})
	l.revision = 10

	t.Run("killed", func(t *testing.T) {
		// A sacctmgr that kills its parent after the first QOS that it sets.
		bin := t.TempDir()
		path, err := exec.LookPath("sacctmgr")
		if err != nil {
			t.Fatal(err)
		}
		script := "#!/bin/sh\n" + path + " \"$@\" || exit\ncase \"$*\" in *modify*) kill -9 $PPID ;; esac\n"
		if err := os.WriteFile(filepath.Join(bin, "sacctmgr"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, step := range []string{"written", "sacctmgr", "reloaded", "done"} {
			apply(values(2000, 200, 10))
			cmd := exec.Command(os.Args[0], "-test.run=^TestSlurmChild$", "-test.v")
			cmd.Env = append(os.Environ(), killedAt+"="+step, "TEST_CONF="+l.o.Conf, "TEST_INCLUDE="+l.o.Include,
				"TEST_LOG="+l.o.Log, "TEST_QOS=1")
			if step == "sacctmgr" {
				cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"))
			}
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil || !cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
				t.Fatalf("%s: the child is not killed: %v %s", step, err, out)
			}
			// The adapter's start, before it knows the tuned parameters.
			if err := Recover(t.Context(), Options{Conf: l.o.Conf, Include: l.o.Include, Log: l.o.Log}); err != nil {
				t.Fatalf("%s: %v", step, err)
			}
			if step == "done" {
				l.inForce(weightAge, "4000")
				priorities("400 30")
				continue
			}
			l.inForce(weightAge, "2000")
			priorities("200 10")
		}
	})
	l.revision = 30

	t.Run("by hand", func(t *testing.T) {
		text := "#QOS.high.Priority=500\nPriorityWeightAge=5000\nSchedulerParameters=bf_interval=2,bf_continue\n"
		_, commands, err := l.o.Examine(t.Context(), []byte(text))
		if err != nil || len(commands) != 1 || commands[0] != "sacctmgr -i modify qos high set Priority=500" {
			t.Errorf("%v %v", commands, err)
		}
		if _, err := l.o.Apply(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
		priorities("500 30")
		if _, err := l.o.Rollback(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		priorities("400 30")
		if _, err := l.o.Rollback(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		priorities("100 10")
	})

	t.Run("rights and sharing", func(t *testing.T) {
		const operator, admin = "man", "mail" // of every system
		for name, level := range map[string]string{operator: "Operator", admin: "Administrator"} {
			if _, err := l.Cluster.Run(t.Context(), "sacctmgr", "-i", "add", "user", name, "account=vc1",
				"adminlevel="+level); err != nil {
				t.Fatal(err)
			}
			_, err := l.RunAs(t.Context(), name, "sacctmgr", "-i", "modify", "qos", "low", "set", "Priority=11")
			if (err == nil) != (name == admin) {
				t.Errorf("%s sets a QOS: %v", level, err)
			}
		}
		if _, err := l.Cluster.Run(t.Context(), "sacctmgr", "-i", "add", "cluster", "other"); err != nil {
			t.Fatal(err)
		}
		_, _, err := l.o.Examine(t.Context(), []byte("#QOS.high.Priority=600\nPriorityWeightAge=5000\n"+
			"SchedulerParameters=bf_interval=2,bf_continue\n"))
		if err == nil || !strings.Contains(err.Error(), "2 clusters share") {
			t.Errorf("shared: %v", err)
		}
		l.o.AllowQOS = SharedQOS
		if _, _, err := l.o.Examine(t.Context(), []byte("#QOS.high.Priority=600\nPriorityWeightAge=5000\n"+
			"SchedulerParameters=bf_interval=2,bf_continue\n")); err != nil {
			t.Error(err)
		}
	})
	l.untouched()
}
