package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autosched/autosched/adapter/file"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/space"
)

// killedAt is the step after which the process of TestSlurmKilled ends, of the environment.
const killedAt = "AUTOSCHED_TEST_KILLED_AT"

// TestSlurmChild applies a configuration and is killed at a step: a process of its own, for TestSlurmKilled.
func TestSlurmChild(t *testing.T) {
	step := os.Getenv(killedAt)
	if step == "" {
		t.Skip("run by TestSlurmKilled and TestSlurmQOS")
	}
	l := &live{T: t, o: Options{Conf: os.Getenv("TEST_CONF"), Include: os.Getenv("TEST_INCLUDE"),
		Log: os.Getenv("TEST_LOG"), Tuned: []string{weightAge, interval}}}
	values := space.Values{weightAge: space.Num(4000), interval: space.Num(3)}
	if os.Getenv("TEST_QOS") != "" {
		l.o.Tuned, l.o.AllowQOS = append(l.o.Tuned, qosHigh, qosLow), OwnQOS
		values[qosHigh], values[qosLow] = space.Int(400), space.Int(30)
	}
	d := l.open()
	d.OnStep(func(at string) {
		if at == step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	})
	l.revision = 100
	_, err := d.Apply(t.Context(), l.configuration(values))
	fmt.Println("applied", err)
}

// killer is a scontrol in whose midst the adapter, slurmctld or both are killed: inside a reconfiguration, when it has
// been asked for and nothing is known of it, or at the second look of the watch over slurmctld that follows. It takes
// effect while the file "armed" is there.
const killer = `#!/bin/sh
cd %[1]q || exit
strike() {
	rm -f armed looks # before a kill, whose end the test sees
	case $(cat whom) in slurmctld|both) kill -9 "$(cat %[3]q)" ;; esac
	case $(cat whom) in adapter|both) kill -9 $PPID ;; esac
}
if [ -e armed ]; then
	case "$1 $(cat armed)" in
	"reconfigure inside") %[2]s "$@" & sleep 0.01; strike; wait; exit ;;
	"reconfigure watch") touch looks ;;
	"ping watch") [ -e looks ] && { [ -s looks ] && strike || echo >looks; } ;;
	esac
fi
exec %[2]s "$@"
`

// TestSlurmKilled kills the adapter and slurmctld at each step of an application, inside the reconfiguration and during
// the watch that follows it, and restarts both as systemd does: a valid configuration is in force again, and jobs
// go on.
func TestSlurmKilled(t *testing.T) {
	l := start(t)
	before := space.Values{weightAge: space.Num(2000), interval: space.Num(2)}
	after := space.Values{weightAge: space.Num(4000), interval: space.Num(3)}
	apply := func(l *live) {
		l.Helper()
		d := l.open()
		defer d.Close()
		if _, err := d.Apply(l.Context(), l.configuration(before)); err != nil {
			l.Fatal(err)
		}
	}
	apply(l)
	scontrol, err := exec.LookPath("scontrol")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put("scontrol", fmt.Sprintf(killer, bin, scontrol, filepath.Join(filepath.Dir(l.Conf()), "run", "slurmctld.pid")))
	steps := []string{"checked", "kept", "noted", "written", "inside", "watch", "reloaded", "read", "done"}
	whoms := []string{"adapter", "slurmctld", "both"}
	for _, step := range steps {
		for _, whom := range whoms {
			t.Run(step+" "+whom, func(t *testing.T) {
				l := &live{T: t, Cluster: l.Cluster, o: l.o, jobs: l.jobs, revision: l.revision}
				l.killed(step, whom, bin, after)
				apply(l) // the next offer is applied
			})
			l.revision += 10
		}
	}
}

// killed has the adapter, slurmctld or both killed at a step of an application, and restarts them.
func (l *live) killed(step, whom, bin string, after space.Values) {
	l.Helper()
	t, put := l.T, func(name, text string) {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			l.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	restarts := l.Supervise(ctx)
	var began time.Time
	if between := step == "inside" || step == "watch"; between {
		put("whom", whom)
		put("armed", step)
		cmd := exec.Command(os.Args[0], "-test.run=^TestSlurmChild$", "-test.v")
		cmd.Env = append(os.Environ(), killedAt+"=none", "TEST_CONF="+l.o.Conf, "TEST_INCLUDE="+l.o.Include,
			"TEST_LOG="+l.o.Log, "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		began = time.Now()
		if _, there := os.Stat(filepath.Join(bin, "armed")); there == nil {
			t.Fatalf("%s, %s: nothing was killed: %v %s", step, whom, err, out)
		}
		if whom == "slurmctld" {
			t.Logf("slurmctld killed at %s: %s", step, out)
		} else if !cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			t.Fatalf("%s, %s: the child is not killed: %v %s", step, whom, err, out)
		} else if err := Recover(t.Context(), l.o); err != nil { // the adapter's start
			t.Fatalf("%s, %s: %v", step, whom, err)
		}
	} else if whom == "slurmctld" {
		d := l.open()
		d.OnStep(func(at string) {
			if at == step {
				l.KillController()
			}
		})
		_, err := d.Apply(t.Context(), l.configuration(after))
		began = time.Now()
		t.Logf("slurmctld killed when %s: %v", step, err)
		_ = d.Close()
	} else {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSlurmChild$", "-test.v")
		cmd.Env = append(os.Environ(), killedAt+"="+step, "TEST_CONF="+l.o.Conf, "TEST_INCLUDE="+l.o.Include,
			"TEST_LOG="+l.o.Log)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || !cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			t.Fatalf("%s: the child is not killed: %v %s", step, err, out)
		}
		began = time.Now()
		if whom == "both" {
			l.KillController()
		}
		if err := Recover(t.Context(), l.o); err != nil { // the adapter's start
			t.Fatalf("%s, %s: %v", step, whom, err)
		}
	}
	l.until("a valid configuration is in force", func() error {
		config, err := Commands{Conf: l.Conf()}.config(t.Context())
		if err != nil {
			return err
		}
		age, sp := config.Get(weightAge), config.Get(conf.SchedulerParameters)
		if !(age == "2000" && sp == "bf_interval=2,bf_continue" ||
			age == "4000" && sp == "bf_interval=3,bf_continue") {
			err = fmt.Errorf("in force is %s, %s", age, sp)
		}
		return err
	})
	t.Logf("%s killed when %s: in force after %.1f s", whom, step, time.Since(began).Seconds())
	l.works()
	l.untouched()
	stop()
	<-restarts
}

// TestSlurmFaults: an admin's edit, a full disk and a reconfiguration that hangs.
func TestSlurmFaults(t *testing.T) {
	l := start(t)
	values := func(age int) space.Values { return space.Values{weightAge: space.Int(age), interval: space.Num(2)} }
	d := l.open()
	if _, err := d.Apply(t.Context(), l.configuration(values(2000))); err != nil {
		t.Fatal(err)
	}
	t.Run("an admin's edit", func(t *testing.T) {
		l := &live{T: t, Cluster: l.Cluster, o: l.o, jobs: l.jobs, revision: l.revision}
		was, err := os.ReadFile(l.Include())
		if err != nil {
			t.Fatal(err)
		}
		edited := strings.Replace(string(was), "=2000", "=2345", 1)
		l.write(edited)
		l.reconfigure()
		if _, err := d.Apply(t.Context(), l.configuration(values(3000))); !errors.Is(err, file.ErrChanged) {
			t.Errorf("%v, want a refusal to overwrite", err)
		}
		l.inForce("PriorityWeightAge", "2345")
		// A line below the include line wins, and is found by reading back.
		l.write(string(was))
		conf, err := os.ReadFile(l.Conf())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(l.Conf(), append(conf, "PriorityWeightAge=77\n"...), 0o644); err != nil {
			t.Fatal(err)
		}
		l.reconfigure()
		if _, err := d.Apply(t.Context(), l.configuration(values(3000))); err == nil ||
			!strings.Contains(err.Error(), "slurm.conf:") {
			t.Errorf("%v, want the line below the include line named", err)
		}
		l.inForce("PriorityWeightAge", "77")
		if err := os.WriteFile(l.Conf(), conf, 0o644); err != nil {
			t.Fatal(err)
		}
		l.reconfigure()
		l.untouched()
	})
	l.revision = 10
	t.Run("a reconfiguration that hangs", func(t *testing.T) {
		l := &live{T: t, Cluster: l.Cluster, o: l.o, jobs: l.jobs, revision: l.revision}
		_ = d.Close()
		o := l.o
		o.Reconfigure, o.ReconfigureTimeout = []string{"sleep", "100"}, time.Second
		hung, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = hung.Apply(t.Context(), l.configuration(values(5000)))
		t.Log(err)
		if err == nil || errors.Is(err, client.ErrRefused) {
			t.Errorf("%v, want a failure that is tried again", err)
		}
		_ = hung.Close()
		l.works()
		d = l.open() // the adapter's restart, with a command that works
		l.inForce("PriorityWeightAge", l.included("PriorityWeightAge"))
		if _, err := d.Apply(t.Context(), l.configuration(values(5000))); err != nil {
			t.Error(err)
		}
		l.inForce("PriorityWeightAge", "5000")
		l.untouched()
	})
	l.revision = 20
	t.Run("slurmctld hangs", func(t *testing.T) {
		l := &live{T: t, Cluster: l.Cluster, o: l.o, jobs: l.jobs, revision: l.revision}
		d.OnStep(func(at string) {
			if at == "written" {
				_ = l.SignalController(syscall.SIGSTOP)
				time.AfterFunc(25*time.Second, func() { _ = l.SignalController(syscall.SIGCONT) })
			}
		})
		_, err := d.Apply(t.Context(), l.configuration(values(6000)))
		d.OnStep(func(string) {})
		t.Log(err)
		l.until("slurmctld answers", func() error {
			_, err := Commands{Conf: l.Conf()}.config(t.Context())
			return err
		})
		if err := d.Recover(t.Context()); err != nil {
			t.Error(err)
		}
		l.inForce("PriorityWeightAge", l.included("PriorityWeightAge"))
		l.untouched()
	})
	l.revision = 30
	t.Run("a full disk", func(t *testing.T) {
		l := &live{T: t, Cluster: l.Cluster, o: l.o, jobs: l.jobs, revision: l.revision}
		_ = d.Close()
		dir := filepath.Dir(l.Include())
		was, err := os.ReadFile(l.Include())
		if err != nil {
			t.Fatal(err)
		}
		// A small file system in place of the folder, so that it can be filled.
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=755"); err != nil {
			t.Skip(err)
		}
		defer func() {
			if err := syscall.Unmount(dir, 0); err != nil {
				t.Error(err)
			}
		}()
		l.write(string(was))
		full, err := Open(t.Context(), l.o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = full.Close() }()
		if _, err := full.Apply(t.Context(), l.configuration(values(7000))); err != nil {
			t.Fatal(err)
		}
		fill := filepath.Join(dir, "fill")
		// Before the file is in place nothing changes; after that the settings in force and the file agree.
		for _, step := range []string{"", "checked", "kept", "noted", "written", "reloaded", "read"} {
			was, now := "7000", "8000"
			installed := step == "written" || step == "reloaded" || step == "read"
			if !installed {
				now = was
			}
			full.OnStep(func(at string) {
				if at == step {
					l.fill(fill)
				}
			})
			if step == "" {
				l.fill(fill)
			}
			_, err := full.Apply(t.Context(), l.configuration(values(8000)))
			t.Logf("full when %q: %v", step, err)
			if err == nil || errors.Is(err, client.ErrRefused) {
				t.Errorf("full when %q: %v, want a failure that is tried again", step, err)
			}
			l.works()
			l.inForce("PriorityWeightAge", now)
			if got := l.included("PriorityWeightAge"); got != now {
				t.Errorf("the file has %s", got)
			}
			if err := os.Remove(fill); err != nil {
				t.Fatal(err)
			}
			if !installed {
				continue
			}
			// The adapter's restart: its notes are of an application that did not end.
			full.OnStep(func(string) {})
			_ = full.Close()
			if full, err = Open(t.Context(), l.o); err != nil {
				t.Fatal(err)
			}
			l.inForce("PriorityWeightAge", was)
		}
		full.OnStep(func(string) {})
		if _, err := full.Apply(t.Context(), l.configuration(values(9000))); err != nil {
			t.Error(err)
		}
		l.inForce("PriorityWeightAge", "9000")
		l.untouched()
	})
}

func (l *live) write(text string) {
	if err := os.WriteFile(l.Include(), []byte(text), 0o644); err != nil {
		l.Fatal(err)
	}
}

func (l *live) reconfigure() {
	if _, err := l.Cluster.Run(l.Context(), "scontrol", "reconfigure"); err != nil {
		l.Fatal(err)
	}
}

// included is the value of a key in the include file.
func (l *live) included(key string) string {
	text, err := os.ReadFile(l.Include())
	if err != nil {
		l.Fatal(err)
	}
	all, err := conf.FormLines(text)
	if err != nil {
		l.Fatal(err)
	}
	for _, line := range all {
		if line.Key == key {
			return line.Value
		}
	}
	return ""
}

// fill writes a file until the disk is full.
func (l *live) fill(path string) {
	f, err := os.Create(path)
	if err != nil {
		return // it is full
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 512))
	}
}
