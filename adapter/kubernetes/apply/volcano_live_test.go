package apply

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	pb "github.com/autosched/autosched/api/autosched/v1"

	"github.com/autosched/autosched/adapter"
	"github.com/autosched/autosched/adapter/kubernetes/cluster"
	"github.com/autosched/autosched/adapter/kubernetes/rig"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/schedulers/volcano"
	"github.com/autosched/autosched/schedulers/volcano/conf"
	"github.com/autosched/autosched/space"
)

const volcanoText = `{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: a}, spec: {weight: 1}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: b}, spec: {weight: 1, reclaimable: true}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: tuner}, rules: [
 {apiGroups: [scheduling.volcano.sh], resources: [queues], resourceNames: [a, b], verbs: [get, patch]},
 {apiGroups: [scheduling.volcano.sh], resources: [queues], verbs: [list]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: tuner},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tuner},
 subjects: [{kind: User, name: tuner, apiGroup: rbac.authorization.k8s.io}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: tuner, namespace: volcano-system}, rules: [
 {apiGroups: [""], resources: [configmaps], resourceNames: [volcano-scheduler-configmap], verbs: [get, patch]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: tuner, namespace: volcano-system},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tuner},
 subjects: [{kind: User, name: tuner, apiGroup: rbac.authorization.k8s.io}]}
`

// TestLiveVolcano: on the real API server with Volcano, its text and its queues are applied and read back with the
// tuner's rights, another manager's text is not overwritten, and the values before come back.
func TestLiveVolcano(t *testing.T) {
	r := rig.Start(t, rig.Options{Volcano: true})
	if err := r.Create(t.Context(), []byte(volcanoText)); err != nil {
		t.Fatal(err)
	}
	maps := r.Client("gitops").Resource(configMap.Resource).Namespace("volcano-system")
	_, err := maps.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1",
		"kind": "ConfigMap", "metadata": map[string]any{"name": "volcano-scheduler-configmap"},
		"data": map[string]any{conf.Key: rig.DefaultConf, "other": "x"}}}, metav1.CreateOptions{FieldManager: "helm"})
	if err != nil {
		t.Fatal(err)
	}
	tuner, err := cluster.Open(r.Config("tuner"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	o := Options{Client: tuner, Config: r.Config("tuner"), Scheduler: NewVolcano(), HandOver: []string{"*"},
		Tuned: []string{volcano.ActionsID, volcano.BinpackWeightID, volcano.BinpackGPUID, volcano.LeastRequestedID,
			volcano.OvercommitID, "a.weight", "b.weight", "b.reclaimable"}, Now: func() time.Time { return now }}
	open := func() *Driver {
		t.Helper()
		d, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	values := space.Values{volcano.ActionsID: space.Text("enqueue,allocate,reclaim,backfill"),
		volcano.BinpackWeightID: space.Int(10), volcano.BinpackGPUID: space.Int(5),
		volcano.LeastRequestedID: space.Int(0), volcano.OvercommitID: space.Num(3), "a.weight": space.Int(4),
		"b.weight": space.Int(1), "b.reclaimable": space.Bool(false)}
	config := func(revision int64) *pb.Configuration {
		c := config(t, revision)
		var err error
		if c.Parameters, err = adapter.ToProto(values); err != nil {
			t.Fatal(err)
		}
		return c
	}
	apply := func(d *Driver, c *pb.Configuration, want pb.Acknowledgement_State, said string) *pb.Acknowledgement {
		t.Helper()
		got, err := d.Apply(t.Context(), c)
		ack := client.Outcome(c, got, err)
		if ack.GetState() != want || !strings.Contains(ack.GetError(), said) {
			t.Fatalf("revision %d: %v %s, want %v %s", c.GetRevision(), ack.GetState(), ack.GetError(), want, said)
		}
		return ack
	}
	text := func() *unstructured.Unstructured {
		t.Helper()
		got, err := maps.Get(t.Context(), "volcano-scheduler-configmap", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	d := open()
	if ack := apply(d, config(1), pb.Acknowledgement_PARTIALLY_APPLIED, ""); len(ack.GetEffectiveParameters()) != 7 {
		t.Errorf("%v", ack) // the values before, until Volcano has had the time to read the new ones
	}
	if d.Level() != Stored {
		t.Error(d.Level())
	}
	got, _ := at(text().Object, Pointer("data", conf.Key)).(string)
	for _, line := range []string{`actions: "enqueue, allocate, reclaim, backfill"`, "binpack.weight: 10\n",
		"binpack.resources.nvidia.com/gpu: 5\n", "leastrequested.weight: 0\n", "overcommit-factor: 3\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is not in\n%s", line, got)
		}
	}
	if at(text().Object, "/data/other") != "x" {
		t.Error("another key is gone")
	}
	if err := r.SetConf(got); err != nil { // as a kubelet does
		t.Fatal(err)
	}
	queues := r.Client("admin").Resource(schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1",
		Resource: "queues"})
	for name, want := range map[string]map[string]any{"a": {"weight": int64(4)},
		"b": {"weight": int64(1), "reclaimable": false}} {
		q, err := queues.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for field, v := range want {
			if got := at(q.Object, Pointer("spec", field)); got != v {
				t.Errorf("%s %s is %v, want %v", name, field, got, v)
			}
		}
	}
	now = now.Add(150 * time.Second)
	if req, news, _ := d.Look(t.Context()); req.GetAcknowledgement().GetState() != pb.Acknowledgement_APPLIED ||
		d.Level() != InForce {
		t.Errorf("%v, %s", req, news)
	}
	// Values that the API server refuses, and a text that someone else wrote.
	values["a.weight"] = space.Int(0)
	apply(d, config(2), pb.Acknowledgement_REJECTED, "a.weight")
	values["a.weight"] = space.Int(2)
	edit := func(text string) {
		t.Helper()
		patch := encode(map[string]any{"data": map[string]any{conf.Key: text}})
		_, err := maps.Patch(t.Context(), "volcano-scheduler-configmap", types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: "kubectl-edit"})
		if err != nil {
			t.Fatal(err)
		}
	}
	edit(rig.DefaultConf)
	apply(d, config(3), pb.Acknowledgement_FAILED, "volcano-scheduler.conf by kubectl-edit")
	edit(rig.DefaultConf + "  - name: drff\n")
	o.TakeOver = true
	apply(open(), config(3), pb.Acknowledgement_FAILED, "drff: Volcano knows no such plugin")
	edit(rig.DefaultConf)
	now = now.Add(betweenPreemptions)
	d = open()
	apply(d, config(4), pb.Acknowledgement_PARTIALLY_APPLIED, "")
	if err := d.Release(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if got := at(text().Object, Pointer("data", conf.Key)); got != rig.DefaultConf {
		t.Errorf("the text before is not back:\n%s", got)
	}
	if got := managers(text(), Pointer("data", conf.Key)); len(got) > 0 {
		t.Errorf("the text is still of %v", got)
	}
}
