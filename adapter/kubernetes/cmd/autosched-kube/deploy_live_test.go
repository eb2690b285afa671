package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/autosched/autosched/adapter/kubernetes/cluster"
	"github.com/autosched/autosched/adapter/kubernetes/rig"
	"github.com/autosched/autosched/internal/testshared"
)

// TestLiveDeploy: an API server takes the manifests; their account reads and tunes the queues that are named, and the
// policy refuses other fields.
func TestLiveDeploy(t *testing.T) {
	r := rig.Start(t, rig.Options{Kueue: true})
	create := func(path string) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Create(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	create(testshared.Path(t, "golden", "kubernetes", "queues", "kueue.limits.json"))
	// The namespace of Volcano is there.
	namespace := []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: kueue-system}\n")
	if err := r.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"autosched-kube.yaml", "autosched-kube-reader.yaml", "autosched-kube-tuner.yaml",
		"autosched-kube-policy.yaml"} {
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
	patch := func(text string) error {
		_, err := objects.Resource(s.Queues.WithVersion("v1beta2")).Patch(t.Context(), "tenant-0", types.MergePatchType,
			[]byte(text), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	await(t, "the policy", func() bool { // it is in force some moments after it is made
		return patch(`{"spec": {"stopPolicy": "Hold"}}`) != nil
	})
	for text, want := range map[string]string{
		`{"spec": {"queueingStrategy": "StrictFIFO", "fairSharing": {"weight": "2"}}}`: "",
		`{"spec": {"preemption": {"reclaimWithinCohort": "Any"}}}`:                     "",
		`{"spec": {"stopPolicy": "Hold"}}`:                                             "changes no other fields",
		`{"spec": {"cohortName": "other"}}`:                                            "changes no other fields",
		`{"spec": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}`:                 "changes no other fields",
		`{"spec": {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}}}`:          "changes no other fields",
		`{"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "x"}]}}}`:  "changes no other fields",
	} {
		if err := patch(text); !is(err, want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for _, field := range []struct{ name, want string }{{"resources/0/lendingLimit", ""},
		{"resources/0/nominalQuota", "nominal quotas are not tuned"}, {"name", "flavors, resources and"}} {
		text := `[{"op": "add", "path": "/spec/resourceGroups/0/flavors/0/` + field.name + `", "value": "3"}]`
		_, err := objects.Resource(s.Queues.WithVersion("v1beta2")).Patch(t.Context(), "tenant-0",
			types.JSONPatchType, []byte(text), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if !is(err, field.want) {
			t.Errorf("%s: %v, want %q", field.name, err, field.want)
		}
	}
	err = objects.Resource(s.Queues.WithVersion("v1beta2")).Delete(t.Context(), "tenant-0", metav1.DeleteOptions{})
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
