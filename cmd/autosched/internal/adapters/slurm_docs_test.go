package adapters_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autosched/autosched/adapter/slurm/slurmtest"
	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestSlurmDocs follows the steps of docs/slurm.md, Set up, on a fresh site with a backup controller, configless nodes,
// limits of a QOS and a maintenance to come: what an operator sets is in force, nodes and controllers go on, jobs that
// ran run, and the way back leads to the first file.
func TestSlurmDocs(t *testing.T) {
	slurmtest.Require(t)
	if !slurmtest.Full() {
		t.Skip("of make slurm")
	}
	const account, owner, nodes = "mail", "games", 3 // accounts of every system
	const lines = "PriorityWeightAge=1000\nSchedulerParameters=bf_interval=2\n"
	c, err := slurmtest.Start(t.Context(), slurmtest.Options{Nodes: nodes, Backup: true,
		Conf:     "SlurmctldParameters=enable_configless\n" + lines,
		Accounts: []slurmtest.Account{{Name: "vc1", Users: []string{owner}}}, QOS: map[string]int{"low": 10}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("SLURM_CONF", c.Conf())
	must := func(program string, args ...string) string {
		t.Helper()
		out, err := c.Run(t.Context(), program, args...)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	until := func(what string, ok func() (string, bool)) {
		t.Helper()
		last := ""
		for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			var is bool
			if last, is = ok(); is {
				return
			}
		}
		t.Fatalf("waiting until %s: %s", what, last)
	}
	run := func(words string, args ...string) string {
		t.Helper()
		code, out, errs := clitest.Run(append(strings.Fields(words), args...)...)
		if code != 0 {
			t.Fatalf("%s: %d %s%s", words, code, out, errs)
		}
		return out
	}
	for n := range nodes {
		if err := c.Configless(fmt.Sprint("g", n+1)); err != nil {
			t.Fatal(err)
		}
	}
	until("the nodes answer", func() (string, bool) {
		got := must("sinfo", "-h", "-N", "-o", "%t")
		return got, got == strings.Repeat("idle\n", nodes)
	})
	must("sacctmgr", "-i", "modify", "qos", "low", "set", "MaxTRESPerUser=gres/gpu=4")
	must("scontrol", "create", "reservation", "ReservationName=upkeep", "Users=root", "Flags=MAINT,IGNORE_JOBS",
		"StartTime=now+2hours", "Duration=60", "Nodes=ALL")
	job, err := c.Submit(t.Context(), slurmtest.Job{Seconds: 3000, GPUs: 8, Minutes: 60, User: owner, Account: "vc1"})
	if err != nil {
		t.Fatal(err)
	}
	until("a job runs", func() (string, bool) {
		got := must("squeue", "-h", "-j", job, "-o", "%T")
		return got, got == "RUNNING\n"
	})
	// Step 1.
	must("sacctmgr", "-i", "add", "user", account, "account=root", "adminlevel=administrator")
	// Steps 2 and 3.
	site := filepath.Join(t.TempDir(), "site")
	var described struct {
		Include string
		Move    []string
	}
	if err := json.Unmarshal([]byte(run("slurm init --json --out", site)), &described); err != nil {
		t.Fatal(err)
	}
	if described.Include != "include autosched.conf" || len(described.Move) != 2 {
		t.Errorf("init says %+v", described)
	}
	text, err := os.ReadFile(filepath.Join(site, "autosched.conf"))
	if err == nil {
		err = os.WriteFile(c.Include(), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	credential, err := slurmtest.Credential(account)
	if err != nil {
		t.Fatal(err)
	}
	own := func(paths ...string) {
		t.Helper()
		for _, path := range paths {
			if err := os.Chown(path, int(credential.Uid), int(credential.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
	own(filepath.Dir(c.Include()), c.Include())
	main, err := os.ReadFile(c.Conf())
	if err == nil {
		err = os.WriteFile(c.Conf(), []byte(strings.Replace(string(main), lines, "", 1)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	must("scontrol", "reconfigure")
	if err := os.Chmod(c.Log(), 0o644); err != nil { // or setfacl
		t.Fatal(err)
	}
	// Steps 4 to 6, as the account. Its program and files are where it may read them.
	home, err := os.MkdirTemp("", "docs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	pki := filepath.Join(home, "pki")
	run("admin certs", pki, "--host", "127.0.0.1", "--id", "prod")
	program := filepath.Join(home, "autosched")
	self, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(program, self, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	keys, err := filepath.Glob(filepath.Join(pki, "*"))
	if err != nil {
		t.Fatal(err)
	}
	own(append(keys, home, pki)...)
	as := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env, cmd.Dir = append(c.Env(), "AUTOSCHED_TEST_MAIN=1"), "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
		return cmd
	}
	if out, err := as("slurm", "doctor", "--log", c.Log()).CombinedOutput(); err != nil ||
		strings.Contains(string(out), "fail") {
		t.Errorf("doctor: %v %s", err, out)
	}
	_, server := clitest.ServeProcess(t, filepath.Join(t.TempDir(), "data"), "127.0.0.1:0", "--tls-cert",
		filepath.Join(pki, "server.pem"), "--tls-key", filepath.Join(pki, "server.key"), "--client-ca",
		filepath.Join(pki, "ca.pem"), "--roles", filepath.Join(pki, "roles.yaml"))
	role := func(name string) []string {
		return []string{"--server", server, "--tls-ca", filepath.Join(pki, "ca.pem"), "--tls-cert",
			filepath.Join(pki, name+".pem"), "--tls-key", filepath.Join(pki, name+".key")}
	}
	run("scheduler register "+filepath.Join(site, "scheduler.json")+" --id prod", role("admin")...)
	run("scheduler update prod --mode auto", role("operator")...)
	adapter := as(slices.Concat([]string{"slurm", "run", "--id", "prod", "--mode", "auto", "--poll-interval", "1s", "--log",
		c.Log()}, role("scheduler-prod"))...)
	var log clitest.LockedBuffer
	adapter.Stderr = &log
	if err := adapter.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- adapter.Wait() }()
	inForce := func(want string) {
		t.Helper()
		until(want+" is in force", func() (string, bool) {
			config := must("scontrol", "show", "config")
			return log.String(), strings.Contains(config, want+"\n")
		})
	}
	run("scheduler config pin prod --reason docs --set PriorityWeightAge=4000", role("operator")...)
	inForce("PriorityWeightAge       = 4000")
	clitest.Eventually(t, log.String, `msg="in force" revision=`)
	safe := func() {
		t.Helper()
		if got := must("sinfo", "-h", "-N", "-o", "%T"); strings.Contains(got, "*") || strings.Contains(got, "down") ||
			slices.ContainsFunc([]string{"g1", "g2", "g3"}, c.Ended) {
			t.Errorf("nodes are %s", got)
		}
		if ping := must("scontrol", "ping"); strings.Count(ping, "UP") != 2 {
			t.Errorf("controllers: %s", ping)
		}
		if got := must("sacct", "-X", "-n", "-D", "-P", "-j", job, "--format=State"); got != "RUNNING\n" {
			t.Errorf("the job is %s", got)
		}
		if got := must("scontrol", "show", "reservation"); !strings.Contains(got, "upkeep") {
			t.Errorf("the maintenance is gone: %s", got)
		}
		if got := must("sacctmgr", "-nP", "show", "qos", "low", "format=MaxTRESPU"); got != "gres/gpu=4\n" {
			t.Errorf("the limit is %s", got)
		}
	}
	safe()
	_ = adapter.Process.Signal(os.Interrupt)
	if err := <-ended; err != nil {
		t.Errorf("the adapter ended with %v: %s", err, log.String())
	}
	if out, err := as("slurm", "rollback", "--original").CombinedOutput(); err != nil {
		t.Errorf("rollback: %v %s", err, out)
	}
	inForce("PriorityWeightAge       = 1000")
	safe()
}
