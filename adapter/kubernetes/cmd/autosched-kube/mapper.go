package main

import (
	"github.com/autosched/autosched/adapter/kubernetes/apply"
	"github.com/autosched/autosched/adapter/kubernetes/events"
	"github.com/autosched/autosched/workload/kueue"
	"github.com/autosched/autosched/workload/volcano"
)

// mappers derive events from the objects of the schedulers, with pods or without, and appliers configure them.
var (
	mappers = map[string]func(pods bool) events.Mapper{
		"kueue":   func(pods bool) events.Mapper { return &kueue.Mapper{Pods: pods} },
		"volcano": func(bool) events.Mapper { return &volcano.Mapper{} },
	}
	appliers = map[string]func() apply.Scheduler{
		"kueue":   func() apply.Scheduler { return apply.NewKueue() },
		"volcano": func() apply.Scheduler { return apply.NewVolcano() },
	}
)
