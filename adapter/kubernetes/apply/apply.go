// Package apply puts configurations in force on a Kubernetes cluster whose scheduler is Kueue or Volcano: by changes
// of single fields of the scheduler's own objects, each checked, tried by a dry run, applied, read back, and taken back
// where anything is wrong. Fields of other managers are left alone, unless an operator hands them over.
package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/autosched/autosched/adapter"
	"github.com/autosched/autosched/adapter/kubernetes/cluster"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/space"
)

// Live are the objects of a scheduler as the API server has them.
type Live map[Object]*unstructured.Unstructured

// Scheduler maps configurations to fields of a scheduler's objects, and back.
type Scheduler interface {
	// Objects are the ones to read, without their versions. An empty name is all of a resource.
	Objects() []Object
	// Fields returns the fields that parameters set, and their values. A value of nil is an absent field. Errors that
	// wrap [client.ErrRefused] are about the parameters.
	Fields(values space.Values, live Live) (map[Field]any, error)
	// Values returns the values of parameters that the objects have.
	Values(tuned []string, live Live) (space.Values, error)
	// Effect is an error if a field does nothing in this installation with values of parameters; of nil, as it is now.
	Effect(f Field, values space.Values, live Live) error
	// Accepted reports whether the scheduler has taken an object as it is. An error says that it refuses it.
	Accepted(o *unstructured.Unstructured) (bool, error)
	// Preempts reports whether a change is one of preemption.
	Preempts(c Change) bool
	// Names are the settings of queues, and path is where one has a setting.
	Names() []string
	path(queue *unstructured.Unstructured, name string) (string, error)
	// idle are settings elsewhere without effect.
	idle(live Live) []Idle
	// Settle is how long a change takes at most to be in force, where the scheduler does not say so; 0 if it does.
	Settle() time.Duration
}

// Level is how far a configuration is known to have come.
type Level int

// The levels. Each implies the ones before it.
const (
	// Nothing is known of it.
	Nothing Level = iota
	// Stored: the API server has the values.
	Stored
	// Accepted: the scheduler says that it has taken the objects.
	Accepted
	// InForce: the scheduler shows the values, or has had the time to read them.
	InForce
)

// String names the level.
func (l Level) String() string { return [...]string{"nothing", "stored", "accepted", "in force"}[l] }

// Options are the scheduler to configure and the rights of the adapter.
type Options struct {
	// Client reaches the API server as Config says. Both are required.
	Client dynamic.Interface
	Config *rest.Config
	// Scheduler knows the objects. Required.
	Scheduler Scheduler
	// Tuned are the ids of the parameters.
	Tuned []string
	// HandOver names the fields that other managers own and the adapter may take, when it first sets them: as
	// spec.queueingStrategy of all objects, or clusterqueues.kueue.x-k8s.io/a spec.queueingStrategy of one. "*" is all.
	HandOver []string
	// TakeOver lets the adapter set fields that someone else changed, once.
	TakeOver bool
	// Until is when writes must have ended, by Now, as a lease says; there is no such time if nil.
	Until func() time.Time
	// Timeout bounds each request, and the scheduler's time to accept; 30 s if 0.
	Timeout time.Duration
	// Now is the time; time.Now if nil.
	Now func() time.Time
	// Evidence, if set, reports whether the scheduler shows that it has the value of a field.
	Evidence func(ctx context.Context, f Field, value any) (bool, error)
}

// betweenPreemptions is how long settings of preemption stay: their effect shows in evictions, which come in waves.
const betweenPreemptions = 24 * time.Hour

// Driver puts configurations in force. It implements [adapter.Applier].
type Driver struct {
	o    Options
	api  *cluster.API
	pace time.Duration // between looks at an object that is to be accepted

	mu    sync.Mutex // held while a configuration is applied or looked at
	last  *adapter.Applied
	known adapter.InForce // the service's knowledge of the configuration in force
	asked bool            // a configuration was to be applied since the start

	level atomic.Int32 // a Level
}

// newDriver calls nothing.
func newDriver(o Options) (*Driver, error) {
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	api, err := cluster.NewAPI(o.Config)
	return &Driver{o: o, api: api, pace: 200 * time.Millisecond}, err
}

// Observe returns a function that reads the values of the tuned parameters. It writes nothing.
func Observe(o Options) (func(context.Context) (space.Values, error), error) {
	d, err := newDriver(o)
	return func(ctx context.Context) (space.Values, error) {
		live, err := d.read(ctx)
		if err != nil {
			return nil, err
		}
		return o.Scheduler.Values(o.Tuned, live)
	}, err
}

// Open checks that the API server has the fields of all tuned parameters, and that they have an effect.
func Open(ctx context.Context, o Options) (*Driver, error) {
	d, err := newDriver(o)
	if err != nil {
		return nil, err
	}
	live, err := d.read(ctx)
	if err != nil {
		return nil, err
	}
	values, err := o.Scheduler.Values(o.Tuned, live)
	if err != nil && live.marked() {
		return d, nil // an adapter ended halfway, say: the next configuration says what is to be
	}
	if err != nil {
		return nil, err
	}
	fields, err := o.Scheduler.Fields(values, live)
	if err != nil {
		return nil, err
	}
	return d, d.usable(ctx, slices.Collect(maps.Keys(fields)), values, live)
}

// usable is an error if the API server lacks a field, or if it has no effect.
func (d *Driver) usable(ctx context.Context, fields []Field, values space.Values, live Live) error {
	slices.SortFunc(fields, func(a, b Field) int { return cmp.Compare(a.String(), b.String()) })
	var all []error
	for _, f := range fields {
		err := has(ctx, d.api, f, live[f.Object].GetKind())
		if err = cmp.Or(err, d.o.Scheduler.Effect(f, values, live)); err != nil {
			all = append(all, fmt.Errorf("%v: %w", f, err))
		}
	}
	return errors.Join(all...)
}

// read returns all objects, of the versions that are served.
func (d *Driver) read(ctx context.Context) (Live, error) {
	live := Live{}
	for _, o := range d.o.Scheduler.Objects() {
		version, err := d.api.Version(ctx, o.Resource.GroupResource())
		if err != nil {
			return nil, err
		}
		if o.Resource.Version = version; o.Name != "" {
			if live[o], err = d.get(ctx, o); err != nil {
				return nil, err
			}
			continue
		}
		all, err := d.list(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("%v: %w", o.Resource.GroupResource(), err)
		}
		for i := range all.Items {
			o.Name = all.Items[i].GetName()
			live[o] = &all.Items[i]
		}
	}
	return live, nil
}

// Apply puts a configuration in force and returns the values in force. An error that wraps [client.ErrRefused] is
// about the values. After another one the configuration may be applied again; if it wraps [ErrChanged] or [ErrOwned],
// an operator has to decide first.
func (d *Driver) Apply(ctx context.Context, c *pb.Configuration) (_ map[string]*structpb.Value, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.asked = d.asked || !errors.Is(err, client.ErrRefused) }()
	want, err := adapter.FromProto(c.GetParameters())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.GetName(), err)
	}
	live, err := d.read(ctx)
	if err != nil {
		return nil, err
	}
	marks, err := d.mayApply(ctx, c, live)
	if err != nil {
		return nil, err
	}
	if marks > 0 || d.o.TakeOver || c.GetOrigin() != pb.Configuration_DEFAULT {
		fields, err := d.o.Scheduler.Fields(want, live)
		if err != nil {
			return nil, err
		}
		rev := revision{number: c.GetRevision(), epoch: c.GetEpoch().GetCounter(), at: d.o.Now()}
		back := c.GetOrigin() == pb.Configuration_RESTORED || c.GetOrigin() == pb.Configuration_REVERTED
		if live, err = d.converge(ctx, live, want, fields, rev, back); err != nil {
			return nil, err
		}
	}
	// The first configuration is the registered defaults, which no operator chose over the values in force.
	got, level, err := d.inForce(ctx, live, want)
	if err != nil {
		return nil, err
	}
	sent := adapter.AppliedOf(c, want)
	d.last, d.known, d.o.TakeOver = &sent, adapter.InForce{Values: got}, false
	d.level.Store(int32(level))
	return adapter.ToProto(got)
}

// mayApply is an error if someone else changed a field of the adapter's, or if the configuration is of an old store. It
// counts the marks.
func (d *Driver) mayApply(ctx context.Context, c *pb.Configuration, live Live) (marks int, err error) {
	for _, o := range sorted(live) {
		for _, patch := range []bool{false, true} {
			m, err := markOf(live[o], patch)
			if err != nil && !d.o.TakeOver {
				return 0, err
			}
			if m == nil {
				continue
			}
			marks++
			if m.Epoch > c.GetEpoch().GetCounter() {
				return 0, (&adapter.Applied{EpochCounter: m.Epoch}).Old(c)
			}
		}
	}
	if foreign := live.foreign(); foreign != "" && !d.o.TakeOver {
		if err := d.lacking(ctx, live); err != nil {
			return 0, err
		}
		return 0, fmt.Errorf("%w: %s: put it back, or start the adapter once with --take-over", ErrChanged, foreign)
	}
	return marks, nil
}

// lacking is an error if the API server dropped a field of the adapter's.
func (d *Driver) lacking(ctx context.Context, live Live) error {
	for o, m := range live.marks() {
		for _, path := range slices.Sorted(maps.Keys(m.First)) {
			f := Field{o, path}
			if err := has(ctx, d.api, f, live[o].GetKind()); err != nil {
				return fmt.Errorf("%v: %w", f, err)
			}
		}
	}
	return nil
}

// foreign names the objects whose fields someone else changed since the adapter set them.
func (live Live) foreign() string {
	var out []string
	for _, o := range sorted(live) {
		for _, patch := range []bool{false, true} {
			if said := foreign(o, live[o], patch); said != "" {
				out = append(out, said)
			}
		}
	}
	return strings.Join(out, "; ")
}

// foreign says how fields of an object were changed since; empty if they were not.
func foreign(o Object, u *unstructured.Unstructured, patch bool) string {
	m, err := markOf(u, patch)
	switch {
	case err != nil:
		return err.Error()
	case m == nil && len(mine(u, patch)) > 0:
		return fmt.Sprintf("%v: the annotation %s is gone", o, markName(patch))
	case m == nil:
	case m.Released:
		return fmt.Sprintf("%v: an operator took its fields back", o)
	case !m.holds(u):
		return fmt.Sprintf("%v%s", o, by(u, m))
	}
	return ""
}

// by says who owns fields of a mark.
func by(o *unstructured.Unstructured, m *Mark) string {
	for _, path := range slices.Sorted(maps.Keys(m.First)) {
		if others := owners(o, path); len(others) > 0 {
			return fmt.Sprintf(" %s by %s", dotted(path), strings.Join(others, ", "))
		}
	}
	return ""
}

// sorted are objects in a fixed order.
func sorted[V any, M ~map[Object]V](objects M) []Object {
	return slices.SortedFunc(maps.Keys(objects), func(a, b Object) int { return cmp.Compare(a.String(), b.String()) })
}

// converge gives fields their values, and returns the objects. If it fails, the values before are back, or the error
// says which are not.
func (d *Driver) converge(ctx context.Context, live Live, values space.Values, fields map[Field]any, rev revision,
	back bool) (Live, error) {
	var changes []Change
	for f, v := range fields {
		o := live[f.Object]
		if now := at(o.Object, f.Path); !same(now, v) || d.o.TakeOver && lost(o, f.Path) {
			changes = append(changes, Change{f, now, v})
		}
	}
	if err := d.usable(ctx, fieldsOf(changes), values, live); err != nil {
		return nil, err
	}
	if !back {
		if err := d.mayPreempt(changes, live, rev); err != nil {
			return nil, err
		}
	}
	for _, c := range changes {
		if _, err := d.o.Scheduler.Accepted(live[c.Object]); err != nil {
			return nil, fmt.Errorf("%v: nothing is changed: %w", c.Object, err)
		}
	}
	before := maps.Clone(live)
	for _, s := range Whole(changes) {
		if err := d.request(ctx, live, s, rev, true); err != nil {
			return nil, err
		}
	}
	for _, s := range append(Plan(changes), stale(live, changes)...) {
		if err := d.request(ctx, live, s, rev, false); err != nil {
			return nil, d.goBack(ctx, changes, before, err)
		}
	}
	live, err := d.confirm(ctx, live, fields, changes)
	if err != nil {
		return nil, d.goBack(ctx, changes, before, err)
	}
	return live, nil
}

// marked reports whether an adapter set a field.
func (live Live) marked() bool {
	for _, u := range live {
		for _, patch := range []bool{false, true} {
			if m, err := markOf(u, patch); m != nil || err != nil {
				return true
			}
		}
	}
	return false
}

// lost reports whether a field that the adapter set belongs to another manager.
func lost(o *unstructured.Unstructured, path string) bool {
	m, _ := markOf(o, isListed(path)) // taken over with its field
	if m == nil {
		return false
	}
	_, known := m.First[path]
	return known && len(owners(o, path)) > 0
}

// stale returns requests that write annotations alone: the ones that say something else than the objects.
func stale(live Live, changes []Change) []Step {
	var out []Step
	for _, o := range sorted(live) {
		for _, patch := range []bool{false, true} {
			is := func(c Change) bool { return c.Object == o && isListed(c.Path) == patch }
			if !slices.ContainsFunc(changes, is) && foreign(o, live[o], patch) != "" {
				out = append(out, Step{Object: o, Patch: patch})
			}
		}
	}
	return out
}

func fieldsOf(changes []Change) []Field {
	out := make([]Field, len(changes))
	for i, c := range changes {
		out[i] = c.Field
	}
	return out
}

// mayPreempt is an error if a revision changes preemption, and another did within the last day.
func (d *Driver) mayPreempt(changes []Change, live Live, rev revision) error {
	i := slices.IndexFunc(changes, d.o.Scheduler.Preempts)
	if i < 0 {
		return nil
	}
	for o, m := range live.marks() {
		if m.Preemption == nil || m.Revision == rev.number && m.Epoch == rev.epoch {
			continue // or the revision goes on that an adapter left half applied
		}
		if until := m.Preemption.Add(betweenPreemptions); d.o.Now().Before(until) {
			return fmt.Errorf("%v: settings of preemption change once a day, and %v did: not before %v",
				changes[i].Field, o, until.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// confirm waits until the scheduler has accepted the objects that changed, and returns all objects, which have the
// values of the fields.
func (d *Driver) confirm(ctx context.Context, live Live, fields map[Field]any, changes []Change) (Live, error) {
	until := d.o.Now().Add(d.o.Timeout)
	waiting := map[Object]bool{}
	for _, c := range changes {
		waiting[c.Object] = true
	}
	for {
		fresh, err := d.read(ctx)
		if err != nil {
			return nil, err
		}
		for f, v := range fields {
			o := fresh[f.Object]
			if o == nil {
				return nil, fmt.Errorf("%v: is served as another version since", f.Object)
			}
			if now := at(o.Object, f.Path); !same(now, v) {
				return nil, fmt.Errorf("%w: %v is %s, not %s", ErrChanged, f, text(now), text(v))
			}
		}
		for o := range waiting {
			yes, err := d.o.Scheduler.Accepted(fresh[o])
			if err != nil {
				return nil, fmt.Errorf("%w: %v: %w", client.ErrRefused, o, err)
			}
			if yes {
				delete(waiting, o)
			}
		}
		if len(waiting) == 0 {
			return fresh, nil
		}
		if !d.o.Now().Before(until) {
			return nil, fmt.Errorf("%v: the scheduler has not accepted it within %v: is it running?", sorted(waiting),
				d.o.Timeout)
		}
		if !client.Sleep(ctx, d.pace) {
			return nil, ctx.Err()
		}
	}
}

// goBack puts the values before back, after an error, and returns it.
func (d *Driver) goBack(ctx context.Context, changes []Change, before Live, because error) error {
	// The end of the context must not leave half a configuration behind; that of the lease does.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.o.Timeout)
	defer cancel()
	live, err := d.read(ctx)
	if err != nil {
		return fmt.Errorf("%w; and the values before could not be put back: %v", plain(because), err)
	}
	var undo []Change
	var kept []string
	for _, c := range changes {
		if live[c.Object] == nil {
			continue // deleted meanwhile
		}
		switch now := at(live[c.Object].Object, c.Path); {
		case same(now, c.Old):
		case same(now, c.New):
			undo = append(undo, Change{c.Field, c.New, c.Old})
		default:
			kept = append(kept, c.Field.String())
		}
	}
	for _, s := range Plan(undo) {
		m, err := markOf(before[s.Object], s.Patch)
		rev := revision{at: d.o.Now(), undoes: true}
		if err == nil && m != nil {
			rev.number, rev.epoch, rev.preemption = m.Revision, m.Epoch, m.Preemption
		}
		if err = d.request(ctx, live, s, rev, false); err != nil {
			return fmt.Errorf("%w; and the values before could not be put back: %v", plain(because), err)
		}
	}
	if len(kept) > 0 {
		return fmt.Errorf("%w (the values before are back, but for %s, which someone else set)", because,
			strings.Join(kept, ", "))
	}
	if len(undo) > 0 {
		return fmt.Errorf("%w (the values before are back)", because)
	}
	return because
}

// plain is an error without the mark of a refusal.
func plain(err error) error {
	if !errors.Is(err, client.ErrRefused) {
		return err
	}
	return errors.New(strings.TrimPrefix(err.Error(), client.ErrRefused.Error()+": "))
}

// forced reports whether fields are to be taken from their managers, as an operator said. It is an error if they are
// another's, and no operator said so.
func (d *Driver) forced(o *unstructured.Unstructured, changes []Change, m *Mark) (force bool, err error) {
	for _, c := range changes {
		others := owners(o, c.Path)
		if len(others) == 0 {
			continue
		}
		known := false
		if m != nil {
			_, known = m.First[c.Path]
		}
		name := dotted(c.Path)
		switch handed := d.o.HandOver; {
		case d.o.TakeOver:
		case known:
			return false, fmt.Errorf("%w: %v is %s's: start the adapter once with --take-over", ErrOwned, c.Field,
				strings.Join(others, ", "))
		case !slices.Contains(handed, "*") && !slices.Contains(handed, name) &&
			!slices.Contains(handed, c.Field.String()):
			return false, fmt.Errorf("%w: %v is %s's: hand it over by --hand-over %s", ErrOwned, c.Field,
				strings.Join(others, ", "), name)
		}
		force = true
	}
	return force, nil
}

// inForce returns the values in force of the parameters that were sent, as far as is known, and how well that
// is known. Values that were sent are in force if they stand for the same fields.
func (d *Driver) inForce(ctx context.Context, live Live, sent space.Values) (space.Values, Level, error) {
	level := InForce
	view := maps.Clone(live)
	settle := d.o.Scheduler.Settle()
	for o, m := range live.marks() {
		for path, before := range m.Before {
			has, err := d.shows(ctx, Field{o, path}, at(live[o].Object, path))
			switch {
			case err != nil:
				return nil, 0, err
			case has:
			case settle == 0:
				level = Accepted
			case d.o.Now().Before(m.Time.Add(settle)):
				level = Stored
				view[o] = view[o].DeepCopy()
				put(view[o].Object, path, before)
			}
		}
	}
	values, err := d.o.Scheduler.Values(slices.Sorted(maps.Keys(sent)), view)
	if err != nil {
		return nil, 0, err
	}
	for _, id := range slices.Sorted(maps.Keys(sent)) {
		was, there := values[id]
		v := sent[id]
		if v.Equal(was) {
			continue
		}
		values[id] = v
		fields, err := d.o.Scheduler.Fields(values, view)
		for f, v := range fields {
			if err == nil && !same(at(view[f.Object].Object, f.Path), v) {
				err = errors.New("differs")
			}
		}
		switch {
		case err != nil && there:
			values[id] = was
		case err != nil:
			delete(values, id)
		}
	}
	return values, level, nil
}

// shows reports whether the scheduler shows that it has a value.
func (d *Driver) shows(ctx context.Context, f Field, value any) (bool, error) {
	if d.o.Evidence == nil {
		return false, nil
	}
	return d.o.Evidence(ctx, f, value)
}

// TakesOver reports whether the driver is still to set fields that someone else changed.
func (d *Driver) TakesOver() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.o.TakeOver
}

// Level is how far the configuration last applied is known to have come. It waits for nothing.
func (d *Driver) Level() Level { return Level(d.level.Load()) }

// Look implements [adapter.Applier].
func (d *Driver) Look(ctx context.Context) (*pb.AcknowledgeConfigurationRequest, string, func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil || !d.asked {
		return nil, "", nil // nothing is in force, or it is acknowledged with the first offer
	}
	var now adapter.InForce
	level := Nothing
	live, err := d.read(ctx)
	if err == nil {
		if foreign := live.foreign(); foreign != "" {
			now.Foreign = fmt.Sprintf("%v: %s", ErrChanged, foreign)
		}
		now.Values, level, err = d.inForce(ctx, live, d.last.Sent)
	}
	if ctx.Err() != nil {
		return nil, "", nil
	}
	if d.level.Store(int32(level)); err != nil {
		now.Fault = err.Error()
	}
	if now.Equal(d.known) {
		return nil, "", nil
	}
	req, news := d.last.Acknowledge(now)
	return req, news, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.known = now
	}
}
