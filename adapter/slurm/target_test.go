package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/space"
)

// TestLayout: every node has to get the included file, and no other file sets its keys.
func TestLayout(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "autosched"), 0o755); err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	include := put("autosched/autosched.conf", "PriorityWeightAge=1\n")
	put("more.conf", "# PriorityWeightAge=5\npriorityweightage = 3\n")
	if err := os.Symlink("autosched/autosched.conf", filepath.Join(dir, "autosched.conf")); err != nil {
		t.Fatal(err)
	}
	const configless = "SlurmctldParameters=idle_on_node_suspend,enable_configless\n"
	for text, want := range map[string]string{
		"include autosched/autosched.conf\n":              "",
		"Include " + include + "\n":                       "",
		configless + "include autosched.conf\n":           "",
		configless + "include autosched/autosched.conf\n": `slurm.conf:3: include autosched/autosched.conf: configless nodes`,
		configless + "include " + include + "\n":          `write "include autosched.conf" after "ln -s autosched/autosched.conf `,
		"":                                                `does not include ` + include + `: end it with the line "include autosched.conf"`,
		"include more.conf\ninclude autosched.conf\n":     "more.conf:2: priorityweightage",
	} {
		o := Options{Conf: put("slurm.conf", "ClusterName=x\n"+text), Include: filepath.Join(dir, "autosched.conf"),
			Tuned: []string{weightAge}}.Filled()
		target, err := newTarget(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := target.layout(); (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if target.Include != include {
			t.Errorf("the file is %s, not %s", target.Include, include)
		}
	}
	conf := filepath.Join(dir, "slurm.conf")
	put("slurm.conf", "ClusterName=x\ninclude more.conf\ninclude of-%c.conf\ninclude autosched.conf\n")
	put("of-x.conf", "PriorityWeightQOS=1\n")
	s := staging{t.TempDir(), dir, "x", include, []byte("PriorityWeightAge=2\n"), map[string]string{}}
	top, err := s.file(conf)
	if err != nil || len(s.copied) != 4 {
		t.Fatalf("%v %v", s.copied, err)
	}
	text, err := os.ReadFile(s.copied[include])
	if err != nil || string(text) != "PriorityWeightAge=2\n" {
		t.Errorf("%s is staged as %q (%v)", top, text, err)
	}
}

// TestByHand: what scontrol update changed is named before a reconfiguration undoes it.
func TestByHand(t *testing.T) {
	f := newFakeAccounting(t)
	f.write("bin/scontrol", "#!/bin/sh\ncat \""+f.dir+"/$3\"\n")
	const partition = "PartitionName=debug AllowGroups=ALL AllowAccounts=ALL AllowQos=b,a QoS=N/A DefaultTime=NONE " +
		"Hidden=NO MaxNodes=UNLIMITED MaxTime=02:00:00 PriorityJobFactor=1 PriorityTier=1 RootOnly=NO State=UP"
	const node = "NodeName=g2 AvailableFeatures=(null) Weight=5 State=IDLE+DRAIN Reason=by hand"
	path := filepath.Join(f.dir, "slurm.conf")
	f.write("slurm.conf", "PartitionName=DEFAULT MaxTime=120\nNodeName=g[1-3] Weight=5\n"+
		"PartitionName=debug,other Nodes=ALL AllowQOS=a,b\n")
	f.write("node", node)
	for _, c := range []struct{ change, flags, want string }{
		{"", "", ""},
		{"State=UP State=DOWN", "", "partition debug: state is DOWN, and slurm.conf has up"},
		{"State=UP State=DOWN", "KeepPartState", ""},
		{"MaxTime=02:00:00 MaxTime=UNLIMITED", "KeepPartState", "maxtime is UNLIMITED, and slurm.conf has 120"},
		{"MaxTime=02:00:00 MaxTime=UNLIMITED", "KeepPartInfo", ""},
		{"QoS=N/A QoS=low", "", "qos is low"},
		{"AllowAccounts=ALL AllowAccounts=vc1", "", "allowaccounts is vc1"},
		{"Weight=5 Weight=77", "KeepPartInfo", "node g2: weight is 77, and slurm.conf has 5"},
		{"AvailableFeatures=(null) AvailableFeatures=nvlink", "", "node g2: features is nvlink, and slurm.conf has nothing"},
		{"State=IDLE State=DOWN", "", ""},
		{"PartitionName=debug PartitionName=made", "", ""},
	} {
		before, after, _ := strings.Cut(c.change, " ")
		f.write("partition", strings.Replace(partition, before, after, 1))
		f.write("node", strings.Replace(node, before, after, 1))
		config := &conf.Config{Lines: []conf.Line{{Key: "ReconfigFlags", Value: c.flags}}}
		got, err := Commands{}.undone(t.Context(), path, config)
		if text := strings.Join(got, "; "); err != nil || !strings.Contains(text, c.want) || (text == "") != (c.want == "") {
			t.Errorf("%s %s: %q %v, want %q", c.change, c.flags, text, err, c.want)
		}
	}
}

// TestWatch: a controller that ends in the watch is an error, one that misses a ping is none.
func TestWatch(t *testing.T) {
	f := newFakeAccounting(t)
	// Each ping takes the next answer; the last one stays.
	f.write("bin/scontrol", `#!/bin/sh
cd "`+f.dir+`"
case "$1" in
ping) head -1 pings; [ "$(wc -l <pings)" -gt 1 ] && sed -i 1d pings; exit 0 ;;
show) echo "ClusterName = fake"; echo "BOOT_TIME = $(cat boot)"; [ -e boots ] && mv boots boot; exit 0 ;;
esac
`)
	const up, down = "Slurmctld(primary) at a is UP Slurmctld(backup) at b is UP\n",
		"Slurmctld(primary) at a is DOWN Slurmctld(backup) at b is UP\n"
	for _, c := range []struct {
		pings, boots, want string
	}{
		{up, "", ""},
		{up + down + down + up, "", ""},
		{up + down, "", "a (primary)"},
		{up + strings.Replace(up, "b is UP", "b is DOWN", 1), "", "b (backup)"},
		{up, "200", "started again"},
	} {
		f.write("pings", c.pings)
		f.write("boot", "100")
		if c.boots != "" {
			f.write("boots", c.boots)
		}
		before, span := controllers{"primary": "a", "backup": "b"}, 300*time.Millisecond
		if c.want != "" { // which ends it
			span = 2 * time.Minute
		}
		err := (&Target{pace: time.Millisecond}).watch(t.Context(), "/does/not/exist", 0, before, span)
		if (err == nil) != (c.want == "") || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%q: %v, want %q", c.pings, err, c.want)
		}
	}
}

// TestBackup: nothing is reconfigured while a backup is in control.
func TestBackup(t *testing.T) {
	f := newFakeAccounting(t)
	f.write("bin/scontrol", `#!/bin/sh
case "$1" in
ping) printf 'Slurmctld(primary) at a is DOWN\nSlurmctld(backup) at b is UP\n'; exit 1 ;;
show) echo "ClusterName = fake" ;;
reconfigure) touch "`+f.dir+`/asked" ;;
esac
`)
	err := (&Target{}).reconfigure(t.Context(), "/does/not/exist")
	if _, asked := os.Stat(filepath.Join(f.dir, "asked")); err == nil || asked == nil ||
		errors.Is(err, client.ErrRefused) || !strings.Contains(err.Error(), "a backup is in control") {
		t.Errorf("%v", err)
	}
	if up, err := (Commands{}).up(t.Context()); up || err != nil {
		t.Error(up, err)
	}
}

// TestSettle: nothing is reconfigured within 30 s of the start of a slurmctld that a reconfiguration starts anew.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		version string
		age     int // of slurmctld, in seconds
		waits   bool
	}{{"24.11.5", 0, true}, {"23.11.0", 1, true}, {"23.11.0", 30, false}, {"25.05.1", 3000, false},
		{"22.05.8", 0, false}, {"23.02.7", 0, false}} {
		f := newFakeAccounting(t)
		f.write("bin/sdiag", "#!/bin/sh\ntouch '"+f.dir+"/looked'\n"+
			"echo 'sdiag output at Fri Nov 27 08:00:00 2026 (1795766400)'\n")
		f.write("bin/scontrol", fmt.Sprintf(`#!/bin/sh
case "$1" in
ping) echo "Slurmctld(primary) at a is UP" ;;
show) echo "ClusterName = fake"; echo "SLURM_VERSION = %s"; echo "BOOT_TIME = %d" ;;
reconfigure) touch "%s/asked"; exit 1 ;;
esac
`, c.version, 1795766400-c.age, f.dir))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { // ends the pause, once it is due
			defer close(done)
			for ctx.Err() == nil {
				if _, err := os.Stat(filepath.Join(f.dir, "looked")); err == nil && c.waits {
					time.Sleep(50 * time.Millisecond) // sdiag has answered, or the call fails: both are the pause
					cancel()
				}
				time.Sleep(time.Millisecond)
			}
		}()
		err := (&Target{}).reconfigure(ctx, "/does/not/exist")
		cancel()
		<-done
		if _, asked := os.Stat(filepath.Join(f.dir, "asked")); err == nil || (asked == nil) == c.waits {
			t.Errorf("%s, started %d s ago: %v, reconfigured: %v", c.version, c.age, err, asked == nil)
		}
	}
}

// TestHalfLife: usage is not forgotten at once.
func TestHalfLife(t *testing.T) {
	config := &conf.Config{Lines: []conf.Line{{Key: halfLife, Value: "7-00:00:00"}}}
	for days, ok := range map[float64]bool{1. / 1440: false, 3: false, 3.5: true, 7: true, 14: true, 15: false} {
		if err := bounded(config, space.Values{halfLife: space.Num(days * 86400)}); (err == nil) != ok {
			t.Errorf("%v days: %v", days, err)
		}
	}
	if err := bounded(config, space.Values{weightAge: space.Num(1)}); err != nil {
		t.Error(err)
	}
}

// TestComplaints: only lines that slurmctld writes about settings count, whatever users have it log.
func TestComplaints(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	target := &Target{Options: Options{Log: path}, Form: &conf.Form{Tuned: []string{interval, depth, weightAge, "PriorityMaxAge"}}}
	const at = "[2026-11-27T07:54:48.242] "
	for line, counts := range map[string]bool{
		at + "error: Invalid SchedulerParameters bf_interval: 0":                                      true,
		at + "error: ignoring SchedulerParameters: bf_max_job_test value of -3":                       true,
		at + "error: PriorityWeightAge 1 specified more than once, latest value used":                 true,
		at + `error: Bad value "soon" for PriorityMaxAge`:                                             true,
		at + "error: PriorityWeight values too high, job priority value may overflow":                 true,
		at + "fatal: Invalid parameter max_job_bf. The option is no longer supported, please use it.": true,
		at + "error: Invalid SchedulerParameters bf_window: 0":                                        false,
		at + "error: Invalid qos (PriorityWeightAge)":                                                 false,
		at + "error: lookup failure for node bf_interval":                                             false,
		at + "error: Invalid qos (Invalid SchedulerParameters bf_interval: 0)":                        false,
		at + "error: Invalid qos (x] error: Invalid SchedulerParameters bf_interval: 0":               false,
		at + "debug:  Invalid SchedulerParameters bf_interval: 0":                                     false,
		"error: Invalid SchedulerParameters bf_interval: 0":                                           false,
	} {
		if err := os.WriteFile(path, []byte(at+"error: something else\n"+line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if said := target.complaints(0); (said != "") != counts {
			t.Errorf("%s: %q", line, said)
		}
	}
}

func TestDiagnostics(t *testing.T) {
	text, err := os.ReadFile("testdata/sdiag.txt")
	if err != nil {
		t.Fatal(err)
	}
	d := diagnosticsOf(string(text))
	const warning = "Backfilling stats (WARNING: data obtained in the middle of backfilling execution.)\n"
	if inCycle := diagnosticsOf(strings.Replace(string(text), "Backfilling stats\n", warning, 1)); inCycle != d {
		t.Errorf("in the middle of a cycle %+v, want %+v", inCycle, d)
	}
	if d.now.Unix() != 1795401357 || d.queue != 0 || d.backfill != 2867*time.Microsecond {
		t.Errorf("%+v", d)
	}
}

// TestCheckAsksOnce: a check asks slurmctld once for its configuration.
func TestCheckAsksOnce(t *testing.T) {
	f := newFakeAccounting(t)
	f.write("bin/scontrol", `#!/bin/sh
case "$*" in
ping) echo "Slurmctld(primary) at fake is UP" ;;
"show config") echo >>"`+f.dir+`/asked"; echo "ClusterName = fake"; echo "PriorityWeightAge = 1" ;;
esac
`)
	sdiag, err := os.ReadFile("testdata/sdiag.txt")
	if err != nil {
		t.Fatal(err)
	}
	f.write("sdiag.txt", string(sdiag))
	f.write("bin/sdiag", "#!/bin/sh\ncat \""+f.dir+"/sdiag.txt\"\n")
	f.write("slurm.conf", "ClusterName=fake\ninclude autosched.conf\n")
	f.write("autosched.conf", "PriorityWeightAge=1\n")
	f.write("new.conf", "PriorityWeightAge=2\n")
	target, err := newTarget(Options{Conf: filepath.Join(f.dir, "slurm.conf"), Include: filepath.Join(f.dir, "autosched.conf"),
		Dir: f.dir, Tuned: []string{weightAge}, Reconfigure: []string{"true"}}.Filled())
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Check(t.Context(), filepath.Join(f.dir, "new.conf")); err != nil {
		t.Fatal(err)
	}
	if asked, err := os.ReadFile(filepath.Join(f.dir, "asked")); err != nil || string(asked) != "\n" {
		t.Errorf("asked %d times (%v)", len(asked), err)
	}
}

// TestFatalFilesAreRemembered, whatever their comments say.
func TestFatalFilesAreRemembered(t *testing.T) {
	target := &Target{Options: Options{Dir: t.TempDir()}}
	if err := target.noteFatal([]byte("# a\nPriorityWeightAge=1\n")); err != nil {
		t.Fatal(err)
	}
	if was, err := target.wasFatal([]byte("# b\nPriorityWeightAge=1\n")); !was || err != nil {
		t.Error(was, err)
	}
	if was, err := target.wasFatal([]byte("PriorityWeightAge=2\n")); was || err != nil {
		t.Error(was, err)
	}
	if !errors.Is(target.ended("/does/not/exist", 0, nil), client.ErrRefused) {
		t.Error("an end of slurmctld is no refusal")
	}
}

// TestWhatIsRefused: a file that slurmctld refuses is at fault, one that the account may not have it read is not.
func TestWhatIsRefused(t *testing.T) {
	f := newFakeAccounting(t)
	f.write("bin/scontrol", `#!/bin/sh
case "$1" in
ping) echo "Slurmctld(primary) at fake is UP" ;;
show) echo "ClusterName = fake" ;;
reconfigure) cat "`+f.dir+`/said" >&2; exit 1 ;;
esac
`)
	for said, refused := range map[string]bool{
		"slurm_reconfigure error: SelectType change requires restart of the slurmctld daemon": true,
		"scontrol: fatal: Unable to process configuration file":                               true,
		"slurm_reconfigure error: Invalid user id":                                            false,
		"slurm_reconfigure error: Access/permission denied":                                   false,
		"sudo: a password is required":                                                        false,
	} {
		f.write("said", said+"\n")
		err := (&Target{}).reconfigure(t.Context(), "/does/not/exist")
		if err == nil || !strings.Contains(err.Error(), said) || errors.Is(err, client.ErrRefused) != refused {
			t.Errorf("%s: %v", said, err)
		}
	}
}
