package conf_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/workload"
)

// shown is the output of a real slurmctld's commands, but for nodes, QOS and associations of further kinds.
func shown(t testing.TB) conf.Shown {
	t.Helper()
	var s conf.Shown
	for i, to := range s.Files() {
		var err error
		if *to, err = os.ReadFile(filepath.Join("testdata", conf.Commands[i].File)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestSite(t *testing.T) {
	s, err := shown(t).Site()
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(struct {
		Cluster any
		Current any
		Notes   []string
	}{s.Cluster, s.Current, s.Notes}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/site.json")
	if err != nil || strings.TrimSpace(string(want)) != string(got) {
		t.Errorf("(%v) it is\n%s", err, got)
	}
	owned, err := s.Config.Owned()
	if err != nil {
		t.Fatal(err)
	}
	site := append(s.Config.Site(conf.Tuned())[conf.SchedulerParameters], "CPU=3")
	if found := conf.Check(owned, site, s.Config.Get("AccountingStorageTRES")); len(found) > 0 {
		t.Errorf("%v\n%s", found, owned)
	}
	// The owned file changes nothing.
	again, err := conf.Read("/c", files(map[string]string{"/c": string(owned)}))
	if err != nil {
		t.Fatal(err)
	}
	config, _, err := again.Current()
	if err != nil || !config.Equal(s.Current) {
		t.Errorf("%v (%v), want %v", config, err, s.Current)
	}
}

func TestSiteFaults(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*conf.Shown)
		want   string
	}{
		"no settings":  {func(s *conf.Shown) { s.Config = nil }, "config.txt: has no line"},
		"no partition": {func(s *conf.Shown) { s.Partitions = nil }, "partitions.txt: has no partition"},
		"no nodes":     {func(s *conf.Shown) { s.Nodes = nil }, "nodes.txt: has no node with GPUs"},
		"GPUs":         {func(s *conf.Shown) { s.Nodes = []byte("NodeName=a Gres=gpu:x CPUTot=1\n") }, "node a: Gres"},
		"memory":       {func(s *conf.Shown) { s.Nodes = []byte("NodeName=a Gres=gpu:1 CPUTot=1\n") }, "RealMemory"},
		"limit":        {func(s *conf.Shown) { s.Partitions = []byte("PartitionName=p MaxTime=x\n") }, "partition p: maxtime"},
		"columns":      {func(s *conf.Shown) { s.QOS = []byte("Name|Prio\n") }, "qos.txt:1: there is no column priority"},
		"cells":        {func(s *conf.Shown) { s.QOS = []byte("Name|Priority\na\n") }, "qos.txt:2: has 1 columns"},
		"priority":     {func(s *conf.Shown) { s.QOS = []byte("Name|Priority\na|b\n") }, "qos.txt: a: Priority"},
		"share":        {func(s *conf.Shown) { s.Associations = []byte("Cluster|Account|User|Share\nemulated|a||x\n") }, "Share"},
		"setting in force": {func(s *conf.Shown) {
			s.Config = []byte("ClusterName=a\nSchedulerParameters=bf_interval=0\n")
		}, "config.txt:2: SchedulerParameters.bf_interval"},
	} {
		s := shown(t)
		c.change(&s)
		if _, err := s.Site(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestGres: MIG instances are the GPUs that their slices make, and shards are of GPUs that are counted already.
func TestGres(t *testing.T) {
	for gres, want := range map[string]workload.NodeGroup{
		"gpu:8(S:0-1)":                         {GPUsPerNode: 8},
		"gpu:a100:4,shard:32":                  {GPUsPerNode: 4, GPUModel: "a100"},
		"gpu:a100:2,gpu:v100:2":                {GPUsPerNode: 4},
		"gpu:a100_1g.5gb:14":                   {GPUsPerNode: 2},
		"gpu:1g.10gb:2":                        {GPUsPerNode: 1},
		"gpu:a30_2g.12gb:4(S:0)":               {GPUsPerNode: 2},
		"gpu:a100:2,gpu:nvidia_a100_3g.20gb:2": {GPUsPerNode: 3},
	} {
		s := shown(t)
		s.Nodes = []byte("NodeName=a Gres=" + gres + " CPUTot=1 RealMemory=1 State=IDLE\n")
		site, err := s.Site()
		if err != nil {
			t.Errorf("%s: %v", gres, err)
			continue
		}
		if g := site.Cluster.Groups[0]; g.GPUsPerNode != want.GPUsPerNode || g.GPUModel != want.GPUModel {
			t.Errorf("%s: %+v, want %+v", gres, g, want)
		}
	}
}

// TestUncountedMIG: instances whose profile accounting does not count are noted, each type once.
func TestUncountedMIG(t *testing.T) {
	for counted, want := range map[string]bool{"gres/gpu": true, "gres/gpu,GRES/gpu:1g.10gb": false} {
		s := shown(t)
		s.Config = append([]byte("AccountingStorageTRES = "+counted+"\n"), s.Config...)
		s.Config = []byte(strings.Replace(string(s.Config), "\nAccountingStorageTRES ", "\nElse ", 1))
		s.Nodes = []byte("NodeName=a Gres=gpu:1g.10gb:7 CPUTot=1 RealMemory=1 State=IDLE\n" +
			"NodeName=b Gres=gpu:1g.10gb:14 CPUTot=1 RealMemory=1 State=IDLE\n")
		site, err := s.Site()
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(site.Notes, "\n")
		if got := strings.Contains(notes, "add gres/gpu:1g.10gb to AccountingStorageTRES"); got != want {
			t.Errorf("%s: %v\n%s", counted, got, notes)
		}
	}
}

// TestOverTimeLimit: that of slurm.conf is the site's; that of a partition, and a CompleteWait, are named.
func TestOverTimeLimit(t *testing.T) {
	s := shown(t)
	for text, to := range map[string]string{"OverTimeLimit           = 0 min": "OverTimeLimit = 5 min",
		"CompleteWait            = 0 sec": "CompleteWait = 32 sec"} {
		s.Config = []byte(strings.Replace(string(s.Config), text, to, 1))
	}
	s.Partitions = []byte(strings.Replace(string(s.Partitions), "OverTimeLimit=NONE", "OverTimeLimit=7", 1))
	site, err := s.Site()
	if err != nil {
		t.Fatal(err)
	}
	got := slurm.Defaults()
	for key, value := range site.Cluster.Site.Settings {
		if err := got.Set(key, value); err != nil {
			t.Error(err)
		}
	}
	notes := strings.Join(site.Notes, "\n")
	if got.OverTimeLimit != 5*time.Minute || !strings.Contains(notes, "partition train: OverTimeLimit 7") ||
		!strings.Contains(notes, "completewait") {
		t.Errorf("%v %s", got.OverTimeLimit, notes)
	}
}

func TestApply(t *testing.T) {
	c, err := conf.Read("/c", files(map[string]string{"/c": "ClusterName=a\nPriorityWeightAge=3\n" +
		"SchedulerParameters=bf_interval=7,defer\nPrioritytype=priority/basic\nPriorityWeightAge=4\n" +
		"schedulerparameters=bf_interval=8\n"}))
	if err != nil {
		t.Fatal(err)
	}
	s := slurm.Defaults()
	if err := c.Apply(&s); err != nil {
		t.Fatal(err)
	}
	if s.PriorityWeightAge != 4 || s.BFInterval.Seconds() != 8 || s.Defer || !s.Basic {
		t.Errorf("%+v", s)
	}
	if c, err = conf.Read("/c", files(map[string]string{"/c": "\nPriorityFlags=MYSTERY\n" +
		"SchedulerParameters=bf_busy_nodes,BF_Interval=9\nPriorityWeightAge=8\n"})); err != nil {
		t.Fatal(err)
	}
	var not slurm.NotSimulated
	if err := c.Apply(&s); !errors.As(err, &not) || len(not) != 2 ||
		!strings.HasPrefix(not[0], "/c:2: slurm.conf: priorityflags") || !strings.Contains(not[1], "/c:3: ") {
		t.Error(err)
	}
	if s.PriorityWeightAge != 8 || s.BFInterval.Seconds() != 9 {
		t.Errorf("the other settings are not set: %+v", s)
	}
	c, err = conf.Read("/c", files(map[string]string{"/c": "PriorityFlags=MYSTERY\nPriorityMaxAge=soon\n"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(&s); err == nil || errors.As(err, &not) || !strings.Contains(err.Error(), "/c:2: ") {
		t.Errorf("a value that Slurm does not accept: %v", err)
	}
}

// FuzzSite: listings are read or refused.
func FuzzSite(f *testing.F) {
	s := shown(f)
	f.Add(string(s.Partitions), string(s.Nodes), string(s.QOS), string(s.Associations))
	f.Fuzz(func(t *testing.T, partitions, nodes, qos, associations string) {
		s := conf.Shown{Config: s.Config, Partitions: []byte(partitions), Nodes: []byte(nodes), QOS: []byte(qos),
			Associations: []byte(associations)}
		if site, err := s.Site(); err == nil && site.Cluster.Validate() != nil {
			t.Fatal("the cluster is not valid")
		}
	})
}

// TestLate: parameters that act after hours end at three, or at the value in force.
func TestLate(t *testing.T) {
	site, err := shown(t).Site()
	if err != nil {
		t.Fatal(err)
	}
	config, err := site.Narrowed()
	if err != nil {
		t.Fatal(err)
	}
	for id, most := range map[string]float64{"PriorityMaxAge": site.Current.Get("PriorityMaxAge").Float(),
		conf.SchedulerParameters + ".bf_min_age_reserve": 3 * 3600} {
		if p, ok := config.Space().Param(id); !ok || p.Max != most {
			t.Errorf("%s ends at %v, want %v", id, p.Max, most)
		}
	}
	off := shown(t) // the age of a weight that is 0 is not in force
	off.Config = regexp.MustCompile(`(PriorityWeightAge *=) \d+`).ReplaceAll(off.Config, []byte("$1 0"))
	if site, err = off.Site(); err != nil {
		t.Fatal(err)
	}
	if config, err = site.Narrowed(); err != nil {
		t.Fatal(err)
	}
	if p, _ := config.Space().Param("PriorityMaxAge"); p.Default.Float() != 3*3600 || p.Max != 3*3600 {
		t.Errorf("without a weight the age is %v, at most %v", p.Default, p.Max)
	}
}

// TestNotes: each part that is not simulated is named.
func TestNotes(t *testing.T) {
	s := shown(t)
	replace := func(text *[]byte, old, new string) {
		t.Helper()
		if !strings.Contains(string(*text), old) {
			t.Fatalf("the listing lacks %s", old)
		}
		*text = []byte(strings.Replace(string(*text), old, new, 1))
	}
	replace(&s.Partitions, "OverSubscribe=NO", "OverSubscribe=EXCLUSIVE")
	replace(&s.Partitions, "MaxNodes=UNLIMITED", "MaxNodes=2")
	replace(&s.Partitions, "QoS=N/A", "QoS=part")
	replace(&s.Nodes, "Weight=1 ", "Weight=50 ")
	s.QOS = []byte("Name|Priority|Preempt|GrpTRES|MaxTRESPU|MaxWall|MaxSubmitPU|UsageFactor\n" +
		"normal|50||cpu=24,gres/gpu=2||1-00:00:00||1.000000\nlow|0|||||10|0.500000\n")
	s.Associations = []byte("Cluster|Account|ParentName|User|Share|GrpTRESRunMins|MaxSubmit\n" +
		"emulated|a|root||1|gres/gpu=100|7\nemulated|a||x|1||7\n")
	site, err := s.Site()
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(site.Notes, "\n") + "\n"
	for _, want := range []string{"MaxNodes=2", "QOS normal: GrpTRES=cpu=24",
		"QOS normal: MaxWall=1-00:00:00", "QOS low: MaxSubmitPU=10", "account a: GrpTRESRunMins=gres/gpu=100",
		"user x of account a: MaxSubmit=7"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%s is not noted: %s", want, notes)
		}
	}
	groups := site.Cluster.Groups
	if p := site.Cluster.Site.Partitions[0]; !p.Exclusive || len(groups) < 2 ||
		!slices.ContainsFunc(groups, func(g workload.NodeGroup) bool { return g.Weight == 50 && g.Nodes == 1 }) {
		t.Errorf("EXCLUSIVE or a weight is not read: %+v, %+v", p, groups)
	}
	for _, simulated := range []string{"UsageFactor", "OverSubscribe", "gres/gpu=2 ", "QoS=part", "account a: MaxSubmit=7 is"} {
		if strings.Contains(strings.ReplaceAll(notes, "user x of account a", ""), simulated) {
			t.Errorf("%s is noted: %s", simulated, notes)
		}
	}
}

// TestNotesOfMany: what many users have alike is one note, limits that are not enforced are none, and grace times and
// flags of QOS hold regardless of limits.
func TestNotesOfMany(t *testing.T) {
	s := shown(t)
	s.QOS = []byte("Name|Priority|GraceTime|Flags|MinTRES|MaxTRESRunMinsPU\n" +
		"a|1|00:01:00|NoReserve|gres/gpu=1|cpu=5\nb|1|00:01:00|DenyOnLimit||\n")
	var users strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&users, "emulated|a||u%d|1|1-00:00:00|\n", i)
	}
	s.Associations = []byte("Cluster|Account|ParentName|User|Share|MaxWall|GrpSubmit\n" +
		"emulated|a|root||1||9\n" + users.String() + "emulated|a||other|1|2:00|\n")
	always := []string{"2 QOS: GraceTime=00:01:00 is not simulated", "QOS a: Flags=NoReserve is not simulated"}
	limits := []string{"QOS a: MaxTRESRunMinsPU=cpu=5 is not simulated", "QOS a: MinTRES=gres/gpu=1 is not simulated",
		"account a: GrpSubmit=9 is not simulated", "2000 users: MaxWall=1-00:00:00 is not simulated",
		"user other of account a: MaxWall=2:00 is not simulated"}
	for enforce, want := range map[string][]string{"associations": always, "limits": slices.Concat(always, limits)} {
		s.Config = []byte(strings.Replace(string(shown(t).Config), "AccountingStorageEnforce = associations,limits,qos",
			"AccountingStorageEnforce = "+enforce, 1))
		site, err := s.Site()
		if err != nil {
			t.Fatal(err)
		}
		if got := site.Notes[len(site.Notes)-len(want):]; !slices.Equal(got, want) {
			t.Errorf("enforcing %s, the notes are\n%s", enforce, strings.Join(site.Notes, "\n"))
		}
	}
}

// TestLimits: limits are read with their scopes, unless accounting does not enforce them.
func TestLimits(t *testing.T) {
	s := shown(t)
	s.Partitions = []byte(strings.Replace(string(s.Partitions), "QoS=N/A", "QoS=part", 1))
	s.QOS = []byte("Name|Priority|Preempt|GrpTRES|GrpJobs|MaxTRESPU|MaxTRESPA|MaxJobsPU|MaxJobsPA|UsageFactor\n" +
		"part|1||gres/gpu=1|2|GRES/GPU=3|cpu=9,gres/gpu=4|5|6|0.000000\n")
	s.Associations = []byte("Cluster|Account|ParentName|User|Share|GrpTRES|GrpJobs|MaxJobs\n" +
		"emulated|a|root||1|gres/gpu=7|8|9\nemulated|a||x|1|gres/gpu=10|12|11\nother|a||x|1|gres/gpu=1||\n")
	for enforce, want := range map[string]string{"none": "null", "associations": "null", "associations,limits,qos": `[
		{"qos":"part","resource":"gpus","own":1},{"qos":"part","resource":"jobs","own":2},
		{"qos":"part","each":"user","resource":"gpus","own":3},{"qos":"part","each":"account","resource":"gpus","own":4},
		{"qos":"part","each":"user","resource":"jobs","own":5},{"qos":"part","each":"account","resource":"jobs","own":6},
		{"account":"a","resource":"gpus","own":7},{"account":"a","resource":"jobs","own":8},
		{"account":"a","user":"x","resource":"gpus","own":10},{"account":"a","user":"x","resource":"jobs","own":11}]`} {
		s.Config = []byte(strings.Replace(string(shown(t).Config), "AccountingStorageEnforce = associations,limits,qos",
			"AccountingStorageEnforce = "+enforce, 1))
		site, err := s.Site()
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(site.Cluster.Site.Limits)
		if want = strings.NewReplacer("\n", "", "\t", "").Replace(want); err != nil || string(got) != want {
			t.Errorf("enforcing %s: %v\n%s, want\n%s", enforce, err, got, want)
		}
		if f := site.Cluster.Site.QOS[0].UsageFactor; f == nil || *f != 0 {
			t.Errorf("usage factor %v, want 0", f)
		}
		if q := site.Cluster.Site.Partitions[0].QOS; q != "part" {
			t.Errorf("the partition has QOS %q", q)
		}
	}
	for text, want := range map[string]string{"Name|Priority|GrpJobs\nq|1|x\n": "qos.txt: QOS q: GrpJobs",
		"Name|Priority|GrpTRES\nq|1|gres/gpu=x\n": "qos.txt: QOS q: GrpTRES",
		"Name|Priority|UsageFactor\nq|1|x\n":      "qos.txt: q: UsageFactor",
		"Name|Priority|UsageFactor\nq|1|nan\n":    "qos.txt: q: UsageFactor",
		"Name|Priority|UsageFactor\nq|1|inf\n":    "qos.txt: q: UsageFactor",
		"Name|Priority\n|1\n":                     "site: qos 0: name: is empty",
		"Name|Priority|GrpJobs\nq|1|-1\n":         "site: limit 0: own: -1 is negative"} {
		s.QOS = []byte(text)
		s.Config = []byte(strings.Replace(string(shown(t).Config), "AccountingStorageEnforce = associations,limits,qos",
			"AccountingStorageEnforce = safe", 1))
		if _, err := s.Site(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestLimitsOfRoot: limits of the root association, and of associations of a partition, are read; shares of the latter
// are noted.
func TestLimitsOfRoot(t *testing.T) {
	s := shown(t)
	s.Associations = []byte("Cluster|Account|ParentName|User|Partition|Share|GrpTRES|MaxJobs\n" +
		"emulated|root||||1|gres/gpu=7|\nemulated|root||root||1||5\nemulated|a|root|||1||\nemulated|a||x|p|1|gres/gpu=1|\n")
	site, err := s.Site()
	if err != nil {
		t.Fatal(err)
	}
	const want = "[{{ root   } gpus 7 0 0} {{ root root  } jobs 5 0 0} {{ a x p } gpus 1 0 0}]"
	if got := fmt.Sprint(site.Cluster.Site.Limits); got != want {
		t.Errorf("limits %v, want %v", got, want)
	}
	if notes := strings.Join(site.Notes, "\n"); !strings.Contains(notes, "1 associations are of one partition: their shares") ||
		strings.Contains(notes, "gres/gpu") {
		t.Error(notes)
	}
}

// TestWeigh: notes that concern some jobs have their share of the GPU-hours.
func TestWeigh(t *testing.T) {
	s := shown(t)
	s.Partitions = []byte(strings.Replace(string(s.Partitions), "MaxNodes=UNLIMITED", "MaxNodes=2", 1)) // of train
	s.Partitions = []byte(strings.Replace(string(s.Partitions), "QoS=N/A", "QoS=part", 1))
	s.QOS = []byte("Name|Priority|MaxWall\nnormal|50|\nlow|0|1-00:00:00\npart|0|2-00:00:00\n")
	s.Associations = []byte("Cluster|Account|ParentName|User|Partition|Share|MaxSubmit|GrpSubmit\n" +
		"emulated|a|root|||1||9\nemulated|b|a|||1||\nemulated|b|root|||1||\nemulated|b||x||1|7|\nemulated|b||y||parent||\n")
	site, err := s.Site()
	if err != nil {
		t.Fatal(err)
	}
	job := func(gpus, hours int, user, account, part, qos string) workload.Job {
		return workload.Job{GPUs: workload.GPUs(gpus), Duration: time.Duration(hours) * time.Hour, User: user,
			Tenant: account, Requested: workload.Request{Partition: part, QOS: qos}.Shared()}
	}
	waits := job(100, 100, "x", "b", "train", "low")
	waits.Status = workload.Pending
	site.Weigh([]workload.Job{job(2, 10, "x", "b", "train", "normal"), job(1, 20, "y", "b", "other", "low"),
		job(4, 10, "x", "c", "other", "normal"), waits}) // 20, 20 and 40 of 80
	notes := strings.Join(site.Notes, "\n") + "\n"
	for _, want := range []string{"MaxNodes=2 is not simulated (25 % of GPU-hours)\n",
		"QOS low: MaxWall=1-00:00:00 is not simulated (25 % of GPU-hours)\n",
		"QOS part: MaxWall=2-00:00:00 is not simulated (25 % of GPU-hours)\n",
		"account a: GrpSubmit=9 is not simulated (50 % of GPU-hours)\n",
		"user x of account b: MaxSubmit=7 is not simulated (25 % of GPU-hours)\n",
		"Fairshare=parent, which is not simulated: they have a share of 1 (25 % of GPU-hours)\n"} {
		if !strings.Contains(notes, want) {
			t.Errorf("lacks %q: %s", want, notes)
		}
	}
}

// TestPreemptMode: partitions and QOS have modes of their own where they differ from the cluster's.
func TestPreemptMode(t *testing.T) {
	s := shown(t)
	s.Config = []byte(strings.Replace(string(s.Config), "PreemptMode             = OFF", "PreemptMode = REQUEUE", 1))
	s.Partitions = []byte("PartitionName=a PreemptMode=OFF GraceTime=60\nPartitionName=b PreemptMode=REQUEUE\n" +
		"PartitionName=c PreemptMode=CANCEL\nPartitionName=d PreemptMode=SUSPEND\n")
	s.QOS = []byte("Name|Priority|PreemptMode|GraceTime\na|1|cluster|00:00:00\nb|1|cancel|00:01:00\nc|1|OFF|\n")
	site, err := s.Site()
	if err != nil {
		t.Fatal(err)
	}
	var got []workload.PreemptMode
	for _, p := range site.Cluster.Site.Partitions {
		got = append(got, p.PreemptMode)
	}
	for _, q := range site.Cluster.Site.QOS {
		got = append(got, q.PreemptMode)
	}
	if want := []workload.PreemptMode{"off", "", "cancel", "", "", "cancel", ""}; !slices.Equal(got, want) {
		t.Errorf("modes %q, want %q", got, want)
	}
	notes := strings.Join(site.Notes, "\n")
	for _, want := range []string{"partition a: GraceTime=60", "partition d: PreemptMode=SUSPEND",
		"QOS b: GraceTime=00:01:00"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%s is not noted: %s", want, notes)
		}
	}
}

// TestNoteOfCancels: where preempted jobs are cancelled, the site has a note on it.
func TestNoteOfCancels(t *testing.T) {
	for name, c := range map[string]struct {
		kind, mode, partition, qos string
		want                       bool
	}{
		"off":                    {"none", "CANCEL", "CANCEL", "cancel", false},
		"of the cluster":         {"qos", "CANCEL", "CANCEL", "cluster", true},
		"of a QOS":               {"qos", "REQUEUE", "REQUEUE", "cancel", true},
		"of a partition":         {"partition_prio", "REQUEUE", "CANCEL", "cluster", true},
		"of a partition, unused": {"qos", "REQUEUE", "CANCEL", "cluster", false},
	} {
		s := shown(t)
		s.Config = []byte(strings.NewReplacer("PreemptMode             = OFF", "PreemptMode = "+c.mode,
			"PreemptType             = preempt/none", "PreemptType = preempt/"+c.kind).Replace(string(s.Config)))
		s.Partitions = []byte("PartitionName=a PreemptMode=" + c.partition + "\n")
		s.QOS = []byte("Name|Priority|PreemptMode\na|1|" + c.qos + "\n")
		site, err := s.Site()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(site.Notes, "\n"), "PreemptMode=CANCEL: "); got != c.want {
			t.Errorf("%s: noted %v, want %v: %q", name, got, c.want, site.Notes)
		}
	}
}

// TestReservations: reservations of now and before are read once each, and those without nodes of the cluster are left
// out.
func TestReservations(t *testing.T) {
	s := shown(t)
	s.Reservations = []byte("ReservationName=course StartTime=2026-11-27T12:00:00 EndTime=2026-11-27T13:00:00 " +
		"Nodes=g[1,3] Flags=SPEC_NODES,WEEKLY Users=(null) Accounts=vc1\n" +
		"ReservationName=maint StartTime=1795788000 EndTime=1795791600 Nodes=g[1-3] Flags=MAINT,ALL_NODES," +
		"PURGE_COMP=00:05:00 Users=root NodeName=g1 CoreIDs=0-1\n" +
		"ReservationName=lic StartTime=1795788000 EndTime=1795791600 Nodes=(null) Flags=ANY_NODES\n")
	s.Past = []byte("Name|TimeStart|TimeEnd|NodeName|Flags\nold|1795700000|1795700100|g2|MAINT\n" +
		"course|1795780800|1795784400|g[1,3]|SPEC_NODES\n")
	site, err := s.Site()
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(site.Cluster.Site.Reservations)
	want := `[{"name":"old","from":"2026-11-26T13:33:20Z","to":"2026-11-26T13:35:00Z","nodes":[{"number":1,"name":"g2"}],"whole":true},` +
		`{"name":"course","from":"2026-11-27T12:00:00Z","to":"2026-11-27T13:00:00Z","nodes":[{"number":0,"name":"g1"},{"number":2,"name":"g3"}]},` +
		`{"name":"maint","from":"2026-11-27T14:00:00Z","to":"2026-11-27T15:00:00Z","nodes":[{"number":0,"name":"g1"},` +
		`{"number":1,"name":"g2"},{"number":2,"name":"g3"}],"whole":true}]`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s, want\n%s", err, got, want)
	}
	notes := strings.Join(site.Notes, "\n")
	for _, want := range []string{"course: flag WEEKLY", "course: jobs that run within it", "maint: flag PURGE_COMP",
		"maint: is of some cores"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%s is not noted: %s", want, notes)
		}
	}
	for text, want := range map[string]string{"ReservationName=a StartTime=x": "reservations.txt: reservation a",
		"ReservationName=a StartTime=1795788000 EndTime=1795791600 Nodes=g[1-": "reservation a: nodes"} {
		s.Reservations = []byte(text)
		if _, err := s.Site(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s.Reservations, s.Past = nil, []byte("Name|Start\n")
	if _, err := s.Site(); err == nil || !strings.Contains(err.Error(), "past-reservations.txt") {
		t.Errorf("%v", err)
	}
}
