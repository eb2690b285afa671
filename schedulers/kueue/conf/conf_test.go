package conf

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers/kueue"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

func read(t *testing.T, files map[string]string) *Site {
	t.Helper()
	in := map[string][]byte{}
	for name, text := range files {
		in[name] = []byte(text)
	}
	s, err := Read(in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func same(a, b space.Values) bool { return maps.EqualFunc(a, b, space.Value.Equal) }

func queueOf(name, cohort, limits, more string) string {
	return `{"kind":"ClusterQueue","metadata":{"name":"` + name + `"},"spec":{"cohortName":"` + cohort + `",` + more +
		`"resourceGroups":[{"flavors":[{"name":"f","resources":[{"name":"nvidia.com/gpu","nominalQuota":"16"` + limits +
		`}]}]}]}}` + "\n"
}

// TestShared: the queues of the recordings.
func TestShared(t *testing.T) {
	dir := testshared.Path(t, "golden", "kubernetes", "queues")
	text, err := os.ReadFile(filepath.Join(dir, "kueue.limits.json"))
	if err != nil {
		t.Fatal(err)
	}
	s := read(t, map[string]string{"queues.json": string(text)})
	want := []workload.VC{
		{Tenant: "tenant-0", GPUs: 32, Cohort: "all", Borrow: workload.BoundOf(16), Lend: workload.BoundOf(16)},
		{Tenant: "tenant-1", GPUs: 16, Cohort: "all", Borrow: workload.BoundOf(8), Lend: workload.BoundOf(8)},
		{Tenant: "tenant-2", GPUs: 16, Cohort: "all", Borrow: workload.BoundOf(32), Lend: workload.BoundOf(0)},
	}
	if !slices.Equal(s.Cluster.VCs, want) || s.Cluster.TotalGPUs() != 64 {
		t.Errorf("%+v", s.Cluster)
	}
	params, rules, values, err := s.Space()
	if err != nil {
		t.Fatal(err)
	}
	of, err := space.New(params, rules)
	if err != nil {
		t.Fatal(err)
	}
	if values["tenant-2.borrowingLimit"].Float() != .5 || values["tenant-1.lendingLimit"].Float() != .5 ||
		values[kueue.QueueingStrategy].Text() != kueue.BestEffortFIFO {
		t.Errorf("%v", values)
	}
	if !same(of.Default().Values(), values) {
		t.Errorf("the default is %v, in force are %v", of.Default(), values)
	}
	for i, q := range kueue.Queues(s.Cluster, of.Default()) {
		if q != kueue.Queues(s.Cluster, space.Config{})[i] {
			t.Errorf("in force is %+v, and the values make %+v", kueue.Queues(s.Cluster, space.Config{})[i], q)
		}
	}
}

// TestSpaceOfGroups: queues that differ have parameters of their own, and the values in force are a configuration.
func TestSpaceOfGroups(t *testing.T) {
	any := `"preemption":{"reclaimWithinCohort":"Any","borrowWithinCohort":{"policy":"LowerPriority"}},`
	s := read(t, map[string]string{"a.json": queueOf("team-a", "all", "", any) + queueOf("team-b", "all", "", any) +
		queueOf("other", "all", "", ``) + queueOf("1st", "all", "", any)})
	params, rules, values, err := s.Space()
	if err != nil {
		t.Fatal(err)
	}
	of, err := space.New(params, rules)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range params {
		ids = append(ids, params[i].ID)
	}
	want := []string{"queueingStrategy", "preemption.withinClusterQueue", "other.preemption.reclaimWithinCohort",
		"team-.preemption.reclaimWithinCohort", "other.preemption.borrowWithinCohort.policy",
		"team-.preemption.borrowWithinCohort.policy", "borrowingLimit", "lendingLimit"}
	if !slices.Equal(ids, want) || len(s.Findings) != 2 {
		t.Errorf("%q, %q", ids, s.Findings)
	}
	if c := of.Default(); !same(c.Values(), values) || of.Check(c) != nil {
		t.Errorf("%v, in force are %v", c, values)
	}
}

// TestSettings: values become settings of named queues, and settings values.
func TestSettings(t *testing.T) {
	s := read(t, map[string]string{"a.json": queueOf("team-a", "all", "", "") + queueOf("team-b", "all", "", "") +
		queueOf("other", "all", `,"borrowingLimit":"12","lendingLimit":4`,
			`"preemption":{"reclaimWithinCohort":"Any","borrowWithinCohort":{"policy":"LowerPriority"}},`) +
		queueOf("alone", "", "", "")})
	values := space.Values{"queueingStrategy": space.Text("StrictFIFO"), "team-.borrowingLimit": space.Num(.25),
		"team-b.borrowingLimit": space.Num(1), "lendingLimit": space.Num(.5),
		"other.preemption.reclaimWithinCohort": space.Text("Never")}
	got, err := Settings(values, s.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	var want []Setting
	for _, w := range [][3]string{{"alone", "queueingStrategy", "StrictFIFO"}, {"other", "queueingStrategy", "StrictFIFO"},
		{"other", "preemption.reclaimWithinCohort", "Never"}, {"other", "lendingLimit", "8"},
		{"other", "preemption.borrowWithinCohort.policy", "Never"}, {"team-a", "queueingStrategy", "StrictFIFO"},
		{"team-a", "borrowingLimit", "12"}, {"team-a", "lendingLimit", "8"}, {"team-b", "queueingStrategy", "StrictFIFO"},
		{"team-b", "borrowingLimit", ""}, {"team-b", "lendingLimit", "8"}} {
		want = append(want, Setting{Queue: w[0], Name: w[1], Value: w[2]})
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	var ids []string
	for id := range values {
		ids = append(ids, id)
	}
	if back, err := Values(ids, got, s.Cluster); err != nil || !same(back, values) {
		t.Errorf("%v, %v; want %v", back, err, values)
	}
	if _, err := Values([]string{"borrowingLimit"}, got, s.Cluster); err == nil ||
		!strings.Contains(err.Error(), "differ") {
		t.Errorf("queues that differ: %v", err)
	}
	for _, id := range []string{"weight", "team-.nominalQuota"} {
		if _, err := Settings(space.Values{id: space.Num(1)}, s.Cluster); err == nil {
			t.Errorf("%s is a setting", id)
		}
	}
}

// TestNotSimulated: parts that the model leaves out are named, with their objects and fields.
func TestNotSimulated(t *testing.T) {
	s := read(t, map[string]string{"q.json": queueOf("a", "all", "", `"stopPolicy":"Hold","admissionChecks":["c"],`) + `
{"kind":"ClusterQueue","metadata":{"name":"cpu"},"spec":{"resourceGroups":[]}}
{"kind":"Cohort","metadata":{"name":"all"},"spec":{"parentName":"root","resourceGroups":[{"flavors":[
 {"resources":[{"name":"nvidia.com/gpu","nominalQuota":8},{"name":"cpu","nominalQuota":"8"}]},
 {"resources":[{"name":"nvidia.com/gpu","nominalQuota":4}]}]}]}}
{"kind":"ResourceFlavor","metadata":{"name":"f"},"spec":{"topologyName":"t"}}
{"kind":"WorkloadPriorityClass","metadata":{"name":"low"},"value":-5}`,
		"n.json": `{"items":[{"kind":"Node","metadata":{"name":"n"},"status":{"allocatable":{"nvidia.com/gpu":"8"}}}]}`,
		"m.json": `{"kind":"ConfigMap","metadata":{"name":"kueue-manager-config"},"data":{"controller_manager_config.yaml":` +
			`"fairSharing:\n  preemptionStrategies: [LessThanInitialShare]\n"}}`})
	want := []string{"q.json: ClusterQueue a: spec.admissionChecks: admission checks are not simulated",
		"q.json: ClusterQueue a: spec.stopPolicy: a stopped queue is simulated as an open one",
		"q.json: ClusterQueue cpu: has no quota of GPUs and is left out",
		"q.json: Cohort all: spec.parentName: cohorts of cohorts are not simulated",
		"q.json: Cohort all: spec.resourceGroups: flavors of GPUs are simulated as one",
		"q.json: Cohort all: spec.resourceGroups: quotas of cpu are not simulated",
		"q.json: ResourceFlavor f: spec.topologyName: topology-aware scheduling is not simulated",
		"the quotas are 28 GPUs and the nodes have 8: admitted jobs may wait for a node"}
	if !slices.Equal(s.Findings, want) {
		t.Errorf("%s\nwant %s", strings.Join(s.Findings, "\n"), strings.Join(want, "\n"))
	}
	if !s.FairSharing || s.Cluster.VCs[1] != (workload.VC{Tenant: "cohort/all", GPUs: 12, Cohort: "all"}) {
		t.Errorf("%+v", s)
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{`:  "q: is not JSON",
		`{}`: "q: item 0 is not an object of Kubernetes",
		`{"kind":"ClusterQueue","metadata":{"name":"a"},"spec":{"resourceGroups":[]}}`: "there is no ClusterQueue with GPUs",
		queueOf("a", "all", `,"borrowingLimit":"-1"`, ""): "q: ClusterQueue a: spec.resourceGroups[0].flavors[0]." +
			"resources[0].borrowingLimit: -1 is negative",
		queueOf("a", "all", "", `"queueingStrategy":"LIFO",`):  `q: ClusterQueue a: spec.queueingStrategy: "LIFO" is not one`,
		queueOf("a", "all", "", "") + queueOf("a", "", "", ""): "q: ClusterQueue a: is in q, too",
	} {
		if _, err := Read(map[string][]byte{"q": []byte(text)}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// FuzzRead reads any files: an error says something; a cluster that is read has settings that are values.
func FuzzRead(f *testing.F) {
	f.Add([]byte(queueOf("team-a", "all", `,"borrowingLimit":"12","lendingLimit":4`,
		`"preemption":{"reclaimWithinCohort":"Any"},`) + queueOf("b", "all", "", `"queueingStrategy":"StrictFIFO",`)))
	f.Add([]byte(queueOf("x", "", "", `"fairSharing":{"weight":"500m"},`)))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Read(map[string][]byte{"q.json": text})
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error that says nothing")
			}
			return
		}
		params, rules, values, err := s.Space()
		if err != nil {
			t.Fatalf("%+v: %v", s.Cluster, err)
		}
		settings, err := Settings(values, s.Cluster)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for i := range params {
			ids = append(ids, params[i].ID)
		}
		if back, err := Values(ids, settings, s.Cluster); err != nil || !same(back, values) {
			t.Fatalf("%v became %v, %v", values, back, err)
		}
		if _, err := space.New(params, rules); err != nil && len(params) > 0 {
			t.Fatal(err)
		}
	})
}
