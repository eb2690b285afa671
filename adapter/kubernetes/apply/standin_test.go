package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// standIn answers as an API server with the managers of fields, and with the conditions that Kueue writes.
type standIn struct {
	t  *testing.T
	mu sync.Mutex
	// objects are by their path of the API.
	objects map[string]*unstructured.Unstructured
	version int
	// lacks is a field that the schema is without, and inactive a queue that Kueue stops at the next change.
	lacks, inactive string
	deaf            bool // Kueue does not see changes
	// fault, if set, is called for each write that is not a dry run, before and after it takes effect. Its error ends
	// the connection.
	fault func(n int, after bool) error
	// change, if set, is called with objects after each write.
	change func()
	writes int
	dry    int
}

var errCut = errors.New("the connection is cut")

func newStandIn(t *testing.T, objects ...map[string]any) *standIn {
	s := &standIn{t: t, objects: map[string]*unstructured.Unstructured{}}
	for _, o := range objects {
		s.create(o, "gitops")
	}
	return s
}

func pathOf(o *unstructured.Unstructured) string {
	gv := o.GroupVersionKind().GroupVersion()
	prefix := "/apis/" + gv.String()
	if gv.Group == "" {
		prefix = "/api/" + gv.Version
	}
	if o.GetNamespace() != "" {
		prefix += "/namespaces/" + o.GetNamespace()
	}
	return prefix + "/" + strings.ToLower(o.GetKind()) + "s/" + o.GetName()
}

// create adds an object of a manager.
func (s *standIn) create(content map[string]any, manager string) {
	s.t.Helper()
	o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	o.SetGeneration(1)
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
	empty := &unstructured.Unstructured{Object: map[string]any{}}
	empty.SetGroupVersionKind(o.GroupVersionKind())
	out := fieldManager(s.t, o.GroupVersionKind()).UpdateNoErrors(empty, o, manager)
	s.objects[pathOf(o)] = out.(*unstructured.Unstructured)
	s.status(s.objects[pathOf(o)])
}

// status is what Kueue writes.
func (s *standIn) status(o *unstructured.Unstructured) {
	if o.GetKind() != "ClusterQueue" || s.deaf {
		return
	}
	c := map[string]any{"type": "Active", "status": "True", "reason": "Ready", "observedGeneration": o.GetGeneration()}
	if o.GetName() == s.inactive && o.GetGeneration() > 1 {
		c["status"], c["reason"] = "False", "FlavorNotFound"
	}
	put(o.Object, "/status/conditions", []any{c})
}

// edit changes a field as another manager.
func (s *standIn) edit(name, path string, value any, manager string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, o := range s.objects {
		if o.GetName() == name {
			next := o.DeepCopy()
			op := operation{"add", path, value}
			if value == nil {
				op.Op = "remove"
			}
			if err := operate(next.Object, op); err != nil {
				s.t.Fatal(err)
			}
			s.objects[at] = s.updated(o, next, manager)
		}
	}
}

func (s *standIn) updated(live, next *unstructured.Unstructured, manager string) *unstructured.Unstructured {
	out := fieldManager(s.t, live.GroupVersionKind()).UpdateNoErrors(live, next, manager).(*unstructured.Unstructured)
	return s.stored(live, out)
}

// stored gives an object its versions.
func (s *standIn) stored(live, out *unstructured.Unstructured) *unstructured.Unstructured {
	if reflect.DeepEqual(live.Object, out.Object) {
		return live
	}
	s.version++
	out.SetResourceVersion(strconv.Itoa(s.version))
	if !reflect.DeepEqual(live.Object["spec"], out.Object["spec"]) {
		out.SetGeneration(live.GetGeneration() + 1)
	}
	s.status(out)
	return out
}

// RoundTrip implements [http.RoundTripper].
func (s *standIn) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	answer := func(code int, v any) (*http.Response, error) {
		body, err := json.Marshal(v)
		return &http.Response{StatusCode: code, Status: fmt.Sprint(code), Header: http.Header{
			"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: req}, err
	}
	refuse := func(err *apierrors.StatusError) (*http.Response, error) {
		err.ErrStatus.APIVersion, err.ErrStatus.Kind = "v1", "Status"
		return answer(int(err.ErrStatus.Code), err.ErrStatus)
	}
	path := req.URL.Path
	switch {
	case path == "/apis/kueue.x-k8s.io" || path == "/apis/scheduling.volcano.sh":
		return answer(200, map[string]any{"preferredVersion": map[string]any{"version": "v1beta2"}})
	case strings.HasPrefix(path, "/openapi/v3/"):
		return answer(200, s.schemas())
	}
	live := s.objects[path]
	if req.Method == http.MethodGet && live == nil && strings.HasSuffix(path, "s") {
		items := []any{}
		for of, o := range s.objects {
			if strings.HasPrefix(of, path+"/") {
				items = append(items, o.Object)
			}
		}
		return answer(200, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	}
	if live == nil {
		return refuse(apierrors.NewNotFound(schema.GroupResource{}, path))
	}
	if req.Method == http.MethodGet {
		return answer(200, live.Object)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	dry := req.URL.Query().Get("dryRun") == "All"
	if !dry {
		s.writes++
		if s.fault != nil {
			if err := s.fault(s.writes, false); err != nil {
				return nil, err
			}
		}
	} else {
		s.dry++
	}
	out, refusal := s.patched(live, req, body)
	if refusal != nil {
		return refuse(refusal)
	}
	if dry {
		return answer(200, out.Object)
	}
	s.objects[path] = s.stored(live, out)
	if s.change != nil {
		s.change()
	}
	if s.fault != nil {
		if err := s.fault(s.writes, true); err != nil {
			return nil, err
		}
	}
	return answer(200, s.objects[path].Object)
}

func (s *standIn) patched(live *unstructured.Unstructured, req *http.Request, body []byte) (
	*unstructured.Unstructured, *apierrors.StatusError) {
	manager := req.URL.Query().Get("fieldManager")
	fm := fieldManager(s.t, live.GroupVersionKind())
	if req.Header.Get("Content-Type") == "application/apply-patch+yaml" {
		var in unstructured.Unstructured
		if err := json.Unmarshal(body, &in.Object); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if v := in.GetResourceVersion(); v != "" && v != live.GetResourceVersion() {
			return nil, apierrors.NewConflict(schema.GroupResource{}, live.GetName(), errors.New("modified"))
		}
		out, err := fm.Apply(live, &in, manager, req.URL.Query().Get("force") == "true")
		if status := (*apierrors.StatusError)(nil); errors.As(err, &status) {
			return nil, status
		} else if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		return s.valid(out.(*unstructured.Unstructured))
	}
	var ops []operation
	if err := json.Unmarshal(body, &ops); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	next := live.DeepCopy()
	for _, op := range ops {
		if err := operate(next.Object, op); err != nil {
			return nil, apierrors.NewGenericServerResponse(422, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
	}
	if !reflect.DeepEqual(next.GetManagedFields(), live.GetManagedFields()) {
		return next, nil
	}
	return s.valid(fm.UpdateNoErrors(live, next, manager).(*unstructured.Unstructured))
}

// valid refuses values that are in no enumeration.
func (s *standIn) valid(o *unstructured.Unstructured) (*unstructured.Unstructured, *apierrors.StatusError) {
	if v := at(o.Object, "/spec/queueingStrategy"); v == "Wrong" {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: o.GetKind()}, o.GetName(), nil)
	}
	return o, nil
}

// operate changes an object by an operation of a JSON patch.
func operate(o map[string]any, op operation) error {
	all := tokens(op.Path)
	last := all[len(all)-1]
	switch op.Op {
	case "test":
		if want := at(o, op.Path); !reflect.DeepEqual(want, op.Value) {
			return fmt.Errorf("testing value %s failed", op.Path)
		}
		return nil
	}
	in, is := at(o, Pointer(all[:len(all)-1]...)).(map[string]any)
	if !is {
		return fmt.Errorf("%s: missing path", op.Path)
	}
	if _, there := in[last]; !there && op.Op != "add" {
		return fmt.Errorf("%s: missing value", op.Path)
	}
	if op.Op == "remove" {
		delete(in, last)
		return nil
	}
	in[last] = op.Value
	return nil
}

// schemas has the fields of all objects, but for the one that is lacking.
func (s *standIn) schemas() map[string]any {
	all := map[string]any{}
	var of func(v any) map[string]any
	of = func(v any) map[string]any {
		switch v := v.(type) {
		case map[string]any:
			properties := map[string]any{}
			for k, v := range v {
				if k != s.lacks {
					properties[k] = of(v)
				}
			}
			return map[string]any{"properties": properties}
		case []any:
			return map[string]any{"items": of(v[0])}
		}
		return map[string]any{}
	}
	spec := map[string]any{"queueingStrategy": "", "preemption": map[string]any{"withinClusterQueue": "",
		"reclaimWithinCohort": ""}, "fairSharing": map[string]any{"weight": ""}, "resourceGroups": []any{map[string]any{
		"flavors": []any{map[string]any{"resources": []any{map[string]any{"borrowingLimit": "",
			"lendingLimit": ""}}}}}}, "weight": "", "reclaimable": ""}
	for _, o := range s.objects {
		gvk := o.GroupVersionKind()
		kind := of(map[string]any{"spec": spec})
		kind["x-kubernetes-group-version-kind"] = []any{map[string]any{"group": gvk.Group, "version": gvk.Version,
			"kind": gvk.Kind}}
		all[gvk.Kind] = kind
	}
	return map[string]any{"components": map[string]any{"schemas": all}}
}

func (s *standIn) client() (dynamic.Interface, *rest.Config) {
	config := &rest.Config{Host: "http://stand-in", Transport: s, QPS: -1}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		s.t.Fatal(err)
	}
	return client, config
}

func (s *standIn) get(name string) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects {
		if o.GetName() == name {
			return o
		}
	}
	s.t.Fatalf("no object %s", name)
	return nil
}

// fieldManager tracks the managers of objects of a kind. Lists are atomic.
func fieldManager(t *testing.T, gvk schema.GroupVersionKind) *managedfields.FieldManager {
	t.Helper()
	m, err := managedfields.NewDefaultFieldManager(managedfields.NewDeducedTypeConverter(), sameVersion{},
		sameVersion{}, sameVersion{}, gvk, gvk.GroupVersion(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sameVersion converts nothing.
type sameVersion struct{ runtime.ObjectConvertor }

func (sameVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (sameVersion) Default(runtime.Object) {}
func (sameVersion) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(gvk)
	return o, nil
}

// managers are the ones of a field.
func managers(o *unstructured.Unstructured, path string) []string {
	out := owners(o, path)
	for _, e := range o.GetManagedFields() {
		var fields map[string]any
		if e.Manager == Manager && json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) == nil &&
			owns(fields, tokens(path)) {
			out = append(out, Manager)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// get1 is get for callers that hold the lock.
func (s *standIn) get1(name string) *unstructured.Unstructured {
	for _, o := range s.objects {
		if o.GetName() == name {
			return o
		}
	}
	return nil
}

// apply applies a field as another manager.
func (s *standIn) apply(name, path string, value any, by string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, o := range s.objects {
		if o.GetName() == name {
			in := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}}
			in.SetGroupVersionKind(o.GroupVersionKind())
			put(in.Object, path, value)
			out, err := fieldManager(s.t, o.GroupVersionKind()).Apply(o, in, by, false)
			if err != nil {
				s.t.Fatal(err)
			}
			s.objects[at] = s.stored(o, out.(*unstructured.Unstructured))
		}
	}
}
