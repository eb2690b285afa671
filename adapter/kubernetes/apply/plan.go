package apply

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Change sets one field of an object. A value of nil is a field that is absent.
type Change struct {
	Field
	Old, New any
}

// String describes the change.
func (c Change) String() string {
	name := func(v any) string { return cmp.Or(text(v), "none") }
	return fmt.Sprintf("%v: %s -> %s", c.Field, name(c.Old), name(c.New))
}

// way is the direction of a change of a number: -1 if it shrinks, 1 if it grows, and 0 for other values. A number that
// is absent is no limit.
func (c Change) way() int {
	a, errA := resource.ParseQuantity(text(c.Old))
	b, errB := resource.ParseQuantity(text(c.New))
	switch {
	case errA == nil && errB == nil:
		return b.Cmp(a)
	case errA == nil && c.New == nil:
		return 1
	case errB == nil && c.Old == nil:
		return -1
	}
	return 0
}

// Step is one request, which sets fields of one object: by server-side apply or, of fields in lists, by a JSON patch.
type Step struct {
	Object
	Patch   bool
	Changes []Change
}

// Plan orders changes into requests: every number that shrinks precedes all that grow, as GPUs that one queue gave up
// may be another's, and none may be two queues' at any time. Other values go with the object's first request of their
// kind.
func Plan(changes []Change) []Step {
	type request struct {
		Object
		patch bool
	}
	of := func(c Change) request { return request{c.Object, isListed(c.Path)} }
	first := map[request]int{}
	for _, c := range changes {
		if w := c.way(); w != 0 {
			first[of(c)] = min(w, cmp.Or(first[of(c)], w))
		}
	}
	changes = slices.Clone(changes)
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(cmp.Or(a.way(), first[of(a)]), cmp.Or(b.way(), first[of(b)])),
			cmp.Compare(a.Object.String(), b.Object.String()), cmp.Compare(a.Path, b.Path))
	})
	var out []Step
	in := map[request]int{}
	way := -2
	for _, c := range changes {
		if w := cmp.Or(c.way(), first[of(c)]); w != way {
			way, in = w, map[request]int{}
		}
		i, there := in[of(c)]
		if !there {
			i = len(out)
			in[of(c)] = i
			out = append(out, Step{Object: c.Object, Patch: isListed(c.Path)})
		}
		out[i].Changes = append(out[i].Changes, c)
	}
	return out
}

// Whole orders changes into one request of each kind for each object: for dry runs, of which none builds upon another.
func Whole(changes []Change) []Step {
	var out []Step
	for _, s := range Plan(changes) {
		i := slices.IndexFunc(out, func(o Step) bool { return o.Object == s.Object && o.Patch == s.Patch })
		if i < 0 {
			out = append(out, s)
			continue
		}
		out[i].Changes = append(out[i].Changes, s.Changes...)
	}
	return out
}
