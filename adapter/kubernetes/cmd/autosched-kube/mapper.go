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
	"github.com/autosched/autosched/workload/volcano"
)

// mappers derive events from the objects of the schedulers, and appliers configure them.
var (
	mappers = map[string]func() events.Mapper{
		"kueue":   func() events.Mapper { return &kueue.Mapper{} },
		"volcano": func() events.Mapper { return &volcano.Mapper{} },
	}
	appliers = map[string]func() apply.Scheduler{
		"kueue":   func() apply.Scheduler { return apply.NewKueue("") },
		"volcano": func() apply.Scheduler { return apply.NewVolcano() },
	}
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
		of := s.objects.Resource(o.Resource).Namespace(o.Namespace)
		if o.Name != "" {
			if live[o], err = of.Get(ctx, o.Name, metav1.GetOptions{}); err != nil {
				return nil, fmt.Errorf("%v: %w", o, err)
			}
			continue
		}
		list, err := of.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("%v: %w", o.Resource.GroupResource(), err)
		}
		for i := range list.Items {
			o.Name = list.Items[i].GetName()
			live[o] = &list.Items[i]
		}
	}
	return s.scheduler.Values(s.tuned, live)
}
