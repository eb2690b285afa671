package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/autosched/autosched/client"
)

// Errors of changes that others make or made.
var (
	// ErrChanged is wrapped by errors about fields that someone else changed since the adapter set them.
	ErrChanged = errors.New("changed by someone else")
	// ErrOwned is wrapped by errors about fields that belong to another manager.
	ErrOwned = errors.New("belongs to another manager")
	// ErrLost is wrapped by errors about writes without the lease.
	ErrLost = errors.New("the lease is lost: nothing is written")
)

// revision is the configuration that a request belongs to.
type revision struct {
	number, epoch int64
	at            time.Time
	released      bool
	// undoes says that it goes back to a revision, and preemption is when that changed preemption.
	undoes     bool
	preemption *time.Time
}

// request sends a step. The answer takes the place of the object in live, unless the request is a dry run.
func (d *Driver) request(ctx context.Context, live Live, s Step, rev revision, dry bool) error {
	for try := 0; ; try++ {
		o := live[s.Object]
		before, err := markOf(o, s.Patch)
		if err != nil && !d.o.TakeOver {
			return err
		}
		force, err := d.forced(o, s.Changes, before)
		if err != nil {
			return err
		}
		kind, o2 := types.ApplyPatchType, metav1.PatchOptions{FieldManager: Manager,
			FieldValidation: metav1.FieldValidationStrict}
		if dry {
			o2.DryRun = []string{metav1.DryRunAll}
		}
		mark := before.next(s.Changes, rev, o, d.o.Scheduler.Preempts)
		var body []byte
		if s.Patch {
			kind = types.JSONPatchType
			body = jsonPatch(o, s.Changes, mark)
		} else {
			body, o2.Force = applied(o, s.Changes, mark, force), &force
		}
		out, err := d.patch(ctx, s.Object, kind, body, o2)
		if modified(err) && try < 5 { // by its scheduler, say, which writes the status
			fresh, err := d.get(ctx, s.Object)
			if err != nil {
				return err
			}
			for _, c := range s.Changes {
				if !same(at(fresh.Object, c.Path), c.Old) {
					return fmt.Errorf("%w: %v", ErrChanged, c.Field)
				}
			}
			live[s.Object] = fresh
			continue
		}
		if err != nil {
			return said(s, err)
		}
		for _, c := range s.Changes {
			if got := at(out.Object, c.Path); !same(got, c.New) {
				return fmt.Errorf("%v: the API server makes %s of %s", c.Field, text(got), text(c.New))
			}
		}
		if !dry {
			live[s.Object] = out
		}
		return nil
	}
}

// patch writes, while the lease is held.
func (d *Driver) patch(ctx context.Context, o Object, kind types.PatchType, body []byte, po metav1.PatchOptions) (
	*unstructured.Unstructured, error) {
	limit := d.o.Timeout
	if d.o.Until != nil {
		limit = min(limit, d.o.Until().Sub(d.o.Now()))
	}
	if limit <= 0 {
		return nil, ErrLost
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrLost)
	defer cancel()
	return d.o.Client.Resource(o.Resource).Namespace(o.Namespace).Patch(ctx, o.Name, kind, body, po)
}

func (d *Driver) get(ctx context.Context, o Object) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, d.o.Timeout)
	defer cancel()
	out, err := d.o.Client.Resource(o.Resource).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("%v: %w", o, err)
	}
	return out, nil
}

func (d *Driver) list(ctx context.Context, o Object) (*unstructured.UnstructuredList, error) {
	ctx, cancel := context.WithTimeout(ctx, d.o.Timeout)
	defer cancel()
	return d.o.Client.Resource(o.Resource).Namespace(o.Namespace).List(ctx, metav1.ListOptions{})
}

// applied is the body of a server-side apply: everything that the adapter owns of the object, as a field that is left
// out would be removed, with the changes. Force is bound to the object's version, and takes no other field over.
func applied(o *unstructured.Unstructured, changes []Change, mark *Mark, force bool) []byte {
	body := map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind()}
	put(body, Pointer("metadata", "name"), o.GetName())
	if ns := o.GetNamespace(); ns != "" {
		put(body, Pointer("metadata", "namespace"), ns)
	}
	if force {
		put(body, Pointer("metadata", "resourceVersion"), o.GetResourceVersion())
	}
	values := map[string]any{}
	for _, path := range mine(o, false) {
		values[path] = at(o.Object, path)
	}
	for _, c := range changes {
		values[c.Path] = c.New
	}
	for path, v := range values {
		if v != nil {
			put(body, path, v)
		}
	}
	put(body, Pointer("metadata", "annotations", appliedMark), string(encode(mark)))
	return encode(body)
}

// mine returns the fields that the adapter applied or, of a patch, the lists that it patched, but for annotations.
func mine(o *unstructured.Unstructured, patch bool) []string {
	by := metav1.ManagedFieldsOperationApply
	if patch {
		by = metav1.ManagedFieldsOperationUpdate
	}
	var out []string
	var walk func(fields map[string]any, names []string)
	walk = func(fields map[string]any, names []string) {
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			name, is := strings.CutPrefix(key, "f:")
			if !is {
				continue
			}
			in, _ := fields[key].(map[string]any)
			path := append(slices.Clone(names), name)
			if len(in) == 0 {
				out = append(out, Pointer(path...))
			}
			walk(in, path)
		}
	}
	for _, e := range o.GetManagedFields() {
		if e.Manager != Manager || e.Operation != by || e.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) == nil {
			walk(fields, nil)
		}
	}
	return slices.DeleteFunc(out, func(path string) bool {
		_, bare := at(o.Object, path).(map[string]any) // of a map whose fields are others' since
		return bare || strings.HasPrefix(path, "/metadata/")
	})
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// jsonPatch sets fields of items of lists. It fails where an item, or the name of one that it lies in, is another than
// the object's.
func jsonPatch(o *unstructured.Unstructured, changes []Change, mark *Mark) []byte {
	var tests, sets []operation
	test := func(path string) {
		if op := (operation{"test", path, at(o.Object, path)}); op.Value != nil &&
			!slices.ContainsFunc(tests, func(t operation) bool { return t.Path == path }) {
			tests = append(tests, op)
		}
	}
	for _, c := range changes {
		all := tokens(c.Path)
		for i := range len(all) - 1 {
			if isIndex(all[i]) {
				test(Pointer(append(slices.Clone(all[:i+1]), "name")...))
			}
		}
		test(Pointer(all[:len(all)-1]...)) // the whole item, so that an absent value is tested, too
		switch {
		case c.New == nil:
			sets = append(sets, operation{"remove", c.Path, nil})
		default:
			sets = append(sets, operation{"add", c.Path, c.New}) // which replaces
		}
	}
	if o.GetAnnotations() == nil {
		sets = append(sets, operation{"add", Pointer("metadata", "annotations"), map[string]any{}})
	}
	sets = append(sets, operation{"add", Pointer("metadata", "annotations", markName(true)), string(encode(mark))})
	return encode(append(tests, sets...))
}

func encode(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic("apply: " + err.Error()) // values come from JSON
	}
	return out
}

// modified reports whether a write was bound to a version of the object that is not the present one.
func modified(err error) bool {
	return apierrors.IsConflict(err) && len(conflicts(err)) == 0
}

// conflicts returns the fields that belong to others, with their names.
func conflicts(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var out []string
	for _, c := range status.Status().Details.Causes {
		if c.Type == metav1.CauseTypeFieldManagerConflict {
			out = append(out, strings.TrimPrefix(c.Field, ".")+": "+c.Message)
		}
	}
	return out
}

// failedTest reports whether a test of a JSON patch failed: such an answer names no object.
func failedTest(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsInvalid(err) && errors.As(err, &status) &&
		(status.Status().Details == nil || status.Status().Details.Kind == "")
}

// said is the error of a request: about values, if the API server or an admission webhook refuses them.
func said(s Step, err error) error {
	var status apierrors.APIStatus
	answered := errors.As(err, &status)
	switch by := conflicts(err); {
	case len(by) > 0:
		return fmt.Errorf("%w: %v: %s", ErrOwned, s.Object, strings.Join(by, "; "))
	case modified(err), s.Patch && failedTest(err):
		return fmt.Errorf("%w: %v: %w", ErrChanged, s.Object, err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err),
		answered && strings.Contains(err.Error(), "denied the request"):
		return fmt.Errorf("%w: %v: %w", client.ErrRefused, s.Object, err)
	}
	return fmt.Errorf("%v: %w", s.Object, err)
}
