package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	pb "github.com/autosched/autosched/api/autosched/v1"

	"github.com/autosched/autosched/adapter"
	"github.com/autosched/autosched/adapter/kubernetes/rig"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/schedulers/volcano/conf"
	"github.com/autosched/autosched/space"
)

// lines is a text of known keys, one a line.
type lines struct{ native.Options }

func (l *lines) Parse(text []byte) (space.Values, error) {
	values, err := l.Options.Parse(text)
	for id := range values {
		if !inText(id) {
			return nil, fmt.Errorf("%s: is unknown", id)
		}
	}
	return values, err
}

func inText(id string) bool { return id == "actions" || id == "pack" || id == "spread" }

// volcanoNames is byName with Volcano's settings.
type volcanoNames struct{ byName }

func (volcanoNames) Names() []string { return []string{"weight", "reclaimable"} }

func (n volcanoNames) Settings(values space.Values, queues []map[string]any) ([]Setting, error) {
	of := space.Values{}
	for id, v := range values {
		if !inText(id) {
			of[id] = v
		}
	}
	return n.byName.Settings(of, queues)
}

func newVolcano(t *testing.T, tuned ...string) *fixture {
	f := &fixture{t: t, now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	queue := func(name string) map[string]any {
		return map[string]any{"apiVersion": "scheduling.volcano.sh/v1beta2", "kind": "Queue",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"weight": int64(1), "reclaimable": true},
			"status": map[string]any{"state": "Open"}}
	}
	f.s = newStandIn(t, queue("a"), queue("b"), map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "volcano-scheduler-configmap", "namespace": "volcano-system"},
		"data":     map[string]any{conf.Key: "# ours\nactions: allocate\npack: 1\nspread: 1\n", "other": "x"}})
	f.o = Options{Scheduler: &Volcano{Mapping: volcanoNames{}, Form: &lines{}, InText: inText}, Tuned: tuned,
		HandOver: []string{"*"}, Now: func() time.Time { return f.now }}
	f.o.Client, f.o.Config = f.s.client()
	return f
}

const textPath = "/data/volcano-scheduler.conf"

// TestVolcano: the text is one value, set whole beside the queues, and no new value is claimed to be in force before
// there is evidence, or the time to read it has passed.
func TestVolcano(t *testing.T) {
	t.Parallel()
	f := newVolcano(t, "pack", "a.weight", "b.weight")
	d := f.open()
	same := config(t, 1, "pack=1", "a.weight=1", "b.weight=1")
	f.apply(d, same, "")
	if f.s.writes != 0 {
		t.Error("a text that says the same was replaced")
	}
	c := config(t, 2, "pack=5", "a.weight=4", "b.weight=1")
	ack := f.apply(d, c, "")
	got, err := adapter.FromProto(ack.GetEffectiveParameters())
	if err != nil || ack.GetState() != pb.Acknowledgement_PARTIALLY_APPLIED || len(got) != 2 || d.Level() != Stored ||
		fmt.Sprint(got["pack"], got["a.weight"]) != "1 1" {
		t.Errorf("%v, %v", ack, d.Level())
	}
	f.has("volcano-scheduler-configmap", textPath, "actions: allocate\npack: 5\nspread: 1\n", Manager)
	f.has("volcano-scheduler-configmap", "/data/other", "x", "gitops")
	f.has("a", "/spec/weight", "4", Manager)
	look := func(text string) {
		t.Helper()
		req, news, reported := d.Look(t.Context())
		if (req == nil) != (text == "") || !strings.Contains(news, text) {
			t.Errorf("%v: %s, want %s", req, news, text)
		}
		if reported != nil {
			reported()
		}
	}
	look("")
	metrics := ""
	d.o.Evidence = Metrics(func(context.Context) ([]byte, error) { return []byte(metrics), nil })
	look("")
	metrics = "# TYPE volcano_queue_weight gauge\nvolcano_queue_weight{queue_name=\"b\"} 1\n" +
		"volcano_queue_weight{queue_name=\"a\"} 4\n"
	look("pack is 1, not 5")
	f.now = f.now.Add(149 * time.Second)
	look("")
	f.now = f.now.Add(time.Second)
	look("in force is revision 2")
	if d.Level() != InForce {
		t.Error(d.Level())
	}
	f.s.edit("volcano-scheduler-configmap", textPath, "actions: allocate\npack: 5\nspread: 1\nsprad: 2\n", "person")
	look("changed by someone else")
	f.o.TakeOver = true
	if ack := f.apply(f.open(), c, "sprad: is unknown"); ack.GetState() != pb.Acknowledgement_FAILED {
		t.Error(ack)
	}
}

// TestVolcanoRefuses: texts that cannot be rendered again, the agent scheduler's, and settings without effect.
func TestVolcanoRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"sprad: 1\n": "sprad: is unknown", "": "has no volcano-scheduler.conf"} {
		f := newVolcano(t, "pack")
		f.s.edit("volcano-scheduler-configmap", textPath, text, "gitops")
		if _, err := Open(t.Context(), f.o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	f := newVolcano(t, "pack")
	f.s.edit("volcano-scheduler-configmap", "/data/agent-scheduler.conf", "actions: allocate\n", "gitops")
	if _, err := Open(t.Context(), f.o); err == nil || !strings.Contains(err.Error(), "is the agent scheduler's") {
		t.Error(err)
	}
	f = newVolcano(t, "b.reclaimable")
	if _, err := Open(t.Context(), f.o); err == nil || !strings.Contains(err.Error(), "actions have no reclaim") {
		t.Error(err)
	}
	f = newVolcano(t, "b.reclaimable", "actions")
	d := f.open()
	f.apply(d, config(t, 1, "actions=allocate,reclaim", "b.reclaimable=true"), "")
	f.apply(d, config(t, 2, "actions=allocate,reclaim", "b.reclaimable=false"),
		"settings of preemption change once a day")
	f.apply(d, config(t, 2, "actions=reclaim,allocate", "b.reclaimable=true"), "") // in another order
	f.s.edit("b", "/status/state", "Closed", "volcano")
	f.now = f.now.Add(betweenPreemptions)
	f.apply(d, config(t, 3, "actions=reclaim,allocate", "b.reclaimable=false"), "the queue is Closed")
}

// TestUnknownParameter: a parameter that neither the text nor the queues have is refused.
func TestUnknownParameter(t *testing.T) {
	live := Live{configMap: {Object: map[string]any{"data": map[string]any{conf.Key: rig.DefaultConf}}}}
	_, err := NewVolcano().Fields(space.Values{"sla": space.Num(60)}, live)
	if !errors.Is(err, client.ErrRefused) || !strings.Contains(err.Error(), "sla: is not a parameter of Volcano") {
		t.Error(err)
	}
}

// TestMetrics: Kueue's quotas are in force once its metrics show them.
func TestMetrics(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a.borrowingLimit", "a.lendingLimit")
	metrics := "up 1\n"
	f.o.Evidence = Metrics(func(context.Context) ([]byte, error) { return []byte(metrics), nil })
	d := f.open()
	f.apply(d, config(t, 1, "a.borrowingLimit=4"), "")
	if d.Level() != Accepted {
		t.Error(d.Level())
	}
	for _, x := range []struct {
		value string
		want  Level
	}{{"8", Accepted}, {"4", InForce}, {"+Inf", Accepted}} {
		metrics = `kueue_cluster_queue_borrowing_limit{cluster_queue="aa",resource="nvidia.com/gpu"} 4
kueue_cluster_queue_borrowing_limit{cluster_queue="a",flavor="h100",resource="cpu"} 4
kueue_cluster_queue_borrowing_limit{cluster_queue="a",flavor="h100",resource="nvidia.com/gpu"} ` + x.value + " 1767225600000\n"
		if d.Look(t.Context()); d.Level() != x.want {
			t.Errorf("%s: %v", x.value, d.Level())
		}
	}
	read := Metrics(func(context.Context) ([]byte, error) { return []byte(metrics), nil })
	limit := Field{Object{Resource: clusterQueues, Name: "a"}, quotaPath("borrowingLimit")}
	if has, err := read(t.Context(), limit, nil); !has || err != nil {
		t.Error(has, err)
	}
}
