package main

import (
	"github.com/autosched/autosched/adapter/kubernetes/events"
	"github.com/autosched/autosched/workload/kueue"
)

// mappers derive events from the objects of the schedulers.
var mappers = map[string]func() events.Mapper{"kueue": func() events.Mapper { return &kueue.Mapper{} }}
