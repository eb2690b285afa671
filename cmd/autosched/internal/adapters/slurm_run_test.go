package adapters

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autosched/autosched/adapter/slurm/slurmtest"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
)

// slurmSite is a Slurm under a service. Its adapter is a process, of an account of its own if that is set.
type slurmSite struct {
	*testing.T
	conf, include string
	bin, as       string // the program and the account of the adapter
	server        string
	tuning        pb.TuningServiceClient
	reconfigure   func()
	log           clitest.LockedBuffer
}

const slurmAge = "PriorityWeightAge"

// serve starts a service in which the Slurm is registered with a weight of 10 as the default.
func (s *slurmSite) serve() {
	s.Helper()
	space := filepath.Join(s.TempDir(), "space.yaml")
	if err := os.WriteFile(space, []byte(`parameters:
- {id: PriorityWeightAge, kind: int, min_value: 0, max_value: 100000, default_value: 10}
- {id: SchedulerParameters.bf_interval, kind: int, min_value: 1, max_value: 300, default_value: 1}
`), 0o600); err != nil {
		s.Fatal(err)
	}
	_, s.server = clitest.ServeProcess(s.T, s.TempDir(), "127.0.0.1:0")
	if code, _, errs := clitest.Run("scheduler", "register", "--server", s.server, "--space", space, "--id", "prod",
		"--objective", "mean_wait", "--nodes", "4", "--gpus-per-node", "8"); code != 0 {
		s.Fatal(errs)
	}
	conn, err := (&cli.ConnectFlags{Server: s.server}).Dial()
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = conn.Close() })
	s.tuning = pb.NewTuningServiceClient(conn)
}

// run starts the adapter and returns a function that ends it as kill -9 does.
func (s *slurmSite) run(mode string, more ...string) (kill func()) {
	s.Helper()
	cmd := exec.Command(s.bin, append([]string{"slurm", "run", "--server", s.server, "--id", "prod", "--slurm-conf",
		s.conf, "--allow-anonymous", "--poll-interval", "1s", "--mode", mode}, more...)...)
	cmd.Env = append(os.Environ(), "AUTOSCHED_TEST_MAIN=1")
	cmd.Stderr = &s.log
	cmd.Dir = "/"
	if s.as != "" {
		credential, err := slurmtest.Credential(s.as)
		if err != nil {
			s.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	kill = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	s.Cleanup(kill)
	return kill
}

// until waits for a status of the adapter in the service.
func (s *slurmSite) until(what string, ok func(*pb.Scheduler, *pb.InstanceStatus) bool) {
	s.Helper()
	var got *pb.Scheduler
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		var err error
		got, err = s.tuning.GetScheduler(s.Context(), &pb.GetSchedulerRequest{Name: "schedulers/prod"})
		if err == nil && len(got.GetStatus().GetInstances()) == 1 && ok(got, got.Status.Instances[0]) {
			return
		}
	}
	s.Fatalf("not %s: %v\n%s", what, got.GetStatus(), s.log.String())
}

// knows waits until the service knows of a revision and a weight in force; 0 is that of the revision.
func (s *slurmSite) knows(revision int64, age float64) {
	s.Helper()
	s.until(fmt.Sprintf("revision %d with %g", revision, age), func(_ *pb.Scheduler, i *pb.InstanceStatus) bool {
		return i.ReportedRevision == revision && i.EffectiveParameters[slurmAge].GetNumberValue() == age
	})
}

var ageLine = regexp.MustCompile(`(?m)^PriorityWeightAge=.*$`)

// edit changes the weight as an administrator does.
func (s *slurmSite) edit(age int) {
	s.Helper()
	text, err := os.ReadFile(s.include)
	if err == nil {
		err = os.WriteFile(s.include, ageLine.ReplaceAll(text, fmt.Appendf(nil, "PriorityWeightAge=%d", age)), 0o644)
	}
	if err != nil {
		s.Fatal(err)
	}
	s.reconfigure()
}

// says fails unless the file has a weight.
func (s *slurmSite) says(age int) {
	s.Helper()
	text, err := os.ReadFile(s.include)
	if got := string(ageLine.Find(text)); err != nil || got != fmt.Sprint("PriorityWeightAge=", age) {
		s.Fatalf("the file has %s (%v), want %d\n%s", got, err, age, s.log.String())
	}
}

func (s *slurmSite) pin(age int) {
	s.Helper()
	if code, _, errs := clitest.Run("scheduler", "config", "pin", "prod", "--server", s.server,
		"--reason", "a test", "--set",
		fmt.Sprintf("%s=%d", slurmAge, age)); code != 0 {
		s.Fatal(errs)
	}
}

// drift has an administrator change a setting by hand, again and again: in every mode it is reported, the service
// knows the values in force, and nothing is overwritten until an operator asks for it.
func (s *slurmSite) drift(reader string, more ...string) {
	s.Helper()
	adapter := s.as
	s.as = reader
	kill := s.run("observe", "--state-dir", s.folder(reader))
	s.knows(1, 0)
	s.edit(20)
	s.knows(1, 20)
	clitest.Eventually(s.T, s.log.String, "in force is other than revision 1: PriorityWeightAge is 20, not 10")
	s.pin(25) // which this mode does not put in force
	s.until("a change that waits", func(_ *pb.Scheduler, i *pb.InstanceStatus) bool {
		return i.DesiredRevision == 2 && i.ReportedRevision == 1
	})
	s.says(20)
	kill()

	s.as = adapter
	if code, _, errs := clitest.Run("scheduler", "config", "rollback", "prod", "--server", s.server, "--revision",
		"1"); code != 0 {
		s.Fatal(errs)
	}
	kill = s.run("auto", more...)
	clitest.Eventually(s.T, s.log.String, `msg="in force" revision=3`)
	s.until("what auto found", func(c *pb.Scheduler, i *pb.InstanceStatus) bool {
		return c.GetSpec().GetMode() == pb.SchedulerSpec_AUTO && i.ReportedRevision == 3
	})
	s.pin(30)
	s.knows(4, 0)
	s.says(30)
	s.edit(40)
	s.knows(4, 40)
	clitest.Eventually(s.T, s.log.String, "changed by someone else: .*PriorityWeightAge is 40, not 30")
	s.pin(50)
	s.until("a refusal to overwrite", func(_ *pb.Scheduler, i *pb.InstanceStatus) bool {
		return i.Condition == pb.InstanceStatus_DEGRADED && strings.Contains(i.Reason, "changed by someone else") &&
			i.EffectiveParameters[slurmAge].GetNumberValue() == 40
	})
	s.says(40)
	kill()
	s.edit(45)
	kill = s.run("recommend", more...)
	s.knows(4, 45)
	s.says(45)
	kill()
	kill = s.run("auto", append(more, "--take-over")...)
	s.knows(5, 0)
	s.says(50)
	kill()
}

// folder is one that an account may write.
func (s *slurmSite) folder(account string) string {
	s.Helper()
	dir := filepath.Join(filepath.Dir(s.conf), "state-of-"+account)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		s.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		s.Fatal(err)
	}
	return dir
}

// TestSlurmDrift runs the adapter at a Slurm that answers from files.
func TestSlurmDrift(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for backfill")
	}
	conf := clitest.FakeSlurm(t)
	s := &slurmSite{T: t, conf: conf, bin: os.Args[0], reconfigure: func() {},
		include: filepath.Join(filepath.Dir(conf), "autosched", "autosched.conf")}
	s.serve()
	s.drift("")
}

// TestSlurmAdopts: the registered defaults do not replace the settings in force at the first start.
func TestSlurmAdopts(t *testing.T) {
	conf := clitest.FakeSlurm(t)
	s := &slurmSite{T: t, conf: conf, bin: os.Args[0], reconfigure: func() {},
		include: filepath.Join(filepath.Dir(conf), "autosched", "autosched.conf")}
	s.serve()
	s.edit(15)
	kill := s.run("auto")
	s.knows(1, 15)
	s.says(15)
	kill()
	s.run("auto")
	s.knows(1, 15)
	s.says(15)
}

// TestSlurmLive reads, and tunes, a real Slurm with accounts that have the least rights: one that may only read, and
// one that may reconfigure and write the folder of the file.
func TestSlurmLive(t *testing.T) {
	slurmtest.Require(t)
	const reader, tuner = "man", "mail" // of every system
	c, err := slurmtest.Start(t.Context(), slurmtest.Options{Nodes: 2,
		Include:  "PriorityWeightAge=10\nSchedulerParameters=bf_interval=1\n",
		Accounts: []slurmtest.Account{{Name: "vc1", Share: 3, Users: []string{"games", reader, tuner}}},
		QOS:      map[string]int{"high": 9}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	must := func(out []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	code, out, errs := clitest.Run("slurm", "init", "--slurm-conf", c.Conf(), "--include", c.Include(),
		"--out", t.TempDir())
	if code != 0 || !strings.Contains(out, "2 nodes x 8 GPUs") || !strings.Contains(out, "includes it already") {
		t.Errorf("%d %s\n%s", code, errs, out)
	}

	// As docs/slurm.md sets the accounts up.
	must(c.Run(t.Context(), "sacctmgr", "-i", "modify", "user", tuner, "set", "adminlevel=administrator"))
	must(exec.Command("chown", "-R", tuner, filepath.Dir(c.Include())).CombinedOutput())
	must(exec.Command("chmod", "644", c.Log()).CombinedOutput())
	bin := filepath.Join(filepath.Dir(c.Conf()), "autosched-program") // the one of the test is in a folder of root's
	must(exec.Command("cp", os.Args[0], bin).CombinedOutput())
	tuned := filepath.Join(filepath.Dir(c.Conf()), "tuned.conf")
	const lines = "PriorityWeightAge=12\nSchedulerParameters=bf_interval=1\n"
	if err := os.WriteFile(tuned, []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AUTOSCHED_TEST_MAIN", "1") // of RunAs
	for _, x := range []struct {
		as, args, want string
		may, watches   bool // watches: waits for backfill, or needs the result of such a command
	}{
		{reader, "doctor --log " + c.Log(), "neither reconfigure nor set QOS: enough for --mode observe", true, false},
		{reader, "doctor", "cannot be written: enough for --mode observe", true, false},
		{reader, "apply --dry-run " + tuned, "correct, and not applied", true, false},
		{reader, "apply " + tuned, "man may not reconfigure slurmctld, and nothing is changed", false, false},
		{reader, "rollback", "no configuration was applied here", false, false},
		{tuner, "doctor --log " + c.Log(), "mail may reconfigure slurmctld, and set QOS", true, false},
		{tuner, "doctor --log " + c.Log(), "can be written", true, false},
		{tuner, "apply --log " + c.Log() + " " + tuned, "PriorityWeightAge = 12", true, true},
		{reader, "rollback", "man may not reconfigure slurmctld, and nothing is changed", false, true},
		{tuner, "rollback --original", "PriorityWeightAge=10", true, true},
	} {
		if x.watches && !slurmtest.Full() {
			continue
		}
		args := append([]string{"slurm"}, strings.Fields(x.args)...)
		out, err := c.RunAs(t.Context(), x.as, bin, args...)
		if (err == nil) != x.may || !strings.Contains(fmt.Sprint(string(out), err), x.want) {
			t.Errorf("slurm %s as %s: %v\n%s\nwant %q", x.args, x.as, err, out, x.want)
		}
	}

	// The hand's application left no notes where the adapter keeps its own.
	s := &slurmSite{T: t, conf: c.Conf(), include: c.Include(), bin: bin, as: tuner, reconfigure: func() {
		must(c.Run(t.Context(), "scontrol", "reconfigure"))
	}}
	s.serve()
	_, err = c.Submit(t.Context(), slurmtest.Job{Seconds: 600, GPUs: 8, Minutes: 20, User: "games", Account: "vc1"})
	if err != nil {
		t.Fatal(err)
	}
	jobs := func() string { // and nodes, which say why none runs
		var all strings.Builder
		for _, x := range []string{"squeue -h -o %T,%r", "sinfo -h -N -o %N,%T,%E"} {
			args := strings.Fields(x)
			got, err := c.Run(t.Context(), args[0], args[1:]...)
			fmt.Fprintf(&all, "%s%v ", got, err)
		}
		return all.String()
	}
	clitest.Eventually(t, jobs, "RUNNING")
	s.drift(reader, "--log", c.Log())
	s.until("all events", func(got *pb.Scheduler, _ *pb.InstanceStatus) bool {
		return got.GetStatus().GetEventCount() >= 4 // two nodes, a submission, a start
	})
	if got := jobs(); !strings.Contains(got, "RUNNING") {
		t.Errorf("the job does not run: %s", got)
	}
}
