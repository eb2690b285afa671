package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/autosched/autosched/adapter/kubernetes/cluster"
	"github.com/autosched/autosched/adapter/kubernetes/rig"
	"github.com/autosched/autosched/internal/testshared"
)

// TestLiveDeploy: an API server takes the manifests; their account reads and tunes the queues that are named, and the
// policies refuse other fields.
func TestLiveDeploy(t *testing.T) {
	r := rig.Start(t, rig.Options{Kueue: true})
	create := func(path string) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// Applied to a namespace; the one of nodes to its own, as it has objects of the same names.
		namespaces := map[string]string{"autosched.yaml": "autosched", "autosched-nodes.yaml": "nodes"}
		if in := namespaces[filepath.Base(path)]; in != "" {
			text = bytes.ReplaceAll(text, []byte("\nmetadata:\n"), []byte("\nmetadata:\n  namespace: "+in+"\n"))
		}
		if err := r.Create(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	for _, queues := range []string{"kueue.limits.json", "volcano.equal.json"} {
		create(testshared.Path(t, "golden", "kubernetes", "queues", queues))
	}
	// The namespace of Volcano is there.
	const more = `{apiVersion: v1, kind: Namespace, metadata: {name: kueue-system}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: nodes}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: volcano-scheduler-configmap, namespace: volcano-system},
 data: {volcano-scheduler.conf: "actions: allocate", kept: x}}
`
	if err := r.Create(t.Context(), []byte(more)); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"autosched-kube.yaml", "autosched-kube-reader.yaml", "autosched-kube-tuner.yaml",
		"autosched-kube-policy.yaml", "autosched.yaml", "autosched-nodes.yaml"} {
		create(filepath.Join(testshared.Root(t), "deploy", "kubernetes", f))
	}
	config := r.As("system:serviceaccount:autosched:autosched-kube")
	api, err := cluster.NewAPI(config)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := cluster.Find("kueue")
	for _, right := range append(append(s.Reads(), s.Writes([]string{"tenant-0"})...), cluster.Holds("autosched")...) {
		if allowed, err := api.Allowed(t.Context(), right); err != nil || !allowed {
			t.Errorf("%v: %v %v", right, allowed, err)
		}
	}
	for _, right := range []cluster.Right{{Verb: "delete", GroupResource: s.Queues, Name: "tenant-0"},
		{Verb: "patch", GroupResource: s.Queues, Name: "other"}, {Verb: "list", GroupResource: cluster.ConfigMaps}} {
		if allowed, err := api.Allowed(t.Context(), right); err != nil || allowed {
			t.Errorf("%v: %v %v", right, allowed, err)
		}
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	queues := objects.Resource(s.Queues.WithVersion("v1beta2"))
	weights := objects.Resource(schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1",
		Resource: "queues"})
	texts := objects.Resource(cluster.ConfigMaps.WithVersion("v1")).Namespace("volcano-system")
	const textName = "volcano-scheduler-configmap"
	patch := func(of dynamic.ResourceInterface, name, text string) error {
		_, err := of.Patch(t.Context(), name, types.MergePatchType, []byte(text),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	await(t, "the policies", func() bool { // they are in force some moments after they are made
		return patch(queues, "tenant-0", `{"spec": {"stopPolicy": "Hold"}}`) != nil &&
			patch(texts, textName, `{"data": {"other": "x"}}`) != nil
	})
	for _, x := range []struct {
		of               dynamic.ResourceInterface
		name, text, want string
	}{
		{queues, "tenant-0", `{"spec": {"queueingStrategy": "StrictFIFO", "fairSharing": {"weight": "2"}}}`, ""},
		{queues, "tenant-0", `{"spec": {"preemption": {"reclaimWithinCohort": "Any"}},
			"metadata": {"annotations": {"autosched.dev/applied": "{}"}}}`, ""},
		{queues, "tenant-0", `{"spec": {"stopPolicy": "Hold"}}`, "changes no other fields"},
		{queues, "tenant-0", `{"spec": {"cohortName": "other"}}`, "changes no other fields"},
		{queues, "tenant-0", `{"spec": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}`,
			"changes no other fields"},
		{queues, "tenant-0", `{"spec": {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}}}`,
			"changes no other fields"},
		{queues, "tenant-0", `{"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "x"}]}}}`,
			"changes no other fields"},
		{queues, "tenant-0", `{"metadata": {"labels": {"a": "b"}}}`, "no labels"},
		{queues, "tenant-0", `{"metadata": {"annotations": {"a": "b"}}}`, "no annotations but its own"},
		{weights, "tenant-0", `{"spec": {"weight": 4, "reclaimable": false}}`, ""},
		{weights, "tenant-0", `{"spec": {"capability": {"nvidia.com/gpu": 4}}}`, "no other fields of Queues"},
		{weights, "tenant-0", `{"spec": {"priority": 4}}`, "no other fields of Queues"},
		{texts, textName, `{"data": {"volcano-scheduler.conf": "actions: allocate"},
			"metadata": {"annotations": {"autosched.dev/applied": "{}"}}}`, ""},
		{texts, textName, `{"data": {"volcano-scheduler.conf": null}}`, "only the scheduler's text"},
		{texts, textName, `{"data": {"kept": null}}`, "only the scheduler's text"},
		{texts, textName, `{"data": {"kept": "y"}}`, "only the scheduler's text"},
		{texts, textName, `{"data": {"other": "x"}}`, "only the scheduler's text"},
		{texts, textName, `{"binaryData": {"other": "eA=="}}`, "only the scheduler's text"},
		{texts, textName, `{"immutable": true}`, "only the scheduler's text"},
		{texts, textName, `{"metadata": {"finalizers": ["a.b/c"]}}`, "no labels"},
	} {
		if err := patch(x.of, x.name, x.text); !is(err, x.want) {
			t.Errorf("%s: %v, want %q", x.text, err, x.want)
		}
	}
	for _, field := range []struct{ name, want string }{{"resources/0/lendingLimit", ""},
		{"resources/0/nominalQuota", "nominal quotas are not tuned"}, {"name", "flavors, resources and"}} {
		text := `[{"op": "add", "path": "/spec/resourceGroups/0/flavors/0/` + field.name + `", "value": "3"}]`
		_, err := queues.Patch(t.Context(), "tenant-0",
			types.JSONPatchType, []byte(text), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if !is(err, field.want) {
			t.Errorf("%s: %v, want %q", field.name, err, field.want)
		}
	}
	err = queues.Delete(t.Context(), "tenant-0", metav1.DeleteOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a queue may be deleted: %v", err)
	}
}

// is reports whether an error is as wanted: none for the empty text.
func is(err error, want string) bool {
	if want == "" || err == nil {
		return want == "" && err == nil
	}
	return strings.Contains(err.Error(), want)
}
