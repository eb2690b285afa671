package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Release gives all fields back. Their values stay, or the ones before the adapter's first come back. Nothing is
// applied from then on: a driver reports that an operator took the fields.
func (d *Driver) Release(ctx context.Context, restore bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	live, err := d.read(ctx)
	if err != nil {
		return err
	}
	if foreign := live.foreign(); foreign != "" && !d.o.TakeOver {
		return fmt.Errorf("%w: %s: start with --take-over to overrule that", ErrChanged, foreign)
	}
	rev := revision{at: d.o.Now(), released: true}
	fields := map[Field]any{}
	for o, u := range live {
		for _, patch := range []bool{false, true} {
			m, err := markOf(u, patch)
			if err != nil {
				return err
			}
			if m == nil {
				continue
			}
			rev.number, rev.epoch = max(rev.number, m.Revision), max(rev.epoch, m.Epoch)
			for path, v := range m.First {
				if restore {
					fields[Field{o, path}] = v
				}
			}
		}
	}
	if live, err = d.converge(ctx, live, nil, fields, rev, true); err != nil {
		return err
	}
	for _, o := range sorted(live) {
		for _, patch := range []bool{false, true} {
			if m, err := markOf(live[o], patch); err != nil || m == nil {
				continue
			}
			if err := d.request(ctx, live, Step{Object: o, Patch: patch}, rev, false); err != nil {
				return err
			}
		}
		if err := d.disown(ctx, o, live[o]); err != nil {
			return fmt.Errorf("%v: %w", o, err)
		}
	}
	return nil
}

// disown removes the adapter from the managers of an object. An apply of no fields would remove the ones without
// another manager, and have the API server fill in its defaults.
func (d *Driver) disown(ctx context.Context, name Object, o *unstructured.Unstructured) error {
	for try := 0; ; try++ {
		all := o.GetManagedFields()
		rest := slices.DeleteFunc(slices.Clone(all), func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == Manager
		})
		if len(rest) == len(all) {
			return nil
		}
		if len(rest) == 0 {
			rest = []metav1.ManagedFieldsEntry{{}} // an empty list would leave the managers as they are
		}
		_, err := d.patch(ctx, name, types.JSONPatchType, encode([]operation{
			{"test", Pointer("metadata", "resourceVersion"), o.GetResourceVersion()},
			{"replace", Pointer("metadata", "managedFields"), rest}}), metav1.PatchOptions{FieldManager: Manager})
		if err == nil || try == 5 || !failedTest(err) && !modified(err) {
			return err
		}
		if o, err = d.get(ctx, name); err != nil {
			return errors.Join(errors.New("its fields are the adapter's still"), err)
		}
	}
}
