package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The annotations of an object that the adapter changed: of its fields that are applied, and of fields in lists,
// which a JSON patch sets. Each is written by the request that sets the fields: two ways to write are two owners.
const (
	appliedMark = "autosched.dev/applied"
	patchedMark = "autosched.dev/applied-in-lists"
)

// Mark is the content of an annotation: whose values an object has, and which it had.
type Mark struct {
	// Revision is that of the configuration, and Epoch the counter of the store's epoch.
	Revision int64 `json:"revision"`
	Epoch    int64 `json:"epoch,omitempty"`
	// Time is when the values were set, by the adapter's clock.
	Time time.Time `json:"time"`
	// Set is the digest of the values of the fields of First.
	Set string `json:"set"`
	// Before has the values that this revision replaced, and First the ones before the adapter's first.
	Before map[string]any `json:"before,omitempty"`
	First  map[string]any `json:"first"`
	// Preemption is when a setting of preemption last changed.
	Preemption *time.Time `json:"preemption,omitempty"`
	// Released says that an operator took the fields back.
	Released bool `json:"released,omitempty"`
}

func markName(patch bool) string {
	if patch {
		return patchedMark
	}
	return appliedMark
}

// markOf reads an annotation; nil if there is none.
func markOf(o *unstructured.Unstructured, patch bool) (*Mark, error) {
	text, there := o.GetAnnotations()[markName(patch)]
	if !there {
		return nil, nil
	}
	var m Mark
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return nil, fmt.Errorf("%w: %s: annotation %s: %w", ErrChanged, o.GetName(), markName(patch), err)
	}
	return &m, nil
}

// marks yields the annotations that can be read, in a fixed order.
func (live Live) marks() iter.Seq2[Object, *Mark] {
	return func(yield func(Object, *Mark) bool) {
		for _, o := range sorted(live) {
			for _, patch := range []bool{false, true} {
				if m, err := markOf(live[o], patch); err == nil && m != nil && !yield(o, m) {
					return
				}
			}
		}
	}
}

// next is the mark after changes of a revision, of which preempts reports the ones of preemption.
func (m *Mark) next(c []Change, rev revision, o *unstructured.Unstructured, preempts func(Change) bool) *Mark {
	out := &Mark{First: map[string]any{}}
	if m != nil {
		*out = *m
		out.First = maps.Clone(m.First)
	}
	if m == nil || m.Released || m.Revision != rev.number || m.Epoch != rev.epoch {
		out.Before = nil
	}
	out.Before = maps.Clone(out.Before)
	if out.Before == nil {
		out.Before = map[string]any{}
	}
	out.Revision, out.Epoch, out.Time, out.Released = rev.number, rev.epoch, rev.at, rev.released
	values := map[string]any{}
	for path := range out.First {
		values[path] = at(o.Object, path)
	}
	for _, c := range c {
		if _, known := out.First[c.Path]; !known {
			out.First[c.Path] = c.Old
		}
		out.Before[c.Path], values[c.Path] = c.Old, c.New
		if !rev.undoes && preempts(c) {
			out.Preemption = &rev.at
		}
	}
	if rev.undoes {
		out.Preemption = rev.preemption
	}
	out.Set = digest(values)
	return out
}

// holds reports whether an object has the values of a mark.
func (m *Mark) holds(o *unstructured.Unstructured) bool {
	values := map[string]any{}
	for path := range m.First {
		values[path] = at(o.Object, path)
	}
	return digest(values) == m.Set
}

// digest is the SHA-256 of values by path.
func digest(values map[string]any) string {
	h := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(h, "%q=%t%q\n", path, values[path] != nil, text(values[path]))
	}
	return hex.EncodeToString(h.Sum(nil))
}
