// Package lease lets one of several adapters act, by a Lease of the cluster. Times are the observer's own: clocks of
// machines need not agree. The holder stops before another may begin.
package lease

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/autosched/autosched/client"
)

// The times of client-go's leader election, which Kubernetes' own components run with: another adapter may take a
// lease that did not change for Duration, the holder gives up where it could not renew it for Deadline, and both try
// every Retry.
const (
	Duration = 15 * time.Second
	Deadline = 10 * time.Second
	Retry    = 2 * time.Second
)

// Options name a lease.
type Options struct {
	// Client reaches the API server. Required.
	Client dynamic.Interface
	// Namespace and Name are the lease's. Required.
	Namespace, Name string
	// Identity is this adapter's; the host's name and a random text if empty.
	Identity string
	// Now is the time and Sleep waits, reporting whether the context goes on; the system's clock if nil.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) bool
	// Notify, if set, is called with faults, which are tried again, and with news. It must not block.
	Notify func(error)
}

// Lease is a lease that is held or waited for.
type Lease struct {
	o Options

	mu    sync.Mutex
	until time.Time

	object *unstructured.Unstructured // as last seen
	seen   string                     // its text
	since  time.Time                  // when that was first seen
}

// Until is when the holder must have ended what it does to the cluster.
func (l *Lease) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

var errLost = errors.New("the lease is lost")

// Run waits for the lease and calls lead while it is held. The context of lead ends with the lease; lead is called
// again once the lease is held again. Run gives the lease up, and returns, once lead has returned by itself or
// the context has ended.
func Run(ctx context.Context, o Options, lead func(context.Context, *Lease) error) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = client.Sleep
	}
	if o.Notify == nil {
		o.Notify = func(error) {}
	}
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		o.Identity = host + "_" + rand.Text()
	}
	l := &Lease{o: o}
	for {
		if err := l.acquire(ctx); err != nil {
			return err
		}
		o.Notify(fmt.Errorf("lease %s/%s is held by %s", o.Namespace, o.Name, o.Identity))
		err := l.hold(ctx, lead)
		if !errors.Is(err, errLost) || ctx.Err() != nil {
			return errors.Join(err, l.release(ctx))
		}
		o.Notify(err)
	}
}

// acquire returns once the lease is held.
func (l *Lease) acquire(ctx context.Context) error {
	said := ""
	for {
		holder, err := l.take(ctx)
		if err == nil && holder == l.o.Identity {
			return nil
		}
		news := err
		if err == nil {
			news = fmt.Errorf("lease %s/%s is held by %s: waiting", l.o.Namespace, l.o.Name, holder)
		}
		if news.Error() != said {
			l.o.Notify(news)
		}
		said = news.Error()
		if !l.o.Sleep(ctx, Retry) {
			return ctx.Err()
		}
	}
}

// hold calls lead, and renews the lease until that has returned or the lease is lost.
func (l *Lease) hold(ctx context.Context, lead func(context.Context, *Lease) error) error {
	whole := context.WithoutCancel(ctx) // lead may have to clean up, and a renewal is not cut off
	renewing, done := context.WithCancel(whole)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		defer done()
		ended <- lead(ctx, l)
	}()
	var lost, fault error
	for lost == nil && l.o.Sleep(renewing, min(Retry, l.Until().Sub(l.o.Now()))) {
		if !l.o.Now().Before(l.Until()) {
			lost = fmt.Errorf("%w: not renewed for %v: %w", errLost, Deadline, fault)
			break
		}
		holder, err := l.take(whole)
		switch {
		case err == nil && holder != l.o.Identity:
			lost = fmt.Errorf("%w: %s took it", errLost, holder)
		case err != nil:
			fault = err
			l.o.Notify(err)
		}
	}
	cancel()
	err := <-ended
	return cmp.Or(lost, err)
}

func (l *Lease) resource() dynamic.ResourceInterface {
	return l.o.Client.Resource(schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1",
		Resource: "leases"}).Namespace(l.o.Namespace)
}

// take takes or renews the lease, unless another holds it, and returns the holder.
func (l *Lease) take(ctx context.Context) (holder string, err error) {
	begun := l.o.Now()
	limit := Deadline
	held := begun.Before(l.Until())
	if held {
		limit = l.Until().Sub(begun)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if !held || l.object == nil {
		if holder, err = l.look(ctx); err != nil || holder != "" {
			return holder, err
		}
	}
	now := begun.UTC().Format(metav1.RFC3339Micro)
	spec := map[string]any{"holderIdentity": l.o.Identity, "leaseDurationSeconds": int64(Duration / time.Second),
		"renewTime": now, "acquireTime": now, "leaseTransitions": int64(0)}
	if l.object == nil {
		l.object, err = l.resource().Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec,
			"metadata": map[string]any{"namespace": l.o.Namespace, "name": l.o.Name}}}, metav1.CreateOptions{})
	} else {
		last, _, _ := unstructured.NestedMap(l.object.Object, "spec")
		if n, is := last["leaseTransitions"].(int64); is {
			spec["leaseTransitions"] = n
		}
		if last["holderIdentity"] == l.o.Identity {
			spec["acquireTime"] = last["acquireTime"]
		} else {
			spec["leaseTransitions"] = spec["leaseTransitions"].(int64) + 1
		}
		next := l.object.DeepCopy()
		next.Object["spec"] = spec
		l.object, err = l.resource().Update(ctx, next, metav1.UpdateOptions{}) // of the version last seen
	}
	if err != nil {
		l.object = nil // it is read again
		return "", fmt.Errorf("lease %s/%s: %w", l.o.Namespace, l.o.Name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// From before the request: an observer sees the renewal later.
	l.until = begun.Add(Deadline)
	return l.o.Identity, nil
}

// look reads the lease, and returns its holder if another adapter has it still.
func (l *Lease) look(ctx context.Context) (holder string, err error) {
	o, err := l.resource().Get(ctx, l.o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		l.object = nil
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("lease %s/%s: %w", l.o.Namespace, l.o.Name, err)
	}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	if text := fmt.Sprint(spec); text != l.seen {
		l.seen, l.since = text, l.o.Now()
	}
	l.object = o
	holder, _ = spec["holderIdentity"].(string)
	seconds, _ := spec["leaseDurationSeconds"].(int64)
	if holder == l.o.Identity || !l.o.Now().Before(l.since.Add(time.Duration(seconds)*time.Second)) {
		return "", nil
	}
	return holder, nil
}

// release lets another adapter take the lease at once.
func (l *Lease) release(ctx context.Context) error {
	if !l.o.Now().Before(l.Until()) || l.object == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Retry)
	defer cancel()
	next := l.object.DeepCopy()
	for name, v := range map[string]any{"holderIdentity": "", "leaseDurationSeconds": int64(1)} {
		if err := unstructured.SetNestedField(next.Object, v, "spec", name); err != nil {
			return err
		}
	}
	_, err := l.resource().Update(ctx, next, metav1.UpdateOptions{})
	return err
}
