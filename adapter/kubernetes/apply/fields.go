package apply

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Manager is the field manager of the fields that the adapter sets.
const Manager = "autosched"

// Object names an object of the API.
type Object struct {
	Resource  schema.GroupVersionResource
	Namespace string // empty for objects of the cluster
	Name      string
}

// String is the object as kubectl names it.
func (o Object) String() string { return o.Resource.GroupResource().String() + "/" + o.Name }

// Field is a field of an object. Its path is a JSON pointer (RFC 6901), such as /spec/preemption/withinClusterQueue.
type Field struct {
	Object
	Path string
}

// String is the field as messages of the API name it.
func (f Field) String() string { return f.Object.String() + " " + dotted(f.Path) }

// Pointer returns the path of nested fields.
func Pointer(names ...string) string {
	var b strings.Builder
	for _, n := range names {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(n))
	}
	return b.String()
}

func tokens(path string) []string {
	all := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, t := range all {
		all[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(t)
	}
	return all
}

func dotted(path string) string { return strings.Join(tokens(path), ".") }

// isListed reports whether a path leads into a list: lists of the schedulers' objects are atomic, as a whole one
// manager's.
func isListed(path string) bool {
	return slices.ContainsFunc(tokens(path), isIndex)
}

func isIndex(token string) bool {
	_, err := strconv.Atoi(token)
	return err == nil
}

// at returns the value at a path, nil if there is none.
func at(o any, path string) any {
	for _, t := range tokens(path) {
		switch v := o.(type) {
		case map[string]any:
			o = v[t]
		case []any:
			i, err := strconv.Atoi(t)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			o = v[i]
		default:
			return nil
		}
	}
	return o
}

// put sets the value at a path of nested fields.
func put(o map[string]any, path string, value any) {
	all := tokens(path)
	for _, t := range all[:len(all)-1] {
		in, is := o[t].(map[string]any)
		if !is {
			in = map[string]any{}
			o[t] = in
		}
		o = in
	}
	o[all[len(all)-1]] = value
}

// text is a text that all spellings of one value share: the API server keeps quantities as they are written, and
// schedulers write them as they like.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case map[string]any, []any:
		return string(encode(v))
	}
	s := fmt.Sprint(v)
	if q, err := resource.ParseQuantity(s); err == nil {
		return q.String()
	}
	return s
}

func same(a, b any) bool { return (a == nil) == (b == nil) && text(a) == text(b) }

// owners returns the managers of a field, but for the adapter.
func owners(o *unstructured.Unstructured, path string) []string {
	var out []string
	for _, e := range o.GetManagedFields() {
		if e.Manager == Manager || e.Subresource != "" || e.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) == nil && owns(fields, tokens(path)) &&
			!slices.Contains(out, e.Manager) {
			out = append(out, e.Manager)
		}
	}
	slices.Sort(out)
	return out
}

// owns reports whether a set of fields has a path, or a list above it. A manager whose last field of a map is gone has
// the bare map, and nothing in it.
func owns(fields map[string]any, path []string) bool {
	if len(path) == 0 || len(fields) == 0 {
		return len(path) == 0 || isIndex(path[0])
	}
	in, is := fields["f:"+path[0]].(map[string]any)
	return is && owns(in, path[1:])
}
