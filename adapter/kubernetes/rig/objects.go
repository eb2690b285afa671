package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/autosched/autosched/adapter/kubernetes/cluster"
)

// furnish creates the definitions of the schedulers' objects, the nodes, and the class of urgent jobs.
func (r *Rig) furnish(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(r.bin, "crds", "*", "*.yaml"))
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, file := range files {
		definition, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s\n---\n", definition)
	}
	if err := r.create(ctx, text.Bytes()); err != nil {
		return err
	}
	// The API server creates the namespace of the jobs by itself.
	if err := until(ctx, r.api, func(ctx context.Context) error {
		_, err := r.Client("admin").Resource(namespaces).Get(ctx, namespace, metav1.GetOptions{})
		return err
	}); err != nil {
		return err
	}
	text.Reset()
	fmt.Fprintln(&text, "{apiVersion: v1, kind: Namespace, metadata: {name: volcano-system}}")
	for i := range r.o.Nodes {
		fmt.Fprintf(&text, "---\n{apiVersion: v1, kind: Node, metadata: {name: g%d, labels: {kubernetes.io/hostname: g%d}}}\n",
			i, i)
	}
	fmt.Fprintln(&text, "---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: p10}, value: 10}")
	if err := r.create(ctx, text.Bytes()); err != nil {
		return err
	}
	for i := range r.o.Nodes {
		amount := `{"cpu": "96", "memory": "1000Gi", "pods": "200", "nvidia.com/gpu": "8"}`
		status := fmt.Sprintf(`{"status": {"capacity": %s, "allocatable": %s,
			"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}}`, amount, amount)
		if _, err := r.Client("admin").Resource(nodes).Patch(ctx, fmt.Sprintf("g%d", i), types.StrategicMergePatchType,
			[]byte(status), metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
	}
	return nil
}

const namespace = "default" // of the jobs

var (
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	nodes      = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	podGroups  = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"}
	workloads  = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}
)

// Create creates objects from YAML documents or JSON, also lists, as the administrator, and returns once they are in
// use: definitions are served, Kueue's queues active. Queues of Volcano are opened.
func (r *Rig) Create(ctx context.Context, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := r.create(ctx, text); err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	return nil
}

func (r *Rig) create(ctx context.Context, text []byte) error {
	var made []*unstructured.Unstructured
	make := func(o *unstructured.Unstructured) error {
		if err := createOne(ctx, r.Client("admin"), o); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
		made = append(made, o)
		return nil
	}
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var o unstructured.Unstructured
		if err := d.Decode(&o.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if o.Object == nil {
			continue // an empty document
		}
		if !o.IsList() {
			if err := make(&o); err != nil {
				return err
			}
			continue
		}
		list, err := o.ToList()
		if err != nil {
			return err
		}
		for i := range list.Items {
			if err := make(&list.Items[i]); err != nil {
				return err
			}
		}
	}
	for _, o := range made {
		if err := r.inUse(ctx, o); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

func resource(client dynamic.Interface, o *unstructured.Unstructured) dynamic.ResourceInterface {
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	if o.GetNamespace() == "" {
		return client.Resource(plural)
	}
	return client.Resource(plural).Namespace(o.GetNamespace())
}

func createOne(ctx context.Context, client dynamic.Interface, o *unstructured.Unstructured) error {
	made, err := resource(client, o).Create(ctx, o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil || o.GroupVersionKind().Group != "scheduling.volcano.sh" || o.GetKind() != "Queue" {
		return err
	}
	// Volcano's controller, which does not run here, opens queues.
	if err := unstructured.SetNestedField(made.Object, "Open", "status", "state"); err != nil {
		return err
	}
	_, err = resource(client, o).UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

// inUse returns once an object that its controller must take up first is taken up.
func (r *Rig) inUse(ctx context.Context, o *unstructured.Unstructured) error {
	var condition string
	switch kind := o.GetKind(); {
	case kind == "CustomResourceDefinition":
		condition = "Established"
	case kind == "ClusterQueue" && r.o.Kueue:
		condition = "Active"
	default:
		return nil
	}
	for tick := time.Tick(pollInterval); ; {
		now, err := resource(r.Client("admin"), o).Get(ctx, o.GetName(), metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err == nil && conditionIs(now, condition) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("is not %s: %w", condition, ctx.Err())
		case <-tick:
		}
	}
}

// conditionIs reports whether a condition of an object's status is true.
func conditionIs(o *unstructured.Unstructured, kind string) bool {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range list {
		if m, ok := c.(map[string]any); ok && m["type"] == kind {
			return m["status"] == "True"
		}
	}
	return false
}

// Export returns the queues, the nodes and the jobs of the schedulers that run, as kubectl get -o json prints a list.
func (r *Rig) Export(ctx context.Context) ([]byte, error) {
	var of []schema.GroupVersionResource
	if r.o.Kueue {
		for _, name := range []string{"resourceflavors", "cohorts", "clusterqueues", "localqueues", "workloads"} {
			of = append(of, workloads.GroupVersion().WithResource(name))
		}
	}
	if r.o.Volcano {
		of = append(of, podGroups.GroupVersion().WithResource("queues"), podGroups, pods)
	}
	items := []any{}
	for _, which := range append(of, nodes) {
		list, err := r.Client("admin").Resource(which).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("rig: %w", err)
		}
		for _, o := range list.Items {
			unstructured.RemoveNestedField(o.Object, "metadata", "managedFields") // kubectl shows none
			items = append(items, o.Object)
		}
	}
	text, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, "", " ")
	if err != nil {
		return nil, fmt.Errorf("rig: %w", err)
	}
	return text, nil
}

// Patch puts a JSON patch on an object of Kueue without a namespace, of which kind is the name of the resource or its
// singular. A dry run is checked by the server alone.
func Patch(ctx context.Context, c *rest.Config, kind, name string, patch []byte, dry bool) error {
	client, err := cluster.Open(c)
	if err != nil {
		return fmt.Errorf("rig: %w", err)
	}
	o := metav1.PatchOptions{FieldManager: "kubectl-patch"}
	if dry {
		o.DryRun = []string{metav1.DryRunAll}
	}
	which := workloads.GroupVersion().WithResource(strings.TrimSuffix(kind, "s") + "s")
	if _, err := client.Resource(which).Patch(ctx, name, types.JSONPatchType, patch, o); err != nil {
		return fmt.Errorf("rig: %s %s: %w", kind, name, err)
	}
	return nil
}
