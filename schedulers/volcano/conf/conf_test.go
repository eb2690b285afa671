package conf_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers/volcano"
	"github.com/autosched/autosched/schedulers/volcano/conf"
	"github.com/autosched/autosched/space"
)

// TestReadText: Volcano's view of texts, and the findings about their lines.
func TestReadText(t *testing.T) {
	const begin = "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n" +
		"- plugins:\n  - name: predicates\n  - name: proportion\n"
	for _, tt := range []struct {
		text, want string
		check      func(volcano.Settings) bool
	}{
		{"  - name: binpack\n    arguments:\n      binpack.weight: 5.0\n", "line 11: binpack.weight: 5.0 is not a whole",
			func(s volcano.Settings) bool { return s.BinpackWeight == 1 && s.LeastRequested == 0 }},
		{"  - name: binpack\n    arguments:\n      binpack.weight: \"5\"\n", `line 11: binpack.weight: "5" is not a whole`,
			nil},
		{"  - name: binpack\n    arguments:\n      binpack.wieght: 5\n", "line 11: binpack.wieght: binpack has no such",
			nil},
		{"  - name: binpack\n    arguments:\n      binpack.resources: nvidia.com/gpu\n", "",
			func(s volcano.Settings) bool { return s.BinpackGPU == 1 }},
		{"  - name: binpack\n    arguments:\n      binpack.resources.nvidia.com/gpu: 7\n", "",
			func(s volcano.Settings) bool { return s.BinpackGPU == 0 }},
		{"  - name: drff\n", "line 9: drff: Volcano knows no such plugin", nil},
		{"acitons: x\n", "line 9: acitons: Volcano knows no such key", nil},
		{"  - name: overcommit\n    arguments:\n      overcommit-factor: .5\n", "line 11: overcommit-factor: .5 is below",
			func(s volcano.Settings) bool { return s.OvercommitFactor == 1.2 }},
		{"  - name: sla\n    arguments:\n      sla-waiting-time: 1h\n", "",
			func(s volcano.Settings) bool { return s.SLAWaitingTime.Hours() == 1 && !s.SLAFirst }},
		{"  - name: sla\n    arguments:\n      sla-waiting-time: 60\n", "line 11: sla-waiting-time: 60 is not a time",
			nil},
		{"metrics:\n  interval: 30s\n", "line 9: metrics: the sources", nil},
		{"  - name: nodeorder\n    arguments:\n      predicate.GPUSharingEnable: true\n",
			"line 11: predicate.GPUSharingEnable: nodeorder has no such", nil},
		{"  - name: pdb\n", "line 9: pdb: the plugin is not simulated", nil},
		{"  - name: resourcequota\n", "line 9: resourcequota: the plugin is not simulated", nil},
		{"  - name: resource-strategy-fit\n", "line 9: resource-strategy-fit: the plugin is not simulated", nil},
	} {
		got, err := conf.ReadText([]byte(begin + tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		all := ""
		for _, f := range got.Findings {
			all += f.String() + "\n"
		}
		if (tt.want == "") != (all == "") || !strings.Contains(all, tt.want) {
			t.Errorf("%s: findings %q, want %q", tt.text, all, tt.want)
		}
		if tt.check != nil && !tt.check(got.Settings) {
			t.Errorf("%s: is read as %+v", tt.text, got.Settings)
		}
	}
	for text, want := range map[string]string{
		"":                            "is empty",
		"tiers: []":                   "actions: is not there",
		"actions: enqueue, alocate":   `"alocate" is none: Volcano refuses`,
		"actions: [enqueue]":          "line 1: actions",
		"actions: allocate\ntiers: x": "line 2: tiers: is not a list",
		"{":                           "is not YAML",
		"actions: allocate\ntiers:\n- plugins:\n  - name: drf\n    enableHierarchy: true\n  - name: proportion\n": "exclude",
	} {
		if _, err := conf.ReadText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestRecordedTexts reads the texts of recorded runs.
func TestRecordedTexts(t *testing.T) {
	queues, err := os.ReadFile(testshared.Path(t, "golden", "kubernetes", "queues", "volcano.weights.json"))
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"volcano.default.conf": "binpack.weight=1 binpack.resources.gpu=0 leastrequested.weight=1 mostrequested.weight=0",
		"volcano.pack.conf":    "binpack.weight=10 binpack.resources.gpu=10 leastrequested.weight=0 mostrequested.weight=0",
		"volcano.spread.conf":  "binpack.weight=0 leastrequested.weight=10 mostrequested.weight=0",
	} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		site, err := conf.Read(map[string][]byte{file: text, "queues.json": queues})
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.FieldsSeq(want) {
			id, value, _ := strings.Cut(part, "=")
			if got := site.Text.Values[id].String(); got != value {
				t.Errorf("%s: %s is %s, want %s", file, id, got, value)
			}
		}
		if q := site.Queues; len(site.Findings) > 0 || len(q) != 3 || q[0].Weight != 4 || !q[2].Reclaimable {
			t.Errorf("%s: findings %q, queues %+v", file, site.Findings, site.Queues)
		}
		none, err := conf.Read(nil)
		if is := file == "volcano.default.conf"; err != nil || reflect.DeepEqual(none.Text, site.Text) != is {
			t.Errorf("%s: is %+v, without a text it is %+v, %v", file, site.Text, none.Text, err)
		}
		params, rules, values := site.Space()
		s, err := space.New(params, rules)
		if err != nil {
			t.Fatal(err)
		}
		c, changes := s.Project(values)
		if len(changes) > 0 || c.Get("tenant-1.weight").Float() != 2 {
			t.Errorf("%s: the values in force do not fit their space: %v, %v", file, changes, c)
		}
		settings, err := conf.Settings(values, []string{"tenant-2", "tenant-0"})
		if want := []conf.Setting{{Queue: "tenant-0", Name: "weight", Value: "4"},
			{Queue: "tenant-2", Name: "weight", Value: "1"}}; err != nil || !reflect.DeepEqual(settings, want) {
			t.Errorf("%s: settings %v, %v", file, settings, err)
		}
		again, err := conf.Values([]string{"tenant-0.weight", "tenant-2.weight"}, settings)
		if err != nil || !again["tenant-0.weight"].Equal(space.Int(4)) || len(again) != 2 {
			t.Errorf("%s: values %v, %v", file, again, err)
		}
		if _, err := conf.Values([]string{"tenant-.weight"}, settings); err == nil {
			t.Error("queues that differ share a value")
		}
	}
}

// TestRead: errors and findings name file, object and field.
func TestRead(t *testing.T) {
	queue := func(spec string) string { return `{"kind":"Queue","metadata":{"name":"a"},"spec":{` + spec + `}}` }
	for text, want := range map[string]string{
		queue(`"weight":0`):          "q.json: Queue a: spec.weight: 0 is not",
		queue(`"reclaimable":"no"`):  "q.json: Queue a: spec.reclaimable",
		queue("") + "\n" + queue(""): "queue a: is there twice",
		`[]`:                         "q.json",
	} {
		_, err := conf.Read(map[string][]byte{"q.json": []byte(text)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	site, err := conf.Read(map[string][]byte{"q.json": []byte(`{"items":[{"kind":"Queue","metadata":{"name":"a"},
		"spec":{"reclaimable":false,"priority":3,"capability":{"nvidia.com/gpu":"16"},"deserved":{"nvidia.com/gpu":"8"},
		"dequeueStrategy":"fifo"}},{"kind":"Queue","metadata":{"name":"root"}},{"kind":"Node","metadata":{"name":"n"},
		"status":{"allocatable":{"cpu":"96","memory":"1000Gi","nvidia.com/gpu":"8"}}}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	want := volcano.Queue{Name: "a", Weight: 1, Priority: 3, Capability: 16}
	if !slices.Equal(site.Queues, []volcano.Queue{want}) || site.Cluster.TotalGPUs() != 8 || len(site.Findings) != 2 {
		t.Errorf("queues %+v, cluster %v, findings %q", site.Queues, site.Cluster, site.Findings)
	}
}

// TestWideGangs: a queue is named whose gangs are wider than it deserves beside others.
func TestWideGangs(t *testing.T) {
	const text = `{"kind":"Queue","metadata":{"name":"a"}}{"kind":"Queue","metadata":{"name":"b"}}
		{"kind":"Node","metadata":{"name":"n"},"status":{"allocatable":{"nvidia.com/gpu":"8"}}}
		{"kind":"PodGroup","metadata":{"name":"g","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z"},
		"spec":{"queue":"b","minMember":1,"minResources":{"nvidia.com/gpu":"5"}}}`
	for gpus, want := range map[string]int{"5": 1, "4": 0} {
		site, err := conf.Read(map[string][]byte{"x.json": []byte(strings.ReplaceAll(text, `"5"`, `"`+gpus+`"`))})
		if err != nil || len(site.Findings) != want ||
			want > 0 && !strings.Contains(site.Findings[0], "Queue b: spec.weight: while all queues") {
			t.Errorf("%s GPUs: %v, findings %q", gpus, err, site.Findings)
		}
	}
}

// FuzzReadText: a text is read or refused, and its values are rendered to one that is read alike.
func FuzzReadText(f *testing.F) {
	f.Add("actions: allocate, reclaim\ntiers:\n- plugins:\n  - name: sla\n    arguments: {sla-waiting-time: 1h}\n" +
		"  - name: binpack\n    arguments: {binpack.resources: nvidia.com/gpu, binpack.weight: 3}\n")
	f.Add("actions: &a enqueue\ntiers: [{plugins: [{name: gang, enablePreemptable: false, x: *a}]}]\nmetrics: {}\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := conf.ReadText([]byte(text))
		if err != nil {
			return
		}
		var form conf.Form
		again, err := form.Render(r.Values)
		if err != nil {
			return // values that Volcano takes, out of the range of parameters
		}
		values, err := form.Parse(again)
		if err != nil || !reflect.DeepEqual(values, r.Values) {
			t.Fatalf("%v is read as %v, %v from\n%s", r.Values, values, err, again)
		}
	})
}

// FuzzRead: objects are read, or an error names the file.
func FuzzRead(f *testing.F) {
	f.Add(`{"kind":"Queue","metadata":{"name":"a"},"spec":{"weight":3,"capability":{"nvidia.com/gpu":"1k"}}}`)
	f.Add(`{"kind":"Node","metadata":{"name":"a"},` +
		`"status":{"allocatable":{"nvidia.com/gpu":"8","cpu":"9e99","memory":"1Ei"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		site, err := conf.Read(map[string][]byte{"x.json": []byte(text)})
		if err != nil {
			if !strings.Contains(err.Error(), "x.json") && !strings.Contains(err.Error(), "there twice") {
				t.Fatalf("the error names no file: %v", err)
			}
			return
		}
		if params, rules, values := site.Space(); len(values) > 0 {
			if _, err := space.New(params, rules); err != nil {
				t.Fatal(err)
			}
		}
	})
}
