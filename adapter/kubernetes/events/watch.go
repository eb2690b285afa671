package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/kube"
)

// Resource is a kind of objects to watch.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
	// Fields and Labels select objects, such as spec.schedulerName=volcano; all if empty.
	Fields, Labels string
}

// Options say which objects are watched.
type Options struct {
	Client    dynamic.Interface
	Resources []Resource
	// Namespaces are the ones whose objects count; all if empty.
	Namespaces []string
	Tracker    *Tracker
	// Interval is the time between heartbeats; 10 s if 0.
	Interval time.Duration
	// Now is the clock of heartbeats and snapshots; time.Now if nil.
	Now func() time.Time
	// Notify is called with faults, after which the watcher tries again, and when they are over.
	Notify func(error)
}

// Watcher sends the events of a cluster to the service. While the service is away, it keeps as many as the client's
// buffer holds and leaves the watches alone, so that the API server ends them, and lists the objects again afterwards.
type Watcher struct {
	Options
	stats   Stats
	watches atomic.Int64  // that are open
	listed  chan struct{} // closed when everything was

	sending sync.Mutex // held while events are sent, in the order in which they were derived

	mu       sync.Mutex // of the tracker and the following
	stores   int
	missing  int              // stores that were not listed so far
	first    []workload.Event // that are to be sent
	released bool             // they are sent
}

// Stats are how often things happened.
type Stats struct {
	// Events were sent, Lists were read, Faults were calls of the API server that failed.
	Events, Lists, Faults atomic.Int64
	// Unread are objects that the mapping refused.
	Unread atomic.Int64
	// Latest is when the latest event happened, in seconds of Unix time.
	Latest atomic.Int64
}

// New returns a watcher, which Run starts.
func New(o Options) *Watcher {
	o.Interval = cmp.Or(o.Interval, 10*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Watcher{Options: o, listed: make(chan struct{})}
}

// Stats returns the counts so far.
func (w *Watcher) Stats() *Stats { return &w.stats }

const (
	// lag is how far the watches may be behind the API server.
	lag = 5 * time.Second
	// begin is how many events are sent ahead of the first snapshot, at most.
	begin = 10_000
)

// Run watches until the context ends, and sends events by a client. It is called once.
func (w *Watcher) Run(ctx context.Context, c *client.Client) {
	var running sync.WaitGroup
	ctx = logr.NewContext(ctx, logr.Discard()) // faults are notified
	stores := w.open(ctx, c)
	for _, s := range stores {
		running.Go(func() { s.reflector().RunWithContext(ctx) })
	}
	running.Go(func() { w.beat(ctx, c) })
	running.Wait()
}

// open makes a store for each resource, in each namespace.
func (w *Watcher) open(ctx context.Context, c *client.Client) (stores []*store) {
	for _, r := range w.Resources {
		namespaces := []string{metav1.NamespaceAll}
		if r.Namespaced && len(w.Namespaces) > 0 {
			namespaces = w.Namespaces
		}
		for _, namespace := range namespaces {
			stores = append(stores, &store{Watcher: w, ctx: ctx, client: c, of: r, namespace: namespace,
				objects: map[string]identity{}})
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stores, w.missing = len(stores), len(stores)
	w.Tracker.Hold()
	return stores
}

// Ready returns nil where everything is watched, or why it is not.
func (w *Watcher) Ready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.missing > 0 || w.stores == 0 {
		return errors.New("the cluster's objects are not listed yet")
	}
	if n := w.watches.Load(); n < int64(w.stores) {
		return fmt.Errorf("%d of %d watches of the API server are open", n, w.stores)
	}
	return nil
}

// Snapshot returns the active jobs and nodes; it waits until all were listed.
func (w *Watcher) Snapshot(ctx context.Context) *pb.Event {
	select {
	case <-w.listed:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.Tracker.Snapshot(w.Now().Add(-lag))
	return convert.EventToProto(&e, epoch)
}

var epoch = time.Unix(0, 0).UTC()

// beat reports the time to the service while every watch is open.
func (w *Watcher) beat(ctx context.Context, c *client.Client) {
	for client.Sleep(ctx, w.Interval) {
		if w.Ready() == nil && c.Counts().Waiting == 0 {
			_ = c.Send(ctx, heartbeat(w.Now().Add(-lag).Unix())) // an error is the context's
		}
	}
}

// heartbeat reports that the events before an instant of Unix time were sent.
func heartbeat(at int64) *pb.Event {
	return &pb.Event{EventId: fmt.Sprint("watched/", at), Kind: pb.Event_HEARTBEAT,
		SchedulerTime: timestamppb.New(time.Unix(at, 0))}
}

// send sends events in order of time, once all objects were listed; earlier ones are sent then, behind a heartbeat
// of the first instant: the first event sets the time of the service. The caller holds the lock, which it gives back.
func (w *Watcher) send(ctx context.Context, c *client.Client, events []workload.Event) {
	w.first = append(w.first, events...)
	missing := w.missing
	w.mu.Unlock()
	if missing > 0 {
		return
	}
	w.sending.Lock() // without the other lock, as the client may wait for a snapshot
	defer w.sending.Unlock()
	w.mu.Lock()
	first := !w.released
	events, w.first, w.released = w.first, nil, true
	w.mu.Unlock()
	slices.SortStableFunc(events, byTime)
	out := make([]*pb.Event, 0, len(events)+1)
	if first && len(events) > 0 {
		out = append(out, heartbeat(int64(events[0].Time/time.Second)))
	}
	for i := range events {
		out = append(out, convert.EventToProto(&events[i], epoch))
		w.stats.Latest.Store(max(w.stats.Latest.Load(), int64(events[i].Time/time.Second)))
	}
	n := len(out)
	if first {
		n = min(n, begin)
	}
	_ = c.Send(ctx, out[:n]...) // an error is the context's
	if first {
		close(w.listed) // the client takes nothing more before the snapshot
		_ = c.Send(ctx, out[n:]...)
	}
	w.stats.Events.Add(int64(len(events)))
}

// store takes the objects of a resource from a reflector.
type store struct {
	*Watcher
	ctx       context.Context
	client    *client.Client
	of        Resource
	namespace string
	objects   map[string]identity // that are there, by UID
	known     bool                // it was listed
	fault     string              // of the last call
	unread    string              // why the last object was not understood
}

// identity names an object.
type identity struct{ version, kind, namespace, name string }

// reflector keeps the store up to date.
func (s *store) reflector() *cache.Reflector {
	objects := dynamic.ResourceInterface(s.Client.Resource(s.of.GroupVersionResource))
	if s.namespace != metav1.NamespaceAll {
		objects = s.Client.Resource(s.of.GroupVersionResource).Namespace(s.namespace)
	}
	return cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector, o.LabelSelector = s.of.Fields, s.of.Labels
			list, err := objects.List(ctx, o)
			if s.tell(err); err != nil {
				return nil, err
			}
			for i := range list.Items {
				list.Items[i].Object = kube.Trim(list.Items[i].Object)
			}
			return list, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector, o.LabelSelector = s.of.Fields, s.of.Labels
			stream, err := objects.Watch(ctx, o)
			if o.SendInitialEvents == nil || !apierrors.IsInvalid(err) { // an API server that does not stream lists
				s.tell(err)
			}
			if err != nil {
				return nil, err
			}
			s.watches.Add(1)
			return &open{Interface: stream, watches: &s.watches}, nil
		},
	}, &unstructured.Unstructured{}, s, cache.ReflectorOptions{Name: s.of.Resource})
}

// open is a watch that counts as open until it is stopped.
type open struct {
	watch.Interface
	once    sync.Once
	watches *atomic.Int64
}

// Stop implements [watch.Interface].
func (o *open) Stop() {
	o.once.Do(func() { o.watches.Add(-1) })
	o.Interface.Stop()
}

// tell notifies of faults of the API server, of the same one once, and of their end.
func (s *store) tell(err error) {
	text := ""
	if err != nil && s.ctx.Err() == nil {
		s.stats.Faults.Add(1)
		text = fmt.Sprintf("%s: %v", s.of.Resource, err)
	}
	if text == s.fault || s.ctx.Err() != nil {
		return
	}
	if s.fault = text; text == "" {
		text = s.of.Resource + " are read again"
	}
	s.Notify(errors.New(text))
}

// put derives the events of an object. The caller holds the lock.
func (s *store) put(o *unstructured.Unstructured) []workload.Event {
	uid := string(o.GetUID())
	if _, known := s.objects[uid]; !known {
		s.objects[uid] = identity{o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName()}
	}
	events, err := s.Tracker.Put(o.Object)
	if err != nil {
		if s.stats.Unread.Add(1); err.Error() != s.unread {
			s.unread = err.Error()
			s.Notify(fmt.Errorf("%s %s/%s is not understood: %w", s.of.Resource, o.GetNamespace(), o.GetName(), err))
		}
	}
	return events
}

// remove derives the events of the end of an object. The caller holds the lock.
func (s *store) remove(object map[string]any) []workload.Event {
	delete(s.objects, string((&unstructured.Unstructured{Object: object}).GetUID()))
	return s.Tracker.Delete(object, s.Now())
}

// Add implements [cache.ReflectorStore].
func (s *store) Add(o any) error { return s.Update(o) }

// Update implements [cache.ReflectorStore].
func (s *store) Update(o any) error {
	s.mu.Lock()
	s.send(s.ctx, s.client, s.put(o.(*unstructured.Unstructured)))
	return nil
}

// Delete implements [cache.ReflectorStore].
func (s *store) Delete(o any) error {
	s.mu.Lock()
	s.send(s.ctx, s.client, s.remove(o.(*unstructured.Unstructured).Object))
	return nil
}

// Transformer implements [cache.TransformingStore]: lists that are streamed take no more memory than they must.
func (s *store) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		if x, is := o.(*unstructured.Unstructured); is {
			x.Object = kube.Trim(x.Object)
		}
		return o, nil
	}
}

// Resync implements [cache.ReflectorStore].
func (s *store) Resync() error { return nil }

// Replace implements [cache.ReflectorStore]: objects that are known and not in the list are gone.
func (s *store) Replace(list []any, _ string) error {
	s.stats.Lists.Add(1)
	s.mu.Lock()
	var events []workload.Event
	there := map[string]bool{}
	if s.missing == 0 {
		s.Tracker.Hold()
	}
	for _, o := range list {
		o := o.(*unstructured.Unstructured)
		there[string(o.GetUID())] = true
		events = append(events, s.put(o)...)
	}
	if s.missing == 0 {
		events = append(events, s.Tracker.Release()...)
	}
	for uid, o := range s.objects {
		if there[uid] {
			continue
		}
		for _, e := range s.remove(map[string]any{"apiVersion": o.version, "kind": o.kind,
			"metadata": map[string]any{"name": o.name, "namespace": o.namespace, "uid": uid}}) {
			if e.Kind == workload.Finished {
				e.Job.Status = workload.Unknown // it may have finished before
			}
			events = append(events, e)
		}
	}
	if !s.known {
		s.known = true
		if s.missing--; s.missing == 0 {
			events = append(events, s.Tracker.Release()...)
		}
	}
	s.send(s.ctx, s.client, events)
	return nil
}
