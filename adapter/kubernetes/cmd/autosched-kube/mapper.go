package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/autosched/autosched/adapter/kubernetes/apply"
	"github.com/autosched/autosched/adapter/kubernetes/cluster"
	"github.com/autosched/autosched/adapter/kubernetes/events"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload/kueue"
)

// mappers derive events from the objects of the schedulers, and appliers configure them.
var (
	mappers  = map[string]func() events.Mapper{"kueue": func() events.Mapper { return &kueue.Mapper{} }}
	appliers = map[string]func() apply.Scheduler{"kueue": func() apply.Scheduler { return apply.NewKueue("") }}
)

// settings are the settings of a scheduler's objects.
type settings struct {
	api       *cluster.API
	objects   dynamic.Interface
	scheduler apply.Scheduler
	tuned     []string
}

// inForce reads the values of the tuned parameters.
func (s *settings) inForce(ctx context.Context) (space.Values, error) {
	live := apply.Live{}
	for _, o := range s.scheduler.Objects() {
		version, err := s.api.Version(ctx, o.Resource.GroupResource())
		if err != nil {
			return nil, err
		}
		o.Resource.Version = version
		list, err := s.objects.Resource(o.Resource).Namespace(o.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("%v: %w", o.Resource.GroupResource(), err)
		}
		for i := range list.Items {
			if name := list.Items[i].GetName(); o.Name == "" || o.Name == name {
				one := o
				one.Name = name
				live[one] = &list.Items[i]
			}
		}
	}
	return s.scheduler.Values(s.tuned, live)
}
