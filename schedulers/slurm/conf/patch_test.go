package conf_test

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/space"
)

func slurmSpace(t *testing.T) *space.Space {
	t.Helper()
	s, err := space.New(slurm.Domain(), slurm.Rules())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPatch(t *testing.T) {
	s := slurmSpace(t)
	const before = "# by slurm init\nPriorityMaxAge=0-00:10:00\nPriorityWeightAge=1000\n" +
		"SchedulerParameters=bf_interval=5,sched_interval=10,bf_continue,max_rpc_cnt=150"
	config, err := s.Parse(s.Default(), []string{"PriorityWeightAge=2000", "PriorityMaxAge=20m",
		"SchedulerParameters.bf_interval=5s", "SchedulerParameters.sched_interval=10s"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := conf.NewPatch("site/autosched.conf", []byte(before), config, "tuned.conf")
	if err != nil {
		t.Fatal(err)
	}
	const want = `--- site/autosched.conf
+++ tuned.conf
@@ -1,4 +1,3 @@
-# by slurm init
-PriorityMaxAge=0-00:10:00
-PriorityWeightAge=1000
-SchedulerParameters=bf_interval=5,sched_interval=10,bf_continue,max_rpc_cnt=150
\ No newline at end of file
+PriorityMaxAge=0-00:20:00
+PriorityWeightAge=2000
+SchedulerParameters=bf_interval=5,bf_job_part_count_reserve=0,bf_max_job_test=500,bf_max_job_user=0,` +
		`bf_min_age_reserve=0,bf_resolution=60,bf_window=1440,default_queue_depth=100,sched_interval=10,bf_continue,` +
		"max_rpc_cnt=150\n"
	if got.Diff != want {
		t.Errorf("%s\nwant\n%s", got.Diff, want)
	}
	for _, tt := range []struct{ file, set, want string }{
		{before, "PriorityWeightQOS=5", "PriorityWeightQOS: is 5 in the configuration, and a.conf does not set it"},
		{"include b.conf\n", "PriorityWeightAge=5", "include lines belong into slurm.conf"},
		{"PriorityWeightAge=-1\n", "PriorityWeightAge=5", "a.conf:1: PriorityWeightAge"},
	} {
		config, err := s.Parse(s.Default(), []string{tt.set})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conf.NewPatch("a.conf", []byte(tt.file), config, "b"); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.set, err, tt.want)
		}
	}
}

// TestPatchKeeps: a value outside the range that is tuned stays unless the configuration changes it.
func TestPatchKeeps(t *testing.T) {
	const before = "PriorityWeightAge=50000000\nPriorityWeightQOS=7\n"
	c, err := conf.Read("a", files(map[string]string{"a": before}))
	if err != nil {
		t.Fatal(err)
	}
	now, _, err := c.Current()
	if err != nil {
		t.Fatal(err)
	}
	for v, want := range map[int]string{7: before, 8: "PriorityWeightAge=50000000\nPriorityWeightQOS=8\n"} {
		p, err := conf.NewPatch("a", []byte(before), now.With("PriorityWeightQOS", space.Int(v)), "b")
		if err != nil || string(p.Text) != want {
			t.Errorf("%v\n%s\nwant\n%s", err, p.Text, want)
		}
	}
}

// TestPatchPutsInForce: a patched file sets the configuration, the site's own options stay, the diff makes the
// one text of the other, and patched back nothing differs.
func TestPatchPutsInForce(t *testing.T) {
	s := slurmSpace(t)
	site, err := shown(t).Site()
	if err != nil {
		t.Fatal(err)
	}
	before, err := site.Config.Owned()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		at := make([]float64, s.Dims())
		for i := range at {
			at[i] = r.Float64()
		}
		config := s.Decode(at)
		p, err := conf.NewPatch("a", before, config, "b")
		if err != nil {
			t.Fatalf("%s: %v", config, err)
		}
		c, err := conf.Read("b", files(map[string]string{"b": string(p.Text)}))
		if err != nil {
			t.Fatal(err)
		}
		if got, notes, err := c.Current(); err != nil || !got.Equal(config) {
			t.Fatalf("%s\nin force is %s %v %v", config, got, notes, err)
		}
		if !strings.Contains(string(p.Text), ",bf_continue") {
			t.Fatalf("the site's options are lost:\n%s", p.Text)
		}
		if from, to := sides(p.Diff); p.Diff != "" && (from != string(before) || to != string(p.Text)) {
			t.Fatalf("%s\nmakes of\n%s\n%s", p.Diff, from, to)
		}
		if back, err := conf.NewPatch("b", p.Text, config, "b"); err != nil || back.Diff != "" {
			t.Fatalf("once more: %v\n%s", err, back.Diff)
		}
	}
}

// TestPatchQOS: a priority that the file has changes by a command; one that it does not have is not changed.
func TestPatchQOS(t *testing.T) {
	site, err := shown(t).Site()
	if err != nil {
		t.Fatal(err)
	}
	if err := site.TuneQOS([]string{"high", "low"}); err != nil {
		t.Fatal(err)
	}
	before, err := site.Config.Owned()
	if err != nil || !strings.HasPrefix(string(before), "#QOS.high.Priority=100\n#QOS.low.Priority=0\n") {
		t.Fatalf("%v\n%s", err, before)
	}
	now, err := site.Narrowed()
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"QOS.high.Priority": "10 to 1000, whole numbers",
		"QOS.low.Priority": "1 to 100, whole numbers or 0 (none)"} {
		if p, _ := now.Space().Param(id); p.Range() != want {
			t.Errorf("%s is %s, want %s", id, p.Range(), want)
		}
	}
	p, err := conf.NewPatch("a", before, now.With("QOS.high.Priority", space.Int(12)), "b")
	if err != nil || len(p.QOS) != 1 || p.QOS[0] != "sacctmgr -i modify qos high set Priority=12" {
		t.Fatal(p, err)
	}
	if from, to := sides(p.Diff); from != string(before) || to != strings.Replace(from, "=100\n", "=12\n", 1) {
		t.Errorf("the diff is\n%s", p.Diff)
	}
	if p, err := conf.NewPatch("a", before, now, "b"); err != nil || p.Diff != "" || p.QOS != nil {
		t.Errorf("what is in force is a change: %v %v", p, err)
	}
	without := strings.Replace(string(before), "#QOS.low.Priority=0\n", "", 1)
	if _, err := conf.NewPatch("a", []byte(without), now.With("QOS.low.Priority", space.Int(0)), "b"); err == nil ||
		!strings.Contains(err.Error(), "QOS.low.Priority: is 0") {
		t.Errorf("%v, want the QOS named that the file lacks", err)
	}
	for names, want := range map[string]string{"none": "no QOS \"none\", only normal, high, low",
		"high,high": "twice"} {
		if err := site.TuneQOS(strings.Split(names, ",")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", names, err, want)
		}
	}
}

// sides are the texts before and after a diff.
func sides(diff string) (from, to string) {
	for i, l := range strings.SplitAfter(diff, "\n") {
		if i < 3 || l == "" {
			continue
		}
		if l[0] != '+' {
			from += l[1:]
		}
		if l[0] != '-' {
			to += l[1:]
		}
	}
	return from, to
}

func FuzzPatch(f *testing.F) {
	f.Add([]byte("PriorityWeightAge=5\n"))
	text, err := os.ReadFile("testdata/autosched.conf")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	s, err := space.New(slurm.Domain(), slurm.Rules())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := conf.NewPatch("a", text, s.Default(), "b")
		if err != nil {
			return
		}
		if _, err := conf.NewPatch("b", p.Text, s.Default(), "c"); err != nil {
			t.Errorf("%q makes %q: %v", text, p.Text, err)
		}
	})
}
